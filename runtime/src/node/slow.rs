//! Reports handlers that run or wait for a long time to the log, once each.
//!
//! Handlers do not read a clock for this. Each check remembers the number of each actor's current
//! handler; the next handler has another number. If later checks find the same number, the handler
//! has run since.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ringpost_transport::log;
use tokio::runtime::Id;
use tokio::time::Instant;

use crate::busy::{HandlerInfo, held};
use crate::limits;
use crate::resident::LocalActor;
use crate::residents::LocalActors;

/// The handlers that the last check found. Owned by the task of the `StallReporter`.
pub(super) struct SlowHandlers {
    runtime: Id,
    after: Duration,
    seen: HashMap<HandlerRun, RunStatus>,
}

/// One run of a handler or hook.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum HandlerRun {
    /// It waits: the actor's number, and the number of its handler.
    Waits(u64, u32),
    /// It holds a thread: the actor's number, and the start of its poll.
    Holds(u64, u64),
}

#[derive(Clone, Copy)]
struct RunStatus {
    first: Instant,
    is_told: bool,
}

impl SlowHandlers {
    pub(super) fn new(runtime: Id, after: Duration) -> Self {
        SlowHandlers { runtime, after, seen: HashMap::new() }
    }

    /// Checks the handlers of the listed actors, and the handlers on all threads, once.
    pub(super) fn look(&mut self, residents: &LocalActors, listed: &[Arc<dyn LocalActor>]) {
        let before = std::mem::take(&mut self.seen);
        let mut told = 0;
        let holding = held(self.runtime);
        for actor in listed {
            // A handler that waited once and holds a thread now is reported for the latter.
            if holding.iter().any(|held| held.id == actor.id()) {
                continue;
            }
            let waits = actor.waits().lock().as_ref().map(|waits| (waits.handler, waits.number));
            if let Some((Some(duty), number)) = waits {
                let run = HandlerRun::Waits(actor.id(), number);
                let waits_for = || residents.awaited_by(&**actor);
                self.found(&before, run, &mut told, |age| tell(&**actor, duty, age, waits_for()));
            }
        }
        for held in holding {
            let actor = residents.by_id(held.id).filter(|actor| actor.token() == held.token);
            let Some(actor) = actor else { continue };
            let run = HandlerRun::Holds(held.id, held.since);
            self.found(&before, run, &mut told, |age| tell_held(&*actor, held.duty, age));
        }
        if let Some(others) = told.checked_sub(limits::HANDLERS_REPORTED_MAX).filter(|n| *n > 0) {
            log::warn!(others, "more handlers run for long than are named");
        }
    }

    fn found(
        &mut self,
        before: &HashMap<HandlerRun, RunStatus>,
        run: HandlerRun,
        told: &mut usize,
        tell: impl FnOnce(Duration),
    ) {
        let first = RunStatus { first: Instant::now(), is_told: false };
        let mut seen = before.get(&run).copied().unwrap_or(first);
        let age = seen.first.elapsed();
        if !seen.is_told && age >= self.after {
            seen.is_told = true;
            *told += 1;
            if *told <= limits::HANDLERS_REPORTED_MAX {
                tell(age);
            }
        }
        self.seen.insert(run, seen);
    }
}

fn tell(actor: &dyn LocalActor, duty: &HandlerInfo, age: Duration, waits_for: Option<String>) {
    let (actor, seconds) = (actor.shown(), tenths(age));
    let waits_for = waits_for.as_deref().unwrap_or("something that is no actor");
    log::warn!(%actor, handler = %duty, seconds, waits_for, "a handler waits for long");
}

fn tell_held(actor: &dyn LocalActor, duty: &HandlerInfo, age: Duration) {
    let (actor, seconds) = (actor.shown(), tenths(age));
    log::warn!(%actor, handler = %duty, seconds, "a handler holds a thread for long");
}

/// Returns the time in seconds, rounded to a tenth.
fn tenths(age: Duration) -> f64 {
    (age.as_secs_f64() * 10.0).round() / 10.0
}
