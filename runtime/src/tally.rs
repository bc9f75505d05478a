//! The figures of one actor that a snapshot shows and the metrics sum up: its parent, its restarts,
//! and its registrations.
//!
//! Only the task of the actor writes a figure, and only when it changes; other messages write
//! nothing. A reader may see a slightly outdated figure. The registrations of an incarnation are
//! subtracted when it ends, so the gauges are 0 when all actors of a process have ended.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ringpost_transport::shield;

/// The figures of one actor. Its cell creates them with the first nonzero figure: most actors have
/// none.
#[derive(Debug, Default)]
pub(crate) struct ActorStats {
    /// The number of its parent; 0 without a parent.
    parent: AtomicU64,
    restarts: AtomicU32,
    registered: [AtomicU32; 4],
}

/// A kind of thing that an actor has registered or stashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegistrationKind {
    Timers,
    Tasks,
    Streams,
    Stashed,
}

impl RegistrationKind {
    /// Returns the name of the gauge that shows the sum over all actors of this process.
    fn gauge(self) -> &'static str {
        match self {
            RegistrationKind::Timers => "ringpost_actor_timers",
            RegistrationKind::Tasks => "ringpost_actor_tasks",
            RegistrationKind::Streams => "ringpost_actor_streams",
            RegistrationKind::Stashed => "ringpost_actor_stashed",
        }
    }
}

impl ActorStats {
    /// Notes its parent.
    pub(crate) fn set_parent(&self, id: u64) {
        self.parent.store(id, Ordering::Relaxed);
    }

    /// Returns the number of its parent.
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

    /// Sets the current number of things of this kind.
    pub(crate) fn set(&self, what: RegistrationKind, count: usize) {
        let (place, count) = (&self.registered[what as usize], count as u32);
        let before = place.load(Ordering::Relaxed);
        if before != count {
            place.store(count, Ordering::Relaxed);
            let more = f64::from(count) - f64::from(before);
            shield::run(|| metrics::gauge!(what.gauge()).increment(more));
        }
    }

    /// Returns the current number of things of this kind.
    pub(crate) fn get(&self, what: RegistrationKind) -> usize {
        self.registered[what as usize].load(Ordering::Relaxed) as usize
    }
}
