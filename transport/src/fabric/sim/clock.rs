//! The one clock of a run: events of the world and tokio's timers in one order.
//!
//! Tokio's clock is paused; it moves by whole milliseconds, and only when nothing is runnable,
//! to the next timer. Before it may do so [`Clock::idle`] is asked. An event before the next
//! millisecond happens then and there; for a later one the *pump*, a task of ours, keeps a timer
//! at the event's millisecond, so that tokio stops there at the latest. The world's time is
//! therefore never behind tokio's, and never a millisecond ahead.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::Stall;
use super::state::{Shared, State};

const MILLISECOND: u64 = 1_000_000;

/// Timers beyond this are never reached: a task that waits for one waits for ever.
const HORIZON_NS: u64 = 365 * 24 * 3600 * 1000 * MILLISECOND;

/// How often tokio's clock may stop beyond the limit on its way to the horizon. With only the
/// pump's timer it still stops a few times, once per level of its timer wheel; with a timer that
/// comes again and again it stops for each.
const STOPS_MAX: u32 = 64;

/// Drives a world's events between tokio's timers.
pub(super) struct Clock {
    shared: Arc<Shared>,
    limit: Duration,
    limit_ns: u64,
    pump: Mutex<Pump>,
}

struct Pump {
    start: Option<Instant>,
    waker: Option<Waker>,
    /// When tokio shall stop at the latest.
    due_ns: u64,
    /// How often tokio's clock has stopped beyond the limit.
    stops: u32,
}

impl Clock {
    /// Returns a clock that finds fault with a run of more virtual time than `limit`.
    pub(super) fn new(shared: Arc<Shared>, limit: Duration) -> Arc<Self> {
        let limit_ns = super::link_model::nanos(limit);
        let pump = Pump { start: None, waker: None, due_ns: HORIZON_NS, stops: 0 };
        Arc::new(Clock { shared, limit, limit_ns, pump: Mutex::new(pump) })
    }

    /// Brings the world's time up to tokio's, which moved.
    pub(super) fn follow(&self) -> u64 {
        let start = *self.pump.lock().start.get_or_insert_with(Instant::now);
        let tokio_ns = super::link_model::nanos(start.elapsed());
        self.shared.with(|state| {
            state.uses = 0;
            state.physics.now = state.physics.now.max(tokio_ns);
        });
        tokio_ns
    }

    /// Nothing is runnable: lets the world's next events happen until one wakes somebody, or
    /// makes sure that tokio stops in time for the next.
    pub(super) fn idle(&self) {
        let tokio_ns = self.follow();
        let (woken, wakes) = self.shared.with_wakes(State::wake_idle);
        wakes.into_iter().for_each(Waker::wake);
        if woken {
            return self.wake_pump();
        }
        loop {
            let (rest, wakes) = self.shared.with_wakes(|state| {
                let (next, now) = (state.physics.next_at(), state.physics.now);
                if next.is_some_and(|at| at < tokio_ns + MILLISECOND) && now < self.limit_ns {
                    state.step();
                    return None;
                }
                Some((next, now))
            });
            if let Some((next, now)) = rest {
                return self.rest(next, now);
            }
            if !wakes.is_empty() {
                wakes.into_iter().for_each(Waker::wake);
                // The woken task may be none of this runtime or have ended: tokio must come back
                // here before its clock moves.
                return self.wake_pump();
            }
        }
    }

    /// Nothing of this millisecond is left to do.
    fn rest(&self, next: Option<u64>, now: u64) {
        let mut pump = self.pump.lock();
        if now >= self.limit_ns {
            pump.stops = if next.is_some() { STOPS_MAX } else { pump.stops + 1 };
        }
        let due_ns = next.map_or(HORIZON_NS, |at| (at / MILLISECOND * MILLISECOND).min(HORIZON_NS));
        if due_ns < pump.due_ns || pump.stops >= STOPS_MAX {
            pump.due_ns = due_ns.min(pump.due_ns);
            drop(pump);
            self.wake_pump();
        }
    }

    fn wake_pump(&self) {
        let waker = self.pump.lock().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Runs the pump. Ends only when the run has failed, and says why.
    pub(super) async fn pump(self: Arc<Self>) -> Stall {
        let start = *self.pump.lock().start.get_or_insert_with(Instant::now);
        let instant = |ns| start + Duration::from_nanos(ns);
        let timer = sleep_until(instant(HORIZON_NS));
        tokio::pin!(timer);
        let mut armed_ns = HORIZON_NS;
        poll_fn(|cx| {
            let mut pump = self.pump.lock();
            pump.waker.get_or_insert_with(|| cx.waker().clone());
            if pump.stops >= STOPS_MAX {
                return Poll::Ready(());
            }
            loop {
                if pump.due_ns != armed_ns {
                    armed_ns = pump.due_ns;
                    timer.as_mut().reset(instant(armed_ns));
                }
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                if armed_ns == HORIZON_NS {
                    return Poll::Ready(());
                }
                pump.due_ns = HORIZON_NS;
            }
        })
        .await;
        let over_limit = self.pump.lock().stops >= STOPS_MAX;
        if over_limit { Stall::OverLimit(self.limit) } else { Stall::Deadlock }
    }
}
