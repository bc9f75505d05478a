//! Room that a sender reserves before it has its message.

use std::sync::Arc;
use std::task::Waker;

use tokio::time::Instant;

use super::at_once::find;
use super::outgoing::{Hint, Outgoing, SendKind, Unsent};
use super::sending::{Attempt, Awaited};
use super::wait_queue::{Line, Standing, WaitsFor, Want};
use super::{Counters, LinkHandle, State};
use crate::open_request::{Accepted, OpenRequest};
use crate::proto::send_queue::Room;

impl LinkHandle {
    /// Takes one step of a reservation of room for a message of so many bytes: committed says that
    /// `place` has the room, until it is given to [`commit_reserved`](Self::commit_reserved) or
    /// [`forget`](Self::forget) (WQ-3). Waits as [`attempt`](Self::attempt) does.
    pub(crate) fn reserve(
        &self,
        (request, hint): (&Arc<OpenRequest>, &mut Hint),
        (message, bytes): (&Accepted, u32),
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

    /// Commits a tell to room that was reserved. One that is larger than what was reserved needs
    /// more room at this moment.
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
        (message, bytes): (&Accepted, u32),
        place: &mut Option<usize>,
        waker: &Waker,
    ) -> Attempt {
        let outlet = state.send_queue.outlet(request, &mut hint.outlet);
        let mut want =
            Want { message: *message, ordinal: hint.ordinal, kind: SendKind::Tell, bytes };
        // OU-2: nothing goes to a mailbox before what it accepts is known.
        let Some((mailbox, opened)) = state.send_queue.mailbox(outlet) else {
            let line = Line::Opening(outlet);
            *place = Some(state.waiting.join(line, waker.clone(), want, Some(WaitsFor::Opening)));
            return Attempt::Wait;
        };
        want.ordinal = match find(&opened.accepted, message, SendKind::Tell, hint.ordinal) {
            Ok(ordinal) => ordinal,
            Err(failure) => return Attempt::Failed(failure),
        };
        hint.ordinal = want.ordinal;
        let line = Line::Room(mailbox);
        let lacking =
            if state.waiting.is_waited(line) { None } else { Some(state.room(mailbox, bytes)) };
        let for_what = match lacking {
            None => WaitsFor::Turn,
            Some(Room::NotInLink) => WaitsFor::LinkWindow,
            Some(_) => WaitsFor::MailboxWindow,
        };
        let is_granted = lacking == Some(Room::Yes);
        // It is not to be woken for what it has.
        let waker = if is_granted { Waker::noop() } else { waker };
        let key = state.waiting.join(line, waker.clone(), want, Some(for_what));
        *place = Some(key);
        Counters::add(&self.counters.window_stalls, u64::from(!is_granted));
        match lacking {
            Some(Room::Yes) => {
                state.send_queue.reserve(mailbox, bytes);
                let granted = Standing::Granted { mailbox, ordinal: want.ordinal };
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
        let Some((want, Standing::Granted { mailbox, ordinal })) = state.waiting.leave(place)
        else {
            return Err(Unsent::LinkDown);
        };
        // The room is free again under this lock: so it is there for this message.
        state.send_queue.release(mailbox, want.bytes);
        let at = state.send_queue.at(mailbox);
        if at.closed {
            return Err(Unsent::Closed(at.end.clone()));
        }
        let bytes = outgoing.archive.len();
        if bytes > self.archive_max() {
            return Err(Unsent::TooLarge { bytes, limit: self.message_bytes_max as usize });
        }
        if bytes as u32 > want.bytes && state.room(mailbox, bytes as u32) != Room::Yes {
            return Err(Unsent::Full);
        }
        state.send_queue.reserve(mailbox, bytes as u32);
        match self.commit(state, (mailbox, ordinal), outgoing, None) {
            Attempt::Failed(unsent) => Err(unsent),
            _ => Ok(()),
        }
    }
}

const RESERVED: Attempt = Attempt::Committed(Awaited::Nothing);
