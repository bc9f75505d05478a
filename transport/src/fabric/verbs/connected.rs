//! A connected queue pair and what its callers still have to be told. Safe code.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::completions::Ended;
use super::device::Device;
use super::events::Grace;
use super::events_fd::EventsFd;
use super::queue_pair::{QueuePair, SEND};
use crate::fabric::{
    self, Completion, Notify, PostError, QueuePairConfig, SendRequest, Status, Work,
};
use crate::limits::POLL_BATCH;
use crate::log_limiter::LogLimiter;
use crate::memory::Slot;

/// A connected queue pair. Once it failed the device's part is gone, and what is posted is flushed
/// here (VB-6).
pub(super) struct Connected {
    live: Option<Live>,
    room: Room,
    /// To be polled.
    done: VecDeque<Completion>,
    alarm: Alarm,
    ended: Vec<Ended>,
}

/// The device's part.
struct Live {
    queue_pair: QueuePair,
    device: Arc<Device>,
    /// The lines about work requests that failed.
    log: Arc<LogLimiter>,
    completion_events: EventsFd,
    device_events: EventsFd,
    grace: Grace,
}

/// How many more work requests can be posted. They count until they were polled (PV-9).
struct Room {
    send: u32,
    recv: u32,
}

/// The notification of completions that are made here (PV-8).
#[derive(Default)]
struct Alarm {
    armed: Option<Notify>,
    rang: bool,
    waker: Option<Waker>,
}

impl Connected {
    /// Takes over a queue pair that is connected, with so many receives posted. To be called on the
    /// runtime that will wait for it.
    pub(super) fn new(
        queue_pair: QueuePair,
        config: &QueuePairConfig,
        posted: u32,
        log: Arc<LogLimiter>,
    ) -> io::Result<Self> {
        let device = queue_pair.domain().device.clone();
        let live = Live {
            log,
            completion_events: EventsFd::new(queue_pair.completions.events_fd()?)?,
            device_events: EventsFd::new(device.events_fd()?)?,
            queue_pair,
            device,
            grace: Grace::default(),
        };
        Ok(Connected {
            live: Some(live),
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
            if count == max || !self.gather() {
                return count;
            }
        }
    }

    fn arm(&mut self, on: Notify) {
        // An event that is asked for stays asked for, and is not weakened (PV-8).
        if self.alarm.armed == Some(Notify::Any) || self.alarm.armed == Some(on) {
            return;
        }
        self.alarm.armed = Some(on);
        let Some(live) = &mut self.live else { return };
        if let Err(error) = live.queue_pair.completions.arm(on) {
            let device = live.device.name();
            tracing::error!(device, %error, "completions of a device cannot be waited for");
            self.fail(Some(Status::Fatal));
        }
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(live) = &mut self.live {
            match live.poll_events(cx) {
                Poll::Ready(Ok(())) => {
                    self.alarm.armed = None;
                    return Poll::Ready(());
                }
                Poll::Ready(Err(status)) => {
                    self.fail(Some(status));
                    return Poll::Ready(());
                }
                Poll::Pending => {}
            }
        }
        if std::mem::take(&mut self.alarm.rang) {
            return Poll::Ready(());
        }
        self.alarm.waker.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
        Poll::Pending
    }

    /// Moves to the error state (PV-10).
    fn close(&mut self) {
        if let Some(live) = &mut self.live
            && let Err(error) = live.queue_pair.stop()
        {
            tracing::debug!(device = live.device.name(), %error, "it was in the error state");
        }
        self.fail(None);
    }
}

impl Connected {
    /// Ends the device's part if a post left it unclear which work requests the device has; returns
    /// true if so. What is posted then is flushed, and the owner is told as of any failure.
    fn fail_in_doubt(&mut self) -> bool {
        let in_doubt = self.live.as_ref().is_some_and(|live| live.queue_pair.is_in_doubt());
        if in_doubt {
            self.fail(Some(Status::Fatal));
            self.alarm.ring_and_wake();
        }
        in_doubt
    }

