//! A name server on loopback, and the addresses that look-ups find there.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use parking_lot::Mutex;
use tokio::net::UdpSocket;

use super::*;

/// A name server that knows services and hosts, as tables that a test may change.
#[derive(Clone, Default)]
pub(crate) struct NameServer {
    tables: Arc<Mutex<Tables>>,
    port: u16,
}

#[derive(Default)]
pub(crate) struct Tables {
    /// Priority, weight, port and host of each instance, by service.
    pub(crate) services: BTreeMap<String, Vec<(u16, u16, u16, String)>>,
    /// Addresses, by host.
    pub(crate) hosts: BTreeMap<String, Ipv4Addr>,
    /// Queries so far.
    pub(crate) queries: usize,
}

impl NameServer {
    /// Starts one on a free port of loopback; it lives as long as the runtime of the test.
    pub(crate) async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let tables = Arc::<Mutex<Tables>>::default();
        let server = NameServer { tables: tables.clone(), port };
        tokio::spawn(async move {
            let mut query = [0; 1500];
            while let Ok((length, from)) = socket.recv_from(&mut query).await {
                let reply = reply(&mut tables.lock(), &query[..length]);
                socket.send_to(&reply, from).await.unwrap();
            }
        });
        server
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Tables)) {
        change(&mut self.tables.lock());
    }

    /// Looks a service up here.
    pub(crate) async fn look_up(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        let mut udp = ConnectionConfig::udp();
        udp.port = self.port;
        let here = NameServerConfig::new(IpAddr::from(Ipv4Addr::LOCALHOST), true, vec![udp]);
        let config = ResolverConfig::from_name_servers(vec![here]);
        let provider = TokioRuntimeProvider::default();
        look_up_at(TokioResolver::builder_with_config(config, provider), name).await
    }
}

/// Returns the reply to a query: its records, or that there is no such name.
fn reply(tables: &mut Tables, query: &[u8]) -> Vec<u8> {
    tables.queries += 1;
    let mut labels = Vec::new();
    let mut at = 12;
    while query[at] != 0 {
        let label = &query[at + 1..at + 1 + usize::from(query[at])];
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        at += 1 + label.len();
    }
    let (name, kind) = (labels.join("."), u16::from_be_bytes([query[at + 1], query[at + 2]]));
    let known = tables.services.contains_key(&name) || tables.hosts.contains_key(&name);
    let records: Vec<Vec<u8>> = match kind {
        1 => tables.hosts.get(&name).map(|ip| ip.octets().to_vec()).into_iter().collect(),
        33 => tables.services.get(&name).into_iter().flatten().map(service).collect(),
        _ => Vec::new(),
    };
    let mut reply = query[..2].to_vec();
    // A response with recursion; 3 says that there is no such name.
    reply.extend([0x81, if known { 0x80 } else { 0x83 }, 0, 1]);
    reply.extend((records.len() as u16).to_be_bytes());
    reply.extend([0; 4]);
    reply.extend(&query[12..at + 5]);
    for record in records {
        // Of the name in the question, in class IN, for no time.
        reply.extend([0xc0, 12]);
        reply.extend(kind.to_be_bytes());
        reply.extend([0, 1, 0, 0, 0, 0]);
        reply.extend((record.len() as u16).to_be_bytes());
        reply.extend(record);
    }
    reply
}

fn service((priority, weight, port, host): &(u16, u16, u16, String)) -> Vec<u8> {
    let mut record = [*priority, *weight, *port].map(u16::to_be_bytes).concat();
    for label in host.split('.') {
        record.push(label.len() as u8);
        record.extend(label.as_bytes());
    }
    record.push(0);
    record
}

const NAME: &str = "_ringpost._tcp.cluster.test.";
const KEY: &str = "_ringpost._tcp.cluster.test";

fn texts(found: io::Result<Vec<SocketAddr>>) -> Vec<String> {
    found.unwrap().iter().map(SocketAddr::to_string).collect()
}

#[tokio::test]
async fn a_service_leads_to_its_instances_the_best_first() {
    let server = NameServer::start().await;
    server.change(|tables| {
        let instance =
            |priority, weight, port, host: &str| (priority, weight, port, host.to_owned());
        let instances = vec![
            instance(2, 9, 7702, "spare.test"),
            instance(1, 1, 7701, "one.test"),
            instance(1, 5, 7700, "two.test"),
            instance(0, 0, 7700, "gone.test"),
            instance(0, 0, 0, "one.test"),
        ];
        tables.services.insert(KEY.into(), instances);
        for (host, last) in [("one.test", 1), ("two.test", 2), ("spare.test", 3)] {
            tables.hosts.insert(host.into(), Ipv4Addr::new(127, 0, 0, last));
        }
    });
    let found = texts(server.look_up(NAME).await);
    assert_eq!(found, ["127.0.0.2:7700", "127.0.0.1:7701", "127.0.0.3:7702"]);
    // A change is seen at the next look-up, whatever the time to live.
    server.change(|tables| tables.hosts.retain(|host, _| host != "two.test"));
    assert_eq!(texts(server.look_up(NAME).await), ["127.0.0.1:7701", "127.0.0.3:7702"]);
}

#[tokio::test]
async fn no_more_addresses_of_a_service_are_dialled_than_of_a_name() {
    let server = NameServer::start().await;
    server.change(|tables| {
        let many = (0..30).map(|port| (1, 100 - port, 7_000 + port, "one.test".to_owned()));
        tables.services.insert(KEY.into(), many.collect());
        tables.hosts.insert("one.test".into(), Ipv4Addr::LOCALHOST);
    });
    let found = texts(server.look_up(NAME).await);
    assert_eq!(found.len(), limits::DIAL_ADDRESSES_MAX);
    assert_eq!((&*found[0], &*found[15]), ("127.0.0.1:7000", "127.0.0.1:7015"));
}

#[tokio::test]
async fn a_service_that_is_not_found_is_named() {
    let server = NameServer::start().await;
    let error = server.look_up(NAME).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("the service `{NAME}` does not resolve: ")), "{error}");
    server.change(|tables| {
        tables.services.insert(KEY.into(), vec![(0, 0, 7700, "gone.test".into())]);
    });
    let error = server.look_up(NAME).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("the service `{NAME}` does not resolve: ")), "{error}");
    // A name server that is not there.
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let silent = NameServer { port, ..NameServer::default() };
    let error = silent.look_up(NAME).await.unwrap_err().to_string();
    assert!(error.contains(NAME), "{error}");
}
