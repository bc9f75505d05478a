//! The clock by which silence is counted: it does not count the time for which this node itself
//! stood still (MS-4). Created with the event queue;
//! [`liveness`](crate::mesh::liveness) looks at it again and again.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::limits;

/// The clock of silences. While it is watched, a long time between two looks at it is one in which
/// nothing ran.
pub(in crate::mesh) struct RunClock(Mutex<Ran>);

struct Ran {
    /// The last look; `None` while nothing looks again and again.
    last: Option<Instant>,
    /// Time that is not counted.
    paused: Duration,
}

impl RunClock {
    pub(in crate::mesh) fn new() -> Self {
        RunClock(Mutex::new(Ran { last: None, paused: Duration::ZERO }))
    }

    /// Begins or ends the search for pauses.
    pub(in crate::mesh) fn watch(&self, on: bool) {
        self.0.lock().last = on.then(Instant::now);
    }

    /// Returns the time, less all pauses; and the pause that this look finds.
    pub(in crate::mesh) fn look(&self) -> (Instant, Option<Duration>) {
        let ran = &mut *self.0.lock();
        let now = Instant::now();
        let gap = ran.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        // Another runtime's clock may be behind, in tests.
        ran.last = ran.last.map(|last| last.max(now));
        let pause = (gap >= limits::PAUSE_NOTICED).then_some(gap);
        ran.paused += pause.unwrap_or_default();
        (now - ran.paused, pause)
    }

    /// Returns when this clock shows `time`, if there is no further pause.
    pub(in crate::mesh) fn real(&self, time: Instant) -> Instant {
        time + self.0.lock().paused
    }
}
