//! One bootstrap connection from its first byte to its last.
//!
//! - **MS-17 links by source**: nodes at one address have no more links at a time, of those that
//!   they dialled, than `Profile::links_per_source_max`. So a holder of the secret that comes under
//!   ever new names from one address takes a bounded part of what this node has. One that comes
//!   from many addresses has as many links of each.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::bootstrap::{Failure, Handshake, Message, Rejection, meet};
use crate::fabric::Side;
use crate::id::NodeId;
use crate::limits;
use crate::steps::step;
use crate::wire::Stream;

use super::choice::Met;
use super::join::join;
use super::meter;
use super::peer::Peer;
use super::table::{DialPermit, Table};

/// The outcome of an attempt to reach a node at an address.
pub(super) struct Outcome {
    /// The node that answered there, when it proved itself.
    pub(super) node: Option<NodeId>,
    /// `Ok` when there is a link now.
    pub(super) result: Result<(), DialFailure>,
}

/// The cause for which an attempt did not make a link.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialFailure {
    #[error("cannot connect: {0}")]
    Unreachable(#[source] io::Error),
    #[error("cannot connect within {:?}", limits::DIAL_TIMEOUT)]
    NoAnswer,
    #[error("without a secret only loopback addresses are dialled")]
    NotLoopback,
    #[error("{0}")]
    Failed(#[from] Failure),
    #[error("this node is shutting down")]
    Closing,
}

impl DialFailure {
    /// Returns true if the node that answered is on its way out.
    pub(super) fn is_goodbye(&self) -> bool {
        matches!(self, DialFailure::Failed(Failure::RejectedByPeer(Rejection::ShuttingDown)))
    }
}

/// Dials `address`, which is no name, in a task of its own, which then carries the link. The
/// outcome tells when it stands. Dropping the receiver gives up a dial that has not met a node.
/// `permit` is held until it has, or has not.
pub(super) fn dial(
    table: &Arc<Table>,
    address: String,
    permit: Option<DialPermit>,
) -> oneshot::Receiver<Outcome> {
    let (report, outcome) = oneshot::channel();
    let shared = table.clone();
    table.tasks.spawn(async move { carry(shared, address, permit, report).await });
    outcome
}

async fn carry(
    table: Arc<Table>,
    address: String,
    permit: Option<DialPermit>,
    mut report: oneshot::Sender<Outcome>,
) {
    let reach = async {
        let _permit = permit;
        reach(&table, address).await
    };
    let met = tokio::select! {
        biased;
        () = table.events.closing() => Err(DialFailure::Closing),
        () = report.closed() => return,
        met = reach => met,
    };
    let (node, session) = match met {
        Err(failure) => (None, Err(failure)),
        Ok(met) => {
            let node = met.hello.node.clone();
            (Some(node), join(&table, met).await.map_err(DialFailure::Failed))
        }
    };
    meter::count_dial(session.as_ref().map_or_else(DialFailure::label, |_| "linked"));
    match session {
        Ok(session) => {
            let _ = report.send(Outcome { node, result: Ok(()) });
            session.run().await;
        }
        Err(failure) => {
            let _ = report.send(Outcome { node, result: Err(failure) });
        }
    }
}

async fn reach(table: &Table, address: String) -> Result<Met, DialFailure> {
    if !table.secret && table.network.needs_secret(&address) {
        return Err(DialFailure::NotLoopback);
    }
    let dial = table.network.wire.dial(address);
    let dialled = timeout(limits::DIAL_TIMEOUT, dial).await.map_err(|_| DialFailure::NoAnswer)?;
    let stream = dialled.map_err(DialFailure::Unreachable)?;
    step!(Dialled);
    // The data connection goes where this one went.
    let address = stream.peer_address();
    let fabrics = table.network.usable(table.encryption, &address);
    let identity = table.identity_naming(&fabrics);
    let handshake = Handshake::dial(&identity);
    let deadline = Instant::now() + limits::HANDSHAKE_TIMEOUT;
    let (channel, hello) = meet(stream, handshake, &[], deadline, std::future::pending()).await?;
    Ok(Met { channel, hello, side: Side::Dialer { address }, fabrics })
}

/// Carries an accepted connection of which `first` was read. `give_way` ends it before the proof,
/// `unproven` is dropped after it.
pub(super) async fn accepted(
    table: Arc<Table>,
    stream: Box<dyn Stream>,
    first: &[u8],
    deadline: Instant,
    give_way: impl Future<Output = ()>,
    unproven: impl Sized,
) -> Result<(), Failure> {
    let fabrics = table.network.usable(table.encryption, &stream.peer_address());
    let identity = table.identity_naming(&fabrics);
    let handshake = Handshake::accept(&identity);
    let met = tokio::select! {
        biased;
        () = table.events.closing() => Err(Failure::Rejected(Rejection::ShuttingDown)),
        met = meet(stream, handshake, first, deadline, give_way) => met,
    };
    drop(unproven);
    let (channel, hello) = met?;
    let peer = table.peer(&hello.node.name);
    let source = Source::of(&channel.peer_address());
    let max = table.profile.links_per_source_max;
    // Links are counted by the address they come from, not by the secret: a holder of it that comes
    // from many addresses has as many of each.
    let Some(_counted) = table.sources.admit(source, max) else {
        let why = Rejection::TooManyLinks;
        channel.close(&Message::Reject(why));
        refused(&table, &peer, &Failure::Rejected(why));
        return Ok(());
    };
    match join(&table, Met { channel, hello, side: Side::Acceptor, fabrics }).await {
        Ok(session) => session.run().await,
        Err(failure) => refused(&table, &peer, &failure),
    }
    Ok(())
}

/// Logs that a node was refused, once for each cause: it will try again.
fn refused(table: &Table, peer: &Peer, failure: &Failure) {
    meter::count_refusal(failure.label());
    let warned = match failure {
        // The cause was logged when the last fabric was given up.
        Failure::Rejected(Rejection::NoCommonFabric | Rejection::DialRace) => None,
        Failure::Rejected(_) => peer.warns(&failure.to_string(), &table.refusals, failure.label()),
        _ => None,
    };
    let peer = peer.name();
    match warned {
        Some(suppressed) => tracing::warn!(%peer, %failure, suppressed, "a node was refused"),
        None => tracing::debug!(%peer, %failure, "a connection ended"),
    }
}

impl DialFailure {
    /// Returns the failure in a word, for metrics.
    fn label(&self) -> &'static str {
        match self {
            DialFailure::Unreachable(_) => "unreachable",
            DialFailure::NoAnswer => "no_answer",
            DialFailure::NotLoopback => "not_loopback",
            DialFailure::Failed(failure) => failure.label(),
            DialFailure::Closing => "shutting_down",
        }
    }

    /// Returns true if it only means that another connection between the same nodes was chosen.
    pub(super) fn is_dial_race(&self) -> bool {
        matches!(self, DialFailure::Failed(failure) if failure.is_dial_race())
    }
}

