//! Sending: one step of a sender, and what it waits for in between.

use std::sync::Arc;
use std::task::Waker;

use tokio::time::Instant;

use super::asks::PendingReply;
use super::at_once::find;
use super::outgoing::{Hint, Outgoing, SendKind, Unsent};
use super::wait_queue::{BURST_MESSAGES, GRANTS_MIN, LAST_PART, Line, Standing, WaitsFor, Want};
use super::{Counters, LinkHandle, State};
use crate::confirm::Confirmation;
use crate::mutants::planted;
use crate::open_request::{Accepted, OpenRequest};
use crate::proto::header::RecordKind;
use crate::proto::lanes::Entry;
use crate::proto::send_queue::{Notice, Room};
use crate::steps::step;

/// How far an attempt to send came.
pub(crate) enum Attempt {
    /// Committed.
    Committed(Awaited),
    /// Not yet; the waker is kept.
    Wait,
    /// The link has ended.
    LinkEnded,
    /// It will not be sent.
    Failed(Unsent),
}

/// What there is to wait for when a message is committed.
#[derive(Debug)]
pub enum Awaited {
    /// Nothing: it was a tell or a signal.
    Nothing,
    /// Its answer: it was an ask.
    Reply(PendingReply),
    /// Its fate: it was a tell to be confirmed.
    Fate(Confirmation),
}

impl LinkHandle {
    /// One step of a send: commits when the mailbox is open and has room; else waits, if there is a
    /// waker. `place` is the sender's place in a line between steps; `hint` makes the next look for
    /// the mailbox quick.
    pub(crate) fn attempt(
        self: &Arc<Self>,
        (request, hint): (&Arc<OpenRequest>, &mut Hint),
        outgoing: Outgoing<'_>,
        place: &mut Option<usize>,
        waker: Option<&Waker>,
    ) -> Attempt {
        let mut state = self.state.lock();
        let attempt = if self.has_ended() {
            *place = None;
            Attempt::LinkEnded
        } else if state.send_queue.is_leaving() {
            state.leave(place.take());
            Attempt::Failed(Unsent::Leaving)
        } else if let Some(key) = *place {
            self.resume(&mut state, key, outgoing, place, waker)
        } else {
            self.begin(&mut state, (request, hint), outgoing, place, waker)
        };
        self.finish(state);
        attempt
    }

    /// Looks whether a message could be committed now: saves the work of archiving one that could
    /// not.
    pub(crate) fn has_room(
        &self,
        (request, hint): (&Arc<OpenRequest>, &mut Hint),
    ) -> Result<(), Unsent> {
        let mut state = self.state.lock();
        let result = match () {
            () if self.has_ended() => Err(Unsent::LinkDown),
            () if state.send_queue.is_leaving() => Err(Unsent::Leaving),
            () => match state.send_queue.try_mailbox(request, &mut hint.outlet) {
                Err(refused) => Err(Unsent::at_end(Some(refused))),
                Ok(None) => Err(Unsent::Opening),
                Ok(Some(mailbox)) if state.waiting.is_waited(Line::Room(mailbox)) => {
                    Err(Unsent::Full)
                }
                Ok(Some(mailbox)) => match state.room(mailbox, 0) {
                    Room::Yes => Ok(()),
                    lacking => {
                        state.send_queue.say_blocked(mailbox, lacking);
                        Err(Unsent::Full)
                    }
                },
            },
        };
        self.finish(state);
        result
    }

