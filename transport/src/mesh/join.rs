//! From two proven nodes to a link: which connection.
//!
//! - **MS-1 one link per pair**: of two nodes the lower-named one decides. It sends COMMIT on the
//!   first connection whose handshake completes, whichever node dialled it, and refuses the others
//!   with `DialRace`. Nothing is allocated for a link before COMMIT.
//!
//! A newcomer that claims to be a node that is linked makes this node ask the old connection for a
//! sign of life. If one comes within `DUPLICATE_PROBE_TIMEOUT` the newcomer is refused, otherwise
//! the old link is closed and makes way.
//!
//! After COMMIT each side reports how much it consumed of the last link, and offers no fabric
//! before it has heard the other's report (PA-2): an OFFER says so.

use std::mem;
use std::sync::Arc;

use tokio::time::{Instant, timeout, timeout_at};

use crate::bootstrap::{Channel, Failure, Hello, Message, Rejection, Resync, feature};
use crate::cause::LinkCause;
use crate::fabric::Side;
use crate::limits;
use crate::mutants::planted;
use crate::proto::fate::Consumed;
use crate::reach::Means;

use super::choice::{Carrier, Met, choose};
use super::peer::{ConnectionGuard, ConnectionState, Peer, Unavailable};
use super::session::Session;
use super::table::Table;

/// Makes a connection into a link. After a failure the peer has been told.
///
/// # Errors
/// [`Failure`]; [`Failure::is_dial_race`] when another connection was chosen.
pub(super) async fn join(table: &Arc<Table>, mut met: Met) -> Result<Session, Failure> {
    let outcome = tokio::select! {
        biased;
        () = table.events.closing() => Err(Failure::Rejected(Rejection::ShuttingDown)),
        outcome = commit_and_choose(table, &mut met) => outcome,
    };
    match outcome {
        Ok((guard, carrier))
            if attach(table, &met, &carrier) && guard.link_up(carrier.running.link.clone()) =>
        {
            let interval = table.heartbeat_interval(met.hello.times);
            Ok(Session::new(table.clone(), guard, met.channel, carrier, interval))
        }
        Ok(_) => {
            met.channel.close(&Message::Reject(Rejection::ShuttingDown));
            Err(Failure::Rejected(Rejection::ShuttingDown))
        }
        Err(failure) => {
            let is_of_peer = match &failure {
                // It is another node that came by the peer's name.
                Failure::Rejected(Rejection::DuplicateNodeName) => false,
                failure => !failure.is_dial_race(),
            };
            // The node that dialled notes it with the address.
            if met.side == Side::Acceptor && is_of_peer {
                let peer = table.peer(&met.hello.node.name);
                peer.note_answer(failure.to_string());
            }
            if let Some(rejection) = failure.answer() {
                met.channel.close(&Message::Reject(rejection));
            }
            Err(failure)
        }
    }
}

/// Gives a link the means of one-sided access, before any other task has the link.
fn attach(table: &Table, met: &Met, carrier: &Carrier) -> bool {
    let reach = carrier.running.link.reach();
    if met.hello.features & feature::SHARED_MEMORY == 0 {
        reach.bar();
        return true;
    }
    reach.attach(Means {
        peer: met.hello.node.name.clone(),
        fabric: carrier.fabric.clone(),
        way: carrier.way,
        side: met.side.clone(),
        binding: met.channel.binding().to_vec(),
        shares: table.shares.clone(),
        room: table.peer(&met.hello.node.name).lending_room(&table.lending_room),
        runtime: table.tasks.links_runtime().clone(),
        own: table.tasks.own_runtime().clone(),
    });
    true
}

async fn commit_and_choose(
    table: &Arc<Table>,
    met: &mut Met,
) -> Result<(ConnectionGuard, Carrier), Failure> {
    let Hello { node, addresses, .. } = &mut met.hello;
    *addresses = table.allowed(mem::take(addresses), &node.name, &met.channel.peer_address());
    let decides = table.identity.node.name < met.hello.node.name;
    let peer = table.peer(&met.hello.node.name);
    let mut epoch = (table.identity.entropy.u128() as u64).max(1);
    if !decides {
        epoch = match soon(&mut met.channel).await? {
            Message::Commit { epoch } if epoch != 0 => epoch,
            other => return Err(Failure::unexpected(&other)),
        }
    }
    let mut guard = seat(&peer, &met.hello, &met.channel.peer_address(), decides).await?;
    if decides {
        met.channel.send(&Message::Commit { epoch }).await?;
    }
    let carrier = tokio::select! {
        biased;
        () = guard.abandoned() => return Err(Failure::Rejected(Rejection::DialRace)),
        carrier = async {
            resync(&peer, &mut met.channel, decides).await?;
            choose(table, met, epoch, decides).await
        } => carrier?,
    };
    Ok((guard, carrier))
}

