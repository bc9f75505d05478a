//! Room that a sender reserves before it has its message.

use std::sync::Arc;
use std::task::Waker;

use tokio::time::Instant;

use super::at_once::find;
use super::outgoing::{Hint, Outgoing, SendKind, Unsent};
use super::sending::{Attempt, Awaited};
use super::wait_queue::{Line, Standing, WaitsFor, Want};
use super::{Counters, LinkHandle, State};
use crate::open_request::{MessageForms, OpenRequest};
use crate::proto::send_queue::Room;

impl LinkHandle {
    /// Takes one step of a reservation of room for a message of `bytes` bytes: committed says that
    /// `place` has the room, until it is given to [`commit_reserved`](Self::commit_reserved) or
    /// [`forget`](Self::forget). Waits as [`attempt`](Self::attempt) does.
    pub(crate) fn reserve(
        &self,
        (request, hint): (&Arc<OpenRequest>, &mut Hint),
        (message, bytes): (&MessageForms, u32),
        place: &mut Option<usize>,
        waker: &Waker,
    ) -> Attempt {
        let mut state = self.state.lock();
        state.leave_aside(place);
        let attempt = if self.has_ended() {
            *place = None;
            Attempt::LinkEnded
        } else if state.rests() {
            Attempt::Rests
        } else if state.send_queue.is_leaving() {
            state.leave(place.take());
            Attempt::Failed(Unsent::Leaving)
        } else if let Some(key) = *place {
            match state.waiting.standing(key) {
                Standing::Waiting => {
                    state.waiting.keep(key, waker);
                    Attempt::Wait
                }
                Standing::Ended(failure) => {
                    state.leave(place.take());
                    Attempt::Failed(failure)
                }
                Standing::Granted { .. } => RESERVED,
            }
        } else {
            self.begin_to_reserve(&mut state, (request, hint), (message, bytes), place, waker)
        };
        self.finish(state);
        attempt
    }

    /// Returns the form in which the message is to be archived that goes to reserved room.
    pub(crate) fn reserved_form(&self, place: usize) -> u8 {
        let state = self.state.lock();
        // The lines of a link that has ended are empty.
        if self.has_ended() {
            return 0;
        }
        match state.waiting.standing(place) {
            Standing::Granted { found, .. } => found.form.message,
            Standing::Waiting | Standing::Ended(_) => 0,
        }
    }

    /// Commits a tell to reserved room, in the form that [`reserved_form`](Self::reserved_form)
    /// says. A tell that is larger than the reserved room needs more room at this moment.
    ///
    /// # Errors
    /// [`Unsent`]: `Full` where a larger message finds no room, `LinkDown` where the link has ended
    /// and the room with it. The room is given back.
    pub(crate) fn commit_reserved(
        self: &Arc<Self>,
        place: usize,
        outgoing: Outgoing<'_>,
    ) -> Result<(), Unsent> {
        let mut state = self.state.lock();
        let sent = self.commit_to(&mut state, place, outgoing);
        self.finish(state);
        sent
    }

    /// Takes the first step of a reservation.
    fn begin_to_reserve(
        &self,
        state: &mut State,
        (request, hint): (&Arc<OpenRequest>, &mut Hint),
        (message, bytes): (&MessageForms, u32),
        place: &mut Option<usize>,
        waker: &Waker,
    ) -> Attempt {
        let outlet = state.send_queue.outlet(request, &mut hint.outlet);
        let mut want =
            Want { message: *message, ordinal: hint.ordinal, kind: SendKind::Tell, bytes };
        // Nothing is sent to a mailbox before it is known which messages it accepts.
        let Some((mailbox, opened)) = state.send_queue.mailbox(outlet) else {
            let line = Line::Opening(outlet);
            *place = Some(state.waiting.join(line, waker.clone(), want, Some(WaitsFor::Opening)));
            return Attempt::Wait;
        };
        let found = match find(&opened.accepted, message, SendKind::Tell, hint.ordinal) {
            Ok(found) => found,
            Err(failure) => return Attempt::Failed(failure),
        };
        (want.ordinal, hint.ordinal) = (found.ordinal, found.ordinal);
        let line = Line::Room(mailbox);
        let lacking =
            if state.waiting.is_waited(line) { None } else { Some(state.room(mailbox, bytes)) };
        let for_what = match lacking {
            None => WaitsFor::Turn,
            Some(Room::NotInLink) => WaitsFor::LinkWindow,
            Some(_) => WaitsFor::MailboxWindow,
        };
        let is_granted = lacking == Some(Room::Yes);
        // It must not be woken for room that it has.
        let waker = if is_granted { Waker::noop() } else { waker };
        let key = state.waiting.join(line, waker.clone(), want, Some(for_what));
        *place = Some(key);
        Counters::add(&self.counters.window_stalls, u64::from(!is_granted));
        match lacking {
            Some(Room::Yes) => {
                state.send_queue.reserve(mailbox, bytes);
                let granted = Standing::Granted { mailbox, found };
                state.waiting.resolve(key, granted, Instant::now());
                return RESERVED;
            }
            Some(lacking) => {
                state.send_queue.say_blocked(mailbox, lacking);
                if lacking == Room::NotInLink {
                    state.wait_for_link(mailbox);
                }
            }
            None => {}
        }
        Attempt::Wait
    }

    fn commit_to(
        self: &Arc<Self>,
        state: &mut State,
        place: usize,
        outgoing: Outgoing<'_>,
    ) -> Result<(), Unsent> {
        if self.has_ended() {
            return Err(Unsent::LinkDown);
        }
        if state.send_queue.is_leaving() {
            state.leave(Some(place));
            return Err(Unsent::Leaving);
        }
        let Some((want, Standing::Granted { mailbox, found })) = state.waiting.leave(place) else {
            return Err(Unsent::LinkDown);
        };
        // The room is free again under this lock: so it is there for this message.
        state.send_queue.release(mailbox, want.bytes);
        let at = state.send_queue.at(mailbox);
        if at.closed {
            return Err(Unsent::Closed(at.end.clone()));
        }
        let bytes = outgoing.archive.len();
        self.check_size(bytes)?;
        if bytes as u32 > want.bytes && state.room(mailbox, bytes as u32) != Room::Yes {
            return Err(Unsent::Full);
        }
        state.send_queue.reserve(mailbox, bytes as u32);
        match self.commit(state, (mailbox, found), outgoing, None) {
            Attempt::Failed(unsent) => Err(unsent),
            _ => Ok(()),
        }
    }
}

const RESERVED: Attempt = Attempt::Committed(Awaited::Nothing);
