//! Rest: a link that nothing uses commits nothing while both nodes say whether it is to be closed.
//!
//! - **LN-5 at rest**: a link rests only where nothing is queued, unanswered or leased, and no
//!   sender and no reservation waits or holds room; while it rests nothing is committed. So when
//!   both sides rest there is no message that their goodbyes could cross. A sender that comes
//!   meanwhile waits, patient or not, until the link goes on or has ended; a sender that does not
//!   wait finds it full. A wait for a mailbox's end begins, and goes on on the next link.

use std::sync::Arc;
use std::task::Waker;

use parking_lot::MutexGuard;

use super::outgoing::{Hint, Outgoing, SendKind};
use super::sending::Attempt;
use super::wait_queue::{Line, WaitsFor, Want};
use super::{LinkHandle, State};
use crate::mutants::planted;
use crate::open_request::{MessageForms, OpenRequest};

impl LinkHandle {
    /// Puts the link to rest, if nothing uses it. Returns true if it rests.
    pub(crate) fn rest(&self) -> bool {
        // Not under the state's lock: the reach's is held for as long as a device takes.
        let reach_rests = self.reach.rest();
        let mut state = self.state.lock();
        state.resting |= !self.has_ended() && state.is_unused() && reach_rests;
        let rests = state.resting;
        drop(state);
        if reach_rests && !rests {
            self.reach.end_rest();
        }
        rests
    }

    /// Returns true if something uses the link, or waited on it since the last call.
    pub(crate) fn take_use(&self) -> bool {
        let reached = self.reach.take_use();
        let mut state = self.state.lock();
        state.waiting.take_joined() || !state.is_unused() || reached
    }

    /// Ends the link's rest. Wakes all tasks that wait for it.
    pub(crate) fn end_rest(&self) {
        self.reach.end_rest();
        let mut state = self.state.lock();
        state.resting = false;
        // Sends that lead (WQ-5) stand in line already.
        let lines: Vec<_> = state.waiting.lines().map(|waited| waited.line).collect();
        for line in lines {
            if let Line::Room(mailbox) = line {
                let contended = !state.for_link.is_empty();
                state.send_queue.look_again(mailbox, contended);
            }
        }
        state.waiting.wake_all();
        self.finish(state);
    }

    /// Takes a step of a send while the link rests. A send that leads (WQ-5) stands in line
    /// already, so that later sends of its task do not pass it should the link go on.
    pub(super) fn attempt_at_rest(
        &self,
        state: &mut State,
        (request, hint): (&Arc<OpenRequest>, &mut Hint),
        outgoing: &Outgoing<'_>,
        place: &mut Option<usize>,
        waker: Option<&Waker>,
    ) -> Attempt {
        let bytes = outgoing.archive.len();
        let leads = outgoing.kind.leads() && bytes <= self.archive_max();
        let (true, Some(waker)) = (leads, waker) else { return Attempt::Rests };
        if let Some(key) = *place {
            state.waiting.keep(key, waker);
            return Attempt::Wait;
        }
        let outlet = state.send_queue.outlet(request, &mut hint.outlet);
        let (line, for_what) = match state.send_queue.mailbox(outlet) {
            Some((mailbox, _)) => (Line::Room(mailbox), WaitsFor::Turn),
            None => (Line::Opening(outlet), WaitsFor::Opening),
        };
        let &Outgoing { message, kind, .. } = outgoing;
        let (message, ordinal, bytes) = (*message, hint.ordinal, bytes as u32);
        let want = Want { message, ordinal, kind, bytes };
        *place = Some(state.waiting.join(line, waker.clone(), want, Some(for_what)));
        Attempt::Wait
    }

    /// Keeps a waker for the end of a link that takes nothing more, and gives its place; gives none
    /// where the link has ended, or takes messages.
    pub(crate) fn await_left(&self, waker: &Waker) -> Option<usize> {
        let state = self.state.lock();
        let is_left = state.send_queue.is_leaving() || state.peer_leaves;
        self.stand_aside(state, is_left, waker)
    }

    /// Keeps a waker for the time when a link that rests goes on or has ended, and gives its place;
    /// gives none where it does not rest, whether or not its peer leaves: it takes messages.
    pub(crate) fn await_rested(&self, waker: &Waker) -> Option<usize> {
        let state = self.state.lock();
        let rests = state.resting;
        self.stand_aside(state, rests, waker)
    }

    fn stand_aside(
        &self,
        mut state: MutexGuard<'_, State>,
        is_due: bool,
        waker: &Waker,
    ) -> Option<usize> {
        let message = MessageForms::NONE;
        let want = Want { message, ordinal: 0, kind: SendKind::Signal(0), bytes: 0 };
        let is_due = is_due && !self.has_ended();
        let place = is_due.then(|| state.waiting.stand_aside(waker.clone(), want));
        self.finish(state);
        place
    }
}

impl State {
    /// Returns true if nothing has been committed that has not its fate or answer, nothing of the
    /// peer is unanswered or kept, and nothing waits.
    fn is_unused(&self) -> bool {
        let State { send_queue, confirms, waiting, for_replies, gauge, .. } = self;
        let asked = !send_queue.asks.is_empty() || !send_queue.open_asks.is_empty();
        let waited = !waiting.is_empty() || !for_replies.is_empty();
        let kept = send_queue.queued() > 0 || !confirms.is_empty() || gauge.leased() > 0;
        !asked && !waited && !kept
    }

    /// Returns true if nothing is committed now because the link rests (LN-5).
    pub(super) fn rests(&self) -> bool {
        self.resting && !planted!(RestlessLink)
    }
}
