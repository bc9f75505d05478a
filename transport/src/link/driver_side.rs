//! What only the driver calls.

use std::sync::atomic::Ordering;
use std::task::Waker;

use tokio::time::Instant;

use super::marks::Dirty;
use super::{Counters, Link, ReplyLoss, State, WaitsFor, Wishes};
use crate::cause::LinkCause;
use crate::memory::Payload;
use crate::mutants::planted;
use crate::past::Letter;
use crate::proto;
use crate::proto::fate::Consumed;
use crate::proto::header::RecordKind;
use crate::proto::link::{Event, Transmit};
use crate::proto::outbound::Dropped;

/// What was left when a link ended.
pub(crate) struct Remains {
    /// Tells that were never sent.
    pub(crate) not_sent: Vec<Letter>,
    /// Tells that were sent and not acknowledged, with frame and place.
    pub(crate) doubts: Vec<((u32, u16), Letter)>,
    /// What the peer may be told of its own.
    pub(crate) word: Option<Consumed>,
}

impl Link {
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Keeps the driver's waker; called before each turn looks for work.
    pub(crate) fn register(&self, waker: &Waker) {
        self.news.register(waker);
    }

    /// Reads one frame; wakes the senders it has news for.
    pub(crate) fn handle_frame(
        &self,
        proto: &mut proto::link::Link,
        frame: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), crate::cause::Violation> {
        let mut wake = Vec::new();
        let mut state = self.state.lock();
        let result = proto.handle_frame(frame, &mut state.outbound, events);
        for notice in state.outbound.take_notices() {
            state.lines.notify(notice, &mut wake);
        }
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        result
    }

    /// Writes the next frame into `slot`.
    pub(crate) fn poll_transmit(
        &self,
        proto: &mut proto::link::Link,
        slot: &mut [u8],
        dropped: &mut Vec<Dropped>,
    ) -> Option<Transmit> {
        let mut state = self.state.lock();
        let transmit = proto.poll_transmit(&mut state.outbound, slot, dropped);
        if state.uncredited.is_some() != proto.waits_for_credits() {
            self.turn_uncredited(&mut state);
        }
        if transmit.is_none() {
            state.awake = false;
        }
        transmit
    }

    /// What was committed begins to wait for credits, or has waited.
    #[cold]
    fn turn_uncredited(&self, state: &mut State) {
        match state.uncredited.take() {
            Some(since) => self.counters.waited(WaitsFor::Credits, since.elapsed()),
            None => {
                state.uncredited = Some(Instant::now());
                Counters::add(&self.counters.credit_stalls, 1);
            }
        }
    }

    /// What the session wants; each wish is given once.
    pub(crate) fn take_wishes(&self) -> Wishes {
        let wishes = std::mem::take(&mut self.state.lock().wishes);
        if wishes.leave {
            self.stop_commits();
        }
        wishes
    }

    /// Nothing new is committed from now on: one of the two is leaving. Who waits is told.
    pub(crate) fn stop_commits(&self) {
        let mut state = self.state.lock();
        state.outbound.leave();
        let wakers = state.lines.wakers();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The dirty marks since the last call.
    pub(crate) fn take_dirty(&self) -> Dirty {
        self.news.take()
    }

    /// The peer waits for the link's window, or no longer does.
    pub(crate) fn set_peer_blocked(&self, blocked: bool) {
        self.news.set_peer_blocked(blocked);
    }

    /// Gives an answer to its asker; a late one is dropped.
    pub(crate) fn answer(&self, correlation: u64, answer: Result<Payload, ReplyLoss>) {
        let asker = self.state.lock().asks.take(correlation);
        if let Some(asker) = asker {
            // The asker may have gone between the two lines; then nobody wants it.
            drop(asker.send(answer));
        }
    }

    /// A message has its fate: gives which it was, for the report. `confirm` is 0, or the number
    /// of a tell's sender that waits.
    pub(crate) fn settle(&self, port: u32, message: u128, confirm: u64) -> Letter {
        let mut state = self.state.lock();
        let request = state.outbound.request_of(port);
        state.outbound.settle(port);
        Letter { request, message, confirm: state.confirms.take(confirm) }
    }

    /// A tell was delivered whose sender waits to hear so.
    pub(crate) fn delivered(&self, confirm: u64) {
        let sender = self.state.lock().confirms.take(confirm);
        if let Some(sender) = sender {
            sender.tell(Ok(()));
        }
    }

    /// Ends the link (LN-3): asks fail, waiters wake, and what was committed is given back.
    pub(crate) fn end(&self, proto: &mut proto::link::Link, cause: &LinkCause) -> Remains {
        let mut state = self.state.lock();
        self.ended.store(true, Ordering::Release);
        let asks = if planted!(OpenAsks) { Vec::new() } else { state.asks.end() };
        let wakers = state.lines.end();
        let State { outbound, confirms, .. } = &mut *state;
        let entries = outbound.end();
        let mut letter = |port, message, confirm| Letter {
            request: outbound.request_of(port),
            message,
            confirm: confirms.take(confirm),
        };
        let tells = entries.iter().filter(|entry| entry.kind == RecordKind::Tell);
        let not_sent = tells.map(|e| letter(e.port, e.message, e.correlation)).collect();
        let (in_flight, word) = proto.end();
        let tells = in_flight.iter().filter(|sent| sent.correlation == 0 && sent.message != 0);
        let doubts = tells.map(|s| ((s.frame, s.place), letter(s.port, s.message, s.confirm)));
        let doubts = doubts.collect();
        drop(state);
        for ask in asks {
            drop(ask.send(Err(ReplyLoss::LinkDown(cause.clone()))));
        }
        wakers.into_iter().for_each(Waker::wake);
        Remains { not_sent, doubts, word }
    }
}
