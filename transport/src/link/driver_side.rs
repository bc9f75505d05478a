//! The driver's side of a link's handle: called by the driver alone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Instant;

use super::asks::Asker;
use super::{Counters, DriverRequests, LinkHandle, Replier, ReplyLoss, State, WaitsFor};
use crate::cause::{LinkCause, Refusal, Violation};
use crate::driver_signals::DriverSignals;
use crate::memory::TailRoom;
use crate::mutants::planted;
use crate::proto;
use crate::proto::fate::{Consumed, Sent, What};
use crate::proto::fetches::Lent;
use crate::proto::header::RecordKind;
use crate::proto::lanes::Entry;
use crate::proto::link::{Event, Transmit};
use crate::proto::loans::{LoanCounts, NotLent};
use crate::proto::send_queue::Fence;
use crate::reach::LentMemory;
use crate::steps::step;
use crate::unresolved::UnackedTell;

/// Messages and the report that a link left when it ended.
pub(crate) struct Unsettled {
    /// Tells that were never sent.
    pub(crate) not_sent: Vec<UnackedTell>,
    /// Tells that were sent and not acknowledged, with frame and place.
    pub(crate) doubts: Vec<((u32, u16), UnackedTell)>,
    /// The report that the peer may get of its own messages.
    pub(crate) report: Option<Consumed>,
}

/// Asks that are not sent, found while a frame was written; lists that are reused.
#[derive(Default)]
pub(crate) struct DroppedAsks {
    /// Waiters of asks that were not sent, because they came too late.
    late: Vec<Asker>,
    dropped: Vec<Entry>,
}

impl LinkHandle {
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the signals by which its driver is told of mailboxes.
    pub(crate) fn signals(&self) -> &Arc<DriverSignals> {
        &self.signals
    }

    /// Returns a fence that [passes](Self::has_passed) when all committed so far was written.
    pub(crate) fn fence(&self) -> Fence {
        self.state.lock().send_queue.fence()
    }

    pub(crate) fn has_passed(&self, fence: Fence) -> bool {
        self.state.lock().send_queue.has_passed(fence)
    }

    /// Keeps the driver's waker; called before each turn looks for work.
    pub(crate) fn register(&self, waker: &Waker) {
        self.signals.register(waker);
    }

    /// Reads one frame, with the memory that its tail was read into; grants the room that it
    /// reports to the senders that wait.
    pub(crate) fn handle_frame(
        &self,
        proto: &mut proto::link::LinkProtocol,
        frame: (&[u8], Option<TailRoom>),
        events: &mut Vec<Event<Asker>>,
        now: Instant,
    ) -> Result<(), Violation> {
        let mut state = self.state.lock();
        let result = proto.handle_frame(frame, &mut state.send_queue, events, now);
        state.quiet = proto.is_quiet();
        // The driver sends after it has acted on the frame: commits until then need not wake it.
        state.awake = true;
        let returned = state.send_queue.take_returned();
        let gone = state.send_queue.open_asks.take_gone();
        let gone: Vec<_> = gone.iter().filter_map(|ask| state.for_given_up.remove(ask)).collect();
        self.count_loans(&mut state);
        self.finish_as_driver(state);
        drop(returned);
        gone.into_iter().for_each(Waker::wake);
        result
    }

    /// Writes the next frame into `slot`, if there is something to send. Returns it, and true if
    /// there may be more now. Once a frame was written, a commit does not wake the driver until
    /// this was called again and found nothing.
    pub(crate) fn poll_transmit(
        &self,
        proto: &mut proto::link::LinkProtocol,
        slot: &mut [u8],
        dropped_asks: &mut DroppedAsks,
    ) -> (Option<Transmit>, bool) {
        let mut state = self.state.lock();
        state.send_queue.retry_loans();
        let mut idle = proto.is_idle(&state.send_queue);
        if idle && state.has_nothing_to_tell(proto) {
            (state.awake, state.starved) = (false, false);
            return (None, false);
        }
        while let Some((number, body)) = state.send_queue.begin_to_lend() {
            drop(state);
            let link = self.me.clone();
            let lent = self.reach.lend(&body, move |lent| {
                if let Some(link) = link.upgrade() {
                    link.lent(number, lent);
                }
            });
            state = self.state.lock();
            if let Some(lent) = lent {
                state.send_queue.lent(number, lent);
            }
            idle = proto.is_idle(&state.send_queue);
        }
        let mut transmit = None;
        if !idle {
            let now = tokio::time::Instant::now().into_std();
            let dropped = &mut dropped_asks.dropped;
            transmit = proto.poll_transmit(&mut state.send_queue, slot, dropped, now);
        }
        if state.uncredited.is_some() != proto.waits_for_credits() {
            self.turn_uncredited(&mut state);
        }
        let dropped = !dropped_asks.dropped.is_empty();
        for entry in dropped_asks.dropped.drain(..) {
            dropped_asks.late.extend(state.drop_entry(&entry).0);
        }
        let mut for_replies = Vec::new();
        if !state.for_replies.is_empty() && state.send_queue.takes_replies() {
            for_replies = std::mem::take(&mut state.for_replies);
        }
        // The records that notices queue are sent now, not at the next occasion.
        if state.send_queue.has_news() {
            state.act_on_notices();
        }
        let more = (transmit.is_some() || dropped) && !proto.is_idle(&state.send_queue);
        // While credits are gone, what brings them back wakes the driver: no further message need,
        // only what could go without them.
        state.awake = more || transmit.is_some() || proto.waits_for_credits();
        state.starved = transmit.is_none() && proto.waits_for_credits() && proto.may_send_urgent();
        self.count_loans(&mut state);
        self.finish_as_driver(state);
        for_replies.into_iter().for_each(Waker::wake);
        for asker in dropped_asks.late.drain(..) {
            self.answer(asker, Err(ReplyLoss::Late));
        }
        if dropped {
            // A mailbox that closes may have waited for the dropped message. A sender may have
            // dropped it, and only the driver tells the peer of the end.
            self.signals.wake();
        }
        (transmit, more)
    }

