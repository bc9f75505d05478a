//! Sending: one step of a sender, and the lines in which it waits between steps.

use std::sync::Arc;
use std::task::Waker;

use super::asks::PendingReply;
use super::at_once::find;
use super::outgoing::{Found, Hint, Outgoing, SendKind, Unsent};
use super::wait_queue::{Line, Standing, WaitsFor, Want};
use super::{Counters, LinkHandle, State};
use crate::close_reason::CloseReason;
use crate::confirm::Confirmation;
use crate::open_request::{Accepted, MessageForms, OpenRequest};
use crate::proto::header::RecordKind;
use crate::proto::lanes::Entry;
use crate::proto::send_queue::Room;
use crate::steps::step;

/// The outcome of an attempt to send.
pub(crate) enum Attempt {
    /// Committed.
    Committed(Awaited),
    /// Not yet; the waker is kept.
    Wait,
    /// Not yet: the link rests, and will go on or end. See [`LinkHandle::await_left`].
    Rests,
    /// The link has ended.
    LinkEnded,
    /// Not yet: it is to be archived in this form first. The place in a line, if there is one, is
    /// kept.
    OtherForm(u8),
    /// It will not be sent.
    Failed(Unsent),
}

/// The news that a sender may wait for once its message is committed.
#[derive(Debug)]
pub enum Awaited {
    /// Nothing: it was a tell or a signal.
    Nothing,
    /// Its answer: it was an ask.
    Reply(PendingReply),
    /// Its fate: it was a tell to be confirmed.
    Fate(Confirmation),
    /// Nothing: it was a look-up. The request is for exactly the mailbox that was found, with the
    /// messages it accepts.
    Found(Arc<OpenRequest>, Arc<[Accepted]>),
}

impl LinkHandle {
    /// Takes one step of a send: commits when the mailbox is open and has room; else waits, if
    /// there is a waker. `place` is the sender's place in a line between steps; `hint` makes the
    /// next look for the mailbox quick.
    pub(crate) fn attempt(
        self: &Arc<Self>,
        (request, hint): (&Arc<OpenRequest>, &mut Hint),
        outgoing: Outgoing<'_>,
        place: &mut Option<usize>,
        waker: Option<&Waker>,
    ) -> Attempt {
        let mut state = self.state.lock();
        state.leave_aside(place);
        let attempt = if self.has_ended() {
            *place = None;
            Attempt::LinkEnded
        } else if state.rests() {
            self.attempt_at_rest(&mut state, (request, hint), &outgoing, place, waker)
        } else if state.refuses(outgoing.kind) {
            state.leave(place.take());
            Attempt::Failed(Unsent::Leaving)
        } else if let Some(key) = *place {
            self.resume(&mut state, (request, hint, key), outgoing, place, waker)
        } else {
            self.begin(&mut state, (request, hint), outgoing, place, waker)
        };
        self.finish(state);
        attempt
    }

