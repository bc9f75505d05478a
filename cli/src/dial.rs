//! A link of a node of its own to the serving side, or the reason why there is none.

use std::time::{Duration, Instant};

use ringpost::limits::LEND_FROM;
use ringpost::net::{LinkCause, Network};
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use tokio::sync::Mutex;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::reasons::Reasons;
use crate::service::{DESK, Desk, Fetched, Meter, Owner, Regions, Sink};
use crate::settings::{self, GOODBYE};

/// The limit for a dial that reports no failure; most failures are reported sooner.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time in which a link that has ended is told of.
const NEWS_WITHIN: Duration = Duration::from_secs(1);

/// A link to the serving side, with the node of this side, which has no other.
pub(crate) struct Link {
    node: Node,
    /// Events of the node, among them the end of the link. Locked by the one future that uses the
    /// link.
    events: Mutex<Receiver<NodeEvent>>,
    /// The name of the other node.
    pub(crate) peer: String,
    pub(crate) desk: ActorRef<Desk>,
    /// The fabric that carries it.
    pub(crate) fabric: &'static str,
    pub(crate) encrypted: bool,
    /// The time from the start of the dial.
    pub(crate) took: Duration,
    /// Better fabrics that were tried before and failed, each with its reason.
    pub(crate) passed_over: Vec<String>,
}

/// Sinks of the serving side, which end when this does.
pub(crate) struct Sinks {
    owner: ActorRef<Owner>,
    /// Says how many messages all sinks have handled.
    pub(crate) meter: ActorRef<Meter>,
    pub(crate) sinks: Vec<ActorRef<Sink>>,
}

impl Link {
    /// Starts a node that has this network, and dials the serving side.
    ///
    /// # Errors
    /// [`Failure`]: the node does not start, or the first dial does not lead to a link.
    pub(crate) async fn dial(
        address: &str,
        network: Network,
        reasons: &Reasons,
    ) -> Result<Self, Failure> {
        reasons.forget();
        let node = settings::client(address, network)?.start().await?;
        let start = Instant::now();
        let why = tokio::select! {
            linked = node.ready(1) => match linked {
                Ok(()) => return Link::over(node, address, start.elapsed(), reasons).await,
                Err(error) => error.to_string(),
            },
            why = reasons.failure() => why,
            () = tokio::time::sleep(PATIENCE) => format!("no link within {PATIENCE:?}"),
        };
        node.shutdown(GOODBYE).await;
        let remedy = remedy(&why);
        Err(Failure::Unreached { address: address.into(), why, remedy })
    }

    async fn over(
        node: Node,
        address: &str,
        took: Duration,
        reasons: &Reasons,
    ) -> Result<Self, Failure> {
        // Subscribed before the snapshot, so that a link that ends later is reported by an event.
        let events = Mutex::new(node.events());
        let snapshot = node.snapshot();
        let linked = snapshot.peers.iter().find_map(|peer| Some((peer, peer.link.as_ref()?)));
        let Some((peer, link)) = linked else {
            node.shutdown(GOODBYE).await;
            let (why, remedy) = ("the link was lost at once".into(), remedy(""));
            return Err(Failure::Unreached { address: address.into(), why, remedy });
        };
        let (name, fabric, encrypted) = (peer.name.to_string(), link.fabric, link.encrypted);
        let desk = match node.actor(&format!("{name}/{DESK}")).await {
            Ok(desk) => desk,
            Err(why) => {
                node.shutdown(GOODBYE).await;
                let (address, why) = (address.into(), why.to_string());
                return Err(Failure::NotServing { address, node: name, why });
            }
        };
        let passed_over = reasons.passed_over();
        Ok(Link { node, events, peer: name, desk, fabric, encrypted, took, passed_over })
    }

    /// Asks the serving side to spawn `count` sinks.
    ///
    /// # Errors
    /// [`Failure`] when it does not answer or refuses.
    pub(crate) async fn sinks(&self, count: usize) -> Result<Sinks, Failure> {
        let owner = self.node.spawn_anonymous(Owner).await?;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let opened = self.desk.open(count, owner.clone()).await?;
        let meter = opened.map_err(Failure::OtherSide)?;
        let sinks = meter.sinks().await?;
        Ok(Sinks { owner, meter, sinks })
    }

