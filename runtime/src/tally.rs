//! The figures of one actor that a snapshot shows and the metrics sum up: its parent, its restarts,
//! and what it has registered.
//!
//! - **TA-1 one writer**: a figure is written by the task of its actor only, when it changes; by no
//!   message that changes none. A reader may find one a moment old.
//! - **TA-2 back to nothing**: what an incarnation has registered is counted off when it ends, so
//!   the gauges are 0 when the actors of a process have ended.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ringpost_transport::shield;

/// The figures of one actor. Made by its cell with the first that is not zero: most actors have
/// none.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The number of the actor that it is a child of; 0 of none.
    parent: AtomicU64,
    restarts: AtomicU32,
    registered: [AtomicU32; 4],
}

/// A kind of thing that an actor has registered or put aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registered {
    Timers,
    Tasks,
    Streams,
    Stashed,
}

impl Registered {
    /// Returns the gauge that sums it up over the actors of this process.
    fn gauge(self) -> &'static str {
        match self {
            Registered::Timers => "ringpost_actor_timers",
            Registered::Tasks => "ringpost_actor_tasks",
            Registered::Streams => "ringpost_actor_streams",
            Registered::Stashed => "ringpost_actor_stashed",
        }
    }
}

impl Tally {
    /// Notes the actor that it is a child of.
    pub(crate) fn set_parent(&self, id: u64) {
        self.parent.store(id, Ordering::Relaxed);
    }

    /// Returns the number of the actor that it is a child of.
    pub(crate) fn parent(&self) -> Option<u64> {
        let id = self.parent.load(Ordering::Relaxed);
        (id != 0).then_some(id)
    }

    /// Counts a restart.
    pub(crate) fn count_restart(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn restarts(&self) -> u32 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Notes how many there are now (TA-1).
    pub(crate) fn set(&self, what: Registered, count: usize) {
        let (place, count) = (&self.registered[what as usize], count as u32);
        let before = place.load(Ordering::Relaxed);
        if before != count {
            place.store(count, Ordering::Relaxed);
            let more = f64::from(count) - f64::from(before);
            shield::run(|| metrics::gauge!(what.gauge()).increment(more));
        }
    }

    /// Returns how many there are.
    pub(crate) fn get(&self, what: Registered) -> usize {
        self.registered[what as usize].load(Ordering::Relaxed) as usize
    }
}
