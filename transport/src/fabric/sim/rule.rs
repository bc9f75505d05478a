//! Faults as values: what becomes of which frames, dials and bytes.

use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

use super::super::Status;

/// The subject of a [`Rule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// Frames of queue pairs, by their index among the frames that one end sent.
    Frames,
    /// Dials, by their index among those from the one node to the other.
    Dials,
    /// Bytes of streams, by their index among the bytes that one end wrote. A verdict is about a
    /// whole write, and a write ends before the first byte of a rule: so a stream can be cut at
    /// every byte.
    Bytes,
}

/// The fate of a frame, a dial or a write that is about to be carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is carried.
    Pass,
    /// It is carried, this much later. Frames and bytes sent after a frame or a byte wait behind
    /// it; another dial may overtake a dial.
    Delay(Duration),
    /// It is lost, and so is everything after it; no side is told. A frame: its queue pair ends
    /// with [`Status::RetryExceeded`] once it has tried long enough. A dial: no answer comes. A
    /// byte: nothing of this stream arrives any more.
    Drop,
    /// The seed decides whether it arrived. A frame: the send completes with this status. A dial
    /// is refused and does not arrive. A byte: its writer sees the stream reset, its reader does
    /// not.
    Fail(Status),
    /// The path of this queue pair vanishes with this frame: each end finds out when it sends. A
    /// dial is refused. A stream is cut before this byte, and both ends see it.
    Kill,
    /// It arrives, but its sender is told nothing more: about any frame of this queue pair, which
    /// ends with [`Status::RetryExceeded`]; about the dial; about the stream, which its writer sees
    /// reset.
    Unanswered,
}

/// Which frames, dials or bytes meet which [`Verdict`]. Of several rules the first that applies
/// decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    on: On,
    from: Option<String>,
    to: Option<String>,
    indices: Range<u64>,
    one_in: u32,
    times: u32,
    verdict: Verdict,
}

/// The case to be judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) on: On,
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    pub(super) index: u64,
}

impl Rule {
    /// For every frame of every queue pair.
    ///
    /// # Panics
    /// When it is to fail with [`Status::Success`].
    pub fn new(verdict: Verdict) -> Self {
        assert!(verdict != Verdict::Fail(Status::Success), "a success is no failure");
        let (from, to, indices) = (None, None, 0..u64::MAX);
        Rule { on: On::Frames, from, to, indices, one_in: 1, times: u32::MAX, verdict }
    }

    /// About dials or bytes instead of frames.
    pub fn on(mut self, on: On) -> Self {
        self.on = on;
        self
    }

    /// Only traffic from this node.
    pub fn from(mut self, node: &str) -> Self {
        self.from = Some(node.to_owned());
        self
    }

    /// Only traffic to this node.
    pub fn to(mut self, node: &str) -> Self {
        self.to = Some(node.to_owned());
        self
    }

    /// Only these, by index from 0, as [`On`] counts them.
    pub fn only(mut self, indices: Range<u64>) -> Self {
        self.indices = indices;
        self
    }

    /// Only one in this many of them, chosen by the seed. 0 and 1 mean every one.
    pub fn one_in(mut self, count: u32) -> Self {
        self.one_in = count.max(1);
        self
    }

    /// Spent after it applied this often.
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }

    /// Returns the verdict, if this rule applies.
    pub(super) fn judge(&mut self, case: Case<'_>, chance: &mut Rng) -> Option<Verdict> {
        let meant = self.is_about(case)
            && self.indices.contains(&case.index)
            && (self.one_in == 1 || chance.u32(0..self.one_in) == 0);
        meant.then(|| {
            self.times -= u32::from(self.times != u32::MAX);
            self.verdict
        })
    }

    /// How many of `count`, from the case's index on, come before the first that this rule is
    /// about.
    pub(super) fn before(&self, case: Case<'_>, count: usize) -> usize {
        let ahead = self.indices.start.saturating_sub(case.index);
        let first = usize::try_from(ahead).unwrap_or(usize::MAX);
        if first > 0 && self.is_about(case) { count.min(first) } else { count }
    }

    fn is_about(&self, case: Case<'_>) -> bool {
        self.times > 0
            && self.on == case.on
            && self.from.as_deref().is_none_or(|node| node == case.from)
            && self.to.as_deref().is_none_or(|node| node == case.to)
    }
}

/// Counts of the events of a world so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Frames posted on connected queue pairs.
    pub frames: u64,
    /// Bytes of those frames.
    pub frame_bytes: u64,
    /// Bytes written to streams.
    pub stream_bytes: u64,
    /// Times that a frame found no posted receive. Links keep this at 0.
    pub rnr: u64,
    /// Frames that were posted only because their poster was [woken for
    /// nothing](super::World::wake_when_idle): a wake-up was lost before. Links keep this at 0.
    pub overdue: u64,
    /// Dials that reached a node while a stream between the same two nodes was there.
    pub crossed_dials: u64,
    /// The verdicts that frames met.
    pub on_frames: Met,
    /// The verdicts that dials met.
    pub on_dials: Met,
    /// The verdicts that writes met.
    pub on_bytes: Met,
}

/// How often each [`Verdict`] but `Pass` was met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Met {
    /// [`Verdict::Delay`].
    pub delayed: u64,
    /// [`Verdict::Drop`].
    pub dropped: u64,
    /// [`Verdict::Fail`].
    pub failed: u64,
    /// [`Verdict::Kill`].
    pub killed: u64,
    /// [`Verdict::Unanswered`].
    pub unanswered: u64,
}

impl Counters {
    /// Counts a verdict; `Pass` is not counted.
    pub(super) fn meet(&mut self, on: On, verdict: Verdict) {
        let met = match on {
            On::Frames => &mut self.on_frames,
            On::Dials => &mut self.on_dials,
            On::Bytes => &mut self.on_bytes,
        };
        match verdict {
            Verdict::Pass => {}
            Verdict::Delay(_) => met.delayed += 1,
            Verdict::Drop => met.dropped += 1,
            Verdict::Fail(_) => met.failed += 1,
            Verdict::Kill => met.killed += 1,
            Verdict::Unanswered => met.unanswered += 1,
        }
    }
}
