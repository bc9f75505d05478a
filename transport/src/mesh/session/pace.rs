//! The pace of a session.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::limits;

/// Heartbeats of which one is answered, to measure the round trip.
const MEASURED_EVERY: u32 = 10;

/// The heartbeats of a session.
#[derive(Default)]
pub(super) struct Beats {
    /// How many were sent.
    pub(super) sent: u32,
    /// When the last question was sent, until its answer comes.
    pub(super) measured: Option<Instant>,
}

impl Beats {
    /// Returns true if the heartbeat that is sent now asks for an answer.
    pub(super) fn measures(&mut self) -> bool {
        let measures = self.sent.is_multiple_of(MEASURED_EVERY);
        if measures {
            self.measured = Some(Instant::now());
        }
        measures
    }
}

/// When the link is looked at, and when a heartbeat is due.
pub(super) struct Pace {
    /// Time between two heartbeats, the same on both sides.
    pub(super) interval: Duration,
    /// Looks at the link of which one comes with a heartbeat: waits and counts are told as often on
    /// slow links as on others.
    looks_per_beat: u32,
    looks: u32,
    /// Time of the last look at one-sided access.
    pub(super) looked: Instant,
    /// A message about memory was sent since the last look, which is sooner than the next one.
    pub(super) has_shared: bool,
}

impl Pace {
    /// Returns the pace of a link; if it `is_fixed`, no look comes without a heartbeat.
    pub(super) fn new(interval: Duration, is_fixed: bool) -> Self {
        let looks = interval.as_nanos().div_ceil(limits::HEARTBEAT_INTERVAL.as_nanos());
        let looks_per_beat = if is_fixed { 1 } else { looks.max(1) as u32 };
        Pace { interval, looks_per_beat, looks: 0, looked: Instant::now(), has_shared: false }
    }

    /// Returns the time of the next look at one-sided access.
    pub(super) fn next_look(&self) -> Instant {
        self.looked + self.between_looks()
    }

    fn between_looks(&self) -> Duration {
        self.interval / self.looks_per_beat
    }

    /// Returns what ticks at each look.
    pub(super) fn looks(&self) -> Interval {
        let interval = self.between_looks();
        let mut look = interval_at(Instant::now() + interval, interval);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look
    }

    /// Counts a look. Returns true if a heartbeat comes with it.
    pub(super) fn count_look(&mut self) -> bool {
        self.looks = (self.looks + 1) % self.looks_per_beat;
        self.looks == 0
    }
}
