//! The listener: accepts connections; bad input closes only the connection it came on.
//!
//! At most `UNPROVEN_CONNECTIONS_MAX` connections are between their first byte and their proof (or
//! token). Of more, the source with the most of them gives up one, so that a host that opens
//! thousands closes its own. Each has `HANDSHAKE_TIMEOUT`. The one to give up is drawn by lot: if
//! it were the oldest, a crowd of nodes that dial at once over a long path would keep each other
//! from ever proving themselves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::{fmt, io};

use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use crate::bootstrap::{Failure, Handshake, Message, Rejection, meet};
use crate::entropy::Entropy;
use crate::fabric::Side;
use crate::limits;
use crate::log;
use crate::log_limiter::LogLimiter;
use crate::steps::step;
use crate::wire::{Listener, PREFACE_BYTES, Preface, Stream};

use super::choice::Met;
use super::join::join;
use super::meter::{self, Gauged};
use super::peer::Peer;
use super::source::Source;
use super::table::Table;

/// Accepts until the node closes.
pub(super) async fn accept(table: Arc<Table>, mut listener: Box<dyn Listener>) {
    let unproven = Arc::new(Unproven::default());
    let log = Arc::new(LogLimiter::new(1));
    loop {
        let accepted = tokio::select! {
            biased;
            () = table.events.closing() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(stream) => {
                let source = Source::of(&stream.peer_address());
                let (place, give_way) = unproven.clone().admit(source, &table.identity.entropy);
                table.tasks.spawn(serve(table.clone(), stream, place, give_way, log.clone()));
            }
            Err(error) => {
                report_accept(&log, &error);
                sleep(limits::ACCEPT_BACKOFF).await;
            }
        }
    }
}

async fn serve(
    table: Arc<Table>,
    mut stream: Box<dyn Stream>,
    place: Place,
    mut give_way: oneshot::Receiver<()>,
    log: Arc<LogLimiter>,
) {
    step!(Accepted);
    let from = stream.peer_address();
    let deadline = Instant::now() + limits::HANDSHAKE_TIMEOUT;
    let first = tokio::select! {
        biased;
        () = table.events.closing() => return,
        // The sender is dropped to say it.
        _ = &mut give_way => Err(Failure::Rejected(Rejection::Busy)),
        first = timeout_at(deadline, first_bytes(&mut stream)) => {
            first.unwrap_or(Err(Failure::Rejected(Rejection::TooSlow)))
        }
    };
    let first = match first {
        Ok(first) => first,
        Err(failure) => return report(&log, &from, &failure),
    };
    let give_way = async {
        let _ = give_way.await;
    };
    match first {
        First::Data(token) => {
            step!(TokenReceived);
            let doors = &table.network.doors;
            if !doors.admit(token, stream) {
                report_token(&log, &from);
            }
        }
        First::Other(bytes) => {
            let carried = carry(table, stream, &bytes, deadline, give_way, place).await;
            if let Err(failure) = carried {
                report(&log, &from, &failure);
            }
        }
    }
}

/// The beginning of an accepted connection.
enum First {
    /// The token of a queue pair of the tcp fabric.
    Data(u128),
    /// Bytes of anything else, which the handshake has to judge.
    Other([u8; PREFACE_BYTES]),
}

async fn first_bytes(stream: &mut Box<dyn Stream>) -> Result<First, Failure> {
    let closed_or = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Failure::Closed,
        _ => Failure::Io(error),
    };
    let mut preface = [0; PREFACE_BYTES];
    stream.read_exact(&mut preface).await.map_err(closed_or)?;
    if Preface::decode(&preface) == Ok(Preface::Data) {
        return Ok(First::Data(stream.read_u128_le().await.map_err(closed_or)?));
    }
    Ok(First::Other(preface))
}

/// Carries an accepted connection of which `first` was read. `give_way` ends it before the proof,
/// `unproven` is dropped after it.
async fn carry(
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
        Failure::Rejected(Rejection::ShuttingDown) => None,
        Failure::Rejected(_) => {
            peer.admit_complaint(&failure.to_string(), &table.peer_warnings, failure.label())
        }
        _ => None,
    };
    let peer = peer.name();
    match warned {
        Some(suppressed) => log::warn!(%peer, %failure, suppressed, "a node was refused"),
        None => log::debug!(%peer, %failure, "a connection ended"),
    }
}

/// Counts and logs a connection from this address that came to nothing before its peer had proved
/// itself.
fn report(log: &LogLimiter, from: &str, failure: &Failure) {
    let warns = match failure {
        // The dialler was not judged.
        Failure::Rejected(Rejection::ShuttingDown) => false,
        Failure::Rejected(_)
        | Failure::VersionMismatch { .. }
        | Failure::Stale
        | Failure::Malformed(_) => !failure.is_dial_race(),
        // An honest node, or a probe that looks whether the port is open.
        Failure::RejectedByPeer(_) | Failure::SelfConnection | Failure::Closed | Failure::Io(_) => {
            false
        }
    };
    count(log, (from, failure.label()), failure, warns);
}

