//! Over loopback TCP: the listener, start-up, and whole links.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::*;
use crate::bootstrap::{Failure, Handshake, Identity, Rejection, Times, VERSIONS, meet};
use crate::id::Incarnation;
use crate::limits;
use crate::wire::{Preface, Stream};

pub(super) async fn node(name: &str, seeds: &[String]) -> Node {
    Node::start(config(name, Network::tcp(), seeds)).await.unwrap()
}

async fn refused(change: impl FnOnce(&mut Config)) -> String {
    let mut config = config("alpha", Network::tcp(), &[]);
    change(&mut config);
    Node::start(config).await.err().expect("it does not start").to_string()
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn what_cannot_work_is_refused_by_name() {
    let first = node("taken", &[]).await;
    let taken = first.address();
    let address = taken.clone();
    let error = refused(|c| c.listen = Some(address)).await;
    assert!(error.starts_with(&format!("cannot listen on {taken}: ")), "{error}");
    let error = refused(|c| (c.listen, c.secret) = (Some("0.0.0.0:0".into()), None)).await;
    assert!(error.contains("is not a loopback address"), "{error}");
    let error = refused(|c| (c.seeds, c.secret) = (vec!["192.0.2.1:7".into()], None)).await;
    assert!(error.starts_with("192.0.2.1:7 is not a loopback address"), "{error}");
    let error = refused(|c| c.listen = Some("[::]:0".into())).await;
    assert!(error.contains("name one with `advertise`"), "{error}");
    let error = refused(|c| c.seeds = vec![String::new()]).await;
    assert_eq!(error, "the seed address `` is not of the form host:port or [IPv6]:port");
    let error = refused(|c| c.advertise = vec!["10.0.0.1:0".into()]).await;
    assert_eq!(
        error,
        "the advertise address `10.0.0.1:0` is not of the form host:port or [IPv6]:port"
    );
    let error = refused(|c| c.advertise = vec!["a:1".into(); 9]).await;
    assert_eq!(error, "9 addresses are advertised, but at most 8 can be");
    for unclear in ["::1:7700", "[::1:7700", "[name]:7700", "[::1]"] {
        let error = refused(|c| c.seeds = vec![unclear.into()]).await;
        assert!(error.contains("is not of the form host:port or [IPv6]:port"), "{error}");
    }
    let accepts = |count: usize| vec![Secret::numbered(4); count];
    let error = refused(|c| c.also_accept = accepts(limits::SECRETS_ACCEPTED_MAX + 1)).await;
    assert_eq!(error, "5 secrets are accepted besides the node's own, but at most 4 can be");
    let error = refused(|c| (c.also_accept, c.secret) = (accepts(1), None)).await;
    assert!(error.contains("the node has none of its own to dial with"), "{error}");
    let error = refused(|c| c.profile.ring_slots = 7).await;
    assert_eq!(error, "the profile cannot work: ring_slots is 7, but must be 8 to 4096");
}

/// The oracle is the error: a host that is not there would answer with another one, or not.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn only_addresses_of_this_machine_are_dialled_where_no_other_is_meant() {
    let keyless = |name| Config { secret: None, ..config(name, Network::tcp(), &[]) };
    let alpha = Node::start(keyless("alpha")).await.unwrap();
    let elsewhere = ["192.0.2.1:7", "[2001:db8::1]:7", "[::ffff:192.0.2.1]:7"].map(String::from);
    alpha.mesh.peer(&NodeName::new("beta").unwrap()).learn(&elsewhere, "192.0.2.1:7");
    let error = alpha.link("beta").await.unwrap_err().to_string();
    let why = "without a secret only loopback addresses are dialled";
    assert_eq!(error.matches(why).count(), elsewhere.len(), "{error}");
    let beta = Node::start(keyless("beta")).await.unwrap();
    let port = beta.address().rsplit_once(':').unwrap().1.to_owned();
    let gamma = Config { seeds: vec![format!("localhost:{port}")], ..keyless("gamma") };
    let gamma = Node::start(gamma).await.unwrap();
    gamma.mesh.ready(1).await;
    assert_eq!(gamma.linked(), ["beta"]);
}

/// An unanswered ask keeps the link that it came by.
#[tokio::test]
async fn a_link_that_ended_keeps_no_slots_whoever_keeps_it() {
    let beta = node("beta", &[]).await;
    let alpha = node("alpha", &[beta.address()]).await;
    let kept = alpha.link("beta").await.unwrap();
    assert!(kept.has_memory());
    beta.shutdown().await;
    let freed = async {
        while kept.has_memory() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), freed).await.expect("its slots are given back");
    alpha.shutdown().await;
}

#[tokio::test]
async fn a_wildcard_listener_tells_what_it_was_told_to() {
    let mut config = config("alpha", Network::tcp(), &[]);
    config.listen = Some("0.0.0.0:0".into());
    config.advertise = vec!["alpha.example:7700".into()];
    let alpha = Node::start(config).await.unwrap();
    assert_eq!(alpha.mesh.addresses(), ["alpha.example:7700"]);
}