    /// Takes the result of registering a message with a device that took a while to do so.
    fn lent(&self, number: u16, lent: Result<LentMemory, NotLent>) {
        let mut state = self.state.lock();
        state.send_queue.lent(number, lent);
        let returned = state.send_queue.take_returned();
        self.count_loans(&mut state);
        state.awake = true;
        drop(state);
        self.signals.wake();
        drop(returned);
    }

    /// Counts what became of messages that may be lent.
    #[inline]
    fn count_loans(&self, state: &mut State) {
        let counts = state.send_queue.take_loan_counts();
        if counts != LoanCounts::default() {
            self.counters.add_loans(&counts);
        }
    }

    /// Starts or ends the wait of committed messages for credits.
    #[cold]
    fn turn_uncredited(&self, state: &mut State) {
        match state.uncredited.take() {
            Some(since) => self.counters.waited(WaitsFor::Credits, since.elapsed()),
            None => {
                state.uncredited = Some(tokio::time::Instant::now());
                Counters::add(&self.counters.credit_stalls, 1);
            }
        }
    }

    /// Takes the session's requests; each is given once. Grants the next parts of the room that
    /// senders wait for (WQ-4): the tasks that were granted some have had their time.
    pub(crate) fn take_requests(&self) -> DriverRequests {
        let mut state = self.state.lock();
        let requests = std::mem::take(&mut state.requests);
        if state.waiting.is_any_put_off() {
            state.grant_next_parts();
        }
        self.finish_as_driver(state);
        if requests.leave {
            self.stop_commits();
        }
        requests
    }

    /// Fetches a message that the peer has lent; the result comes with the
    /// [requests](Self::take_requests).
    pub(crate) fn fetch(self: &Arc<Self>, lent: Lent) {
        let link = self.clone();
        self.reach.fetch(lent, move |fetched| {
            step!(any fetched.is_ok().then_some(crate::steps::Step::Fetched));
            // An ended link has no driver to take the result. This is checked under the lock under
            // which its end empties the requests; the result is dropped without the lock.
            let left = link.request(|requests| {
                if link.has_ended() {
                    return Some(fetched);
                }
                requests.fetched.push((lent.number, fetched));
                None
            });
            drop(left);
        });
    }

    /// Looks after one-sided access to the peer, and takes back loans that were not answered in
    /// time (LO-4). Called by the session now and then.
    pub(crate) fn look_at_reach(&self, both_run: bool) {
        if let Some(ended_before) = self.reach.look(both_run) {
            let mut state = self.state.lock();
            state.send_queue.take_back_loans(ended_before);
            let returned = state.send_queue.take_returned();
            self.count_loans(&mut state);
            self.finish(state);
            // A mailbox that closes may have waited for a message that now goes in parts.
            self.signals.wake();
            drop(returned);
        }
    }

    /// Stops commits: one of the two nodes is leaving. Wakes all that wait.
    pub(crate) fn stop_commits(&self) {
        let mut state = self.state.lock();
        state.send_queue.leave();
        state.waiting.wake_all();
        self.finish_as_driver(state);
    }

    /// Answers an ask that was not delivered, because its mailbox had closed.
    pub(crate) fn refuse_ask(self: &Arc<Self>, correlation: u64) {
        drop(Replier::new(self.clone(), correlation));
    }

    /// Settles a tell that has its fate; returns which it was, for the report. `confirm` is 0, or
    /// the number of its sender that waits.
    pub(crate) fn settle(&self, mailbox: u32, message: u128, confirm: u64) -> UnackedTell {
        let mut state = self.state.lock();
        let tell = state.unacked_tell(mailbox, message, confirm);
        state.send_queue.settle(mailbox);
        self.finish_as_driver(state);
        tell
    }

