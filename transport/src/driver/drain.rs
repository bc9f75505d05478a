//! The end of a link (DR-4).

use std::future::poll_fn;
use std::task::{Context, Poll};

use super::{Driver, Phase};
use crate::cause::{Fate, LinkCause};
use crate::fabric::{Completion, Notify, Status, Work};
use crate::limits;
use crate::link::{Counters, Remains};
use crate::mutants::planted;

const FLUSHED: LinkCause = LinkCause::Fabric(Status::Flushed);

impl Driver {
    /// Moves the queue pair to the error state and takes back its slots; what had arrived before is
    /// still dispatched, unless the peer broke the protocol.
    ///
    /// The two queues complete in no order to each other, so the first error that was seen may be a
    /// mere flush: the one behind it becomes the cause. A flush with nothing behind it is a
    /// connection that was closed while nothing was being sent.
    pub(super) async fn drain(&mut self, cause: &mut LinkCause) {
        self.queues.close();
        let drained = poll_fn(|cx| self.drain_turn(cx, cause));
        if tokio::time::timeout(limits::DRAIN_TIMEOUT, drained).await.is_err() {
            // The slots go with the queue pair (PV-2).
            tracing::debug!(peer = %self.reports.peer.name, "a closing queue pair kept its slots");
        }
        if *cause == FLUSHED {
            *cause = LinkCause::Closed;
        }
    }

    fn drain_turn(&mut self, cx: &mut Context<'_>, cause: &mut LinkCause) -> Poll<()> {
        let mut armed = false;
        loop {
            let mut completions = Vec::new();
            self.queues.poll(&mut completions, limits::POLL_BATCH);
            let idle = completions.is_empty();
            for completion in completions {
                self.reclaim(completion, cause);
            }
            if self.slots.posted == 0 && self.slots.sends_done() {
                return Poll::Ready(());
            }
            if idle && armed && self.queues.poll_ready(cx).is_pending() {
                return Poll::Pending;
            }
            if idle {
                // PV-8: armed, the queue is polled once more before the driver sleeps.
                self.queues.arm(Notify::Any);
            }
            armed = idle;
        }
    }

    /// Takes a slot back from a link that ends. A frame that had arrived is dispatched, as long as
    /// the peer is to be trusted.
    pub(super) fn reclaim(&mut self, completion: Completion, cause: &mut LinkCause) {
        let Completion { work, slot, status } = completion;
        if *cause == FLUSHED && !matches!(status, Status::Success | Status::Flushed) {
            *cause = LinkCause::Fabric(status);
        }
        match work {
            Work::Send => self.slots.free.push(slot),
            Work::Recv { bytes } => {
                self.slots.posted -= 1;
                let trusted = !self.proto.is_distrusted();
                if status == Status::Success && trusted && planted!(DroppedAtEnd) {
                    let frame = &slot[..bytes as usize];
                    let now = std::time::Instant::now();
                    let _ = self.link.handle_frame(&mut self.proto, frame, &mut Vec::new(), now);
                } else if status == Status::Success && trusted {
                    // A violation is not the cause any more, and ends the trust all the same.
                    let _ = self.take_frame(slot, bytes as usize);
                    self.slots.refill.clear();
                }
            }
        }
    }

    /// Gives everything its fate and reports the end.
    pub(super) fn finish(&mut self, cause: LinkCause) {
        let cut = self.proto.assembling();
        Counters::add(&self.link.counters().fragments_cut, cut as u64);
        let Remains { not_sent, doubts, word } = self.link.end(&mut self.proto, &cause);
        self.reports.past.keep(self.mailboxes.end());
        let settled = self.reports.past.end(self.reports.epoch, doubts, word);
        for letter in not_sent {
            self.reports.settle(letter, Err(Fate::NotSent));
        }
        for (letter, fate) in settled {
            self.reports.settle(letter, fate);
        }
        tracing::debug!(peer = %self.reports.peer.name, %cause, "link ended");
        self.phase.send_replace(Phase::Ended(cause));
    }
}
