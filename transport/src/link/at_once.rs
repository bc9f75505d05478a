//! The short way of a tell that has nothing to wait for, as most have; and the search for a message
//! among those that a mailbox takes.

use std::sync::Arc;

use super::outgoing::{Hint, SendKind, Unsent};
use super::wait_queue::Line;
use super::{LinkHandle, State};
use crate::open_request::{Accepted, OpenRequest};
use crate::steps::step;

impl LinkHandle {
    /// Commits a tell to a mailbox that is open and has room, and for which no other sender waits,
    /// or in a burst (WQ-4); so do most. Returns false, with nothing done, where
    /// [`attempt`](Self::attempt) has to find out what there is to wait for.
    pub(crate) fn commit_at_once(
        &self,
        (request, hint): (&Arc<OpenRequest>, &mut Hint),
        message: &Accepted,
        archive: &[u8],
    ) -> bool {
        let mut state = self.state.lock();
        let rests = state.rests();
        let State { send_queue, waiting, for_link, .. } = &mut *state;
        // While others wait for the link's window, it takes its turn among them (LN-2).
        if self.has_ended()
            || send_queue.is_leaving()
            || rests
            || archive.len() > self.archive_max()
            || !for_link.is_empty()
        {
            return false;
        }
        let Some(mailbox) = send_queue.opened(request, hint.outlet) else { return false };
        let accepted = &send_queue.at(mailbox).accepted;
        let Ok(ordinal) = find(accepted, message, SendKind::Tell, hint.ordinal) else {
            return false;
        };
        let is_waited = waiting.is_waited(Line::Room(mailbox));
        let burst = if is_waited { waiting.burst(mailbox) } else { None };
        if (is_waited && burst.is_none())
            || !send_queue.commit_at_once(mailbox, ordinal, message.id, archive)
        {
            return false;
        }
        if let Some(burst) = burst {
            waiting.use_burst(burst);
        }
        hint.ordinal = ordinal;
        step!(TellCommitted);
        self.finish(state);
        true
    }
}

/// Returns the ordinal of a message among those a mailbox accepts.
#[inline]
pub(super) fn find(
    all: &[Accepted],
    message: &Accepted,
    kind: SendKind,
    hint: u16,
) -> Result<u16, Unsent> {
    let asked = match kind {
        SendKind::Signal(signal) | SendKind::UrgentSignal(signal) => return Ok(signal),
        SendKind::LookUp => return Ok(0),
        SendKind::Tell | SendKind::ConfirmedTell => false,
        SendKind::Ask { .. } | SendKind::LeadingAsk { .. } => true,
    };
    let (at, found) = match all.get(usize::from(hint)) {
        Some(found) if found.id == message.id => (hint, found),
        _ => search(all, message.id).ok_or(Unsent::NotAccepted)?,
    };
    if found.layout != message.layout || (asked && found.reply != message.reply) {
        return Err(Unsent::SchemaMismatch);
    }
    Ok(at)
}

#[cold]
fn search(all: &[Accepted], id: u128) -> Option<(u16, &Accepted)> {
    // There are at most `ACCEPTED_MAX`.
    (0..).zip(all).find(|(_, accepted)| accepted.id == id)
}
