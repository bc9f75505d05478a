//! The device's part of a connected queue pair, with its events, and the notification of
//! completions that are made here. Safe code.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::completions::Ended;
use super::device::Device;
use super::events::Grace;
use super::events_fd::EventsFd;
use super::queue_pair::{QueuePair, SEND};
use crate::fabric::{Notify, Status};
use crate::log;
use crate::log_limiter::LogLimiter;

/// The device's part of a connected queue pair.
pub(super) struct Live {
    pub(super) queue_pair: QueuePair,
    device: Arc<Device>,
    /// The lines about work requests that failed.
    log: Arc<LogLimiter>,
    completion_events: EventsFd,
    device_events: EventsFd,
    grace: Grace,
}

impl Live {
    /// Takes over a queue pair that is connected. To be called on the runtime that will wait for
    /// it.
    pub(super) fn new(queue_pair: QueuePair, log: Arc<LogLimiter>) -> io::Result<Self> {
        let device = queue_pair.domain().device.clone();
        Ok(Live {
            log,
            completion_events: EventsFd::new(queue_pair.completions.events_fd()?)?,
            device_events: EventsFd::new(device.events_fd()?)?,
            queue_pair,
            device,
            grace: Grace::default(),
        })
    }

    /// Asks for one event (PV-8). Returns false, and says so in the log, if there will be none.
    pub(super) fn arm(&mut self, on: Notify) -> bool {
        let armed = self.queue_pair.completions.arm(on);
        if let Err(error) = &armed {
            let device = self.device.name();
            log::error!(device, %error, "completions of a device cannot be waited for");
        }
        armed.is_ok()
    }

    /// Replaces `ended` with a batch of completed work requests at most. Returns false, and says so
    /// in the log, if the device fails to tell.
    pub(super) fn poll(&mut self, ended: &mut Vec<Ended>) -> bool {
        ended.clear();
        let polled = self.queue_pair.completions.poll(ended);
        if let Err(error) = &polled {
            let device = self.device.name();
            log::error!(device, %error, "completions of a device cannot be read");
        }
        polled.is_ok()
    }

    /// Moves the queue pair to the error state: nothing more arrives or is sent.
    pub(super) fn stop(&mut self) {
        if let Err(error) = self.queue_pair.stop() {
            log::debug!(device = self.device.name(), %error, "it was in the error state");
        }
    }

    /// Logs the failure of a work request, with the number by which the vendor tells more.
    pub(super) fn report(&self, ended: &Ended) {
        report(&self.log, self.device.name(), ended);
    }

    /// Ready when the completion queue has an event, or with the cause of the end.
    pub(super) fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        // Registers for both kinds of events, and for events that other owners read.
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

fn report(log: &LogLimiter, device: &str, ended: &Ended) {
    if let Some(suppressed) = log.admit("failed", Instant::now()) {
        let &Ended { id, status, vendor_code, .. } = ended;
        let work = if id & SEND != 0 { "send" } else { "receive" };
        let vendor_code = format_args!("{vendor_code:#x}");
        log::info!(device, work, %status, vendor_code, suppressed, "a work request failed");
    }
}

/// The notification of completions that are made here (PV-8).
#[derive(Default)]
pub(super) struct Alarm {
    armed: Option<Notify>,
    rang: bool,
    waker: Option<Waker>,
}

impl Alarm {
    /// Arms it. Returns false if it was already armed for this, or for any completion (PV-8).
    pub(super) fn arm(&mut self, on: Notify) -> bool {
        let is_new = self.armed != Some(Notify::Any) && self.armed != Some(on);
        if is_new {
            self.armed = Some(on);
        }
        is_new
    }

    /// The device has notified.
    pub(super) fn disarm(&mut self) {
        self.armed = None;
    }

    /// Ready when it rang. Keeps the waker of the last call.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.rang) {
            return Poll::Ready(());
        }
        self.waker.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
        Poll::Pending
    }

    /// A completion was added that is an error, and so counts as solicited.
    pub(super) fn ring(&mut self) {
        if self.armed.take().is_some() {
            self.rang = true;
        }
    }

    /// As [`ring`](Self::ring), for a post by any task: wakes the task that polls (PV-8).
    pub(super) fn ring_and_wake(&mut self) {
        self.ring();
        if self.rang
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Recorder;

    /// The line names the device, and the number by which its vendor tells what a status covers.
    #[test]
    fn a_failed_work_request_is_logged_with_the_vendors_code() {
        let recorder = Recorder::new(tracing::Level::INFO);
        let _guard = tracing::subscriber::set_default(recorder.clone());
        let log = LogLimiter::new(2);
        for (id, work, vendor_code, code) in
            [(SEND | 7, "send", 0x88, "0x88"), (7, "receive", 0, "0x0")]
        {
            let status = Status::RemoteAccess;
            report(&log, "mlx5_0", &Ended { id, status, bytes: 0, notice: None, vendor_code });
            let lines = recorder.take();
            let [line] = &lines[..] else { panic!("{lines:?}") };
            for part in [
                "a work request failed",
                "device: \"mlx5_0\"",
                &format!("work: \"{work}\""),
                &format!("status: {status}"),
                &format!("vendor_code: {code},"),
            ] {
                assert!(line.contains(part), "{part}: {line}");
            }
        }
    }
}