    /// Takes the first step.
    fn begin(
        self: &Arc<Self>,
        state: &mut State,
        (request, hint): (&Arc<OpenRequest>, &mut Hint),
        outgoing: Outgoing<'_>,
        place: &mut Option<usize>,
        waker: Option<&Waker>,
    ) -> Attempt {
        let Outgoing { message, kind, ref archive } = outgoing;
        let bytes = archive.len();
        if bytes > self.archive_max() {
            let limit = self.message_bytes_max as usize;
            return Attempt::Failed(Unsent::TooLarge { bytes, limit });
        }
        let bytes = bytes as u32;
        let mut wait = |state: &mut State, line, for_what| {
            let Some(waker) = waker else {
                let opening = for_what == WaitsFor::Opening;
                return Attempt::Failed(if opening { Unsent::Opening } else { Unsent::Full });
            };
            let want = Want { message: *message, kind, bytes };
            *place = Some(state.waiting.join(line, waker.clone(), want, Some(for_what)));
            if for_what != WaitsFor::Opening {
                Counters::add(&self.counters.window_stalls, 1);
            }
            Attempt::Wait
        };
        let outlet = state.send_queue.outlet(request, &mut hint.outlet);
        // OU-2: nothing goes to a mailbox before what it accepts is known.
        let Some((mailbox, opened)) = state.send_queue.mailbox(outlet) else {
            return wait(state, Line::Opening(outlet), WaitsFor::Opening);
        };
        let ordinal = match find(&opened.accepted, message, kind, hint.ordinal) {
            Ok(ordinal) => ordinal,
            Err(failure) => return Attempt::Failed(failure),
        };
        hint.ordinal = ordinal;
        if let SendKind::UrgentSignal(signal) = kind {
            state.send_queue.signal(mailbox, signal);
            return Attempt::Committed(Awaited::Nothing);
        }
        let line = Line::Room(mailbox);
        if state.waiting.is_waited(line) {
            return wait(state, line, WaitsFor::Turn);
        }
        match state.room(mailbox, bytes) {
            Room::Yes => {
                state.send_queue.reserve(mailbox, bytes);
                self.commit(state, (mailbox, ordinal), outgoing, waker)
            }
            lacking => {
                // Also where the sender does not wait: it comes again, and there would be no room
                // for ever if the peer had no reason to report what little was taken.
                state.send_queue.say_blocked(mailbox, lacking);
                if waker.is_some() && lacking == Room::NotInLink {
                    state.wait_for_link(mailbox);
                }
                let for_what = match lacking {
                    Room::NotInLink => WaitsFor::LinkWindow,
                    _ => WaitsFor::MailboxWindow,
                };
                wait(state, line, for_what)
            }
        }
    }

    /// Takes a later step, of a sender in a line.
    fn resume(
        self: &Arc<Self>,
        state: &mut State,
        key: usize,
        outgoing: Outgoing<'_>,
        place: &mut Option<usize>,
        waker: Option<&Waker>,
    ) -> Attempt {
        match state.waiting.standing(key) {
            Standing::Waiting => {
                if let Some(waker) = waker {
                    state.waiting.keep(key, waker);
                }
                Attempt::Wait
            }
            Standing::Ended(failure) => {
                state.leave(place.take());
                Attempt::Failed(failure)
            }
            Standing::Granted { mailbox, ordinal } => {
                *place = None;
                let Some((want, _)) = state.waiting.leave(key) else {
                    return Attempt::Wait;
                };
                debug_assert_eq!(want.bytes as usize, outgoing.archive.len(), "archived once");
                if let SendKind::UrgentSignal(signal) = want.kind {
                    let closed = state.send_queue.at(mailbox).closed;
                    if !closed {
                        state.send_queue.signal(mailbox, signal);
                    }
                    state.send_queue.settle(mailbox);
                    return if closed { CLOSED } else { Attempt::Committed(Awaited::Nothing) };
                }
                if state.send_queue.at(mailbox).closed {
                    state.send_queue.release(mailbox, want.bytes);
                    return CLOSED;
                }
                if want.kind == SendKind::Tell && state.waiting.is_waited(Line::Room(mailbox)) {
                    state.waiting.begin_burst(mailbox);
                }
                self.commit(state, (mailbox, ordinal), outgoing, waker)
            }
        }
    }

    /// Commits a message whose room is reserved.
    fn commit(
        self: &Arc<Self>,
        state: &mut State,
        (mailbox, ordinal): (u32, u16),
        Outgoing { message, kind, archive }: Outgoing<'_>,
        waker: Option<&Waker>,
    ) -> Attempt {
        let entry = |kind, correlation, deadline| Entry {
            kind,
            mailbox,
            ordinal,
            correlation,
            message: message.id,
            deadline,
        };
        let (entry, awaited) = match kind {
            SendKind::Ask { deadline } => {
                let asker = self.replies.lock().insert(waker);
                let Ok(correlation) = state.send_queue.asks.insert(asker) else {
                    state.send_queue.release(mailbox, archive.len() as u32);
                    // Its waker is not the last one: the sender has another.
                    self.replies.lock().remove(asker);
                    return Attempt::Failed(Unsent::TooManyAsks);
                };
                let reply = PendingReply::new(self.clone(), correlation, asker);
                (entry(RecordKind::Ask, correlation, deadline), Awaited::Reply(reply))
            }
            SendKind::Tell => (entry(RecordKind::Tell, 0, None), Awaited::Nothing),
            SendKind::ConfirmedTell => {
                let (number, fate) = state.confirms.insert();
                (entry(RecordKind::Tell, number, None), Awaited::Fate(fate))
            }
            SendKind::Signal(_) | SendKind::UrgentSignal(_) => {
                (entry(RecordKind::Signal, 1, None), Awaited::Nothing)
            }
        };
        state.send_queue.commit(entry, archive);
        step!(any kind.committed());
        Attempt::Committed(awaited)
    }

