//! Which links are encrypted, and that no stranger can talk two nodes out of it.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::hostile::peer::{Proven, identity, silence};
use super::*;
use crate::bootstrap::{Failure, Message, OfferMade, Rejection};
use crate::config::Encryption::{self, Default as ByDefault, Off, Required};
use crate::fabric::tcp::{Doors, TcpFabric};
use crate::fabric::{Fabric, FabricError, Limits, Opening, QueuePairConfig};
use crate::memory::Region;
use crate::wire::{Detached, Listener, PREFACE_BYTES, Preface, Stream, TcpWire, Wire};

fn names(network: &Network, encryption: Encryption, address: &str) -> Vec<&'static str> {
    network.usable(encryption, address).iter().map(|fabric| fabric.name()).collect()
}

// Promised in docs/SEMANTICS.md.
#[test]
fn plain_tcp_is_named_on_loopback_only_unless_encryption_is_off() {
    let network = Network::tcp();
    let here = ["127.0.0.1:7", "127.9.9.9:7", "[::1]:7", "[::ffff:127.0.0.1]:7"];
    let elsewhere =
        ["192.0.2.1:7", "[2001:db8::1]:7", "[::ffff:192.0.2.1]:7", "0.0.0.0:7", "unknown"];
    for address in here {
        assert_eq!(names(&network, ByDefault, address), ["tcp", "tcps"], "{address}");
    }
    for address in elsewhere {
        assert_eq!(names(&network, ByDefault, address), ["tcps"], "{address}");
    }
    for address in here.into_iter().chain(elsewhere) {
        assert_eq!(names(&network, Required, address), ["tcps"], "{address}");
        assert_eq!(names(&network, Off, address), ["tcp", "tcps"], "{address}");
    }
}

/// A fabric that does not say what protects it.
#[derive(Debug)]
struct Unknown;

impl Fabric for Unknown {
    fn name(&self) -> &'static str {
        "unknown"
    }

    fn limits(&self) -> Limits {
        unreachable!("it is never chosen")
    }

    fn alloc(&self, _: usize) -> Result<Region, FabricError> {
        unreachable!("it is never chosen")
    }

    fn open(&self, _: QueuePairConfig) -> Result<Box<dyn Opening>, FabricError> {
        unreachable!("it is never chosen")
    }
}

// Promised in docs/SEMANTICS.md.
#[test]
fn a_fabric_that_says_nothing_of_its_protection_counts_as_plain() {
    let network = Network { fabrics: vec![Arc::new(Unknown)], ..Network::tcp() };
    assert_eq!(names(&network, ByDefault, "192.0.2.1:7"), [""; 0]);
    assert_eq!(names(&network, Required, "127.0.0.1:7"), [""; 0]);
    for (encryption, address) in [(ByDefault, "127.0.0.1:7"), (Off, "192.0.2.1:7")] {
        assert_eq!(names(&network, encryption, address), ["unknown"]);
    }
}

#[tokio::test]
async fn encryption_is_not_required_of_a_network_that_has_none() {
    let mut network = Network::tcp();
    network.fabrics.truncate(1);
    let config = Config { encryption: Required, ..config("alpha", network, &[]) };
    let error = Node::start(config).await.err().expect("it does not start").to_string();
    assert_eq!(error, "encryption is required, but the node's network has no fabric that encrypts");
}

/// A wire on loopback whose connections say that they lead to another machine.
#[derive(Debug)]
struct Elsewhere;

const OTHER_MACHINE: &str = "192.0.2.1:";

fn disguised(address: &str) -> String {
    address.replace("127.0.0.1:", OTHER_MACHINE)
}

struct FromElsewhere(Box<dyn Stream>);

impl Wire for Elsewhere {
    fn listen(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        async move { Ok(Box::new(Port(TcpWire.listen(address).await?)) as Box<dyn Listener>) }
            .boxed()
    }

    fn dial(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let dial = TcpWire.dial(address.replace(OTHER_MACHINE, "127.0.0.1:"));
        dial.map(|stream| Ok(Box::new(FromElsewhere(stream?)) as Box<dyn Stream>)).boxed()
    }

    fn resolve(&self, _: &str, _: bool) -> Option<BoxFuture<'static, io::Result<Vec<String>>>> {
        None
    }
}

struct Port(Box<dyn Listener>);

impl Listener for Port {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        let accept = self.0.accept();
        accept.map(|stream| Ok(Box::new(FromElsewhere(stream?)) as Box<dyn Stream>)).boxed()
    }

    fn local_address(&self) -> String {
        self.0.local_address()
    }
}

impl AsyncRead for FromElsewhere {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, bytes)
    }
}

impl AsyncWrite for FromElsewhere {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Stream for FromElsewhere {
    fn into_data(self: Box<Self>) -> io::Result<Detached> {
        self.0.into_data()
    }