/// A place that connections come from, by which [`accept`](super::accept) counts strangers, and
/// links are counted here: an IPv4 address; 64 bits of an IPv6 address, because a host
/// has all that begin with them; the name of a simulated host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// An address, or the first one of a network.
    Ip(IpAddr),
    /// Of the simulator.
    Host(String),
}

impl Source {
    /// Returns the source of a connection from this address.
    pub(super) fn of(address: &str) -> Self {
        match address.parse::<SocketAddr>().map(|address| address.ip().to_canonical()) {
            Ok(IpAddr::V6(ip)) => {
                let network = ip.to_bits() & !u128::from(u64::MAX);
                Source::Ip(Ipv6Addr::from_bits(network).into())
            }
            Ok(ip) => Source::Ip(ip),
            Err(_) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                Source::Host(host.into())
            }
        }
    }
}

/// The number of links of each source that has one. Shared by the tasks that carry them.
#[derive(Default)]
pub(super) struct Sources(Mutex<BTreeMap<Source, u32>>);

/// A link that is counted until this is dropped.
pub(super) struct Counted {
    sources: Arc<Sources>,
    source: Source,
}

impl Sources {
    /// Counts one more link of a source, unless it has `max` of them.
    pub(super) fn admit(self: &Arc<Self>, source: Source, max: u32) -> Option<Counted> {
        let mut counts = self.0.lock();
        let count = counts.entry(source.clone()).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Counted { sources: self.clone(), source })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.sources.0.lock();
        if let Some(count) = counts.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-17
    #[test]
    fn links_are_counted_while_they_last() {
        let sources = Arc::new(Sources::default());
        let admit = |host: &str| sources.admit(Source::of(host), 2);
        let first = admit("alpha");
        let second = admit("alpha");
        assert!(first.is_some() && second.is_some());
        assert!(admit("alpha").is_none());
        assert!(admit("beta").is_some(), "another host");
        drop(first);
        let third = admit("alpha");
        assert!(third.is_some() && admit("alpha").is_none());
        drop((second, third));
        assert!(sources.0.lock().is_empty(), "a host without links is forgotten");
    }

    #[test]
    fn a_host_is_one_source_whichever_of_its_addresses_it_uses() {
        let same = |one, other| Source::of(one) == Source::of(other);
        assert!(same("192.0.2.1:1", "192.0.2.1:65535"));
        assert!(same("192.0.2.1:1", "[::ffff:192.0.2.1]:2"));
        assert!(!same("192.0.2.1:1", "192.0.2.2:1"));
        assert!(same("[2001:db8:0:1::1]:1", "[2001:db8:0:1:ffff:ffff:ffff:ffff]:2"));
        assert!(!same("[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1"));
        assert!(same("alpha", "alpha:7700") && !same("alpha", "beta"));
    }
}