/// Returns the peer's next message, which it sends at once.
async fn soon(channel: &mut Channel) -> Result<Message, Failure> {
    timeout(limits::COMMIT_TIMEOUT, channel.recv())
        .await
        .map_err(|_| Failure::Rejected(Rejection::TooSlow))?
}

/// Takes the guard of the peer, from an older connection if that does not live.
async fn seat(
    peer: &Arc<Peer>,
    hello: &Hello,
    from: &str,
    decides: bool,
) -> Result<ConnectionGuard, Failure> {
    loop {
        let connection = match ConnectionGuard::new(peer, hello, from) {
            Ok(guard) => return Ok(guard),
            Err(Unavailable::Closing) => return Err(Failure::Rejected(Rejection::ShuttingDown)),
            Err(Unavailable::Taken(connection)) => connection,
        };
        let (ConnectionState::Joining(owner) | ConnectionState::Linked(owner, _)) = &connection
        else {
            continue;
        };
        let same = owner.incarnation == hello.node.incarnation;
        // The lower-named node chose again, so it has given up the older connection (MS-1).
        let over = (same && !decides) || planted!(AnyRaceWins);
        let joining = matches!(connection, ConnectionState::Joining(_));
        if !over && (joining || (!planted!(SilencedDuplicate) && owner.answers().await)) {
            let why =
                if same || joining { Rejection::DialRace } else { Rejection::DuplicateNodeName };
            return Err(Failure::Rejected(why));
        }
        connection.close(if same { LinkCause::Replaced } else { LinkCause::PeerRestarted });
        if timeout(limits::COMMIT_TIMEOUT, owner.gone()).await.is_err() {
            return Err(Failure::Rejected(Rejection::DialRace));
        }
    }
}

/// Exchanges with the peer what each side consumed of the last link. The side that decides speaks
/// first, so that one always listens.
///
/// # Errors
/// [`Failure`]; the parts of the report heard before it still count.
async fn resync(peer: &Arc<Peer>, channel: &mut Channel, decides: bool) -> Result<(), Failure> {
    let deadline = Instant::now() + limits::RESYNC_TIMEOUT;
    let both = async {
        peer.unresolved.idle().await;
        if decides {
            say(peer, channel).await?;
            hear(peer, channel).await
        } else {
            hear(peer, channel).await?;
            say(peer, channel).await
        }
    };
    timeout_at(deadline, both).await.map_err(|_| Failure::Rejected(Rejection::TooSlow))?
}

async fn say(peer: &Peer, channel: &mut Channel) -> Result<(), Failure> {
    let (epoch, consumed) = match peer.unresolved.report() {
        Some(report) => (report.epoch, report.consumed),
        None => (0, Consumed::default()),
    };
    let mut rest = &consumed.refusals[..];
    loop {
        let (part, after) = rest.split_at(rest.len().min(limits::RESYNC_REFUSALS_MAX));
        rest = after;
        let (consumed, more) = (consumed.count, !rest.is_empty());
        let resync = Resync { epoch, consumed, refusals: part.to_vec(), more };
        channel.send(&Message::Resync(resync)).await?;
        if !more {
            return Ok(());
        }
    }
}

async fn hear(peer: &Peer, channel: &mut Channel) -> Result<(), Failure> {
    loop {
        let part = match channel.recv().await? {
            Message::Resync(part) => part,
            other => return Err(Failure::unexpected(&other)),
        };
        peer.events.settle(peer.name(), peer.unresolved.refused(part.epoch, &part.refusals));
        if !part.more {
            let report = (part.epoch != 0).then_some((part.epoch, part.consumed));
            peer.events.settle(peer.name(), peer.unresolved.consumed(report));
            peer.events.tell();
            return Ok(());
        }
    }
}