    /// Gives up a place in a line.
    pub(crate) fn forget(&self, place: usize) {
        let mut state = self.state.lock();
        state.leave(Some(place));
        self.finish(state);
    }

    /// Opens a mailbox and waits for its end: failed when it is closed or was refused.
    pub(crate) fn await_end(
        &self,
        (request, hint): (&Arc<OpenRequest>, &mut Hint),
        place: &mut Option<usize>,
        waker: &Waker,
    ) -> Attempt {
        let mut state = self.state.lock();
        let attempt = match *place {
            _ if self.has_ended() => {
                *place = None;
                Attempt::LinkEnded
            }
            None => {
                let outlet = state.send_queue.outlet(request, &mut hint.outlet);
                let message = Accepted { id: 0, layout: 0, reply: 0 };
                let want = Want { message, kind: SendKind::Signal(0), bytes: 0 };
                let line = Line::Closing(outlet);
                *place = Some(state.waiting.join(line, waker.clone(), want, None));
                Attempt::Wait
            }
            Some(key) => match state.waiting.standing(key) {
                Standing::Ended(why) => {
                    state.leave(place.take());
                    Attempt::Failed(why)
                }
                _ => {
                    state.waiting.keep(key, waker);
                    Attempt::Wait
                }
            },
        };
        self.finish(state);
        attempt
    }
}

const CLOSED: Attempt = Attempt::Failed(Unsent::Closed);

impl State {
    /// Takes a sender out of its line; what it was granted and did not use goes to the next.
    fn leave(&mut self, place: Option<usize>) {
        let Some(key) = place else { return };
        let line = self.waiting.line(key);
        let Some((want, standing)) = self.waiting.leave(key) else { return };
        match (standing, want.kind) {
            (Standing::Granted { mailbox, .. }, SendKind::UrgentSignal(_)) => {
                self.send_queue.settle(mailbox);
            }
            (Standing::Granted { mailbox, .. }, _) => self.send_queue.release(mailbox, want.bytes),
            (Standing::Waiting | Standing::Ended(_), _) => {
                // The next in line may need less room than this one.
                if let Some(Line::Room(mailbox)) = line {
                    self.send_queue.look_again(mailbox, !self.for_link.is_empty());
                }
            }
        }
    }

    /// Whether a message may be committed to a mailbox now. While others wait for the link's
    /// window, a mailbox at which something is outstanding takes its turn among them (LN-2).
    pub(super) fn room(&self, mailbox: u32, bytes: u32) -> Room {
        match self.send_queue.room(mailbox, bytes) {
            Room::Yes if self.waits_its_turn(mailbox) => Room::NotInLink,
            room => room,
        }
    }

    fn waits_its_turn(&self, mailbox: u32) -> bool {
        !self.for_link.is_empty() && !self.send_queue.is_idle(mailbox)
    }

    /// Tells the peer what the first sender at a mailbox waits for, and has it served when there is
    /// room in the link's window.
    fn lacks(&mut self, mailbox: u32, lacking: Room) {
        self.send_queue.say_blocked(mailbox, lacking);
        if lacking == Room::NotInLink {
            self.wait_for_link(mailbox);
        }
    }

    /// Grants room to those who wait, as far as there is some now.
    #[cold]
    pub(super) fn act_on_notices(&mut self) {
        let notices = self.send_queue.take_notices();
        if notices.is_empty() {
            return self.send_queue.sweep();
        }
        // One look at the clock for all who are granted room: they may be thousands.
        let now = Instant::now();
        for notice in notices {
            match notice {
                Notice::Opened(outlet, mailbox) => {
                    while let Some(key) = self.waiting.first(Line::Opening(outlet)) {
                        self.move_to_mailbox(key, mailbox, now);
                    }
                    self.grant_first_part(mailbox, now);
                }
                Notice::Room(mailbox) => self.grant_first_part(mailbox, now),
                Notice::LinkRoom => self.grant_by_link(now),
                Notice::Ended { outlet, mailbox, refusal } => {
                    let ended = Standing::Ended(Unsent::at_end(refusal));
                    self.waiting.resolve_all(Line::Opening(outlet), &ended, now);
                    self.waiting.resolve_all(Line::Closing(outlet), &ended, now);
                    if let Some(mailbox) = mailbox {
                        self.waiting.resolve_all(Line::Room(mailbox), &ended, now);
                        self.waiting.end_bursts(mailbox);
                    }
                }
            }
        }
        self.send_queue.sweep();
    }

