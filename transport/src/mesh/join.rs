//! From two proven nodes to a link: which connection, which fabric.
//!
//! - **MS-1 one link per pair**: of two nodes the lower-named one decides. It sends COMMIT on the
//!   first connection whose handshake completes, whoever dialled, and refuses the others with
//!   `DialRace`. Nothing is allocated for a link before COMMIT.
//! - **MS-2 newcomers**: who claims to be a node that is linked makes this node ask the old
//!   connection for a sign of life. If one comes within `DUPLICATE_PROBE_TIMEOUT` the newcomer is
//!   refused, otherwise the old link is closed and makes way.
//! - **MS-7 word first**: after COMMIT each side says what it consumed of the last link (PA-2), and
//!   offers nothing before it has heard the other's: an OFFER says that it was heard.
//! - **MS-3 same choice**: both sides go through the fabrics that both have, in the order of the
//!   lower-named one, and leave each candidate together: a link is used when both said READY.
//! - **MS-8 no frame too early**: a frame is sent when the peer said CONNECTED. An adapter that has
//!   to send again, because the peer's queue pair is not ready, soon takes it for gone.

use std::sync::Arc;

use tokio::time::timeout;

use crate::bootstrap::{Channel, Failure, Hello, Message, OfferMade, Rejection};
use crate::cause::LinkCause;
use crate::driver::{Connected, Offer, Prepared, Reports};
use crate::fabric::{Fabric, Side};
use crate::limits;
use crate::mutants::planted;

use super::bond::Bond;
use super::carrier::Carrier;
use super::claim::{Claim, Unclaimed};
use super::peer::Peer;
use super::resync::resync;
use super::session::Session;
use super::table::Table;

/// A connection of two proven nodes.
pub(super) struct Met {
    /// What carries their messages.
    pub(super) channel: Channel,
    /// Who the peer is.
    pub(super) hello: Hello,
    /// Who dialled.
    pub(super) side: Side,
}

/// Makes a connection into a link. After a failure the peer has been told.
///
/// # Errors
/// [`Failure`]; [`Failure::is_dial_race`] when another connection was chosen.
pub(super) async fn join(table: &Arc<Table>, mut met: Met) -> Result<Session, Failure> {
    let outcome = tokio::select! {
        biased;
        () = table.board.closing() => Err(Failure::Rejected(Rejection::ShuttingDown)),
        outcome = commit_and_choose(table, &mut met) => outcome,
    };
    match outcome {
        Ok((claim, carrier)) if claim.link_up(carrier.running.link.clone()) => {
            Ok(Session::new(table.clone(), claim, met.channel, carrier))
        }
        Ok(_) => {
            met.channel.close(&Message::Reject(Rejection::ShuttingDown));
            Err(Failure::Rejected(Rejection::ShuttingDown))
        }
        Err(failure) => {
            // Who dialled notes it with the address.
            if met.side == Side::Acceptor && !failure.is_dial_race() {
                table.peer(&met.hello.node.name).note(failure.to_string());
            }
            if let Some(rejection) = failure.answer() {
                met.channel.close(&Message::Reject(rejection));
            }
            Err(failure)
        }
    }
}

async fn commit_and_choose(table: &Arc<Table>, met: &mut Met) -> Result<(Claim, Carrier), Failure> {
    let decides = table.identity.node.name < met.hello.node.name;
    let peer = table.peer(&met.hello.node.name);
    let mut epoch = (table.identity.entropy.u128() as u64).max(1);
    if !decides {
        epoch = match soon(&mut met.channel).await? {
            Message::Commit { epoch } if epoch != 0 => epoch,
            other => return Err(Failure::unexpected(&other)),
        }
    }
    let mut claim = seat(&peer, &met.hello, decides).await?;
    if decides {
        met.channel.send(&Message::Commit { epoch }).await?;
    }
    let carrier = tokio::select! {
        biased;
        () = claim.abandoned() => return Err(Failure::Rejected(Rejection::DialRace)),
        carrier = async {
            resync(&peer, &mut met.channel, decides).await?;
            choose(table, met, epoch, decides).await
        } => carrier?,
    };
    Ok((claim, carrier))
}

/// The peer's next message, which it sends at once.
async fn soon(channel: &mut Channel) -> Result<Message, Failure> {
    timeout(limits::COMMIT_TIMEOUT, channel.recv())
        .await
        .map_err(|_| Failure::Rejected(Rejection::TooSlow))?
}

/// Claims the peer, from an older connection if it does not live (MS-2).
async fn seat(peer: &Arc<Peer>, hello: &Hello, decides: bool) -> Result<Claim, Failure> {
    loop {
        let bond = match Claim::new(peer, hello) {
            Ok(claim) => return Ok(claim),
            Err(Unclaimed::Closing) => return Err(Failure::Rejected(Rejection::ShuttingDown)),
            Err(Unclaimed::Taken(bond)) => bond,
        };
        let (Bond::Joining(occupant) | Bond::Linked(occupant, _)) = &bond else { continue };
        let same = occupant.incarnation == hello.node.incarnation;
        // The lower-named node chose anew, so the older connection is over for it (MS-1).
        let over = (same && !decides) || planted!(AnyRaceWins);
        let joining = matches!(bond, Bond::Joining(_));
        if !over && (joining || (!planted!(SilencedDuplicate) && occupant.answers().await)) {
            let why =
                if same || joining { Rejection::DialRace } else { Rejection::DuplicateNodeName };
            return Err(Failure::Rejected(why));
        }
        bond.close(if same { LinkCause::Replaced } else { LinkCause::PeerRestarted });
        if timeout(limits::COMMIT_TIMEOUT, occupant.gone()).await.is_err() {
            return Err(Failure::Rejected(Rejection::DialRace));
        }
    }
}

