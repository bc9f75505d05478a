//! A connected queue pair: its queues, its stream, and the rules between them. All of it happens
//! inside the calls of its owner (TC-1).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep};

use super::input::{Event, Input};
use super::output::Output;
use super::queues::{Failure, Queues};
use super::record::{Record, Refusal};
use super::stream::DataStream;
use crate::fabric::{Completion, Notify, PostError, QueuePair, SendRequest, Status};
use crate::limits::{
    RNR_DELAY, TCP_ACKNOWLEDGE_EVERY, TCP_LONG_FRAME_BYTES, TCP_QUEUE_MAX, TCP_READS_PER_CALL,
};
use crate::memory::Slot;

/// A connected queue pair.
pub(super) struct TcpQueuePair {
    queues: Queues,
    /// `None` once nothing more is to be read or written.
    stream: Option<DataStream>,
    input: Input,
    output: Output,
    /// Frames accepted that the peer does not know of yet.
    unacknowledged: u32,
    /// The peer needs to know of them now; otherwise they are told with the next frame.
    asked: bool,
    tries: Tries,
}

/// Of a send that finds no receive (PV-5).
struct Tries {
    at_most: u8,
    left: u8,
    /// The next one is made then.
    pause: Option<Pin<Box<Sleep>>>,
}

impl TcpQueuePair {
    pub(super) fn new(queues: Queues, stream: DataStream, rnr_retry: u8) -> Self {
        TcpQueuePair {
            queues,
            stream: Some(stream),
            input: Input::new(TCP_LONG_FRAME_BYTES),
            output: Output::default(),
            unacknowledged: 0,
            asked: false,
            tries: Tries { at_most: rnr_retry, left: rnr_retry, pause: None },
        }
    }
}

impl QueuePair for TcpQueuePair {
    fn post_send(&mut self, batch: &mut Vec<SendRequest>) -> Result<(), PostError> {
        let rang = self.queues.rang();
        let result = self.queues.post_send(batch);
        self.write();
        self.wake_poller(rang);
        result
    }

    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        let rang = self.queues.rang();
        let result = self.queues.post_recv(slots);
        self.wake_poller(rang);
        result
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> usize {
        if self.tries.pause.as_ref().is_some_and(|pause| pause.deadline() <= Instant::now()) {
            self.try_again();
        }
        self.read(max);
        let count = self.queues.poll(out, max);
        if count == 0 {
            self.write();
        }
        count
    }

    fn arm(&mut self, on: Notify) {
        self.queues.arm(on);
        if self.queues.awaits_acceptance() {
            self.ask();
        }
        self.write();
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TCP_READS_PER_CALL {
            if self.queues.take_notification() {
                return Poll::Ready(());
            }
            if self.tries.pause.as_mut().is_some_and(|pause| pause.as_mut().poll(cx).is_ready()) {
                self.try_again();
            }
            self.write();
            if !self.poll_stream(cx) {
                self.queues.wait(cx.waker());
                return Poll::Pending;
            }
            self.read(usize::MAX);
        }
        // There is more to look at, and other tasks should run before.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Moves to the error state (PV-10). Accepted frames are acknowledged if the stream takes it.
    fn close(&mut self) {
        self.asked = true;
        self.write();
        self.fail(Failure::Closed);
    }
}

impl TcpQueuePair {
    /// After a post, wakes the task that polls, which may be another task, if the post notified it
    /// or left it to wait for the stream to take more (PV-8). A task that was notified `already` is
    /// awake: mostly it is the task that posts.
    fn wake_poller(&mut self, already: bool) {
        let blocked = self.has_to_write();
        let rang = self.queues.rang() && !already;
        if (rang || blocked)
            && let Some(waker) = self.queues.waiter()
        {
            waker.wake();
        }
    }

    /// Returns true if something waits for the stream to take it.
    fn has_to_write(&self) -> bool {
        let pending =
            |stream: &DataStream| stream.has_unwritten() || self.output.pending(&self.queues);
        self.stream.as_ref().is_some_and(pending)
    }

    /// Returns true if reading or writing may go on; otherwise the task is woken when it may.
    fn poll_stream(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(stream) = &self.stream else { return false };
        let writable = self.has_to_write() && stream.poll_write_ready(cx).is_ready();
        if self.queues.failed() {
            // Nothing is read any more.
            return writable;
        }
        let readable = stream.poll_read_ready(cx);
        if let Poll::Ready(Err(_)) = readable {
            // The runtime shuts down.
            self.fail(Failure::Send(Status::RetryExceeded));
        }
        readable.is_ready() || writable
    }

