//! Links to another machine, tried one after the other with messages of every size class.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ringpost::net::Network;
use ringpost::prelude::*;

use super::report::{Line, Report};
use crate::dial::{Link, remedy};
use crate::failure::Failure;
use crate::networks::{self, Rail};
use crate::reasons::Reasons;
use crate::service::{Mirror, Sink};

/// The size classes, with the bytes of a message of each. Slots have 8 KiB unless a profile says
/// otherwise, and frames are inline up to 236 bytes with their headers.
const CLASSES: [(&str, usize); 4] = [
    ("inline, 32 B", 32),
    ("one slot, 4 KiB", 4 << 10),
    ("several slots, 64 KiB", 64 << 10),
    ("1 MiB", 1 << 20),
];

/// Round trips of each size class.
const ROUNDS: usize = 20;

/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The tries so far.
struct Tries<'a> {
    address: &'a str,
    reasons: &'a Reasons,
    report: &'a mut Report,
    made: usize,
}

/// Tries each way to link to the serving side, and reports how it went. Returns how many ways there
/// were.
///
/// # Errors
/// When standard output is closed.
pub(super) async fn examine(
    address: &str,
    reasons: &Reasons,
    report: &mut Report,
) -> io::Result<usize> {
    let mut tries = Tries { address, reasons, report, made: 0 };
    match tries.all().await {
        Ok(()) => {}
        Err(Failure::System(error)) => return Err(error),
        Err(failure) => {
            let (what, remedy) = told(&failure);
            tries.report.line(Line::fault(what, &remedy))?;
        }
    }
    Ok(tries.made)
}

impl Tries<'_> {
    async fn all(&mut self) -> Result<(), Failure> {
        let first = Link::dial(self.address, Network::best(), self.reasons).await?;
        let encrypted = if first.encrypted { "encrypted" } else { "not encrypted" };
        self.say(format!("a link to {} uses {}, {encrypted}", first.peer, first.fabric))?;
        self.fabrics(&first).await?;
        first.end().await;
        Ok(())
    }

    async fn fabrics(&mut self, first: &Link) -> Result<(), Failure> {
        let setting = std::env::var("RINGPOST_ENCRYPTION").unwrap_or_default();
        let is_near = is_loopback(self.address).await;
        for fabric in ["tcp", "tcps"] {
            let unused = match (fabric, setting.as_str()) {
                ("tcps", _) | (_, "off") => None,
                (_, "required") => Some("encryption is required (RINGPOST_ENCRYPTION)"),
                _ if is_near => None,
                _ => Some("links to other machines are encrypted (RINGPOST_ENCRYPTION)"),
            };
            match (unused, networks::only(fabric)) {
                (Some(why), _) => self.say(format!("{fabric}: not tried: {why}"))?,
                (None, Some(network)) => self.attempt(fabric, self.address, network).await?,
                (None, None) => {}
            }
        }
        if setting == "required" {
            return self.say("verbs: not tried: encryption is required (RINGPOST_ENCRYPTION)");
        }
        match (networks::rails(), first.desk.rails().await?) {
            (Ok(ours), Ok(theirs)) => self.pairs(first, &ours, &theirs).await,
            (Err(here), Err(there)) => {
                self.say(format!("verbs: not tried: here, {here}; there, {there}"))
            }
            (here, there) => {
                let why = match (here, there) {
                    (Err(here), _) => format!("there is RDMA there; here, {here}"),
                    (_, Err(there)) => format!("there is RDMA here; there, {there}"),
                    _ => String::new(),
                };
                self.failed("verbs", &why, "run `ringpost doctor` on the machine that has none")
            }
        }
    }

    /// Tries RDMA as links do, and then each pair of addresses of the same kind.
    async fn pairs(&mut self, first: &Link, ours: &[Rail], theirs: &[Rail]) -> Result<(), Failure> {
        if let Some(network) = networks::only("verbs") {
            self.attempt("verbs", self.address, network).await?;
        }
        let host = self.address.rsplit_once(':').map_or(self.address, |(host, _)| host);
        let mut pairs = Vec::new();
        for here in ours {
            pairs.extend(theirs.iter().map(|there| (here, there)));
        }
        for (here, there) in pairs {
            let way = format!("verbs, {here} to {there}");
            if here.kind != there.kind {
                self.say(format!("{way}: not tried: {} and {}", here.kind, there.kind))?;
                continue;
            }
            let port = first.desk.pair(there.clone()).timeout(PATIENCE).await?;
            match (port, networks::at(here)) {
                (Ok(port), Ok(network)) => {
                    self.attempt(&way, &format!("{host}:{port}"), network).await?;
                }
                (Err(why), _) => {
                    self.failed(&way, &format!("the other side says: {why}"), remedy(&why))?
                }
                (_, Err(why)) => self.failed(&way, &why, remedy(&why))?,
            }
        }
        Ok(())
    }

    /// Makes a link by one way and sends messages of each size class over it.
    async fn attempt(&mut self, way: &str, address: &str, network: Network) -> Result<(), Failure> {
        let link = match Link::dial(address, network, self.reasons).await {
            Ok(link) => link,
            Err(failure) => {
                let (what, remedy) = told(&failure);
                return self.failed(way, &what, &remedy);
            }
        };
        let mut class = "the first";
        let outcome = link.while_up(times(&link, &mut class)).await;
        let (took, fabric) = (shown(link.took), link.fabric);
        link.end().await;
        match outcome {
            Ok(times) => {
                self.made += 1;
                self.say(format!("{way}: linked in {took}; {}", times.join("; ")))
            }
            Err(failure) => {
                let why = format!("linked in {took}, but a message ({class}) failed: {failure}");
                self.failed(way, &why, remedy(&format!("{fabric}: {failure}")))
            }
        }
    }

    fn failed(&mut self, way: &str, why: &str, remedy: &str) -> Result<(), Failure> {
        self.made += 1;
        self.say(Line::fault(format!("{way}: {why}"), remedy))
    }

    fn say(&mut self, line: impl Into<Line>) -> Result<(), Failure> {
        Ok(self.report.line(line)?)
    }
}

