//! One turn of a link's driver.

use std::task::{Context, Poll};

use tokio::time::Instant;

use super::{Driver, Phase};
use crate::cause::{Fate, LinkCause, Refusal};
use crate::fabric::{Completion, Notify, Status, Work};
use crate::limits;
use crate::link::{Asker, Counters, Sending};
use crate::memory::{Lease, Slot};
use crate::mutants::planted;
use crate::proto::credit::Class;
use crate::proto::link::Event;
use crate::steps::step;

/// Steps after which a busy driver lets other tasks run.
const STEPS_MAX: u32 = 16;

/// Lists that are reused from turn to turn.
#[derive(Default)]
pub(super) struct Scratch {
    completions: Vec<Completion>,
    events: Vec<Event<Asker>>,
    sending: Sending,
}

/// A frame that arrived: leased upward, or to be copied out of.
pub(super) enum Frame<'a> {
    Leased(&'a Lease),
    Lent(&'a [u8]),
}

impl Driver {
    /// Works until there is nothing to do; ready when the link is to end.
    pub(super) fn turn(&mut self, cx: &mut Context<'_>) -> Poll<LinkCause> {
        // DR-3: before anything is looked at.
        self.link.register(cx.waker());
        let mut armed = false;
        for _ in 0..STEPS_MAX {
            match self.step() {
                Err(cause) => return Poll::Ready(cause),
                Ok(0) if !armed => {
                    // PV-8: armed, the queue is polled once more before the driver sleeps.
                    self.queues.arm(self.notify());
                    armed = true;
                }
                Ok(0) => match self.queues.poll_ready(cx) {
                    Poll::Ready(()) => armed = false,
                    Poll::Pending => return Poll::Pending,
                },
                Ok(_) => armed = false,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Everything there is to do now, once; says how much it was.
    fn step(&mut self) -> Result<usize, LinkCause> {
        self.heed_wishes()?;
        let received = self.receive()?;
        self.report_windows();
        let sent = self.transmit()?;
        if self.proto.is_done() && self.slots.sends_done() {
            return Err(LinkCause::Left);
        }
        Ok(received + sent)
    }

    /// Send completions matter only to who waits for a free slot, or for the end.
    fn notify(&self) -> Notify {
        let waits = self.slots.free.is_empty() || self.proto.is_done();
        if waits { Notify::Any } else { Notify::Solicited }
    }

    fn heed_wishes(&mut self) -> Result<(), LinkCause> {
        let wishes = self.link.take_wishes();
        if let Some(cause) = wishes.close {
            return Err(cause);
        }
        if wishes.leave {
            self.proto.leave();
        }
        if wishes.probe {
            self.proto.probe();
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<usize, LinkCause> {
        let mut completions = std::mem::take(&mut self.scratch.completions);
        let count = self.queues.poll(&mut completions, limits::POLL_BATCH);
        let mut result = Ok(count);
        for completion in completions.drain(..) {
            match &mut result {
                Ok(_) => result = self.complete(completion).map(|()| count),
                // The link ends; the rest of the batch is part of its drain (DR-4).
                Err(cause) => {
                    self.reclaim(completion, cause);
                }
            }
        }
        self.scratch.completions = completions;
        self.refill()?;
        result
    }

    /// One completion; an error of the queue pair is the link's end.
    fn complete(&mut self, completion: Completion) -> Result<(), LinkCause> {
        let Completion { work, slot, status } = completion;
        match (work, status) {
            (Work::Send, Status::Success) => self.slots.free.push(slot),
            (Work::Recv { bytes }, Status::Success) => {
                self.slots.posted -= 1;
                self.take_frame(slot, bytes as usize).map_err(LinkCause::Violation)?;
            }
            (_, status) => {
                // A peer that said goodbye and is gone has left, however its end shows.
                let left = self.proto.peer_left();
                let mut cause = if left { LinkCause::Left } else { LinkCause::Fabric(status) };
                self.reclaim(Completion { work, slot, status }, &mut cause);
                return Err(cause);
            }
        }
        Ok(())
    }

    /// Reads and dispatches one frame; its slot is leased upward where a spare one takes its place.
    pub(super) fn take_frame(
        &mut self,
        slot: Slot,
        bytes: usize,
    ) -> Result<(), crate::cause::Violation> {
        let counters = self.link.counters();
        Counters::add(&counters.frames_received, 1);
        Counters::add(&counters.bytes_received, bytes as u64);
        let now = Instant::now().into_std();
        let mut events = std::mem::take(&mut self.scratch.events);
        let result = match self.slots.pool.take() {
            Some(spare) => {
                self.slots.refill.push(spare);
                let lease = self.slots.pool.lease(slot, bytes);
                let read = self.link.handle_frame(&mut self.proto, &lease, &mut events, now);
                self.dispatch_all(read, &mut events, &Frame::Leased(&lease))
            }
            None => {
                let frame = &slot[..bytes];
                let read = self.link.handle_frame(&mut self.proto, frame, &mut events, now);
                let result = self.dispatch_all(read, &mut events, &Frame::Lent(frame));
                self.slots.refill.push(slot);
                result
            }
        };
        self.scratch.events = events;
        if result.is_err() {
            self.proto.distrust();
        }
        result
    }

    /// Posts fresh slots; only then are the frames they replace counted as consumed (DR-1).
    pub(super) fn refill(&mut self) -> Result<(), LinkCause> {
        if self.slots.refill.is_empty() {
            return Ok(());
        }
        if planted!(UnpostedSlot) && self.slots.posted > 4 {
            self.slots.refill.pop();
        }
        self.slots.posted += self.slots.refill.len();
        let posted = self.queues.post_recv(&mut self.slots.refill);
        self.slots.posted -= self.slots.refill.len();
        posted.map_err(|_| LinkCause::Fabric(Status::Fatal))?;
        self.proto.handle_dispatched();
        Ok(())
    }

    fn transmit(&mut self) -> Result<usize, LinkCause> {
        let mut sent = 0;
        loop {
            let more = self.stage_batch();
            let count = self.slots.batch.len();
            if count == 0 {
                return Ok(sent);
            }
            sent += count;
            self.queues
                .post_send(&mut self.slots.batch)
                .map_err(|_| LinkCause::Fabric(Status::Fatal))?;
            step!(posted);
            if !more {
                return Ok(sent);
            }
        }
    }

    /// Fills a batch; says whether there may be more to send.
    fn stage_batch(&mut self) -> bool {
        let now = Instant::now().into_std();
        let mut sending = std::mem::take(&mut self.scratch.sending);
        let mut more = true;
        while more && self.slots.batch.len() < limits::POST_LIST_MAX {
            let Some(mut slot) = self.slots.free.pop() else {
                more = false;
                break;
            };
            match self.link.poll_transmit(&mut self.proto, &mut slot, &mut sending, now) {
                Some(transmit) => {
                    self.count_sent(&transmit);
                    self.slots.stage(slot, transmit.bytes);
                }
                None => {
                    self.slots.free.push(slot);
                    more = false;
                }
            }
        }
        if !more {
            self.slots.stage_last();
        }
        for letter in sending.closed.drain(..) {
            self.reports.settle(letter, Err(Fate::Refused(Refusal::Closed)));
        }
        self.scratch.sending = sending;
        more
    }

    fn count_sent(&self, transmit: &crate::proto::link::Transmit) {
        let counters = self.link.counters();
        Counters::add(&counters.frames_sent, 1);
        Counters::add(&counters.bytes_sent, transmit.bytes as u64);
        Counters::add(&counters.messages_sent, transmit.messages.into());
        if self.proto.frames_sent() == 0 {
            Counters::add(&counters.count_wraps, 1);
        }
        if transmit.class == Class::Credit {
            Counters::add(&counters.credit_frames_sent, 1);
        }
    }

    pub(super) fn confirmed(&self) {
        self.phase.send_replace(Phase::Confirmed);
    }
}
