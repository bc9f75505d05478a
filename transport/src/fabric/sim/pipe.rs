//! One direction of a simulated byte stream.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, Waker};

use super::event::{Event, NodeId, PipeEnd, PipeId};
use super::physics::Physics;

/// Bytes that may be written and not yet read.
const PIPE_BYTES_MAX: usize = 64 * 1024;

/// Free bytes from which on a stream counts as writable, as a socket does: otherwise a writer of
/// much data would be woken for every few bytes.
const WRITABLE_BYTES: usize = PIPE_BYTES_MAX / 4;

/// One direction of a stream.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    /// Arrived and not yet read.
    buffer: VecDeque<u8>,
    in_flight: usize,
    /// Bytes written so far.
    pub(super) written: u64,
    /// Nothing that is written from now on arrives.
    lost: bool,
    last_arrival: u64,
    /// The writer has ended the stream.
    fin_sent: bool,
    /// The end has arrived.
    ended: bool,
    reader: End,
    writer: End,
}

#[derive(Debug, Default)]
struct End {
    waker: Option<Waker>,
    broken: Option<io::ErrorKind>,
    dropped: bool,
}

impl End {
    /// Keeps the waker of the task that waits, unless it is a no-op.
    fn wait(&mut self, waker: &Waker) {
        if !waker.will_wake(Waker::noop()) {
            self.waker = Some(waker.clone());
        }
    }
}

impl Pipe {
    /// An empty direction.
    pub(super) fn new(from: NodeId, to: NodeId) -> Self {
        Pipe {
            from,
            to,
            buffer: VecDeque::new(),
            in_flight: 0,
            written: 0,
            lost: false,
            last_arrival: 0,
            fin_sent: false,
            ended: false,
            reader: End::default(),
            writer: End::default(),
        }
    }