/// Returns the median round-trip time of each size class, in words. Sets `class` to the class that
/// is being tried.
async fn times(link: &Link, class: &mut &'static str) -> Result<Vec<String>, Failure> {
    let sinks = link.sinks(1).await?;
    let mut times = Vec::new();
    for (name, bytes) in CLASSES {
        *class = name;
        let median = median(&sinks.sinks[0], bytes).await?;
        times.push(format!("{name}: {}", shown(median)));
    }
    Ok(times)
}

async fn median(sink: &ActorRef<Sink>, bytes: usize) -> Result<Duration, Failure> {
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let answer = sink.ask(Mirror { payload: vec![7; bytes] }).timeout(PATIENCE).await?;
        times.push(start.elapsed());
        if answer.len() != bytes {
            return Err(Failure::WrongAnswer { got: answer.len(), expected: bytes });
        }
    }
    times.sort_unstable();
    Ok(times[ROUNDS / 2])
}

/// Returns what failed, and what to do about it.
fn told(failure: &Failure) -> (String, String) {
    match failure {
        Failure::Unreached { why, remedy, .. } => (format!("no link: {why}"), (*remedy).into()),
        Failure::Environment(_) | Failure::Start(_) => {
            (failure.to_string(), "see what `ringpost doctor` says of this machine".into())
        }
        other => (other.to_string(), "start `ringpost perf serve` there".into()),
    }
}

/// Returns true if a node at this address is on this machine.
async fn is_loopback(address: &str) -> bool {
    match tokio::net::lookup_host(address).await {
        Ok(found) => {
            let found: Vec<SocketAddr> = found.collect();
            !found.is_empty() && found.iter().all(|address| address.ip().is_loopback())
        }
        Err(_) => false,
    }
}

fn shown(time: Duration) -> String {
    match time.as_secs_f64() * 1e6 {
        micros if micros < 1000.0 => format!("{micros:.1} us"),
        micros => format!("{:.2} ms", micros / 1000.0),
    }
}
