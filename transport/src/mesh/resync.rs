//! The fates of the last link's messages, before the next one (MS-7).

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use crate::bootstrap::{Channel, Failure, Message, Rejection, Resync};
use crate::limits;
use crate::proto::fate::Consumed;

use super::peer::Peer;

/// Exchanges with the peer what each side consumed of the last link. The side that decides speaks
/// first, so that one always listens.
///
/// # Errors
/// [`Failure`]; what was learnt until then counts.
pub(super) async fn resync(
    peer: &Arc<Peer>,
    channel: &mut Channel,
    decides: bool,
) -> Result<(), Failure> {
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
