//! One turn of a link's driver.

use std::hint;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::Driver;
use super::pipe::{BATCHES_MAX, Pipe};
use super::spin::{Next, SEAT};
use crate::cause::LinkCause;
use crate::fabric::{Completion, Status, Work};
use crate::limits;
use crate::link::{Asker, Counters};
use crate::memory::{Lease, Slot, TailRoom};
use crate::mutants::planted;
use crate::proto::link::Event;

#[cfg(test)]
mod tests;

/// Steps after which a busy driver lets other tasks run.
const STEPS_MAX: u32 = 16;

/// The end of a turn that does not sleep.
pub(super) enum Turn {
    /// The next turn begins when other tasks had theirs.
    Yield,
    /// The link ends.
    End(LinkCause),
}

/// Lists that are reused from turn to turn.
#[derive(Default)]
pub(super) struct Scratch {
    completions: Vec<Completion>,
    events: Vec<Event<Asker>>,
}

/// The news that a driver has to look at beside completions (DR-5).
pub(super) struct News {
    /// How often the driver had been woken when this turn began.
    wakes: u64,
    /// The last look left something to be done.
    more: bool,
}

impl News {
    /// Returns the news of a driver that has not looked yet.
    pub(super) fn all() -> Self {
        News { wakes: 0, more: true }
    }
}

