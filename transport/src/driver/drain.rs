//! The end of a link.

use std::future::poll_fn;
use std::task::{Context, Poll};

use super::pipe::Pipe;
use super::{Driver, Phase};
use crate::cause::{Fate, LinkCause};
use crate::fabric::{Completion, Notify, Status, Work};
use crate::limits;
use crate::link::{Counters, Unsettled};
use crate::log;
use crate::mutants::planted;

const FLUSHED: LinkCause = LinkCause::Fabric(Status::Flushed);

/// The causes that a device gives for a send to a process that is gone: nothing answers, or the
/// peer's device answers for a moment that the memory which receives is gone.
const GONE: [LinkCause; 2] =
    [LinkCause::Fabric(Status::RetryExceeded), LinkCause::Fabric(Status::RemoteInvalidRequest)];

impl Driver {
    /// Moves the queue pair to the error state and takes back its slots. Frames that had arrived
    /// before are still dispatched, unless the peer broke the protocol.
    ///
    /// The two queues complete in no order to each other, so the first error seen may be a mere
    /// flush: the error behind it becomes the cause. A flush with no error behind it means that the
    /// connection was closed while nothing was being sent. On a confirmed link, whose slots are
    /// large enough for every frame, a send that the peer does not take also means that the
    /// connection was closed. So a peer that was killed ends its links with the same cause,
    /// whatever was being sent and whichever connection is seen to end first.
    pub(super) async fn drain(&mut self, cause: &mut LinkCause) {
        self.pipe.lock().end();
        let drained = poll_fn(|cx| self.drain_turn(cx, cause));
        if tokio::time::timeout(limits::DRAIN_TIMEOUT, drained).await.is_err() {
            // The slots go with the queue pair (PV-2).
            log::debug!(peer = %self.reports.peer.name, "a closing queue pair kept its slots");
        }
        let stood = *self.phase.borrow() == Phase::Confirmed;
        if *cause == FLUSHED || (stood && GONE.contains(cause)) {
            *cause = LinkCause::Closed;
        }
    }

    fn drain_turn(&mut self, cx: &mut Context<'_>, cause: &mut LinkCause) -> Poll<()> {
        let pipe = self.pipe.clone();
        let pipe = &mut *pipe.lock();
        let mut armed = false;
        loop {
            let mut completions = Vec::new();
            pipe.queues.poll(&mut completions, limits::POLL_BATCH);
            let idle = completions.is_empty();
            for completion in completions {
                self.reclaim(pipe, completion, cause);
            }
            if pipe.slots.posted == 0 && pipe.slots.sends_done() {
                return Poll::Ready(());
            }
            if idle && armed && pipe.queues.poll_ready(cx).is_pending() {
                return Poll::Pending;
            }
            if idle {
                // PV-8: armed, the queue is polled once more before the driver sleeps.
                pipe.queues.arm(Notify::Any);
            }
            armed = idle;
        }
    }

    /// Takes a slot back from a link that ends. A frame that had arrived is dispatched, as long as
    /// the peer is to be trusted.
    pub(super) fn reclaim(
        &mut self,
        pipe: &mut Pipe,
        completion: Completion,
        cause: &mut LinkCause,
    ) {
        let Completion { work, slot, status } = completion;
        if *cause == FLUSHED && !matches!(status, Status::Success | Status::Flushed) {
            *cause = LinkCause::Fabric(status);
        }
        match work {
            Work::Send => pipe.slots.free.push(slot),
            Work::Recv { bytes } => {
                pipe.slots.posted -= 1;
                let trusted = !pipe.proto.is_distrusted();
                if status == Status::Success && trusted && planted!(DroppedAtEnd) {
                    let frame = &slot[..bytes as usize];
                    let now = std::time::Instant::now();
                    let frame = (frame, pipe.queues.take_tail());
                    let _ = self.link.handle_frame(&mut pipe.proto, frame, &mut Vec::new(), now);
                } else if status == Status::Success && trusted {
                    // A violation is no longer the cause of the end, but it still ends the trust.
                    let _ = self.take_frame(pipe, slot, bytes as usize);
                    pipe.slots.refill.clear();
                }
            }
        }
    }

    /// Gives everything its fate and reports the end.
    pub(super) fn finish(&mut self, cause: LinkCause) {
        let pipe = self.pipe.clone();
        let pipe = &mut *pipe.lock();
        pipe.end();
        let cut = pipe.proto.assembling();
        Counters::add(&self.link.counters().fragments_cut, cut as u64);
        let Unsettled { not_sent, doubts, report } = self.link.end(&mut pipe.proto, &cause);
        self.reports.unresolved.keep(self.mailboxes.end());
        let unresolved = &self.reports.unresolved;
        let is_over = cause == LinkCause::Shutdown;
        // Where the runtime is gone the node has not closed: no report of the peer will be heard.
        let mut settled = if is_over { unresolved.close() } else { Vec::new() };
        settled.extend(unresolved.end(self.reports.epoch, doubts, report));
        let counts = [
            not_sent.iter().filter(|tell| tell.message != 0).count(),
            settled.iter().filter(|(tell, fate)| fate.is_err() && tell.message != 0).count(),
        ];
        for tell in not_sent {
            self.reports.settle(tell, Err(Fate::NotSent));
        }
        for (tell, fate) in settled {
            self.reports.settle(tell, fate);
        }
        log::debug!(peer = %self.reports.peer.name, %cause, "link ended");
        self.phase.send_replace(Phase::Ended(cause));
        if is_over && counts != [0, 0] {
            let (peer, [not_sent, unknown]) = (&self.reports.peer.name, counts);
            log::error!(
                %peer, not_sent, unknown,
                "this node ended with messages that did not arrive: end main with Node::shutdown"
            );
        }
    }
}
