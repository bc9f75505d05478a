//! Clocks: of the processor time of this process, and of the phases of a measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The share of its time that a measurement sends before it counts.
pub const WARM_UP: f64 = 0.25;

/// Returns the processor time, user and system, that all threads of this process have used.
pub fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A flag that a thread of its own sets after some time, so that loops need not read a clock.
#[derive(Debug, Clone)]
pub struct Alarm(Arc<AtomicBool>);

impl Alarm {
    /// Starts the clock: the flag is set after `time`.
    pub fn after(time: Duration) -> Self {
        let alarm = Alarm(Arc::new(AtomicBool::new(false)));
        let set = alarm.clone();
        thread::spawn(move || {
            thread::sleep(time);
            set.0.store(true, Ordering::Relaxed);
        });
        alarm
    }

    /// Returns true once the time has passed.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The phase of a measurement: it says what a loop does with the messages that it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The loop ignores them: caches fill, connections grow their windows.
    WarmUp,
    /// The loop counts them.
    Count,
    /// The loop ends.
    Over,
}

/// The phases of a measurement that many tasks share.
#[derive(Debug)]
pub struct Phases {
    now: Arc<AtomicU8>,
    timer: JoinHandle<Duration>,
}

/// A handle by which a task reads the phase.
#[derive(Debug, Clone)]
pub struct PhaseReader(Arc<AtomicU8>);

impl Phases {
    /// Starts a warm-up, then a count of `time`.
    pub fn start(time: Duration) -> Self {
        let now = Arc::new(AtomicU8::new(0));
        let set = now.clone();
        let timer = thread::spawn(move || {
            thread::sleep(time.mul_f64(WARM_UP));
            let start = Instant::now();
            set.store(1, Ordering::Relaxed);
            thread::sleep(time);
            set.store(2, Ordering::Relaxed);
            start.elapsed()
        });
        Phases { now, timer }
    }

    /// Returns a reader for a task.
    pub fn reader(&self) -> PhaseReader {
        PhaseReader(self.now.clone())
    }

    /// Waits for the end and returns the time of the count.
    pub fn counted(self) -> Duration {
        // The thread only sleeps: it does not panic.
        self.timer.join().unwrap_or_default()
    }
}

impl PhaseReader {
    /// Returns the phase of this moment.
    pub fn now(&self) -> Phase {
        match self.0.load(Ordering::Relaxed) {
            0 => Phase::WarmUp,
            1 => Phase::Count,
            _ => Phase::Over,
        }
    }
}

/// Returns the median of times, in microseconds.
pub fn median_us(times: &mut [Duration]) -> f64 {
    percentile_us(times, 50)
}

/// Returns a percentile of times, in microseconds.
pub fn percentile_us(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let at = times.get(times.len() * percent / 100);
    at.map_or(f64::NAN, |time| time.as_nanos() as f64 / 1000.0)
}
