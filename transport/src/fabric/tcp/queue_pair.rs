//! A connected queue pair: its queues, its stream, and the rules between them. All of it happens
//! inside the calls of its owner (TC-1).

use std::io;
use std::task::{Context, Poll};

use super::input::{Event, Input};
use super::output::Output;
use super::queues::{Failure, Queues};
use super::stream::DataStream;
use crate::fabric::{Completion, Notify, PostError, QueuePair, SendRequest, Status};
use crate::limits::TCP_READS_PER_CALL;
use crate::memory::{Slot, TailRoom};

/// A connected queue pair.
pub(super) struct TcpQueuePair {
    queues: Queues,
    /// `None` once nothing more is to be read or written.
    stream: Option<DataStream>,
    input: Input,
    output: Output,
}

impl TcpQueuePair {
    pub(super) fn new(queues: Queues, stream: DataStream) -> Self {
        let (input, output) = (Input::new(), Output::default());
        TcpQueuePair { queues, stream: Some(stream), input, output }
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
        self.write();
        self.read(max);
        self.queues.poll(out, max)
    }

    fn tail_wanted(&self) -> Option<(&[u8], usize)> {
        let (bytes, tail) = self.input.tail_wanted().filter(|_| !self.queues.failed())?;
        Some((self.queues.first(bytes)?, tail))
    }

    fn put_tail_room(&mut self, room: TailRoom) {
        self.input.put_tail_room(room);
    }

    fn take_tail(&mut self) -> Option<TailRoom> {
        self.input.take_tail()
    }

    fn unsent_bytes(&self) -> usize {
        self.queues.unsent_bytes()
    }

    fn arm(&mut self, on: Notify) {
        self.queues.arm(on);
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TCP_READS_PER_CALL {
            self.write();
            if self.queues.take_notification() {
                return Poll::Ready(());
            }
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

    /// Moves to the error state (PV-10). Frames that the stream has taken may still arrive.
    fn close(&mut self) {
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
        let readable = stream.poll_read_ready(cx);
        if let Poll::Ready(Err(_)) = readable {
            // The runtime shuts down.
            self.fail(Failure::Send(Status::RetryExceeded));
        }
        readable.is_ready() || writable
    }

    /// Reads until the stream has no more, `enough` completions wait, or a tail waits for memory.
    fn read(&mut self, enough: usize) {
        for _ in 0..TCP_READS_PER_CALL {
            self.take_events();
            let stops = self.queues.waiting() >= enough || self.input.tail_wanted().is_some();
            let Some(stream) = self.stream.as_mut().filter(|stream| !stops && stream.is_readable())
            else {
                return;
            };
            match self.input.read(stream, &mut self.queues) {
                Ok(0) => return self.fail(Failure::Send(Status::RetryExceeded)),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                // TC-7.
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    return self.fail(Failure::Stream(Status::Corrupt));
                }
                Err(_) => return self.fail(Failure::Send(Status::RetryExceeded)),
            }
            if self.stream.as_ref().is_some_and(DataStream::is_drained) {
                break;
            }
        }
        self.take_events();
    }

    /// Completes the frames that were read.
    fn take_events(&mut self) {
        while !self.queues.failed()
            && let Some(event) = self.input.next(&mut self.queues)
        {
            match event {
                Event::Arrived { bytes, solicited } => self.queues.arrived(bytes, solicited),
                Event::TailWanted => self.queues.notify(),
                Event::Overrun => self.fail(Failure::Stream(Status::LocalLength)),
                Event::Garbage => self.fail(Failure::Stream(Status::Corrupt)),
            }
        }
    }

    fn fail(&mut self, failure: Failure) {
        if !self.queues.failed() {
            self.queues.fail(failure);
            self.stream = None;
        }
    }

    /// Writes what the stream takes.
    fn write(&mut self) {
        if let Some(stream) = &mut self.stream
            && (stream.has_unwritten() || self.output.pending(&self.queues))
        {
            self.output.write(stream, &mut self.queues);
        }
    }
}
