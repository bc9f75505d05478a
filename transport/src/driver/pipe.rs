//! The sending side of a link: the protocol, the queue pair and the slots behind it. Owned by the
//! driver, which locks it for a turn at a time; between turns a sender that finds nothing before it
//! may [post](Poster) its own frame.
//!
//! The pipe is locked before the link's state. A sender locks it only if it is free, and holds no
//! other lock then, so it never waits for a turn of the driver. A sender that cannot post wakes the
//! driver.

use parking_lot::Mutex;

use super::slots::Slots;
use crate::cause::LinkCause;
use crate::fabric::{Notify, QueuePair, Status};
use crate::limits;
use crate::link::{Counters, DroppedAsks, LinkHandle, Poster};
use crate::proto;
use crate::proto::credit::Class;
use crate::steps::step;

/// Batches that one call posts: the first one, then messages committed meanwhile. A sender leaves
/// later batches to the driver.
pub(super) const BATCHES_MAX: u32 = 4;
/// Bytes of posted frames not passed on by the fabric, from which on no more are posted.
const BACKLOG_BYTES: usize = 512 * 1024;

/// The sending side of a link.
pub(super) struct Pipe {
    pub(super) proto: proto::link::LinkProtocol,
    pub(super) queues: Box<dyn QueuePair>,
    pub(super) slots: Slots,
    dropped_asks: DroppedAsks,
    ended: bool,
}

impl Pipe {
    pub(super) fn new(
        proto: proto::link::LinkProtocol,
        queues: Box<dyn QueuePair>,
        slots: Slots,
    ) -> Self {
        Pipe { proto, queues, slots, dropped_asks: DroppedAsks::default(), ended: false }
    }

    /// Gives the memory for the tail of the next frame, if it waits for that; all frames before it
    /// were handled. Returns true if it did.
    pub(super) fn put_tail_room(&mut self) -> Result<bool, LinkCause> {
        let Some((frame, bytes)) = self.queues.tail_wanted() else { return Ok(false) };
        let room = self.proto.tail_room(frame, bytes).map_err(|violation| {
            self.proto.distrust();
            LinkCause::Violation(violation)
        })?;
        self.queues.put_tail_room(room);
        Ok(true)
    }

    /// Moves the queue pair to its error state: nothing is posted any more.
    pub(super) fn end(&mut self) {
        self.ended = true;
        self.queues.close();
        // Requests that a failed post left will not be posted.
        self.slots.unstage();
    }

    /// Returns true if no more than the frames of `staged` bytes are to be posted until others are
    /// sent: more would wait behind them.
    fn is_backlogged(&self, staged: usize) -> bool {
        self.queues.unsent_bytes() + staged >= BACKLOG_BYTES
    }

    /// Returns true if nothing can be posted until a send completes.
    fn waits_for_sends(&self) -> bool {
        self.slots.free.is_empty() || self.is_backlogged(0)
    }

    /// Returns which completions are waited for: send completions matter only to a driver that
    /// cannot post, or waits for the end.
    pub(super) fn notify(&self) -> Notify {
        let waits = self.waits_for_sends() || self.proto.is_done();
        if waits { Notify::Any } else { Notify::Solicited }
    }

    /// Posts frames as far as there is something to send and credit for it, in at most
    /// `batches_max` batches. Returns false when there may be more to post now: messages committed
    /// during the last post did not wake the driver.
    pub(super) fn transmit(
        &mut self,
        link: &LinkHandle,
        batches_max: u32,
    ) -> Result<bool, LinkCause> {
        for _ in 0..batches_max {
            self.stage_batch(link);
            if self.slots.batch.is_empty() {
                return Ok(true);
            }
            let posted = self.queues.post_send(&mut self.slots.batch);
            posted.map_err(|error| LinkCause::Fabric(Status::Refused(error)))?;
            step!(posted);
        }
        Ok(false)
    }

    /// Fills a batch.
    fn stage_batch(&mut self, link: &LinkHandle) {
        let (mut more, mut staged) = (!self.is_backlogged(0), 0);
        while more && self.slots.batch.len() < limits::POST_LIST_MAX {
            let Some(mut slot) = self.slots.free.pop() else {
                more = false;
                break;
            };
            let transmit;
            (transmit, more) =
                link.poll_transmit(&mut self.proto, &mut slot, &mut self.dropped_asks);
            match transmit {
                Some(transmit) => {
                    self.count_sent(link, &transmit);
                    staged += transmit.frame_bytes();
                    more &= !self.is_backlogged(staged);
                    self.slots.stage(slot, transmit.bytes, transmit.tail);
                }
                None => self.slots.free.push(slot),
            }
        }
        if !more {
            self.slots.stage_last();
        }
    }

    fn count_sent(&self, link: &LinkHandle, transmit: &proto::link::Transmit) {
        let counters = link.counters();
        Counters::add(&counters.frames_sent, 1);
        Counters::add(&counters.bytes_sent, transmit.frame_bytes() as u64);
        Counters::add(&counters.messages_sent, transmit.messages.into());
        if self.proto.frames_sent() == 0 {
            Counters::add(&counters.count_wraps, 1);
        }
        if transmit.class == Class::Credit {
            Counters::add(&counters.credit_frames_sent, 1);
        }
    }
}

impl Poster for Mutex<Pipe> {
    fn try_post(&self, link: &LinkHandle) -> bool {
        // The task that has the lock may already be past the messages that wait now.
        let Some(mut pipe) = self.try_lock() else { return false };
        if pipe.ended {
            return true;
        }
        match pipe.transmit(link, BATCHES_MAX) {
            // A driver that waits for completions has to say so to the queue pair.
            Ok(all) => all && !pipe.waits_for_sends(),
            Err(cause) => {
                link.close(cause);
                true
            }
        }
    }
}