/// Counts and logs a data connection from this address whose token no queue pair waits for.
fn report_token(log: &LogLimiter, from: &str) {
    count(log, (from, "token"), &"no queue pair waits for this data connection", true);
}

/// Logs that the system gives no connection, which it may go on to do.
fn report_accept(log: &LogLimiter, error: &io::Error) {
    if let Some(suppressed) = log.admit("accept", Instant::now()) {
        log::warn!(%error, suppressed, "connections could not be accepted");
    }
}

fn count(
    log: &LogLimiter,
    (from, cause): (&str, &'static str),
    failure: &dyn fmt::Display,
    warns: bool,
) {
    meter::count_refusal(cause);
    let warned = if warns { log.admit(cause, Instant::now()) } else { None };
    match warned {
        Some(suppressed) => {
            log::warn!(from, %failure, suppressed, "a connection was refused");
        }
        None => log::debug!(from, %failure, "a connection ended"),
    }
}

/// The connections that have not proven themselves yet, by age.
#[derive(Default)]
struct Unproven(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    next: u64,
    connections: BTreeMap<u64, Waiting>,
}

struct Waiting {
    source: Source,
    /// Dropping it tells the connection to give way.
    _stay: oneshot::Sender<()>,
}

/// A place among them, given up by dropping it.
struct Place {
    unproven: Arc<Unproven>,
    number: u64,
    /// Here to be dropped with it.
    _gauged: Gauged,
}

impl Unproven {
    fn admit(self: Arc<Self>, source: Source, entropy: &Entropy) -> (Place, oneshot::Receiver<()>) {
        let (stay, give_way) = oneshot::channel();
        let (number, evicted) = {
            let mut pending = self.0.lock();
            pending.next += 1;
            let number = pending.next;
            pending.connections.insert(number, Waiting { source, _stay: stay });
            let full = pending.connections.len() > limits::UNPROVEN_CONNECTIONS_MAX;
            (number, if full { pending.evict(entropy) } else { None })
        };
        drop(evicted);
        (Place { unproven: self, number, _gauged: meter::unproven() }, give_way)
    }
}

impl Pending {
    /// Removes a connection, by lot, of those sources that have the most.
    fn evict(&mut self, entropy: &Entropy) -> Option<Waiting> {
        let mut counts: BTreeMap<&Source, usize> = BTreeMap::new();
        for waiting in self.connections.values() {
            *counts.entry(&waiting.source).or_default() += 1;
        }
        let most = *counts.values().max()?;
        let drawn = self.connections.iter().filter(|(_, waiting)| counts[&waiting.source] == most);
        let drawn: Vec<u64> = drawn.map(|(number, _)| *number).collect();
        let number = drawn[entropy.below(drawn.len() as u64) as usize];
        self.connections.remove(&number)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let stay = self.unproven.0.lock().connections.remove(&self.number);
        drop(stay);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    #[test]
    fn the_source_with_the_most_connections_gives_up_one() {
        let (unproven, entropy) = (Arc::new(Unproven::default()), Entropy::seeded(1));
        let admit = |host: usize| {
            let source = Source::of(&format!("192.0.2.{host}:1"));
            let (place, gone) = unproven.clone().admit(source, &entropy);
            (host, place, gone)
        };
        let half = limits::UNPROVEN_CONNECTIONS_MAX / 2;
        // Several hosts have one connection each, one has two, one the most.
        let hosts = [1, 2, 2].into_iter().chain(std::iter::repeat_n(3, half));
        let mut open: Vec<_> = hosts.map(admit).collect();
        while open.len() <= limits::UNPROVEN_CONNECTIONS_MAX {
            open.push(admit(100 + open.len()));
        }
        let mut gone = || {
            let is_gone = |(.., gone): &mut (_, _, oneshot::Receiver<()>)| {
                gone.try_recv() != Err(TryRecvError::Empty)
            };
            open.iter_mut().position(is_gone).map(|at| open.remove(at).0)
        };
        assert_eq!((gone(), gone()), (Some(3), None), "one of the host that has the most");
        drop(open);
        assert!(unproven.0.lock().connections.is_empty());
    }

    /// A new one has the same chance as an old one, at any time.
    #[test]
    fn of_many_sources_the_lot_decides_who_gives_way() {
        let (unproven, entropy) = (Arc::new(Unproven::default()), Entropy::seeded(1));
        let most = limits::UNPROVEN_CONNECTIONS_MAX;
        let admit = |host: usize| {
            let source = Source::of(&format!("192.0.{}.{}:1", host / 200, host % 200));
            unproven.clone().admit(source, &entropy)
        };
        let mut open: Vec<_> = (0..2 * most).map(admit).collect();
        let mut is_gone = |at: usize| open[at].1.try_recv() != Err(TryRecvError::Empty);
        let gone: Vec<usize> = (0..2 * most).filter(|at| is_gone(*at)).collect();
        assert_eq!(gone.len(), most);
        let late = gone.iter().filter(|at| **at >= most).count();
        assert!((most / 8..most / 2).contains(&late), "{gone:?}");
    }
}