    /// Returns the regions of the serving side.
    ///
    /// # Errors
    /// [`Failure`] when it does not answer, or has none.
    pub(crate) async fn regions(&self) -> Result<Regions, Failure> {
        let asked = self.desk.open_regions().await;
        let regions = asked.map_err(|error| self.unanswered(error, "shares no region"))?;
        regions.map_err(Failure::OtherSide)
    }

    /// Returns how many messages of this size, of both directions, were lent so far; `None` if they
    /// are so small that none is.
    ///
    /// # Errors
    /// [`Failure`] when the serving side does not say.
    pub(crate) async fn fetches(
        &self,
        sinks: &Sinks,
        bytes: usize,
    ) -> Result<Option<Fetched>, Failure> {
        if bytes < LEND_FROM as usize {
            return Ok(None);
        }
        let there = sinks.meter.count_fetched().await;
        let there =
            there.map_err(|error| self.unanswered(error, "does not count what it fetches"))?;
        let here = Fetched::by(&self.node, &self.peer);
        let (fetched, refused) = (here.fetched + there.fetched, here.refused + there.refused);
        Ok(Some(Fetched { fetched, refused }))
    }

    /// Returns the failure of an ask; `lacks` says what the peer misses if its release is too old.
    fn unanswered(&self, error: AskError, lacks: &'static str) -> Failure {
        match error.cause {
            AskCause::NotSent(Cause::NotAccepted) => {
                Failure::Older { peer: self.peer.clone(), lacks }
            }
            _ => error.into(),
        }
    }

    /// Awaits `used` as long as the link is up. A message in flight is lost with the link, and the
    /// next one would go over another link, perhaps by another fabric.
    ///
    /// # Errors
    /// [`Failure::Lost`] if the link ends, else the failure of `used`.
    pub(crate) async fn while_up<T>(
        &self,
        used: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut events = self.events.lock().await;
        let outcome = tokio::select! {
            biased;
            cause = lost(&mut events) => return Err(self.lost(cause)),
            outcome = used => outcome,
        };
        let Err(failure @ (Failure::Ask(_) | Failure::Tell(_) | Failure::Region(_))) = outcome
        else {
            return outcome;
        };
        // An operation may report the lost link before the node's event does.
        let cause = timeout(NEWS_WITHIN, lost(&mut events)).await;
        Err(cause.map_or(failure, |cause| self.lost(cause)))
    }

    fn lost(&self, cause: LinkCause) -> Failure {
        Failure::Lost { peer: self.peer.clone(), cause }
    }

    /// Ends the link and its node.
    pub(crate) async fn end(self) {
        self.node.shutdown(GOODBYE).await;
    }
}

/// Waits until the only link of a node ends, and returns why.
async fn lost(events: &mut Receiver<NodeEvent>) -> LinkCause {
    loop {
        match events.recv().await {
            Ok(NodeEvent::LinkDown { cause, .. }) => return cause,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return LinkCause::Shutdown,
        }
    }
}

impl Drop for Sinks {
    fn drop(&mut self) {
        // An owner that has already ended needs no request.
        drop(self.owner.request_stop());
    }
}

/// Returns the first thing to do about a link that did not come up, or failed. A reason of a fabric
/// begins with its name.
pub(crate) fn remedy(why: &str) -> &'static str {
    /// Pairs of a text in a reason and the advice for it; the first match is used.
    const REMEDIES: [(&str, &str); 7] = [
        ("secrets differ", "set RINGPOST_SECRET to the same text on both machines"),
        (
            "refused (os error",
            "start `ringpost perf serve` there, and let its TCP port through firewalls",
        ),
        ("does not resolve", "look at the name: a DNS server, or /etc/hosts, has to know it"),
        ("protocol version", "run the same release of Ringpost on both machines"),
        (
            "no fabric that both",
            "give both machines the same RINGPOST_ENCRYPTION, and the same fabrics: run `ringpost \
             doctor` on both",
        ),
        (
            "cannot lock",
            "raise the memory that may be locked: `ulimit -l unlimited`, or LimitMEMLOCK=infinity \
             in systemd",
        ),
        (
            "verbs: ",
            "let UDP port 4791 through firewalls (RoCE), see that both ports are in one VLAN or \
             partition, and give switches and interfaces an MTU of 4200 or more, or 1500 \
             everywhere",
        ),
    ];
    const ELSE: &str = "see that the machine is up and its TCP port open, and look at the log \
        there with RUST_LOG=info";
    REMEDIES.iter().find(|(words, _)| why.contains(words)).map_or(ELSE, |(_, remedy)| remedy)
}