/// A frame that arrived: leased upward, or to be copied out of.
pub(super) enum Frame<'a> {
    Leased(&'a Lease),
    Lent(&'a [u8]),
}

impl Driver {
    /// Works until there is nothing to do; pending when it sleeps.
    pub(super) fn turn(&mut self, pipe: &Mutex<Pipe>, cx: &mut Context<'_>) -> Poll<Turn> {
        // DR-3: before anything is looked at.
        self.link.register(cx.waker());
        let mut pipe = pipe.lock();
        let wakes = self.link.signals().wakes();
        if wakes != self.news.wakes {
            self.news = News { wakes, more: true };
            if let Err(cause) = self.heed_requests(&mut pipe) {
                return Poll::Ready(Turn::End(cause));
            }
        }
        let mut steps = 0;
        while steps < STEPS_MAX {
            match self.step(&mut pipe, cx) {
                Ok(None) => steps += 1,
                // Senders only try the lock: here they find it free.
                Ok(Some(Next::Again)) => MutexGuard::unlocked_fair(&mut pipe, hint::spin_loop),
                Ok(Some(Next::Yield)) => return Poll::Ready(Turn::Yield),
                Ok(Some(Next::Sleep)) => {
                    // A driver that slept looks everywhere for what woke it.
                    self.news.more = true;
                    return Poll::Pending;
                }
                Err(cause) => return Poll::Ready(Turn::End(cause)),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Does everything there is to do now, once; `None` when there is more to do at once.
    fn step(&mut self, pipe: &mut Pipe, cx: &mut Context<'_>) -> Result<Option<Next>, LinkCause> {
        if self.work(pipe)? {
            return Ok(None);
        }
        let me = Arc::as_ptr(&self.link).addr();
        let carried = self.link.counters().carried();
        let next = SEAT.with(|seat| self.spin.next((me, seat), carried, time::Instant::now));
        if next != Next::Sleep {
            return Ok(Some(next));
        }
        // PV-8: armed, the queue is polled once more before the driver sleeps. A message that a
        // sender commits meanwhile wakes it (DR-3).
        pipe.queues.arm(pipe.notify());
        self.news.more = self.receive(pipe)? > 0 || self.growth.grow(pipe, self.link.counters());
        if self.news.more {
            return Ok(None);
        }
        Ok(pipe.queues.poll_ready(cx).is_pending().then_some(Next::Sleep))
    }

    /// Reads arrived frames, sends waiting messages; returns true if there is more to do at once.
    fn work(&mut self, pipe: &mut Pipe) -> Result<bool, LinkCause> {
        let received = self.receive(pipe)?;
        let News { wakes, more } = self.news;
        if received == 0 && !more && self.link.signals().wakes() == wakes {
            return Ok(false);
        }
        let reported = self.report_windows(pipe);
        let sent_all = pipe.transmit(&self.link, BATCHES_MAX)?;
        // (LK-3: the peer sends nothing but credit from now on, so closing cuts nothing off.)
        if pipe.proto.is_done() && pipe.slots.sends_done() {
            return Err(LinkCause::Left);
        }
        // Reports that an answer to an OPEN kept from the frame go with the next look.
        let late = !reported && pipe.proto.takes_control() && !planted!(LateReport);
        let closes = reported && self.may_close();
        self.news.more = received >= limits::POLL_BATCH || !sent_all || late || closes;
        Ok(self.news.more)
    }

    fn heed_requests(&mut self, pipe: &mut Pipe) -> Result<(), LinkCause> {
        let requests = self.link.take_requests();
        if let Some(cause) = requests.close {
            return Err(cause);
        }
        if requests.leave {
            pipe.proto.leave();
        }
        if requests.probe {
            pipe.proto.probe();
        }
        for (loan, fetched) in requests.fetched {
            let counters = self.link.counters();
            let counter =
                fetched.as_ref().map_or(&counters.fetches_refused, |_| &counters.messages_fetched);
            Counters::add(counter, 1);
            pipe.proto.fetched(loan, fetched);
        }
        Ok(())
    }

    fn receive(&mut self, pipe: &mut Pipe) -> Result<usize, LinkCause> {
        let mut completions = std::mem::take(&mut self.scratch.completions);
        let mut count = pipe.queues.poll(&mut completions, limits::POLL_BATCH);
        // At most one frame waits for the memory of its tail.
        if count == 0 && pipe.put_tail_room()? {
            count = pipe.queues.poll(&mut completions, limits::POLL_BATCH);
        }
        if count == 0 {
            self.scratch.completions = completions;
            return Ok(0);
        }
        let mut result = Ok(count);
        for completion in completions.drain(..) {
            match &mut result {
                Ok(_) => result = self.complete(pipe, completion).map(|()| count),
                // The link ends; the rest of the batch is part of its drain.
                Err(cause) => {
                    self.reclaim(pipe, completion, cause);
                }
            }
        }
        self.scratch.completions = completions;
        // A link that ends needs no more slots, and its cause is the first one.
        if result.is_ok() {
            Self::refill(pipe)?;
        }
        result
    }

    /// Handles one completion; an error of the queue pair is the link's end.
    fn complete(&mut self, pipe: &mut Pipe, completion: Completion) -> Result<(), LinkCause> {
        let Completion { work, slot, status } = completion;
        match (work, status) {
            (Work::Send, Status::Success) => pipe.slots.free.push(slot),
            (Work::Recv { bytes }, Status::Success) => {
                pipe.slots.posted -= 1;
                self.take_frame(pipe, slot, bytes as usize).map_err(LinkCause::Violation)?;
            }
            (_, status) => {
                // A peer that said goodbye and is gone has left, however its end shows.
                let left = pipe.proto.peer_left();
                let mut cause = if left { LinkCause::Left } else { LinkCause::Fabric(status) };
                self.reclaim(pipe, Completion { work, slot, status }, &mut cause);
                return Err(cause);
            }
        }
        Ok(())
    }

    /// Reads and dispatches one frame; its slot is leased upward where a spare one takes its place.
    pub(super) fn take_frame(
        &mut self,
        pipe: &mut Pipe,
        slot: Slot,
        bytes: usize,
    ) -> Result<(), crate::cause::Violation> {
        let counters = self.link.counters();
        Counters::add(&counters.frames_received, 1);
        let tail = pipe.queues.take_tail();
        let tail_bytes = tail.as_ref().map_or(0, TailRoom::len);
        Counters::add(&counters.bytes_received, (bytes + tail_bytes) as u64);
        let now = Instant::now().into_std();
        let mut events = std::mem::take(&mut self.scratch.events);
        let result = match pipe.slots.pool.take() {
            Some(spare) => {
                pipe.slots.refill.push(spare);
                let lease = pipe.slots.pool.lease(slot, bytes);
                let frame = (&lease[..], tail);
                let read = self.link.handle_frame(&mut pipe.proto, frame, &mut events, now);
                self.dispatch_all(pipe, read, &mut events, &Frame::Leased(&lease))
            }
            None => {
                let frame = &slot[..bytes];
                let proto = &mut pipe.proto;
                let read = self.link.handle_frame(proto, (frame, tail), &mut events, now);
                let result = self.dispatch_all(pipe, read, &mut events, &Frame::Lent(frame));
                pipe.slots.refill.push(slot);
                result
            }
        };
        self.scratch.events = events;
        if result.is_err() {
            pipe.proto.distrust();
        }
        result
    }

    /// Posts fresh slots; only then are the frames they replace counted as consumed (LK-2).
    fn refill(pipe: &mut Pipe) -> Result<(), LinkCause> {
        if pipe.slots.refill.is_empty() {
            return Ok(());
        }
        if planted!(UnpostedSlot) && pipe.slots.posted > 4 {
            pipe.slots.refill.pop();
        }
        pipe.slots.posted += pipe.slots.refill.len();
        let posted = pipe.queues.post_recv(&mut pipe.slots.refill);
        pipe.slots.posted -= pipe.slots.refill.len();
        posted.map_err(|error| LinkCause::Fabric(Status::Refused(error)))?;
        pipe.proto.handle_dispatched();
        Ok(())
    }
}