    /// Reads until the stream has no more, or `enough` completions wait.
    fn read(&mut self, enough: usize) {
        for _ in 0..TCP_READS_PER_CALL {
            if self.queues.failed() || self.queues.waiting() >= enough {
                return;
            }
            let Some(stream) = self.stream.as_mut().filter(|stream| stream.is_readable()) else {
                return;
            };
            // The next bytes of the peer tell of the sends that it has by then.
            let lead = self.output.position() > self.queues.accepted();
            match self.input.read(stream, &mut self.queues, lead) {
                Ok(0) => return self.fail(Failure::Send(Status::RetryExceeded)),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                // TC-7.
                Err(e) if e.kind() == io::ErrorKind::InvalidData => return self.on_garbage(),
                Err(_) => return self.fail(Failure::Send(Status::RetryExceeded)),
            }
            while !self.queues.failed()
                && let Some(event) = self.input.next(&mut self.queues)
            {
                self.on_event(event);
            }
            if self.unacknowledged >= TCP_ACKNOWLEDGE_EVERY {
                self.write();
            }
            if self.stream.as_ref().is_some_and(DataStream::is_drained) {
                return;
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            // The frame lies in its slot, whole: only now is it accepted (TC-2).
            Event::Arrived { bytes, solicited, acknowledge } => {
                self.queues.arrived(bytes, solicited);
                self.unacknowledged += 1;
                self.asked |= acknowledge;
                if self.unacknowledged > TCP_QUEUE_MAX {
                    // More than any send queue holds.
                    self.on_garbage();
                }
            }
            Event::NotReady => {
                self.acknowledge();
                self.output.answer(Record::Refused(Refusal::NotReady));
                self.write();
                if self.output.has_too_many_answers() {
                    self.on_garbage();
                }
            }
            Event::TooLong => self.refuse_too_long(),
            Event::Accepted(count) => self.on_accepted(count),
            Event::Refused(refusal) => self.on_refused(refusal),
            Event::Asked => self.asked = self.unacknowledged > 0,
            Event::Garbage => self.on_garbage(),
        }
    }

    fn on_accepted(&mut self, count: u32) {
        let count = u64::from(count);
        if count > self.output.position() - self.queues.accepted() {
            return self.on_garbage();
        }
        self.queues.accept(count);
        self.tries.left = self.tries.at_most;
    }

    fn on_refused(&mut self, refusal: Refusal) {
        if !self.output.has_begun(self.queues.accepted()) || self.tries.pause.is_some() {
            return self.on_garbage();
        }
        match refusal {
            Refusal::TooLong => self.fail(Failure::Send(Status::RemoteInvalidRequest)),
            Refusal::NotReady if self.tries.left == 0 => {
                self.fail(Failure::Send(Status::RnrRetryExceeded));
            }
            Refusal::NotReady => {
                self.tries.left -= 1;
                self.tries.pause = Some(Box::pin(sleep(RNR_DELAY)));
                self.output.pause();
            }
        }
    }

    /// TC-4.
    fn on_garbage(&mut self) {
        self.fail(Failure::Stream(Status::Corrupt));
    }

    /// TC-3. The peer has forgotten requests for acknowledgement in the frames that it skipped.
    fn try_again(&mut self) {
        self.tries.pause = None;
        self.queues.ask_with_last();
        self.output.again();
    }

    /// PV-6. The stream stays until the refusal is written.
    fn refuse_too_long(&mut self) {
        self.acknowledge();
        let rest = self.output.rest(&self.queues);
        self.queues.fail(Failure::Recv(Status::LocalLength));
        self.tries.pause = None;
        self.output.conclude(rest, Refusal::TooLong, self.queues.posted());
        self.write();
    }

    fn fail(&mut self, failure: Failure) {
        if !self.queues.failed() {
            self.queues.fail(failure);
            self.tries.pause = None;
            self.stream = None;
        }
    }

    fn acknowledge(&mut self) {
        if self.unacknowledged > 0 {
            self.output.answer(Record::Accepted { count: self.unacknowledged });
            self.unacknowledged = 0;
        }
        self.asked = false;
    }

    /// Returns true if acceptance is told with the next write (TC-6).
    fn acknowledgement_is_due(&self) -> bool {
        let now = self.asked || self.unacknowledged >= TCP_ACKNOWLEDGE_EVERY;
        self.unacknowledged > 0 && (now || self.output.begins_frame(&self.queues))
    }

    /// Asks the peer to acknowledge all that was posted: with a frame that is not yet begun, or by
    /// a record of its own.
    fn ask(&mut self) {
        if self.output.has_begun(self.queues.posted() - 1) {
            self.output.answer(Record::Acknowledge);
            self.queues.note_asked();
        } else {
            self.queues.ask_with_last();
        }
    }

    /// Writes what the stream takes, acknowledgements first.
    fn write(&mut self) {
        let due = self.acknowledgement_is_due() || self.has_to_write();
        if !due && !self.queues.failed() {
            return;
        }
        loop {
            // One acknowledgement at a time, so that they do not pile up if the stream takes none.
            if !self.output.has_answers() && self.acknowledgement_is_due() {
                self.acknowledge();
            }
            let Some(stream) = &mut self.stream else { return };
            self.output.write(stream, &self.queues);
            if !self.acknowledgement_is_due() || self.output.has_answers() {
                break;
            }
        }
        if self.queues.failed() && !self.has_to_write() {
            self.stream = None;
        }
    }
}
