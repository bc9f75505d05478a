//! Spinning: when the driver of a link looks for work again instead of arming its queue pair and
//! sleeping. A driver asks after each step that left it nothing to do. [`Spins`] says which fabrics
//! allow it, and [`Profile::spin`](crate::Profile::spin) for how long.
//!
//! A driver spins until `spin` after the step that last found that messages had been carried, and
//! then arms and sleeps as if it had not spun (PV-8, DR-3). Probes and returned credits are no
//! messages, so a link on which nothing is sent does not spin. A step that received messages is
//! followed by a turn of the runtime's other tasks, which it may have woken; so is each
//! [`IN_PLACE`] of looking again.
//!
//! Of the drivers on one thread, one looks again in place. The others look once in each turn of the
//! runtime, so that each of them makes such a turn no longer.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::fabric::Spins;
use crate::link::Carried;

/// How long a driver looks again in place, before other tasks have their turn: shorter than most
/// handlers, and long enough that what the turn costs, about half a microsecond, is a small part.
const IN_PLACE: Duration = Duration::from_micros(2);

/// The next thing that a driver does which has nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It looks again at once.
    Again,
    /// It looks again when the other tasks of its runtime had their turn.
    Yield,
    /// It arms its queue pair and sleeps.
    Sleep,
}

/// The rule of when a driver looks again. Owned by the driver, which tells it the time.
pub(super) struct Spin {
    fabric: Spins,
    most: Duration,
    /// The messages that had been carried at the last step.
    carried: Carried,
    /// Until when it spins; `None` at rest.
    until: Option<Instant>,
    /// Until when it looks again in place, before it yields.
    in_place: Option<Instant>,
}

impl Spin {
    /// Creates the rule of a driver that spins for as long as `most`, where its fabric allows it.
    pub(super) fn new(fabric: Spins, most: Duration) -> Self {
        let most = if fabric == Spins::Never { Duration::ZERO } else { most };
        Spin { fabric, most, carried: Carried::default(), until: None, in_place: None }
    }

    /// Returns what the driver `me` does next, which has nothing to do. Asks for the time only
    /// while it spins.
    pub(super) fn next(
        &mut self,
        (me, seat): (usize, &Seat),
        carried: Carried,
        now: impl FnOnce() -> Instant,
    ) -> Next {
        let before = std::mem::replace(&mut self.carried, carried);
        let has_carried = carried != before && !self.most.is_zero();
        if self.until.is_none() && !has_carried {
            return Next::Sleep;
        }
        let now = now();
        if has_carried {
            self.until = Some(now + self.most);
        }
        if has_carried && carried.received != before.received {
            return self.yields();
        }
        match self.until {
            Some(until) if now < until => self.spins((me, seat), now, until),
            _ => {
                (self.until, self.in_place) = (None, None);
                seat.leave(me);
                Next::Sleep
            }
        }
    }

    /// Says in which way it spins on.
    fn spins(&mut self, (me, seat): (usize, &Seat), now: Instant, until: Instant) -> Next {
        if self.fabric != Spins::InPlace || !seat.take(me, now, until) {
            return self.yields();
        }
        let end = *self.in_place.get_or_insert(now + IN_PLACE);
        if now < end { Next::Again } else { self.yields() }
    }

    fn yields(&mut self) -> Next {
        self.in_place = None;
        Next::Yield
    }
}

/// Which driver of a thread looks again in place, and until when it may.
#[derive(Default)]
pub(super) struct Seat(Cell<Option<(usize, Instant)>>);

thread_local! {
    /// The seat of this thread. A driver that moves to another thread leaves its seat behind, which
    /// is free when its time is over.
    pub(super) static SEAT: Seat = Seat::default();
}

impl Seat {
    /// Takes the seat until then, unless another driver has it.
    pub(super) fn take(&self, me: usize, now: Instant, until: Instant) -> bool {
        let taken = self.0.get().is_some_and(|(other, end)| other != me && now < end);
        if !taken {
            self.0.set(Some((me, until)));
        }
        !taken
    }

    pub(super) fn leave(&self, me: usize) {
        if self.0.get().is_some_and(|(holder, _)| holder == me) {
            self.0.set(None);
        }
    }
}

#[cfg(test)]
mod tests;