#[tokio::test]
async fn two_nodes_link_and_part() {
    let alpha = node("alpha", &[]).await;
    let beta = node("beta", &[alpha.address()]).await;
    alpha.mesh.ready(1).await;
    beta.mesh.ready(1).await;
    assert_eq!(alpha.linked(), ["beta"]);
    assert_eq!(beta.mesh.linked(), [alpha.mesh.id().clone()]);
    assert!(alpha.link("beta").await.is_ok());
    beta.shutdown().await;
    alpha
        .watcher
        .until(&["beta up over tcp", "beta lost: the peer left", "beta down: it left"])
        .await;
    let shutdown = "alpha lost: this node is shutting down";
    beta.watcher.until(&["alpha up over tcp", shutdown]).await;
    let stats = alpha.mesh.stats();
    assert_eq!(stats[0].0.as_str(), "beta");
    assert!(stats[0].1.frames_received >= 1, "{stats:?}");
    alpha.shutdown().await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn nodes_that_dial_each_other_get_one_link() {
    let (port_a, port_b) = (free_port().await, free_port().await);
    let mut a = config("alpha", Network::tcp(), std::slice::from_ref(&port_b));
    a.listen = Some(port_a.clone());
    let mut b = config("beta", Network::tcp(), &[port_a, port_b.clone()]);
    b.listen = Some(port_b);
    let (alpha, beta) = tokio::join!(Node::start(a), Node::start(b));
    let (alpha, beta) = (alpha.unwrap(), beta.unwrap());
    alpha.mesh.ready(1).await;
    beta.mesh.ready(1).await;
    beta.shutdown().await;
    alpha
        .watcher
        .until(&["beta up over tcp", "beta lost: the peer left", "beta down: it left"])
        .await;
}

async fn free_port() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_node_never_met_is_found_by_asking() {
    let alpha = node("alpha", &[]).await;
    let beta = node("beta", &[alpha.address()]).await;
    let gamma = node("gamma", &[alpha.address()]).await;
    alpha.mesh.ready(2).await;
    gamma.link("beta").await.unwrap();
    gamma.mesh.ready(2).await;
    beta.mesh.ready(2).await;
    assert_eq!(gamma.linked(), ["alpha", "beta"]);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_namesake_is_refused_and_the_link_stands() {
    let alpha = node("alpha", &[]).await;
    for (first, second) in [("beta", "beta"), ("aa", "aa")] {
        let real = node(first, &[alpha.address()]).await;
        real.mesh.ready(1).await;
        let link = alpha.link(first).await.unwrap();
        let namesake = identity(second, &Secret::numbered(3));
        let (mut channel, hello) = dial(&alpha, &namesake).await.unwrap();
        assert_eq!(hello.node, *alpha.mesh.id());
        if second < "alpha" {
            // The lower-named node decides, so alpha waits for its COMMIT.
            channel.send(&crate::bootstrap::Message::Commit { epoch: 7 }).await.unwrap();
        }
        let failure = channel.recv().await.unwrap_err();
        assert!(
            matches!(failure, Failure::RejectedByPeer(Rejection::DuplicateNodeName)),
            "{failure}"
        );
        assert!(!link.has_ended());
        real.shutdown().await;
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_restarted_node_is_down_and_linked_again() {
    // Otherwise it may be gone before it is there again.
    let mut config = config("alpha", Network::tcp(), &[]);
    config.profile.down_when_refused = false;
    let alpha = Node::start(config).await.unwrap();
    let beta = node("beta", &[alpha.address()]).await;
    alpha.mesh.ready(1).await;
    // One side knows of the link before the other does.
    beta.mesh.ready(1).await;
    beta.mesh.abort(crate::cause::LinkCause::Shutdown);
    beta.watcher.until(&["alpha up over tcp", "alpha lost: this node is shutting down"]).await;
    let again = node("beta", &[alpha.address()]).await;
    again.mesh.ready(1).await;
    alpha.mesh.ready(1).await;
    // A link is there a moment before its event is told.
    alpha.watcher.count.subscribe().wait_for(|count| *count >= 4).await.unwrap();
    let texts = alpha.watcher.texts();
    assert_eq!(texts[0], "beta up over tcp");
    assert!(texts[1].starts_with("beta lost: "), "{texts:?}");
    assert_eq!(texts[2..], ["beta down: it was restarted", "beta up over tcp"]);
    assert_eq!(alpha.mesh.linked(), [again.mesh.id().clone()]);
}

fn identity(name: &str, secret: &Secret) -> Identity {
    let incarnation = Incarnation(Entropy::os().u128());
    Identity {
        node: NodeId { name: NodeName::new(name).unwrap(), incarnation },
        addresses: Vec::new(),
        fabrics: vec!["tcp".into()],
        times: Times::default(),
        features: 0,
        versions: VERSIONS,
        key: Secret::key(Some(secret)),
        accepts: Vec::new(),
        entropy: Entropy::os(),
    }
}

/// Returns the dialler's side of a handshake by hand.
async fn dial(
    node: &Node,
    identity: &Identity,
) -> Result<(crate::bootstrap::Channel, crate::bootstrap::Hello), Failure> {
    let stream: Box<dyn Stream> = Box::new(TcpStream::connect(node.address()).await.unwrap());
    let deadline = tokio::time::Instant::now() + limits::HANDSHAKE_TIMEOUT;
    meet(stream, Handshake::dial(identity), &[], deadline, std::future::pending()).await
}

#[tokio::test]
async fn strangers_end_only_their_own_connection() {
    let alpha = node("alpha", &[]).await;
    let stranger = identity("beta", &Secret::numbered(4));
    let failure = dial(&alpha, &stranger).await.err().expect("the secret is wrong");
    assert!(matches!(failure, Failure::RejectedByPeer(Rejection::WrongSecret)), "{failure}");
    for round in 0..300u32 {
        let mut stream = TcpStream::connect(alpha.address()).await.unwrap();
        let mut garbage = vec![0; 5000];
        Entropy::os().fill(&mut garbage);
        if round % 3 == 1 {
            garbage[..12].copy_from_slice(&Preface::Bootstrap.encode());
        } else if round % 3 == 2 {
            garbage[..12].copy_from_slice(&Preface::Data.encode());
        }
        // The node may close at any of these bytes.
        let _ = stream.write_all(&garbage).await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    let beta = node("beta", &[alpha.address()]).await;
    beta.mesh.ready(1).await;
    assert_eq!(beta.linked(), ["alpha"]);
}

#[tokio::test]
async fn of_too_many_silent_connections_one_gives_way() {
    let alpha = node("alpha", &[]).await;
    let mut silent = Vec::new();
    for _ in 0..=limits::UNPROVEN_CONNECTIONS_MAX {
        silent.push(TcpStream::connect(alpha.address()).await.unwrap());
    }
    let began = std::time::Instant::now();
    closed(&mut silent, 1).await;
    assert!(began.elapsed() < limits::HANDSHAKE_TIMEOUT);
    let beta = node("beta", &[alpha.address()]).await;
    beta.mesh.ready(1).await;
}

/// Waits until the other side has closed `count` of the streams.
async fn closed(streams: &mut [TcpStream], count: usize) {
    let ends = streams.iter_mut().map(|stream| async { stream.read(&mut [0]).await.unwrap_or(0) });
    let ends: FuturesUnordered<_> = ends.collect();
    assert_eq!(ends.take(count).collect::<Vec<_>>().await, vec![0; count]);
}

/// A host that opens connections without end closes its own, and not the only one of another host;
/// even if they are data connections that never send a token.
#[tokio::test]
async fn a_host_that_opens_many_connections_gives_up_its_own() {
    for says in [Vec::new(), Preface::Data.encode().to_vec()] {
        let alpha = node("alpha", &[]).await;
        let honest = TcpSocket::new_v4().unwrap();
        honest.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let honest = honest.connect(alpha.address().parse().unwrap()).await.unwrap();
        let mut flood = Vec::new();
        for _ in 0..2 * limits::UNPROVEN_CONNECTIONS_MAX {
            let mut stream = TcpStream::connect(alpha.address()).await.unwrap();
            stream.write_all(&says).await.unwrap();
            flood.push(stream);
        }
        // One place is the honest host's.
        closed(&mut flood, limits::UNPROVEN_CONNECTIONS_MAX + 1).await;
        let beta = identity("beta", &Secret::numbered(3));
        let deadline = tokio::time::Instant::now() + limits::HANDSHAKE_TIMEOUT;
        let handshake = Handshake::dial(&beta);
        let met = meet(Box::new(honest), handshake, &[], deadline, std::future::pending()).await;
        assert_eq!(met.map_err(|failure| failure.to_string()).unwrap().1.node, *alpha.mesh.id());
        alpha.shutdown().await;
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn nothing_is_left_after_a_shutdown() {
    let alpha = node("alpha", &[]).await;
    let beta = node("beta", &[alpha.address()]).await;
    alpha.mesh.ready(1).await;
    let mut silent = TcpStream::connect(alpha.address()).await.unwrap();
    alpha.shutdown().await;
    assert_eq!(silent.read(&mut [0]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(alpha.address()).await.is_err());
    assert_eq!(alpha.link("beta").await.unwrap_err().cause, NodeDownCause::Shutdown);
    assert_eq!(Arc::strong_count(&alpha.mesh.table), 1);
    let texts = ["alpha up over tcp", "alpha lost: the peer left", "alpha down: it left"];
    beta.watcher.until(&texts).await;
}
