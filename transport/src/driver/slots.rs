//! The slots of one link: the pool behind the receive ring, and the send slots.

use crate::fabric::SendRequest;
use crate::limits;
use crate::memory::{Pool, Slot, Tail};

/// Slots that are not with the queue pair, and the batches on their way to it.
pub(super) struct Slots {
    pub(super) pool: Pool,
    /// Free send slots.
    pub(super) free: Vec<Slot>,
    /// Send slots in all.
    send_total: usize,
    /// Receive slots with the queue pair.
    pub(super) posted: usize,
    /// To be posted as receives.
    pub(super) refill: Vec<Slot>,
    /// To be posted as sends.
    pub(super) batch: Vec<SendRequest>,
    inline_max: u32,
    unsignaled: u32,
}

impl Slots {
    pub(super) fn new(pool: Pool, free: Vec<Slot>, posted: usize, inline_max: u32) -> Self {
        let send_total = free.len();
        Slots {
            pool,
            free,
            send_total,
            posted,
            refill: Vec::with_capacity(limits::POLL_BATCH),
            batch: Vec::with_capacity(limits::POST_LIST_MAX),
            inline_max,
            unsignaled: 0,
        }
    }

    /// Returns the number of send slots in all.
    pub(super) fn sends(&self) -> usize {
        self.send_total
    }

    /// Adds send slots.
    pub(super) fn add_sends(&mut self, slots: Vec<Slot>) {
        self.send_total += slots.len();
        self.free.extend(slots);
    }

    /// Adds a frame to the batch.
    pub(super) fn stage(&mut self, slot: Slot, bytes: usize, tail: Option<Tail>) {
        self.unsignaled += 1;
        // A full batch may turn out to be the last before idle, so its end is signaled too.
        let full = self.batch.len() + 1 == limits::POST_LIST_MAX;
        let signaled = full || self.unsignaled >= limits::SIGNAL_EVERY || self.free.is_empty();
        if signaled {
            self.unsignaled = 0;
        }
        let bytes = bytes as u32;
        // Every frame is solicited: what may unblock a sender always wakes it.
        let inline = bytes <= self.inline_max && tail.is_none();
        self.batch.push(SendRequest { slot, bytes, tail, signaled, solicited: true, inline });
    }

    /// Marks the batch as the last before idle: its end is signaled, so that no slot stays out.
    pub(super) fn stage_last(&mut self) {
        if let Some(last) = self.batch.last_mut() {
            last.signaled = true;
            self.unsignaled = 0;
        }
    }

    /// Takes back the slots of the batch.
    pub(super) fn unstage(&mut self) {
        self.free.extend(self.batch.drain(..).map(|request| request.slot));
    }

    /// Returns true if every send has completed.
    pub(super) fn sends_done(&self) -> bool {
        self.free.len() == self.send_total && self.batch.is_empty()
    }
}