    /// Looks whether a message of this kind could be committed now: saves the work of archiving one
    /// that could not.
    pub(crate) fn has_room(
        &self,
        (request, hint): (&Arc<OpenRequest>, &mut Hint),
        kind: SendKind,
    ) -> Result<(), Unsent> {
        let mut state = self.state.lock();
        let result = match () {
            () if self.has_ended() => Err(Unsent::LinkDown),
            () if state.rests() && kind.takes_no_room() => Err(Unsent::LinkDown),
            () if state.rests() => Err(Unsent::Full),
            () if state.refuses(kind) => Err(Unsent::Leaving),
            () => match state.send_queue.try_mailbox(request, &mut hint.outlet) {
                Err(refused) => Err(Unsent::at_end(Some(refused), CloseReason::default())),
                Ok(None) => Err(Unsent::Opening),
                Ok(Some(_)) if kind.takes_no_room() => Ok(()),
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
        let Outgoing { message, form, kind, ref archive, .. } = outgoing;
        if let Err(unsent) = self.check_size(archive.len()) {
            return Attempt::Failed(unsent);
        }
        let bytes = archive.len() as u32;
        let mut wait = |state: &mut State, line, ordinal, for_what| {
            let Some(waker) = waker else {
                let opening = for_what == WaitsFor::Opening;
                return Attempt::Failed(if opening { Unsent::Opening } else { Unsent::Full });
            };
            let want = Want { message: *message, ordinal, kind, bytes };
            *place = Some(state.waiting.join(line, waker.clone(), want, Some(for_what)));
            if for_what != WaitsFor::Opening {
                Counters::add(&self.counters.window_stalls, 1);
            }
            Attempt::Wait
        };
        if kind == SendKind::LookUp {
            let look_up = state.send_queue.look_up(request);
            return wait(state, Line::Opening(look_up), hint.ordinal, WaitsFor::Opening);
        }
        let outlet = state.send_queue.outlet(request, &mut hint.outlet);
        // Nothing is sent to a mailbox before it is known which messages it accepts.
        let Some((mailbox, opened)) = state.send_queue.mailbox(outlet) else {
            // It waits with its newest form, than which no earlier one is larger: so the room that
            // it will be granted is enough for each.
            if form != 0 {
                return Attempt::OtherForm(0);
            }
            return wait(state, Line::Opening(outlet), hint.ordinal, WaitsFor::Opening);
        };
        let found = match find(&opened.accepted, message, kind, hint.ordinal) {
            Ok(Found { form: other, .. }) if other.message != form => {
                return Attempt::OtherForm(other.message);
            }
            Ok(found) => found,
            Err(failure) => return Attempt::Failed(failure),
        };
        if kind.takes_no_room() {
            return self.commit_at_opened(state, (request, mailbox), kind);
        }
        hint.ordinal = found.ordinal;
        let line = Line::Room(mailbox);
        if state.waiting.is_waited(line) {
            return wait(state, line, found.ordinal, WaitsFor::Turn);
        }
        match state.room(mailbox, bytes) {
            Room::Yes => {
                state.send_queue.reserve(mailbox, bytes);
                self.commit(state, (mailbox, found), outgoing, waker)
            }
            lacking => {
                // Even if the sender does not wait: it tries again, and would never find room if
                // the peer had no reason to report the few messages that were taken.
                state.send_queue.say_blocked(mailbox, lacking);
                if waker.is_some() && lacking == Room::NotInLink {
                    state.wait_for_link(mailbox);
                }
                wait(state, line, found.ordinal, what_lacks(lacking))
            }
        }
    }

    /// Refuses an archive that is larger than both nodes take.
    pub(super) fn check_size(&self, bytes: usize) -> Result<(), Unsent> {
        let limit = self.message_bytes_max as usize;
        if bytes > self.archive_max() { Err(Unsent::TooLarge { bytes, limit }) } else { Ok(()) }
    }

    /// Takes a later step, of a sender in a line.
    fn resume(
        self: &Arc<Self>,
        state: &mut State,
        (request, hint, key): (&Arc<OpenRequest>, &mut Hint, usize),
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
            Standing::Granted { found, .. } if found.form.message != outgoing.form => {
                Attempt::OtherForm(found.form.message)
            }
            Standing::Granted { mailbox, found } => {
                *place = None;
                let Some((want, _)) = state.waiting.leave(key) else {
                    return Attempt::Wait;
                };
                if want.kind.leads() {
                    state.send_queue.look_again(mailbox, !state.for_link.is_empty());
                }
                if want.kind.takes_no_room() {
                    let done = self.commit_at_opened(state, (request, mailbox), want.kind);
                    state.send_queue.settle(mailbox);
                    return done;
                }
                if state.send_queue.at(mailbox).closed {
                    state.send_queue.release(mailbox, want.bytes);
                    return CLOSED;
                }
                if want.kind == SendKind::Tell && state.waiting.is_waited(Line::Room(mailbox)) {
                    state.waiting.begin_burst(mailbox);
                }
                let bytes = outgoing.archive.len() as u32;
                if bytes != want.bytes {
                    // It has another form now. The room is free again under this lock, so it is
                    // there for a smaller message. A larger one takes its turn again.
                    state.send_queue.release(mailbox, want.bytes);
                    if bytes > want.bytes {
                        return self.begin(state, (request, hint), outgoing, place, waker);
                    }
                    state.send_queue.reserve(mailbox, bytes);
                }
                self.commit(state, (mailbox, found), outgoing, waker)
            }
        }
    }

    /// Commits what takes no room at a mailbox that is open.
    fn commit_at_opened(
        &self,
        state: &mut State,
        (request, mailbox): (&Arc<OpenRequest>, u32),
        kind: SendKind,
    ) -> Attempt {
        if state.send_queue.at(mailbox).closed {
            return CLOSED;
        }
        Attempt::Committed(if let SendKind::UrgentSignal(signal) = kind {
            state.send_queue.signal(mailbox, signal);
            Awaited::Nothing
        } else {
            let accepted = state.send_queue.at(mailbox).accepted.clone();
            let pinned = state.send_queue.pin((request, mailbox), self.peer.incarnation);
            Awaited::Found(pinned, accepted)
        })
    }

    /// Commits a message whose room is reserved.
    pub(super) fn commit(
        self: &Arc<Self>,
        state: &mut State,
        (mailbox, Found { ordinal, form }): (u32, Found),
        Outgoing { message, kind, note, archive, .. }: Outgoing<'_>,
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
            SendKind::Ask { deadline } | SendKind::LeadingAsk { deadline } => {
                let asker = self.replies.lock().insert(waker);
                let Ok(correlation) = state.send_queue.asks.insert(asker) else {
                    state.send_queue.release(mailbox, archive.len() as u32);
                    // Its waker is not the last one: the sender has another.
                    self.replies.lock().remove(asker);
                    return Attempt::Failed(Unsent::TooManyAsks);
                };
                let reply = PendingReply::new(self.clone(), correlation, asker, form.reply);
                (entry(RecordKind::Ask, correlation, deadline), Awaited::Reply(reply))
            }
            SendKind::Tell => (entry(RecordKind::Tell, 0, None), Awaited::Nothing),
            SendKind::ConfirmedTell => {
                let (number, fate) = state.confirms.insert();
                (entry(RecordKind::Tell, number, None), Awaited::Fate(fate))
            }
            SendKind::Signal(_) | SendKind::UrgentSignal(_) | SendKind::LookUp => {
                (entry(RecordKind::Signal, 1, None), Awaited::Nothing)
            }
        };
        state.send_queue.commit(entry, note.cloned(), archive);
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
        let told = place.and_then(|key| state.waiting.outcome(key));
        let attempt = match (*place, told) {
            // A reason that the link heard counts even if the link has ended since.
            (_, Some(why)) => {
                state.leave(place.take());
                Attempt::Failed(why)
            }
            _ if self.has_ended() => {
                *place = None;
                Attempt::LinkEnded
            }
            (None, None) => {
                let outlet = state.send_queue.outlet(request, &mut hint.outlet);
                let message = MessageForms::NONE;
                let want = Want { message, ordinal: 0, kind: SendKind::Signal(0), bytes: 0 };
                let line = Line::Closing(outlet);
                *place = Some(state.waiting.join(line, waker.clone(), want, None));
                Attempt::Wait
            }
            (Some(key), None) => {
                state.waiting.keep(key, waker);
                Attempt::Wait
            }
        };
        self.finish(state);
        attempt
    }

