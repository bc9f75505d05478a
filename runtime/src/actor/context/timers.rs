//! The timers of one actor.
//!
//! Timers are kept with the actor, which checks them itself, so a timer that was cancelled or
//! replaced, or whose actor was restarted, sends nothing. At most one message of a periodic timer
//! waits; firings that were missed meanwhile are skipped.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::task::Context;
use std::time::Duration;

use tokio::time::Instant;

use crate::actor::Handlers;
use crate::actor::cell::route::LabeledEnvelope;
use crate::deadlines::Alarm;
use crate::limits;
use crate::node::Node;

/// The key of a timer of an actor: a text, a number, or both.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimerKey {
    /// A name.
    Name(Cow<'static, str>),
    /// A number.
    Number(u64),
    /// A name and a number, for one of several timers of a kind.
    Of(&'static str, u64),
    /// The timer that [`Context::tell_when_idle`](crate::Context::tell_when_idle) sets.
    Idle,
}

impl From<&'static str> for TimerKey {
    fn from(name: &'static str) -> Self {
        TimerKey::Name(name.into())
    }
}

impl From<String> for TimerKey {
    fn from(name: String) -> Self {
        TimerKey::Name(name.into())
    }
}

impl From<u64> for TimerKey {
    fn from(number: u64) -> Self {
        TimerKey::Number(number)
    }
}

impl From<(&'static str, u64)> for TimerKey {
    fn from((kind, number): (&'static str, u64)) -> Self {
        TimerKey::Of(kind, number)
    }
}

/// The timers of one actor. Owned by its `EventSources`.
pub(crate) struct Timers<A: Handlers> {
    by_key: HashMap<TimerKey, DueTime>,
    by_time: BTreeMap<DueTime, Timer<A>>,
    next: u64,
    /// The time of the last handled message; kept only while there is an idle timer.
    active: Instant,
    alarm: Alarm<Node>,
}

/// The time at which a timer fires, and its number. Timers that are due at the same time fire in
/// the order in which they were set.
type DueTime = (Instant, u64);

struct Timer<A: Handlers> {
    key: TimerKey,
    what: TimerKind<A>,
}

/// A function that makes the message of a timer. Returns `None` if the message cannot be made.
pub(crate) type MessageFactory<A> = Box<dyn FnMut() -> Option<LabeledEnvelope<A>> + Send>;

pub(crate) enum TimerKind<A: Handlers> {
    Once(LabeledEnvelope<A>),
    Every(Duration, MessageFactory<A>),
    /// Fires when no message was handled for this time.
    Idle(Duration, MessageFactory<A>),
}

impl<A: Handlers> Timers<A> {
    pub(crate) fn new(node: Node) -> Self {
        Timers {
            by_key: HashMap::new(),
            by_time: BTreeMap::new(),
            next: 0,
            active: Instant::now(),
            alarm: Alarm::new(node),
        }
    }

    /// Sets a timer, in place of the timer with the same key. Times are cut to
    /// [`limits::ASK_TIMEOUT_MAX`].
    pub(crate) fn set(&mut self, key: TimerKey, after: Duration, what: TimerKind<A>) {
        let after = after.min(limits::ASK_TIMEOUT_MAX);
        let what = match what {
            TimerKind::Once(item) => TimerKind::Once(item),
            TimerKind::Every(_, make) => TimerKind::Every(after, make),
            TimerKind::Idle(_, make) => TimerKind::Idle(after, make),
        };
        self.cancel(&key);
        let now = Instant::now();
        if key == TimerKey::Idle {
            self.active = now;
        }
        self.insert(now + after, Timer { key, what });
    }

    /// Removes a timer. Returns true if there was one.
    pub(crate) fn cancel(&mut self, key: &TimerKey) -> bool {
        let due = self.by_key.remove(key);
        due.and_then(|due| self.by_time.remove(&due)).is_some()
    }

    /// Returns the number of timers.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Returns the number of timers that fire once.
    pub(crate) fn once(&self) -> usize {
        self.by_time.values().filter(|timer| matches!(timer.what, TimerKind::Once(_))).count()
    }

    /// Records that a message of the mailbox was handled.
    pub(crate) fn note_activity(&mut self) {
        if self.by_key.contains_key(&TimerKey::Idle) {
            self.active = Instant::now();
        }
    }

    /// Returns the message of a timer that is due, if there is one. `is_idle` returns true if no
    /// message waits in the mailbox.
    pub(crate) fn take_due(&mut self, is_idle: impl Fn() -> bool) -> Option<LabeledEnvelope<A>> {
        // The time is read once: a timer with a shorter period than a round of this loop is set
        // for a later time, so that the mailbox has its turn.
        let now = Instant::now();
        while let Some(((due, _), _)) = self.by_time.first_key_value()
            && *due <= now
        {
            let fired = self.fire(&is_idle);
            if fired.is_some() {
                return fired;
            }
        }
        None
    }

    /// Registers the waker to be woken when the first timer is due.
    pub(crate) fn wait(&mut self, cx: &mut Context<'_>) {
        let first = self.by_time.first_key_value().map(|((due, _), _)| *due);
        if self.alarm.poll(first, cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    /// Removes the first timer, and sets it again if it must fire again. Returns its message, if it
    /// sends one now.
    fn fire(&mut self, is_idle: impl Fn() -> bool) -> Option<LabeledEnvelope<A>> {
        let ((due, _), Timer { key, what }) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        match what {
            TimerKind::Once(item) => Some(item),
            TimerKind::Every(period, mut make) => {
                let item = make();
                let next = after_missed(due, period, Instant::now());
                self.insert(next, Timer { key, what: TimerKind::Every(period, make) });
                item
            }
            TimerKind::Idle(after, mut make) => {
                let is_over = self.active + after <= due;
                let item = if is_over && is_idle() { make() } else { None };
                if is_over {
                    self.active = Instant::now();
                }
                self.insert(self.active + after, Timer { key, what: TimerKind::Idle(after, make) });
                item
            }
        }
    }

    fn insert(&mut self, at: Instant, timer: Timer<A>) {
        self.next += 1;
        let due = (at, self.next);
        self.by_key.insert(timer.key.clone(), due);
        self.by_time.insert(due, timer);
    }
}

/// Returns the first time after `now` that is a whole number of periods after `due`.
fn after_missed(due: Instant, period: Duration, now: Instant) -> Instant {
    let next = due + period;
    if next > now {
        return next;
    }
    let missed = (now - due).as_nanos() / period.as_nanos().max(1);
    due + period * u32::try_from(missed + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn firings_that_were_missed_are_left_out() {
        let (due, ms) = (Instant::now(), Duration::from_millis);
        for (late, next) in [(0, 10), (9, 10), (10, 20), (25, 30), (1000, 1010)] {
            assert_eq!(after_missed(due, ms(10), due + ms(late)), due + ms(next));
        }
        assert!(after_missed(due, ms(1), due + ms(10_000_000)) > due);
    }
}
