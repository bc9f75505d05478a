//! The short way of a tell that has nothing to wait for, as most have; and the search for a message
//! among the messages that a mailbox accepts.

use std::sync::Arc;

use super::outgoing::{Found, Hint, SendKind, Unsent};
use super::wait_queue::Line;
use super::{LinkHandle, State};
use crate::open_request::{Accepted, Form, MessageForms, OpenRequest};
use crate::steps::step;

impl LinkHandle {
    /// Commits a tell to a mailbox that is open and has room, if no other sender waits for it or
    /// the tell is part of a burst (WQ-4); this serves most tells. Otherwise does nothing and
    /// returns false: [`attempt`](Self::attempt) has to find out what there is to wait for.
    pub(crate) fn commit_at_once(
        &self,
        (request, hint): (&Arc<OpenRequest>, &mut Hint),
        (message, form): (&MessageForms, u8),
        archive: &[u8],
    ) -> bool {
        let mut state = self.state.lock();
        let rests = state.rests();
        let State { send_queue, waiting, for_link, .. } = &mut *state;
        // While others wait for the link's window, it takes its turn among them.
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
        let found = match find(accepted, message, SendKind::Tell, hint.ordinal) {
            Ok(found) if found.form.message == form => found,
            _ => return false,
        };
        let is_waited = waiting.is_waited(Line::Room(mailbox));
        let burst = if is_waited { waiting.burst(mailbox) } else { None };
        if (is_waited && burst.is_none())
            || !send_queue.commit_at_once(mailbox, found.ordinal, message.id, archive)
        {
            return false;
        }
        if let Some(burst) = burst {
            waiting.use_burst(burst);
        }
        hint.ordinal = found.ordinal;
        step!(TellCommitted);
        self.finish(state);
        true
    }

    /// Returns the form in which a message is to be archived, as a place among its layouts: the
    /// newest form that the mailbox accepts, if it is open.
    pub(crate) fn form(
        &self,
        (request, hint): (&Arc<OpenRequest>, &mut Hint),
        message: &MessageForms,
        kind: SendKind,
    ) -> u8 {
        let state = self.state.lock();
        let Some(mailbox) = state.send_queue.opened(request, hint.outlet) else { return 0 };
        let accepted = &state.send_queue.at(mailbox).accepted;
        find(accepted, message, kind, hint.ordinal).map_or(0, |found| found.form.message)
    }
}

/// Returns the place of a message among those a mailbox accepts: of the newest form that both know.
#[inline]
pub(super) fn find(
    all: &[Accepted],
    message: &MessageForms,
    kind: SendKind,
    hint: u16,
) -> Result<Found, Unsent> {
    let is_asked = match kind {
        SendKind::Signal(signal) | SendKind::UrgentSignal(signal) => {
            return Ok(Found { ordinal: signal, form: Form::default() });
        }
        SendKind::LookUp => return Ok(Found::default()),
        SendKind::Tell | SendKind::ConfirmedTell => false,
        SendKind::Ask { .. } | SendKind::LeadingAsk { .. } => true,
    };
    let newest = message.newest();
    match all.get(usize::from(hint)) {
        Some(row)
            if row.id == newest.id
                && row.layout == newest.layout
                && (!is_asked || row.reply == newest.reply) =>
        {
            Ok(Found { ordinal: hint, form: Form::default() })
        }
        _ => search(all, message, is_asked),
    }
}

/// Looks at all rows. A sender that knows a newer form than the mailbox does this for each message:
/// a hint that leads to an older form may be from an earlier run of the peer.
#[cold]
fn search(all: &[Accepted], message: &MessageForms, is_asked: bool) -> Result<Found, Unsent> {
    // There are at most `ACCEPTED_MAX`.
    let rows = || (0..).zip(all).filter(|(_, row)| row.id == message.id);
    let place = |layouts: &[u128], layout| layouts.iter().position(|known| *known == layout);
    let known = |(ordinal, row): (u16, &Accepted)| {
        let at = place(message.layouts, row.layout)? as u8;
        let reply = if is_asked { place(message.replies, row.reply)? as u8 } else { 0 };
        Some(Found { ordinal, form: Form { message: at, reply } })
    };
    match rows().filter_map(known).min_by_key(|found| found.form) {
        Some(found) => Ok(found),
        None if rows().next().is_some() => Err(Unsent::SchemaMismatch),
        None => Err(Unsent::NotAccepted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: MessageForms = MessageForms { id: 1, layouts: &[12, 11], replies: &[22, 21] };
    const ASK: SendKind = SendKind::Ask { deadline: None };

    fn row(id: u128, layout: u128, reply: u128) -> Accepted {
        Accepted { id, layout, reply }
    }

    fn found(ordinal: u16, message: u8, reply: u8) -> Result<Found, Unsent> {
        Ok(Found { ordinal, form: Form { message, reply } })
    }

    #[test]
    fn the_newest_form_that_both_know_is_found_whatever_the_hint() {
        let old = [row(7, 1, 1), row(1, 11, 21)];
        let new = [row(1, 12, 22), row(7, 1, 1), row(1, 12, 21), row(1, 11, 22), row(1, 11, 21)];
        let newer = [row(1, 13, 22), row(1, 12, 22), row(1, 11, 22)];
        let mixed = [row(1, 11, 22), row(1, 12, 29)];
        for hint in 0..6 {
            assert_eq!(find(&old, &SENT, ASK, hint), found(1, 1, 1));
            assert_eq!(find(&old, &SENT, SendKind::Tell, hint), found(1, 1, 0));
            assert_eq!(find(&new, &SENT, ASK, hint), found(0, 0, 0));
            assert_eq!(find(&newer, &SENT, ASK, hint), found(1, 0, 0));
            assert_eq!(find(&mixed, &SENT, ASK, hint), found(0, 1, 0));
            assert_eq!(find(&mixed, &SENT, SendKind::Tell, hint), found(1, 0, 0));
        }
    }

    #[test]
    fn forms_that_the_sender_does_not_know_are_a_mismatch_and_other_messages_none() {
        let unknown = [row(7, 12, 22), row(1, 13, 22), row(1, 0, 0)];
        assert_eq!(find(&unknown, &SENT, ASK, 1), Err(Unsent::SchemaMismatch));
        assert_eq!(find(&[row(1, 12, 0)], &SENT, ASK, 0), Err(Unsent::SchemaMismatch));
        assert_eq!(find(&unknown[..1], &SENT, ASK, 0), Err(Unsent::NotAccepted));
    }

    #[test]
    fn rows_are_those_of_all_forms_newest_first() {
        let rows: Vec<_> = SENT.forms().map(|form| SENT.row(form)).collect();
        assert_eq!(rows, [row(1, 12, 22), row(1, 12, 21), row(1, 11, 22), row(1, 11, 21)]);
        assert_eq!((rows[0], rows.len()), (SENT.newest(), SENT.count()));
        let here = MessageForms { id: 1, layouts: &[], replies: &[] };
        assert_eq!((here.newest(), here.count()), (row(1, 0, 0), 1));
    }
}
