//! The choice of the fabric that carries a link, and of its way to the peer.
//!
//! Both sides go through the fabrics that both have, in the order of the lower-named one, and
//! through the ways of each, best first; they leave each candidate together: the side that gives
//! one up says whether there is another way to try the fabric. A link is used when both said READY.
//! All ways of a fabric together have half of the silence that finds a node down, unless no other
//! fabric is left. Each side remembers the ways that failed for a while and names them in its next
//! offer, so that both try them last.
//!
//! A frame is sent when the peer said CONNECTED, and not earlier: an adapter that has to send
//! again, because the peer's queue pair is not ready, soon takes it for gone.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use crate::bootstrap::{Channel, Failure, Hello, Message, OfferMade, Rejection};
use crate::cause::LinkCause;
use crate::driver::{Connected, Offer, Prepared, Reports, Running};
use crate::fabric::{Fabric, FabricError, Protection, Side};
use crate::id::NodeId;
use crate::limits;
use crate::log;
use crate::profile::Profile;

use super::table::Table;

/// A bootstrap connection whose two nodes have proven themselves.
pub(super) struct Met {
    /// The channel that carries their messages.
    pub(super) channel: Channel,
    /// The peer, as it introduced itself.
    pub(super) hello: Hello,
    /// The side of this node: it dialled or accepted.
    pub(super) side: Side,
    /// The fabrics that this node named on it, best first: it uses no other.
    pub(super) fabrics: Vec<Arc<dyn Fabric>>,
}

/// A running link that cannot be forgotten: it is closed when this is dropped.
pub(super) struct Carrier {
    /// The link.
    pub(super) running: Running,
    /// The fabric that it runs over.
    pub(super) fabric: Arc<dyn Fabric>,
    /// The number of its way to the peer; `None` where the fabric named none.
    pub(super) way: Option<u32>,
    /// The best fabric, if that did not come up.
    pub(super) better: Option<Better>,
}

/// The best fabric, if it did not come up, and its [`changes`](Fabric::changes) before the try.
pub(super) struct Better {
    pub(super) fabric: Arc<dyn Fabric>,
    pub(super) changes: u64,
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // A link that ended before keeps its cause.
        self.running.link.close(LinkCause::of_drop());
        self.running.link.reach().end();
    }
}

/// A candidate that does not carry the link.
struct GivenUp {
    why: String,
    /// True if another way to try the same fabric is next.
    again: bool,
}

/// The cause for which a candidate made no link.
enum Unmade {
    /// This side gives it up; the peer does not know.
    Here(GivenUp),
    /// The peer gave it up.
    ByPeer(GivenUp),
    /// The bootstrap connection is of no use any more.
    Failed(Failure),
}

impl From<Failure> for Unmade {
    fn from(failure: Failure) -> Self {
        Unmade::Failed(failure)
    }
}

/// Connects the best fabric that both nodes can use, by the best of its ways.
///
/// # Errors
/// [`Failure`]: nothing could be connected, or the peer is gone or does not keep to the rules.
pub(super) async fn choose(
    table: &Table,
    met: &mut Met,
    epoch: u64,
    decides: bool,
) -> Result<Carrier, Failure> {
    let mut passed_over = Vec::new();
    let mut changes = 0;
    let peer = table.peer(&met.hello.node.name);
    let fabrics = candidates(&met.fabrics, &met.hello.fabrics, decides);
    for (place, fabric) in fabrics.iter().enumerate() {
        let is_last = place + 1 == fabrics.len();
        let asked = met.hello.times.down_after.max(limits::DOWN_AFTER_MIN);
        let patience = table.profile.down_after.min(asked) / 2;
        let avoid = peer.ways_to_avoid(fabric.name());
        if place == 0 {
            changes = fabric.changes();
        }
        let mut trial = Trial::new(fabric.clone(), avoid, (!is_last).then_some(patience));
        // However often the peer says that there is another way.
        for _ in 0..limits::WAYS_MAX {
            let tried = attempt(table, met, epoch, &mut trial).await?;
            if let Some(way) = trial.way {
                peer.note_way(fabric.name(), way, tried.is_ok());
            }
            match tried {
                Ok(mut carrier) => {
                    let best = fabrics.first().filter(|_| place > 0);
                    carrier.way = trial.way;
                    carrier.better = best.map(|best| Better { fabric: best.clone(), changes });
                    report(table, met, Some(&**fabric), &passed_over);
                    return Ok(carrier);
                }
                Err(GivenUp { why, again }) => {
                    passed_over.push(format!("{}: {why}", fabric.name()));
                    if !again {
                        break;
                    }
                }
            }
        }
    }
    report(table, met, None, &passed_over);
    Err(Failure::Rejected(Rejection::NoCommonFabric))
}