/// Connects the best fabric that both nodes can use (MS-3).
async fn choose(
    table: &Table,
    met: &mut Met,
    epoch: u64,
    decides: bool,
) -> Result<Carrier, Failure> {
    let peer = met.hello.node.name.clone();
    let mut passed_over = Vec::new();
    for fabric in candidates(&table.network.fabrics, &met.hello.fabrics, decides) {
        match attempt(table, met, epoch, &fabric).await? {
            Ok(carrier) => {
                let fabric = fabric.name();
                if passed_over.is_empty() {
                    tracing::info!(%peer, fabric, theirs = ?met.hello.fabrics, "fabric chosen");
                } else {
                    tracing::warn!(%peer, fabric, ?passed_over, "better ones did not come up");
                }
                return Ok(carrier);
            }
            Err(why) => passed_over.push(format!("{}: {why}", fabric.name())),
        }
    }
    let theirs = &met.hello.fabrics;
    tracing::warn!(%peer, ?passed_over, ?theirs, "no fabric could be connected");
    Err(Failure::Rejected(Rejection::NoCommonFabric))
}

/// The fabrics that both have, in the order of the node that decides.
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

/// Tries one fabric: OFFER, CONNECTED, READY, from both sides each. `Ok(Err(why))` when a side gave
/// it up.
async fn attempt(
    table: &Table,
    met: &mut Met,
    epoch: u64,
    fabric: &Arc<dyn Fabric>,
) -> Result<Result<Carrier, String>, Failure> {
    let name = fabric.name();
    let prepared = match Prepared::new(fabric, &table.profile, met.side.clone()) {
        Ok(prepared) => prepared,
        Err(error) => return give_up(met, name, error.to_string()).await,
    };
    met.channel.send(&offer(name, prepared.offer())).await?;
    let theirs = match answer(&mut met.channel, name).await? {
        Answer::Offer(offer) => offer,
        Answer::Pass(why) => return Ok(Err(given_up(&why))),
        other => return Err(other.unexpected(name)),
    };
    let reports = Reports {
        peer: met.hello.node.clone(),
        host: table.board.host().clone(),
        past: table.peer(&met.hello.node.name).past.clone(),
        epoch,
    };
    let connected = match connect(prepared, theirs, reports).await {
        Ok(connected) => connected,
        Err(why) => return give_up(met, name, why).await,
    };
    met.channel.send(&Message::Connected { fabric: name.into() }).await?;
    match answer(&mut met.channel, name).await? {
        Answer::Connected => {}
        Answer::Pass(why) => return Ok(Err(given_up(&why))),
        other => return Err(other.unexpected(name)),
    }
    let carrier = match confirm(connected).await {
        Ok(carrier) => carrier,
        Err(why) => return give_up(met, name, why).await,
    };
    met.channel.send(&Message::Ready { fabric: name.into() }).await?;
    match answer(&mut met.channel, name).await? {
        Answer::Ready => Ok(Ok(carrier)),
        Answer::Pass(why) => {
            end(carrier).await;
            Ok(Err(given_up(&why)))
        }
        other => Err(other.unexpected(name)),
    }
}

/// Tells the peer, whose own answer is of no interest any more.
async fn give_up(
    met: &mut Met,
    fabric: &'static str,
    why: String,
) -> Result<Result<Carrier, String>, Failure> {
    let reason = why.clone();
    met.channel.send(&Message::Pass { fabric: fabric.into(), reason }).await?;
    answer(&mut met.channel, fabric).await?;
    Ok(Err(why))
}

fn given_up(why: &str) -> String {
    format!("given up by the peer: {why}")
}

async fn connect(prepared: Prepared, theirs: Offer, reports: Reports) -> Result<Connected, String> {
    timeout(limits::CONNECT_TIMEOUT, prepared.connect(theirs, reports))
        .await
        .map_err(|_| format!("not connected within {:?}", limits::CONNECT_TIMEOUT))?
        .map_err(|error| error.to_string())
}

/// Sends and awaits a frame of full size.
async fn confirm(connected: Connected) -> Result<Carrier, String> {
    let mut carrier = Carrier { running: connected.start() };
    let why = match timeout(limits::CONFIRM_TIMEOUT, carrier.running.confirmed()).await {
        Ok(Ok(())) => return Ok(carrier),
        Ok(Err(cause)) => cause.to_string(),
        Err(_) => format!("frames did not go through within {:?}", limits::CONFIRM_TIMEOUT),
    };
    end(carrier).await;
    Err(why)
}

async fn end(mut carrier: Carrier) {
    carrier.running.link.close(LinkCause::Closed);
    carrier.running.ended().await;
}

/// What the peer says about the fabric that is tried.
enum Answer {
    Offer(Offer),
    Connected,
    Ready,
    Pass(String),
}

impl Answer {
    /// It does not belong here.
    fn unexpected(self, fabric: &str) -> Failure {
        let fabric = fabric.to_owned();
        Failure::unexpected(&match self {
            Answer::Offer(made) => offer(&fabric, made),
            Answer::Connected => Message::Connected { fabric },
            Answer::Ready => Message::Ready { fabric },
            Answer::Pass(reason) => Message::Pass { fabric, reason },
        })
    }
}

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
        Message::Pass { fabric: named, reason } if named == fabric => Ok(Answer::Pass(reason)),
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