    /// A mailbox is open for a sender that waited for that. A signal ahead of messages waits for
    /// nothing more.
    fn move_to_mailbox(&mut self, key: usize, mailbox: u32, now: Instant) {
        if self.send_queue.at(mailbox).closed {
            self.waiting.resolve(key, Standing::Ended(Unsent::Closed), now);
        } else if let SendKind::UrgentSignal(ordinal) = self.waiting.want(key).kind {
            self.send_queue.use_mailbox(mailbox);
            self.waiting.resolve(key, Standing::Granted { mailbox, ordinal }, now);
        } else {
            self.waiting.move_to(key, Line::Room(mailbox));
        }
    }

    /// Grants a part of the room at a mailbox, unless another part of it is to be granted when the
    /// driver runs again (WQ-4).
    fn grant_first_part(&mut self, mailbox: u32, now: Instant) {
        if !self.waiting.is_put_off(mailbox) {
            self.waiting.end_bursts(mailbox);
            self.grant_in_turn(mailbox, 0, now);
        }
    }

    /// Grants the next part of the room at each mailbox of which a part was granted (WQ-4).
    pub(super) fn grant_next_parts(&mut self) {
        let now = Instant::now();
        for (mailbox, part) in self.waiting.take_put_off() {
            if !planted!(LostPart) {
                self.grant_in_turn(mailbox, part, now);
            }
        }
    }

    /// Grants the room at a mailbox, in parts (WQ-4); while others wait for the link's window, one
    /// message of a mailbox at which nothing is outstanding, and the rest in turn (LN-2).
    fn grant_in_turn(&mut self, mailbox: u32, part: u32, now: Instant) {
        if self.for_link.is_empty() {
            let most = match self.send_queue.messages_left(mailbox) {
                _ if part == LAST_PART => usize::MAX,
                left => GRANTS_MIN.max(left.div_ceil(BURST_MESSAGES >> part) as usize),
            };
            let granted = self.grant(mailbox, most, now);
            if granted == most && self.waiting.is_waited(Line::Room(mailbox)) {
                self.waiting.put_off(mailbox, part + 1);
            }
            return;
        }
        if self.send_queue.is_idle(mailbox) {
            self.grant(mailbox, 1, now);
        }
        if self.waiting.is_waited(Line::Room(mailbox)) {
            self.wait_for_link(mailbox);
        }
    }

    /// Grants room at a mailbox to so many at most, in the order of the line (LN-2, WQ-2, WQ-3).
    /// Returns how many it granted room.
    fn grant(&mut self, mailbox: u32, most: usize, now: Instant) -> usize {
        let mut granted = 0;
        if planted!(WakeAll) {
            self.waiting.wake_all();
        }
        // Those who wait at one that closed are told so by its own notice.
        let open = self.send_queue.is_open(mailbox);
        while open
            && granted < most
            && let Some(key) = self.waiting.first(Line::Room(mailbox))
        {
            let want = self.waiting.want(key);
            if planted!(LinePerReference) && want.bytes > 1 << 20 && !self.waiting.is_last(key) {
                self.waiting.move_to(key, Line::Room(mailbox));
                continue;
            }
            let ordinal =
                match find(&self.send_queue.at(mailbox).accepted, &want.message, want.kind, 0) {
                    Ok(ordinal) => ordinal,
                    Err(failure) => {
                        self.waiting.resolve(key, Standing::Ended(failure), now);
                        continue;
                    }
                };
            match self.send_queue.room(mailbox, want.bytes) {
                Room::Yes => {
                    self.send_queue.reserve(mailbox, want.bytes);
                    self.waiting.resolve(key, Standing::Granted { mailbox, ordinal }, now);
                    granted += 1;
                }
                lacking => {
                    self.lacks(mailbox, lacking);
                    break;
                }
            }
        }
        granted
    }

    /// Grants room that came free in the link's window: one message to each mailbox in turn.
    fn grant_by_link(&mut self, now: Instant) {
        while let Some(mailbox) = self.for_link.pop_front() {
            self.is_for_link[mailbox as usize] = false;
            let granted = self.grant(mailbox, 1, now) > 0;
            if !granted && self.is_for_link[mailbox as usize] {
                // Too little room for the next one in turn: it stays the next one.
                self.for_link.pop_back();
                self.for_link.push_front(mailbox);
                return;
            }
            if granted && self.waiting.is_waited(Line::Room(mailbox)) {
                self.wait_for_link(mailbox);
            }
        }
    }

    /// Puts a mailbox at the end of those that wait for the link's window.
    fn wait_for_link(&mut self, mailbox: u32) {
        let at = mailbox as usize;
        if at >= self.is_for_link.len() {
            self.is_for_link.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.is_for_link[at], true) {
            self.for_link.push_back(mailbox);
        }
    }
}
