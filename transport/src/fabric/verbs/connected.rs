//! A connected queue pair and what its callers still have to be told. Safe code.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::completions::Ended;
use super::live::{Alarm, Live};
use super::queue_pair::{QueuePair, SEND};
use crate::fabric::{
    self, Completion, Notify, PostError, QueuePairConfig, SendRequest, Status, Work,
};
use crate::limits::POLL_BATCH;
use crate::log_limiter::LogLimiter;
use crate::memory::Slot;

/// A connected queue pair. Once it failed, the device's part is gone, and posts are flushed here
/// (VB-6).
pub(super) struct Connected {
    live: Option<Live>,
    room: Room,
    /// To be polled.
    done: VecDeque<Completion>,
    alarm: Alarm,
    ended: Vec<Ended>,
}

/// How many more work requests can be posted. They count until they were polled (PV-9).
struct Room {
    send: u32,
    recv: u32,
}

impl Connected {
    /// Takes over a queue pair that is connected and has `posted` receives. To be called on the
    /// runtime that will wait for it.
    pub(super) fn new(
        queue_pair: QueuePair,
        config: &QueuePairConfig,
        posted: u32,
        log: Arc<LogLimiter>,
    ) -> io::Result<Self> {
        Ok(Connected {
            live: Some(Live::new(queue_pair, log)?),
            room: Room { send: config.send_queue, recv: config.recv_queue - posted },
            done: VecDeque::with_capacity((config.send_queue + config.recv_queue) as usize),
            alarm: Alarm::default(),
            ended: Vec::with_capacity(POLL_BATCH),
        })
    }
}

impl fabric::QueuePair for Connected {
    fn post_send(&mut self, batch: &mut Vec<SendRequest>) -> Result<(), PostError> {
        while !batch.is_empty() {
            let before = batch.len();
            let fits = before.min(self.room.send as usize);
            if fits == 0 {
                return Err(PostError::Full);
            }
            let result = match &mut self.live {
                Some(live) => live.queue_pair.post_sends(batch, fits),
                None => {
                    let slots = batch.drain(..fits).map(|request| request.slot);
                    self.done.extend(slots.map(|slot| flushed(Work::Send, slot)));
                    self.alarm.ring_and_wake();
                    Ok(())
                }
            };
            self.room.send -= (before - batch.len()) as u32;
            if !self.fail_in_doubt() {
                result?;
            }
        }
        Ok(())
    }

    fn prepare(&mut self, slot: &Slot) -> Result<(), PostError> {
        self.live.as_mut().map_or(Ok(()), |live| live.queue_pair.prepare(slot))
    }

    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        while !slots.is_empty() {
            let before = slots.len();
            let fits = before.min(self.room.recv as usize);
            if fits == 0 {
                return Err(PostError::Full);
            }
            let result = match &mut self.live {
                Some(live) => live.queue_pair.post_recvs(slots, fits),
                None => {
                    let slots = slots.drain(..fits);
                    self.done.extend(slots.map(|slot| flushed(RECV, slot)));
                    self.alarm.ring_and_wake();
                    Ok(())
                }
            };
            self.room.recv -= (before - slots.len()) as u32;
            if !self.fail_in_doubt() {
                result?;
            }
        }
        Ok(())
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> usize {
        let mut count = 0;
        loop {
            let taken = self.done.len().min(max - count);
            for completion in self.done.drain(..taken) {
                match completion.work {
                    Work::Send => self.room.send += 1,
                    Work::Recv { .. } => self.room.recv += 1,
                }
                out.push(completion);
            }
            count += taken;
            // Completions that came since are found by the next poll (PV-8).
            if count > 0 || max == 0 || !self.gather() {
                return count;
            }
        }
    }

    fn arm(&mut self, on: Notify) {
        if self.alarm.arm(on)
            && let Some(live) = &mut self.live
            && !live.arm(on)
        {
            self.fail(Some(Status::Fatal));
        }
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(live) = &mut self.live {
            match live.poll_events(cx) {
                Poll::Ready(Ok(())) => {
                    self.alarm.disarm();
                    return Poll::Ready(());
                }
                Poll::Ready(Err(status)) => {
                    self.fail(Some(status));
                    return Poll::Ready(());
                }
                Poll::Pending => {}
            }
        }
        self.alarm.poll(cx)
    }

    /// Moves to the error state (PV-10).
    fn close(&mut self) {
        if let Some(live) = &mut self.live {
            live.stop();
        }
        self.fail(None);
    }
}

impl Connected {
    /// Ends the device's part if a post left it unclear which work requests the device has; returns
    /// true if so. Later posts are flushed, and the owner is told as after any failure.
    fn fail_in_doubt(&mut self) -> bool {
        let in_doubt = self.live.as_ref().is_some_and(|live| live.queue_pair.is_in_doubt());
        if in_doubt {
            self.fail(Some(Status::Fatal));
            self.alarm.ring_and_wake();
        }
        in_doubt
    }

    /// Takes a batch of completions from the device; returns true if any wait to be polled.
    fn gather(&mut self) -> bool {
        let Some(live) = &mut self.live else { return false };
        if !live.poll(&mut self.ended) {
            self.fail(Some(Status::Fatal));
        } else if settle(live, &self.ended, &mut self.done) {
            self.fail(None);
        }
        !self.done.is_empty()
    }

    /// Ends the device's part: takes its last completions, destroys the queue pair, and flushes the
    /// rest (PV-7, VB-6). The oldest receive, or send, has `cause`, unless the device named one.
    fn fail(&mut self, mut cause: Option<Status>) {
        let Some(mut live) = self.live.take() else { return };
        while live.poll(&mut self.ended) && !self.ended.is_empty() {
            if settle(&mut live, &self.ended, &mut self.done) {
                cause = None;
            }
        }
        let [sends, recvs] = live.queue_pair.destroy();
        for slot in recvs.into_slots() {
            let status = cause.take().unwrap_or(Status::Flushed);
            self.done.push_back(Completion { work: RECV, slot, status });
        }
        for slot in sends.into_slots() {
            let status = cause.take().unwrap_or(Status::Flushed);
            self.done.push_back(Completion { work: Work::Send, slot, status });
        }
        self.alarm.ring();
    }
}

const RECV: Work = Work::Recv { bytes: 0 };

fn flushed(work: Work, slot: Slot) -> Completion {
    Completion { work, slot, status: Status::Flushed }
}

/// Moves the slots of completed work requests to `done`; returns true if one failed and was not
/// just flushed.
fn settle(live: &mut Live, ended: &[Ended], done: &mut VecDeque<Completion>) -> bool {
    let mut failed = false;
    for it in ended {
        let &Ended { id, status, bytes, .. } = it;
        if !matches!(status, Status::Success | Status::Flushed) {
            failed = true;
            live.report(it);
        }
        let Live { queue_pair: QueuePair { sends, recvs, .. }, .. } = live;
        if id & SEND == 0 {
            let slot = recvs.take_through(id).last();
            done.extend(slot.map(|slot| Completion { work: Work::Recv { bytes }, slot, status }));
            continue;
        }
        // Those before it went through, or would have completed (PV-4).
        let position = id & !SEND;
        let before = position.checked_sub(1).filter(|before| *before < sends.next());
        let through = before.map(|before| sends.take_through(before));
        done.extend(through.into_iter().flatten().map(|slot| Completion {
            work: Work::Send,
            slot,
            status: Status::Success,
        }));
        let own = sends.take_through(position).last();
        done.extend(own.map(|slot| Completion { work: Work::Send, slot, status }));
    }
    failed
}
