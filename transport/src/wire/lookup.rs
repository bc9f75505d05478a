//! Look-ups of names, by the system's resolver. Used by [`TcpWire`](super::TcpWire).
//!
//! The system's resolver blocks a thread for as long as it likes. A name has one look-up at a time,
//! which all callers share, and at most `RESOLVE_THREADS_MAX` run at once in a process; names that
//! peers have told start one only while fewer than half of these run, so that they cannot keep
//! seeds from being looked up. A dial that is given up leaves its look-up to the next one.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::LazyLock;
use std::thread;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::entropy::Entropy;
use crate::limits;

/// Returns where `address`, `name:port`, leads now: at most `DIAL_ADDRESSES_MAX`, drawn by lot (see
/// [`draw`]), in the order that the system prefers.
///
/// # Errors
/// The system's, with the name; [`TimedOut`](io::ErrorKind::TimedOut) after `RESOLVE_TIMEOUT`;
/// [`ResourceBusy`](io::ErrorKind::ResourceBusy) while too many look-ups run.
///
/// # Cancel safety
/// Dropping the future leaves the look-up to the next caller.
pub(super) async fn look_up(address: &str, told: bool) -> io::Result<Vec<SocketAddr>> {
    look_up_by(&LOOKUPS, address, told, |address| Ok(parts(address)?.to_socket_addrs()?.collect()))
        .await
}

/// Returns the host and the port of an address, as the system's resolver takes them: it knows no
/// brackets, and finds the interface of `[fe80::1%eth0]`.
///
/// # Errors
/// [`InvalidInput`](io::ErrorKind::InvalidInput) if it is not of the form `host:port`.
pub(super) fn parts(address: &str) -> io::Result<(&str, u16)> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        Some((bare.unwrap_or(host), port.parse().ok()?))
    });
    parts.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is not host:port"))
}

/// The addresses that a look-up found, or why it found none.
type Found = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;
type Running = Shared<BoxFuture<'static, Found>>;

/// The look-ups that run, by address.
#[derive(Default)]
struct Lookups(Mutex<BTreeMap<String, Running>>);

static LOOKUPS: LazyLock<Lookups> = LazyLock::new(Lookups::default);

async fn look_up_by(
    lookups: &'static Lookups,
    address: &str,
    told: bool,
    resolve: fn(&str) -> io::Result<Vec<SocketAddr>>,
) -> io::Result<Vec<SocketAddr>> {
    let name = address.rsplit_once(':').map_or(address, |(name, _)| name);
    let failed = |kind, why: String| io::Error::new(kind, format!("the name `{name}` {why}"));
    let running = lookups
        .join(address, told, resolve)
        .map_err(|error| failed(error.kind(), format!("is not looked up: {error}")))?;
    let found = timeout(limits::RESOLVE_TIMEOUT, running).await.map_err(|_| {
        let why = format!("was not resolved within {:?}", limits::RESOLVE_TIMEOUT);
        failed(io::ErrorKind::TimedOut, why)
    })?;
    let mut found =
        found.map_err(|(kind, why)| failed(kind, format!("does not resolve: {why}")))?;
    if found.is_empty() {
        return Err(failed(io::ErrorKind::NotFound, "has no address".into()));
    }
    draw(&mut found, &Entropy::os());
    Ok(found)
}

/// Keeps as many addresses as are dialled in a round, drawn by lot, in their order. The system puts
/// the addresses that are nearest to the node first: if the first ones were kept, the nodes behind
/// one name would fall into groups, each of which knows no other.
pub(crate) fn draw<T>(found: &mut Vec<T>, entropy: &Entropy) {
    let mut places: Vec<usize> = (0..found.len()).collect();
    entropy.draw(&mut places, limits::DIAL_ADDRESSES_MAX);
    let mut place = 0..;
    found.retain(|_| place.next().is_some_and(|place| places.contains(&place)));
}

