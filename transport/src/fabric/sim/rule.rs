//! Faults as values: what becomes of which frames.

use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

use super::super::Status;

/// What becomes of a frame that is about to be carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is carried.
    Pass,
    /// It is carried, this much later; what was sent after it waits behind it.
    Delay(Duration),
    /// It is lost for good, and so all after it: the sender's queue pair ends with
    /// [`Status::RetryExceeded`] once it has tried long enough. The receiver is told nothing.
    Drop,
    /// The send completes with this status. Whether the frame arrived is up to the seed.
    Fail(Status),
    /// The path of this queue pair vanishes with this frame. Each end finds out when it sends.
    Kill,
}

/// Which frames meet which [`Verdict`]. Of several rules the first that applies decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    from: Option<String>,
    to: Option<String>,
    frames: Range<u64>,
    one_in: u32,
    times: u32,
    verdict: Verdict,
}

impl Rule {
    /// For every frame of every queue pair.
    ///
    /// # Panics
    /// When it is to fail with [`Status::Success`].
    pub fn new(verdict: Verdict) -> Self {
        assert!(verdict != Verdict::Fail(Status::Success), "a success is no failure");
        Rule { from: None, to: None, frames: 0..u64::MAX, one_in: 1, times: u32::MAX, verdict }
    }

    /// Only frames that this node sends.
    pub fn from(mut self, node: &str) -> Self {
        self.from = Some(node.to_owned());
        self
    }

    /// Only frames to this node.
    pub fn to(mut self, node: &str) -> Self {
        self.to = Some(node.to_owned());
        self
    }

    /// Only these, by their index among the frames one end of a queue pair sent, from 0.
    pub fn frames(mut self, frames: Range<u64>) -> Self {
        self.frames = frames;
        self
    }

    /// Only one in this many of them, chosen by the seed. 0 and 1 mean every one.
    pub fn one_in(mut self, frames: u32) -> Self {
        self.one_in = frames.max(1);
        self
    }

    /// Spent after it applied this often.
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }

    /// The verdict, if this rule applies.
    pub(super) fn judge(
        &mut self,
        from: &str,
        to: &str,
        index: u64,
        chance: &mut Rng,
    ) -> Option<Verdict> {
        let meant = self.times > 0
            && self.frames.contains(&index)
            && self.from.as_deref().is_none_or(|node| node == from)
            && self.to.as_deref().is_none_or(|node| node == to)
            && (self.one_in == 1 || chance.u32(0..self.one_in) == 0);
        meant.then(|| {
            self.times -= u32::from(self.times != u32::MAX);
            self.verdict
        })
    }
}

/// What happened in a world so far.
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
    /// Frames that met [`Verdict::Delay`].
    pub delayed: u64,
    /// Frames that met [`Verdict::Drop`].
    pub dropped: u64,
    /// Frames that met [`Verdict::Fail`].
    pub failed: u64,
    /// Frames that met [`Verdict::Kill`].
    pub killed: u64,
}