/// The ways of one fabric, as far as they were tried for one link.
struct Trial {
    fabric: Arc<dyn Fabric>,
    /// The ways that failed for earlier links.
    avoid: Vec<u32>,
    tried: Vec<u32>,
    /// The way of the attempt at hand, once it is known.
    way: Option<u32>,
    /// When the fabric is given up, and the least time before that with which another way is tried.
    until: Option<(Instant, Duration)>,
}

impl Trial {
    fn new(fabric: Arc<dyn Fabric>, avoid: Vec<u32>, patience: Option<Duration>) -> Self {
        let until = patience.map(|patience| (Instant::now() + patience, patience / 8));
        Trial { fabric, avoid, tried: Vec::new(), way: None, until }
    }

    /// Takes the best of these ways that was not tried. Returns its place.
    fn take(&mut self, ways: &[u32]) -> usize {
        let place = ways.iter().position(|way| !self.tried.contains(way));
        self.way = place.map(|place| ways[place]);
        self.tried.extend(self.way);
        place.unwrap_or(0)
    }

    /// Returns true if there is another one of these ways, and time to try it.
    fn goes_on(&self, ways: &[u32]) -> bool {
        let is_left = ways.iter().any(|way| !self.tried.contains(way));
        let is_late = self.until.is_some_and(|(until, least)| Instant::now() + least > until);
        is_left && !is_late && self.tried.len() < limits::WAYS_MAX
    }

    /// Returns how long a step may take that has `limit` otherwise.
    fn patience(&self, limit: Duration) -> Duration {
        let left = |(until, _): (Instant, _)| until.saturating_duration_since(Instant::now());
        self.until.map_or(limit, |until| limit.min(left(until)))
    }
}

/// Logs which fabric was chosen, and why no better one was. The same cause recurs at each dial: it
/// is logged as a warning only when it is new.
fn report(table: &Table, met: &Met, chosen: Option<&dyn Fabric>, passed_over: &[String]) {
    let theirs = &met.hello.fabrics;
    let peer = table.peer(&met.hello.node.name);
    let name = peer.name();
    let encrypted = chosen.map(|fabric| fabric.protection() == Protection::Encrypted);
    let chosen = chosen.map(|fabric| fabric.name());
    if let (Some(fabric), []) = (chosen, passed_over) {
        // The same one again is no news: the link itself is.
        let seals = encrypted == Some(true);
        if peer.clear_complaint(fabric, seals) && table.events.admit_line("fabrics chosen") {
            peer.note_fabric(fabric, seals);
            log::info!(peer = %name, fabric, encrypted, ?theirs, "fabric chosen");
        }
        return;
    }
    let cause = if chosen.is_some() { "worse_fabric" } else { "no_common_fabric" };
    let suppressed = peer.admit_complaint(&passed_over.join("; "), &table.peer_warnings, cause);
    match (chosen, suppressed) {
        (_, None) => {
            log::debug!(
                peer = %name,
                ?chosen,
                encrypted,
                ?passed_over,
                "fabric selection unchanged"
            )
        }
        (Some(fabric), Some(suppressed)) => {
            log::warn!(
                peer = %name,
                fabric,
                encrypted,
                ?passed_over,
                suppressed,
                "a better fabric did not come up"
            );
        }
        (None, Some(suppressed)) => {
            let ours: Vec<_> = met.fabrics.iter().map(|fabric| fabric.name()).collect();
            log::warn!(
                peer = %name,
                ?passed_over,
                ?ours,
                ?theirs,
                suppressed,
                "no fabric could be connected"
            );
        }
    }
}

/// Returns the fabrics that both have, in the order of the node that decides.
fn candidates(ours: &[Arc<dyn Fabric>], theirs: &[String], decides: bool) -> Vec<Arc<dyn Fabric>> {
    let mut common: Vec<_> = ours
        .iter()
        .filter_map(|fabric| {
            let place = theirs.iter().position(|name| name == fabric.name())?;
            Some((place, fabric.clone()))
        })
        .collect();
    if !decides {
        common.sort_by_key(|(place, _)| *place);
    }
    common.into_iter().map(|(_, fabric)| fabric).collect()
}