impl Lookups {
    /// Returns the look-up of `address`, started if none runs.
    fn join(
        &'static self,
        address: &str,
        told: bool,
        resolve: fn(&str) -> io::Result<Vec<SocketAddr>>,
    ) -> io::Result<Running> {
        let mut running = self.0.lock();
        if let Some(running) = running.get(address) {
            return Ok(running.clone());
        }
        let most = limits::RESOLVE_THREADS_MAX / if told { 2 } else { 1 };
        if running.len() >= most {
            let why = format!("{} look-ups run already", running.len());
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
        }
        let (report, found) = oneshot::channel();
        let of = address.to_owned();
        thread::Builder::new().name("ringpost-lookup".into()).spawn(move || {
            let found = resolve(&of).map_err(|error| (error.kind(), error.to_string()));
            // Removed before the result is sent: the next caller starts a new look-up.
            self.0.lock().remove(&of);
            let _ = report.send(found);
        })?;
        let gone = || Err((io::ErrorKind::Other, "the look-up failed".to_owned()));
        let found = found.map(move |found| found.unwrap_or_else(|_| gone())).boxed().shared();
        running.insert(address.to_owned(), found.clone());
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Condvar, Mutex as Blocking};

    use super::*;

    static ASKED: Blocking<usize> = Blocking::new(0);
    static GATE: (Blocking<bool>, Condvar) = (Blocking::new(false), Condvar::new());

    /// Answers when the gate is open.
    fn slow(_: &str) -> io::Result<Vec<SocketAddr>> {
        *ASKED.lock().unwrap() += 1;
        let shut = GATE.0.lock().unwrap();
        drop(GATE.1.wait_while(shut, |open| !*open).unwrap());
        Ok(vec!["127.0.0.1:7".parse().unwrap()])
    }

    /// Dials that are given up leave one thread for each name, and a bounded number of them.
    #[tokio::test(start_paused = true)]
    async fn slow_look_ups_pile_up_no_threads() {
        static SLOW: LazyLock<Lookups> = LazyLock::new(Lookups::default);
        for _ in 0..100 {
            let error = look_up_by(&SLOW, "one:7", false, slow).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(error.to_string(), "the name `one` was not resolved within 2s");
        }
        for other in 1..limits::RESOLVE_THREADS_MAX {
            if other >= limits::RESOLVE_THREADS_MAX / 2 {
                let told = look_up_by(&SLOW, "told:7", true, slow).await.unwrap_err();
                assert_eq!(told.kind(), io::ErrorKind::ResourceBusy);
            }
            let error = look_up_by(&SLOW, &format!("{other}:7"), false, slow).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        let error = look_up_by(&SLOW, "last:7", false, slow).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        let shared = tokio::spawn(look_up_by(&SLOW, "one:7", false, slow));
        tokio::task::yield_now().await;
        *GATE.0.lock().unwrap() = true;
        GATE.1.notify_all();
        // The clock of this test runs ahead of threads: the outcome may be late for it.
        let _ = shared.await.unwrap();
        assert!(*ASKED.lock().unwrap() <= limits::RESOLVE_THREADS_MAX);
        while !SLOW.0.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// Each of many addresses has its turn, and the drawn ones keep the system's order.
    #[tokio::test]
    async fn of_many_addresses_of_a_name_others_are_drawn_each_time() {
        static MANY: LazyLock<Lookups> = LazyLock::new(Lookups::default);
        let many = |_: &str| Ok((0..64).map(|port| ([127, 0, 0, 1], port).into()).collect());
        let mut seen = BTreeSet::new();
        for _ in 0..200 {
            let found = look_up_by(&MANY, "many:7", false, many).await.unwrap();
            assert_eq!(found.len(), limits::DIAL_ADDRESSES_MAX);
            assert!(found.is_sorted());
            seen.extend(found);
        }
        assert_eq!(seen.len(), 64);
    }

    #[tokio::test]
    async fn names_are_looked_up() {
        let found = look_up("localhost:7", true).await.unwrap();
        assert!(!found.is_empty() && found.iter().all(|a| a.ip().is_loopback() && a.port() == 7));
        let error = look_up("no-such-node.invalid:7", false).await.unwrap_err().to_string();
        assert!(error.starts_with("the name `no-such-node.invalid` "), "{error}");
        // The first interface of each network of Linux is `lo`.
        let found = look_up("[fe80::1%lo]:7", false).await.unwrap();
        assert_eq!(found, ["[fe80::1%1]:7".parse::<SocketAddr>().unwrap()]);
        let error = look_up("[fe80::1%nope]:7", false).await.unwrap_err().to_string();
        assert!(error.starts_with("the name `[fe80::1%nope]` does not resolve: "), "{error}");
    }
}