    /// Returns the request for exactly the mailbox that a request led to when the link ended, if it
    /// was open.
    pub(crate) fn found(&self, request: &Arc<OpenRequest>) -> Option<Arc<OpenRequest>> {
        let mut state = self.state.lock();
        let mailbox = state.send_queue.found(request)?;
        Some(state.send_queue.pin((request, mailbox), self.peer.incarnation))
    }
}

impl State {
    /// Returns true if nothing of this kind is committed any more, because one of the two nodes
    /// leaves. (An ask that leads is the business of the layer above, and goes on.)
    fn refuses(&self, kind: SendKind) -> bool {
        let is_asked = matches!(kind, SendKind::Ask { .. });
        self.send_queue.is_leaving() || (self.peer_leaves && is_asked)
    }

    /// Gives up a place that is in no line: its sender waited for the link to go on or to end.
    pub(super) fn leave_aside(&mut self, place: &mut Option<usize>) {
        if let Some(key) = *place
            && self.waiting.stands_aside(key)
        {
            self.leave(place.take());
        }
    }
}

/// Returns what a sender waits for that lacks this room.
fn what_lacks(room: Room) -> WaitsFor {
    match room {
        Room::NotInLink => WaitsFor::LinkWindow,
        _ => WaitsFor::MailboxWindow,
    }
}

const CLOSED: Attempt = Attempt::Failed(Unsent::Closed(CloseReason { code: 0, text: None }));
