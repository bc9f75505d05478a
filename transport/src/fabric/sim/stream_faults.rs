//! Bytes that are written, and the faults they meet.

use std::io;
use std::task::{Poll, Waker, ready};

use super::event::{Event, PipeEnd, PipeId};
use super::link_model::nanos;
use super::physics::Physics;
use super::rule::{On, Verdict};
use super::streams::Streams;

const RESET: io::ErrorKind = io::ErrorKind::ConnectionReset;

impl Streams {
    /// Writes some of these bytes, as far as the faults let it. The writer reads from the other
    /// direction of the stream.
    pub(super) fn write(
        &mut self,
        physics: &mut Physics,
        (reads, writes): (PipeId, PipeId),
        waker: &Waker,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(pipe) = self.pipes.get_mut(&writes) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let path = (pipe.from, pipe.to);
        let most = physics.judged_as_one(path, pipe.written, bytes.len());
        let count = ready!(pipe.room(physics, waker, most))?;
        if count == 0 {
            return Poll::Ready(Ok(0));
        }
        let bytes = &bytes[..count];
        let verdict = physics.judge(On::Bytes, path, pipe.written);
        let late = if let Verdict::Delay(delay) = verdict { nanos(delay) } else { 0 };
        let arrives = match verdict {
            Verdict::Fail(_) => physics.one_in(2),
            Verdict::Kill => false,
            _ => true,
        };
        if verdict == Verdict::Drop {
            pipe.lose();
        }
        if arrives {
            pipe.write(physics, writes, bytes, late);
        }
        match verdict {
            Verdict::Pass | Verdict::Delay(_) | Verdict::Drop => return Poll::Ready(Ok(count)),
            Verdict::Kill => self.cut_off(physics, (reads, writes)),
            Verdict::Fail(_) | Verdict::Unanswered => {}
        }
        self.break_writer(physics, (reads, writes));
        Poll::Ready(Err(RESET.into()))
    }

    /// The writer of `writes` sees its stream reset.
    fn break_writer(&mut self, physics: &mut Physics, (reads, writes): (PipeId, PipeId)) {
        for (pipe, end) in [(writes, PipeEnd::Writer), (reads, PipeEnd::Reader)] {
            if let Some(pipe) = self.pipes.get_mut(&pipe) {
                pipe.break_end(physics, end, RESET);
            }
        }
    }

    /// The reader of `writes` sees the stream end, or reset, after the bytes written before.
    fn cut_off(&mut self, physics: &mut Physics, (reads, writes): (PipeId, PipeId)) {
        let Some(pipe) = self.pipes.get_mut(&writes) else { return };
        let at = physics.after_latency(pipe.from, pipe.to).max(pipe.last_arrival());
        if physics.one_in(2) {
            pipe.finish(physics, writes);
        } else {
            physics.at(at, Event::Break { pipe: writes, end: PipeEnd::Reader, kind: RESET });
        }
        physics.at(at, Event::Break { pipe: reads, end: PipeEnd::Writer, kind: RESET });
    }
}