/// Tries one way of one fabric. When this side gives it up, the peer is told.
async fn attempt(
    table: &Table,
    met: &mut Met,
    epoch: u64,
    trial: &mut Trial,
) -> Result<Result<Carrier, GivenUp>, Failure> {
    trial.way = None;
    match establish(table, met, epoch, trial).await {
        Ok(carrier) => Ok(Ok(carrier)),
        Err(Unmade::ByPeer(given_up)) => Ok(Err(given_up)),
        Err(Unmade::Here(given_up)) => give_up(met, trial.fabric.name(), given_up).await.map(Err),
        Err(Unmade::Failed(failure)) => Err(failure),
    }
}

/// Makes a queue pair for a link, on a blocking thread if the fabric may block. Each peer has one
/// such thread at a time: it goes on after a timeout, and the next attempt waits for it.
///
/// # Errors
/// It was not made, or not in time: the reason, in words.
async fn prepare(
    making: &Arc<AsyncMutex<()>>,
    fabric: &Arc<dyn Fabric>,
    profile: &Profile,
    demands: (Side, Vec<u8>, Vec<u32>),
    patience: Duration,
) -> Result<Prepared, String> {
    if !fabric.blocks() {
        return Prepared::new(fabric, profile, demands).map_err(|error| error.to_string());
    }
    let (fabric, profile) = (fabric.clone(), profile.clone());
    let prepared = async {
        let turn = making.clone().lock_owned().await;
        let make = move || {
            let prepared = Prepared::new(&fabric, &profile, demands);
            drop(turn);
            prepared
        };
        let prepared = spawn_blocking(make).await.map_err(|lost| lost.to_string())?;
        prepared.map_err(|error| error.to_string())
    };
    let late = |_| format!("no queue pair was made within {patience:?}");
    timeout(patience, prepared).await.map_err(late)?
}

/// Makes a link by one way of one fabric: OFFER, CONNECTED, READY, from both sides each.
async fn establish(
    table: &Table,
    met: &mut Met,
    epoch: u64,
    trial: &mut Trial,
) -> Result<Carrier, Unmade> {
    let name = trial.fabric.name();
    let binding = [&met.channel.binding()[..], &epoch.to_le_bytes()].concat();
    let demands = (met.side.clone(), binding, trial.avoid.clone());
    let patience = trial.patience(limits::CONNECT_TIMEOUT);
    let making = &table.peer(&met.hello.node.name).making;
    let prepared = prepare(making, &trial.fabric, &table.profile, demands, patience)
        .await
        .map_err(|why| Unmade::Here(GivenUp { why, again: false }))?;

    met.channel.send(&offer(name, prepared.offer())).await?;
    let theirs = match answer_unless_pass(&mut met.channel, name).await? {
        Answer::Offer(offer) => offer,
        other => return Err(other.unexpected(name).into()),
    };
    let ways = prepared.ways(&theirs);
    let way = trial.take(&ways);
    let trial = &*trial;
    let given_up = |why| Unmade::Here(GivenUp { why, again: trial.goes_on(&ways) });
    let reports = reports(table, &met.hello.node, epoch);
    let patience = trial.patience(limits::CONNECT_TIMEOUT);
    let connecting = prepared.connect(theirs, way, reports);
    let connected = connect(table, connecting, patience).await.map_err(given_up)?;

    met.channel.send(&Message::Connected { fabric: name.into() }).await?;
    match answer_unless_pass(&mut met.channel, name).await? {
        Answer::Connected => {}
        other => return Err(other.unexpected(name).into()),
    }
    let patience = trial.patience(limits::CONFIRM_TIMEOUT);
    let fabric = trial.fabric.clone();
    let carrier = confirm(fabric, connected, patience).await.map_err(given_up)?;

    met.channel.send(&Message::Ready { fabric: name.into() }).await?;
    match answer(&mut met.channel, name).await? {
        Answer::Ready => Ok(carrier),
        Answer::Pass(given_up) => {
            end(carrier).await;
            Err(Unmade::ByPeer(given_up))
        }
        other => Err(other.unexpected(name).into()),
    }
}