    /// Settles an ask that the peer refused; its asker is told.
    pub(crate) fn settle_ask(&self, mailbox: u32, correlation: u64, refusal: Refusal) {
        let mut state = self.state.lock();
        let asker = state.send_queue.asks.answer(correlation);
        state.send_queue.settle(mailbox);
        self.finish_as_driver(state);
        if let Some(asker) = asker {
            self.answer(asker, Err(ReplyLoss::Refused(refusal)));
        }
    }

    /// Drops a committed message whose mailbox closed. Returns it for the report, if it is a tell;
    /// of an ask, the asker is told.
    pub(crate) fn drop_unsent(&self, entry: &Entry) -> Option<UnackedTell> {
        let mut state = self.state.lock();
        let (asker, tell) = state.drop_entry(entry);
        self.finish_as_driver(state);
        if let Some(asker) = asker {
            self.answer(asker, Err(ReplyLoss::Refused(Refusal::Closed)));
        }
        tell
    }

    /// Tells a waiting sender that its tell was delivered.
    pub(crate) fn delivered(&self, confirm: u64) {
        let sender = self.state.lock().confirms.take(confirm);
        if let Some(sender) = sender {
            sender.tell(Ok(()));
        }
    }

    /// Ends the link: asks fail, waiters wake, and committed messages are given back.
    pub(crate) fn end(
        &self,
        proto: &mut proto::link::LinkProtocol,
        cause: &LinkCause,
    ) -> Unsettled {
        let mut state = self.state.lock();
        self.ended.store(true, Ordering::Release);
        let asks: Vec<_> =
            if planted!(OpenAsks) { Vec::new() } else { state.send_queue.asks.end().collect() };
        let (mut wakers, waited) = state.waiting.end();
        wakers.append(&mut state.for_replies);
        wakers.extend(state.for_given_up.drain().map(|(_, waker)| waker));
        let uncredited = state.uncredited.take();
        self.count_loans(&mut state);
        let (entries, memory) = state.send_queue.end();
        let tells = entries.iter().filter(|entry| entry.kind == RecordKind::Tell);
        let not_sent =
            tells.map(|e| state.unacked_tell(e.mailbox, e.message, e.correlation)).collect();
        let (in_flight, report) = proto.end();
        let doubts = in_flight.into_iter().flat_map(Sent::each).filter_map(|sent| {
            let What::Tell { message, confirm } = sent.what else { return None };
            Some(((sent.frame, sent.place), state.unacked_tell(sent.mailbox, message, confirm)))
        });
        let doubts = doubts.collect();
        // Confirmations are left only where a turn panicked: their fates are unknown.
        let unsaid = std::mem::take(&mut state.confirms);
        let fetched = std::mem::take(&mut state.requests.fetched);
        drop(state);
        drop((memory, unsaid, fetched));
        let uncredited = uncredited.map(|since| (WaitsFor::Credits, since.elapsed()));
        for (for_what, waited) in waited.into_iter().chain(uncredited) {
            self.counters.waited(for_what, waited);
        }
        for (ask, arrived) in asks {
            let cause = cause.clone();
            let loss = if arrived { ReplyLoss::LinkDown(cause) } else { ReplyLoss::Unsent(cause) };
            self.answer(ask, Err(loss));
        }
        if !planted!(OpenAsks) {
            self.answer_all(&ReplyLoss::LinkDown(cause.clone()));
        }
        wakers.into_iter().for_each(Waker::wake);
        Unsettled { not_sent, doubts, report }
    }
}

impl State {
    /// Returns true if no sender waits for credits or for room for its answer, and none is to be
    /// told of anything: where nothing is to be sent, either, a look has nothing to do.
    fn has_nothing_to_tell(&self, proto: &proto::link::LinkProtocol) -> bool {
        let waits = self.uncredited.is_some() || proto.waits_for_credits();
        !waits && self.for_replies.is_empty() && !self.has_news()
    }

    fn unacked_tell(&mut self, mailbox: u32, message: u128, confirm: u64) -> UnackedTell {
        let request = self.send_queue.request_of(mailbox);
        UnackedTell { request, message, confirm: self.confirms.take(confirm) }
    }

    /// Settles a committed message that will not be sent. Returns the waiter of an ask, or a tell.
    fn drop_entry(&mut self, entry: &Entry) -> (Option<Asker>, Option<UnackedTell>) {
        let (mut asker, mut tell) = (None, None);
        match entry.kind {
            RecordKind::Ask => asker = self.send_queue.asks.answer(entry.correlation),
            RecordKind::Tell => {
                tell = Some(self.unacked_tell(entry.mailbox, entry.message, entry.correlation));
            }
            _ => {}
        }
        self.send_queue.settle(entry.mailbox);
        (asker, tell)
    }
}