    /// Takes a batch of what the device has completed; says whether anything waits to be polled.
    fn gather(&mut self) -> bool {
        let Some(live) = &mut self.live else { return false };
        self.ended.clear();
        if let Err(error) = live.queue_pair.completions.poll(&mut self.ended) {
            let device = live.device.name();
            tracing::error!(device, %error, "completions of a device cannot be read");
            self.fail(Some(Status::Fatal));
            return !self.done.is_empty();
        }
        let failed = live.settle(&self.ended, &mut self.done);
        if failed {
            self.fail(None);
        }
        !self.done.is_empty()
    }

    /// Ends the device's part: takes what it has completed, destroys the queue pair, and flushes
    /// the rest (PV-7, VB-6). The oldest receive ends with `cause`, unless the device named one.
    fn fail(&mut self, mut cause: Option<Status>) {
        let Some(mut live) = self.live.take() else { return };
        loop {
            self.ended.clear();
            let polled = live.queue_pair.completions.poll(&mut self.ended);
            if live.settle(&self.ended, &mut self.done) {
                cause = None;
            }
            if !matches!(polled, Ok(1..)) {
                break;
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

impl Live {
    /// Gives the slots of what ended to `done`; says whether something failed that was not just
    /// flushed.
    fn settle(&mut self, ended: &[Ended], done: &mut VecDeque<Completion>) -> bool {
        let mut failed = false;
        for &Ended { id, status, bytes, vendor_code } in ended {
            if !matches!(status, Status::Success | Status::Flushed) {
                failed = true;
                self.report(id & SEND != 0, status, vendor_code);
            }
            if id & SEND == 0 {
                let slot = self.queue_pair.recvs.take_through(id).last();
                done.extend(slot.map(|slot| Completion {
                    work: Work::Recv { bytes },
                    slot,
                    status,
                }));
                continue;
            }
            // Those before it went through, or would have completed (PV-4).
            let position = id & !SEND;
            let last = self.queue_pair.sends.next();
            let before = position.checked_sub(1).filter(|before| *before < last);
            let through = before.map(|before| self.queue_pair.sends.take_through(before));
            done.extend(through.into_iter().flatten().map(|slot| Completion {
                work: Work::Send,
                slot,
                status: Status::Success,
            }));
            let own = self.queue_pair.sends.take_through(position).last();
            done.extend(own.map(|slot| Completion { work: Work::Send, slot, status }));
        }
        failed
    }

    /// Logs the failure of a work request, with the number by which the vendor tells more.
    fn report(&self, sends: bool, status: Status, vendor_code: u32) {
        if let Some(suppressed) = self.log.admit("failed", Instant::now()) {
            let (device, work) = (self.device.name(), if sends { "send" } else { "receive" });
            let vendor_code = format_args!("{vendor_code:#x}");
            tracing::info!(device, work, %status, vendor_code, suppressed, "a work request failed");
        }
    }

    /// Ready when the completion queue has an event, or with the cause of the end.
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        // Registered for both, and for what another queue pair's owner reads, before it says no.
        let Live { queue_pair, device, .. } = self;
        let spread = || {
            device.spread_events();
            Ok(false)
        };
        if let Poll::Ready(Err(_)) = self.device_events.poll_read(cx, spread) {
            return Poll::Ready(Err(Status::Fatal));
        }
        let down_until = match queue_pair.end.check(cx.waker()) {
            Ok(down_until) => down_until,
            Err(status) => return Poll::Ready(Err(status)),
        };
        if self.grace.poll(down_until, cx).is_ready() {
            return Poll::Ready(Err(Status::PortDown));
        }
        let take_all = || {
            let mut came = false;
            while queue_pair.completions.take_event()? {
                came = true;
            }
            Ok(came)
        };
        self.completion_events.poll_read(cx, take_all).map_err(|_| Status::Fatal)
    }
}

impl Alarm {
    /// A completion was added that is an error, and so counts as solicited.
    fn ring(&mut self) {
        if self.armed.take().is_some() {
            self.rang = true;
        }
    }

    /// The same by a post, which may be another task's than the one that polls (PV-8).
    fn ring_and_wake(&mut self) {
        self.ring();
        if self.rang
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }
}