    /// How many of `most` bytes are written now: as many as there is room for, or some of them.
    pub(super) fn room(
        &mut self,
        physics: &mut Physics,
        waker: &Waker,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        if let Some(kind) = self.writer.broken {
            return Poll::Ready(Err(kind.into()));
        }
        if self.fin_sent {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = PIPE_BYTES_MAX - self.buffer.len() - self.in_flight;
        let paused = physics.paused.contains(&self.from);
        let count = if paused { 0 } else { some_of(physics, room.min(most)) };
        if count == 0 && most > 0 {
            self.writer.wait(waker);
            return Poll::Pending;
        }
        Poll::Ready(Ok(count))
    }

    /// Writes bytes for which there is room; they arrive `late` nanoseconds later than usual.
    pub(super) fn write(&mut self, physics: &mut Physics, pipe: PipeId, bytes: &[u8], late: u64) {
        let count = bytes.len();
        self.in_flight += count;
        self.written += count as u64;
        physics.counters.stream_bytes += count as u64;
        physics.log(format_args!("pipe {pipe} writes {count}"));
        let at = self.arrival(physics, count) + late;
        self.last_arrival = at;
        if !self.lost {
            physics.at(at, Event::Bytes { pipe, bytes: bytes.to_vec() });
        }
    }

    /// Loses the bytes that are written from now on.
    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    /// Returns when the last written bytes arrive, at the earliest.
    pub(super) fn last_arrival(&self) -> u64 {
        self.last_arrival
    }

    /// Returns true if both ends are held and the stream runs.
    pub(super) fn is_open(&self) -> bool {
        let runs = |end: &End| !end.dropped && end.broken.is_none();
        runs(&self.reader) && runs(&self.writer) && !self.fin_sent
    }

    /// The software of a node goes on after a pause: it looks again.
    pub(super) fn resume(&mut self, physics: &mut Physics, node: NodeId) {
        if self.from == node {
            physics.wake(self.writer.waker.take());
        }
        if self.to == node {
            physics.wake(self.reader.waker.take());
        }
    }

    /// Reads some of the bytes that have arrived; none at the end of the stream.
    pub(super) fn read(
        &mut self,
        physics: &mut Physics,
        waker: &Waker,
        out: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if physics.paused.contains(&self.to) {
            self.reader.wait(waker);
            return Poll::Pending;
        }
        if let Some(kind) = self.reader.broken {
            return Poll::Ready(Err(kind.into()));
        }
        let count = some_of(physics, self.buffer.len().min(out.remaining()));
        if count == 0 && !self.ended && out.remaining() > 0 {
            self.reader.wait(waker);
            return Poll::Pending;
        }
        let (front, back) = self.buffer.as_slices();
        let split = count.min(front.len());
        out.put_slice(&front[..split]);
        out.put_slice(&back[..count - split]);
        self.buffer.drain(..count);
        if count > 0 {
            physics.wake(self.writer.waker.take());
        }
        Poll::Ready(Ok(()))
    }

    /// Returns ready if a read would return bytes, the end of the stream, or an error.
    pub(super) fn poll_readable(&mut self, physics: &Physics, cx: &mut Context<'_>) -> Poll<()> {
        let something = !self.buffer.is_empty() || self.ended || self.reader.broken.is_some();
        if something && !physics.paused.contains(&self.to) {
            return Poll::Ready(());
        }
        self.reader.wait(cx.waker());
        Poll::Pending
    }

    /// Returns ready if a write of some length would be taken, or fail.
    pub(super) fn poll_writable(&mut self, physics: &Physics, cx: &mut Context<'_>) -> Poll<()> {
        let full = self.buffer.len() + self.in_flight > PIPE_BYTES_MAX - WRITABLE_BYTES;
        let fails = self.writer.broken.is_some() || self.fin_sent;
        if fails || (!full && !physics.paused.contains(&self.from)) {
            return Poll::Ready(());
        }
        self.writer.wait(cx.waker());
        Poll::Pending
    }

    /// Ends the stream after the bytes written so far.
    pub(super) fn finish(&mut self, physics: &mut Physics, pipe: PipeId) {
        if !std::mem::replace(&mut self.fin_sent, true) {
            let at = self.arrival(physics, 0);
            if !self.lost {
                physics.at(at, Event::Fin { pipe });
            }
        }
    }

    /// Bytes arrive.
    pub(super) fn arrive(&mut self, physics: &mut Physics, bytes: &[u8]) {
        self.in_flight -= bytes.len();
        if self.reader.dropped {
            return;
        }
        self.buffer.extend(bytes);
        physics.wake(self.reader.waker.take());
    }

    /// The end arrives.
    pub(super) fn end(&mut self, physics: &mut Physics) {
        self.ended = true;
        physics.wake(self.reader.waker.take());
    }

    /// Breaks one end: bytes that it has not read are lost.
    pub(super) fn break_end(&mut self, physics: &mut Physics, end: PipeEnd, kind: io::ErrorKind) {
        let end = match end {
            PipeEnd::Reader => &mut self.reader,
            PipeEnd::Writer => &mut self.writer,
        };
        end.broken.get_or_insert(kind);
        physics.wake(end.waker.take());
    }

    /// The reader is dropped: the writer hears of it. Returns true if neither side holds the pipe.
    pub(super) fn drop_reader(&mut self, physics: &mut Physics, pipe: PipeId) -> bool {
        self.reader = End { dropped: true, ..End::default() };
        self.buffer.clear();
        let at = physics.after_latency(self.to, self.from);
        let kind = io::ErrorKind::BrokenPipe;
        physics.at(at, Event::Break { pipe, end: PipeEnd::Writer, kind });
        self.writer.dropped
    }

    /// The writer is dropped: the reader sees the end. Returns true if neither side holds the pipe.
    pub(super) fn drop_writer(&mut self, physics: &mut Physics, pipe: PipeId) -> bool {
        self.finish(physics, pipe);
        self.writer = End { dropped: true, ..End::default() };
        self.reader.dropped
    }

    fn arrival(&mut self, physics: &mut Physics, bytes: usize) -> u64 {
        let arrives = physics.pass((self.from, self.to), bytes).arrives;
        self.last_arrival = self.last_arrival.max(arrives);
        self.last_arrival
    }
}

/// Returns all of `most`, or a part of it that is not empty: no side is promised where a stream is
/// cut.
fn some_of(physics: &mut Physics, most: usize) -> usize {
    if most > 1 && physics.one_in(3) { physics.chance.usize(1..most) } else { most }
}
