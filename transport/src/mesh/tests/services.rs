//! Nodes whose seed is a service, over loopback TCP, with a name server of the test.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use futures::FutureExt;
use futures::future::BoxFuture;

use super::*;
use crate::mesh::is_host_and_port;
use crate::wire::service::tests::NameServer;
use crate::wire::{Listener, Stream, TcpWire, Wire, is_service};

const SERVICE: &str = "_ringpost._tcp.cluster.test";

/// TCP, with another name server.
struct Named(NameServer);

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Named")
    }
}

impl Wire for Named {
    fn listen(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        TcpWire.listen(address)
    }

    fn resolve(
        &self,
        address: &str,
        told: bool,
    ) -> Option<BoxFuture<'static, io::Result<Vec<String>>>> {
        if !is_service(address) {
            return TcpWire.resolve(address, told);
        }
        let server = self.0.clone();
        let found = async move {
            let found = server.look_up(&format!("{SERVICE}.")).await?;
            Ok(found.iter().map(SocketAddr::to_string).collect())
        };
        Some(found.boxed())
    }

    fn dial(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        TcpWire.dial(address)
    }
}

/// Starts a node whose seed is the service, and adds it to that.
async fn join(server: &NameServer, name: &str) -> Node {
    let network = Network { wire: Arc::new(Named(server.clone())), ..Network::tcp() };
    let node = Node::start(config(name, network, &[SERVICE.into()])).await.unwrap();
    let port = node.address().parse::<SocketAddr>().unwrap().port();
    server.change(|tables| {
        let instances = tables.services.entry(SERVICE.into()).or_default();
        instances.push((0, 0, port, "host.test".into()));
        tables.hosts.insert("host.test".into(), Ipv4Addr::LOCALHOST);
    });
    node
}

/// A service that is not known yet is looked up again, and so is a changed one.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn nodes_of_one_service_find_each_other_and_one_that_moved() {
    let server = NameServer::start().await;
    let alpha = join(&server, "alpha").await;
    let beta = join(&server, "beta").await;
    let gamma = join(&server, "gamma").await;
    for node in [&alpha, &beta, &gamma] {
        tokio::time::timeout(Duration::from_secs(60), node.mesh.ready(2)).await.unwrap();
    }
    let old = gamma.address().parse::<SocketAddr>().unwrap().port();
    gamma.shutdown().await;
    server.change(|tables| {
        let instances = tables.services.get_mut(SERVICE).unwrap();
        instances.retain(|(_, _, port, _)| *port != old);
    });
    let moved = join(&server, "gamma").await;
    for node in [&alpha, &beta, &moved] {
        tokio::time::timeout(Duration::from_secs(60), node.mesh.ready(2)).await.unwrap();
    }
    assert_eq!(alpha.mesh.linked()[1], *moved.mesh.id());
}

/// A build that cannot look services up refuses them, and all others take them for seeds only.
#[test]
fn services_are_told_from_addresses() {
    for text in [SERVICE, "_a._tcp.b", "_ringpost._tcp.default.svc.cluster.local."] {
        assert!(is_service(text), "{text}");
    }
    let long = format!("_a._tcp.{}", "b.".repeat(130));
    for text in ["", "a:7700", "_tcp.a", "_a._udp.b", "_a._tcp", "_._tcp.b", "_a._tcp.b:7", &long] {
        assert!(!is_service(text), "{text}");
    }
    assert!(!is_host_and_port(SERVICE, false), "a peer that names it is not believed");
}