/// Returns what the driver of a link to `peer` reports to.
fn reports(table: &Table, peer: &NodeId, epoch: u64) -> Reports {
    Reports {
        peer: peer.clone(),
        host: table.events.host().clone(),
        budget: table.budget.clone(),
        unresolved: table.peer(&peer.name).unresolved.clone(),
        epoch,
    }
}

/// Sends PASS and waits for the peer's answer. If the peer passes too and knows of no other way to
/// try the fabric, there is none.
async fn give_up(
    met: &mut Met,
    fabric: &'static str,
    GivenUp { why, mut again }: GivenUp,
) -> Result<GivenUp, Failure> {
    let reason = why.clone();
    met.channel.send(&Message::Pass { fabric: fabric.into(), again, reason }).await?;
    if let Answer::Pass(theirs) = answer(&mut met.channel, fabric).await? {
        again &= theirs.again;
    }
    Ok(GivenUp { why, again })
}

async fn connect(
    table: &Table,
    connecting: impl Future<Output = Result<Connected, FabricError>> + Send + 'static,
    patience: Duration,
) -> Result<Connected, String> {
    timeout(patience, table.tasks.links(connecting))
        .await
        .map_err(|_| format!("not connected within {patience:?}"))?
        .map_err(|error| error.to_string())
}

/// Sends and awaits a frame of full size.
async fn confirm(
    fabric: Arc<dyn Fabric>,
    connected: Connected,
    patience: Duration,
) -> Result<Carrier, String> {
    let mut carrier = Carrier { running: connected.start(), fabric, way: None, better: None };
    let why = match timeout(patience, carrier.running.confirmed()).await {
        Ok(Ok(())) => return Ok(carrier),
        Ok(Err(cause)) => cause.to_string(),
        Err(_) => format!("frames did not go through within {patience:?}"),
    };
    end(carrier).await;
    Err(why)
}

async fn end(mut carrier: Carrier) {
    carrier.running.link.close(LinkCause::Closed);
    carrier.running.ended().await;
}

/// The peer's message about the fabric that is tried.
enum Answer {
    Offer(Offer),
    Connected,
    Ready,
    Pass(GivenUp),
}

impl Answer {
    /// Returns the failure of a peer whose message does not belong here.
    fn unexpected(self, fabric: &str) -> Failure {
        let fabric = fabric.to_owned();
        Failure::unexpected(&match self {
            Answer::Offer(made) => offer(&fabric, made),
            Answer::Connected => Message::Connected { fabric },
            Answer::Ready => Message::Ready { fabric },
            Answer::Pass(GivenUp { why, again }) => Message::Pass { fabric, again, reason: why },
        })
    }
}

/// Waits for the peer's message about the fabric that is tried. PASS ends the attempt.
async fn answer_unless_pass(channel: &mut Channel, fabric: &'static str) -> Result<Answer, Unmade> {
    match answer(channel, fabric).await? {
        Answer::Pass(given_up) => Err(Unmade::ByPeer(given_up)),
        answer => Ok(answer),
    }
}

/// Waits for the peer's message about the fabric that is tried.
async fn answer(channel: &mut Channel, fabric: &'static str) -> Result<Answer, Failure> {
    let message = timeout(limits::ANSWER_TIMEOUT, channel.recv())
        .await
        .map_err(|_| Failure::Rejected(Rejection::TooSlow))??;
    match message {
        Message::Offer(made) if made.fabric == fabric => Ok(Answer::Offer(Offer {
            ring_slots: made.ring_slots,
            slot_bytes: made.slot_bytes,
            message_bytes_max: made.message_bytes_max,
            link_window_bytes: made.link_window_bytes,
            queue_pair: made.queue_pair,
        })),
        Message::Connected { fabric: named } if named == fabric => Ok(Answer::Connected),
        Message::Ready { fabric: named } if named == fabric => Ok(Answer::Ready),
        Message::Pass { fabric: named, again, reason } if named == fabric => {
            let why = format!("given up by the peer: {reason}");
            Ok(Answer::Pass(GivenUp { why, again }))
        }
        other => Err(Failure::unexpected(&other)),
    }
}

fn offer(fabric: &str, offer: Offer) -> Message {
    Message::Offer(OfferMade {
        fabric: fabric.into(),
        ring_slots: offer.ring_slots,
        slot_bytes: offer.slot_bytes,
        message_bytes_max: offer.message_bytes_max,
        link_window_bytes: offer.link_window_bytes,
        queue_pair: offer.queue_pair,
    })
}