    fn peer_address(&self) -> String {
        disguised(&self.0.peer_address())
    }
}

/// Starts a node that takes all others for nodes of other machines.
async fn node(name: &str, encryption: Encryption, seeds: &[String]) -> Node {
    let wire = Arc::new(Elsewhere);
    let doors = Doors::default();
    let fabric = |of: fn(Arc<dyn Wire>, Doors, Entropy) -> TcpFabric| -> Arc<dyn Fabric> {
        Arc::new(of(wire.clone(), doors.clone(), Entropy::os()))
    };
    let fabrics = vec![fabric(TcpFabric::new), fabric(TcpFabric::sealed)];
    let network = Network { wire: wire.clone(), fabrics, doors: doors.clone() };
    Node::start(Config { encryption, ..config(name, network, seeds) }).await.unwrap()
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn nodes_of_two_machines_encrypt_unless_neither_insists() {
    for (ours, theirs, fabric) in [
        (ByDefault, ByDefault, "tcps"),
        (ByDefault, Off, "tcps"),
        (Off, ByDefault, "tcps"),
        (Required, Off, "tcps"),
        (Off, Off, "tcp"),
    ] {
        let alpha = node("alpha", ours, &[]).await;
        let beta = node("beta", theirs, &[alpha.address()]).await;
        beta.mesh.ready(1).await;
        beta.watcher.until(&[&format!("alpha up over {fabric}")]).await;
        let link = beta.mesh.view()[0].link.clone().expect("they are linked");
        assert_eq!((link.fabric, link.encrypted), (fabric, fabric == "tcps"));
    }
}

/// Meets a node by hand and names these fabrics.
async fn named(node: &Node, fabrics: &[&str]) -> Proven {
    let mut identity = identity("zulu");
    identity.fabrics = fabrics.iter().map(|&name| name.into()).collect();
    Proven::committed(&node.address(), &identity).await
}

/// A peer that knows the secret and would have the link in plain.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_peer_that_names_or_offers_plain_tcp_is_refused() {
    let alpha = node("alpha", ByDefault, &[]).await;
    let refused = |failure: Failure| matches!(failure, Failure::RejectedByPeer(_));
    let no_fabric = |message: Result<Message, Failure>| {
        let why = message.expect_err("no fabric is left");
        matches!(why, Failure::RejectedByPeer(Rejection::NoCommonFabric))
    };

    let mut only_plain = named(&alpha, &["tcp"]).await;
    only_plain.say(&silence()).await;
    assert!(no_fabric(only_plain.channel.recv().await));

    let mut passes = named(&alpha, &["tcp", "tcps"]).await;
    passes.say(&silence()).await;
    let Ok(Message::Offer(offer)) = passes.channel.recv().await else { panic!("no offer") };
    assert_eq!(offer.fabric, "tcps");
    let (fabric, reason) = ("tcps".into(), "broken".into());
    passes.say(&Message::Pass { fabric, again: false, reason }).await;
    assert!(no_fabric(passes.channel.recv().await), "tcp is not tried after it");

    let mut insists = named(&alpha, &["tcp", "tcps"]).await;
    insists.say(&silence()).await;
    let Ok(Message::Offer(offer)) = insists.channel.recv().await else { panic!("no offer") };
    insists.say(&Message::Offer(OfferMade { fabric: "tcp".into(), ..offer })).await;
    assert!(refused(insists.channel.recv().await.expect_err("it broke the rules")));
    assert_eq!(alpha.watcher.texts(), [""; 0]);
}

/// Carries connections to `to`, but cuts the first `times` data connections when their token came.
async fn cut_data(listener: TcpListener, to: String, times: usize, cut: Arc<AtomicUsize>) {
    while let Ok((mut from, _)) = listener.accept().await {
        let (to, cut) = (to.clone(), cut.clone());
        tokio::spawn(async move {
            let mut preface = [0; PREFACE_BYTES];
            from.read_exact(&mut preface).await?;
            let is_data = Preface::decode(&preface) == Ok(Preface::Data);
            if is_data && cut.fetch_add(1, Ordering::SeqCst) < times {
                return Ok(());
            }
            let mut to = TcpStream::connect(to).await?;
            tokio::io::AsyncWriteExt::write_all(&mut to, &preface).await?;
            tokio::io::copy_bidirectional(&mut from, &mut to).await?;
            io::Result::Ok(())
        });
    }
}

/// A connection that a stranger on the way breaks is tried again, and never in plain.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn breaking_encrypted_connections_does_not_lead_to_plain_ones() {
    let alpha = node("alpha", ByDefault, &[]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let way = listener.local_addr().unwrap().to_string();
    let cut = Arc::new(AtomicUsize::new(0));
    tokio::spawn(cut_data(listener, alpha.address(), 1, cut.clone()));
    let beta = node("beta", ByDefault, &[way]).await;
    beta.watcher.until(&["alpha up over tcps"]).await;
    assert_eq!(cut.load(Ordering::SeqCst), 2, "one was cut, and the next one was not");
    alpha.watcher.until(&["beta up over tcps"]).await;
}
