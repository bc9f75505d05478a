//! The laws that a world obeys: time, chance, paths, faults; and the log of what happened.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use fastrand::Rng;

use super::event::{Event, NodeId};
use super::heap::Heap;
use super::link_model::{Links, Passage, nanos};
use super::rule::{Case, Counters, On, Rule, Verdict};

/// Wake-ups for nothing, of owners of queue pairs, when nothing is runnable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleWakes {
    /// The world does not do this.
    Never,
    /// At the next occasion.
    Next,
    /// They were woken, and whatever runs now runs because of it.
    Running,
}

/// Time, chance, paths and faults of one world.
pub(super) struct Physics {
    /// Nanoseconds since the world began.
    pub(super) now: u64,
    pub(super) chance: Rng,
    pub(super) links: Links,
    pub(super) rules: Vec<Rule>,
    pub(super) counters: Counters,
    /// Nodes whose software stands still.
    pub(super) paused: BTreeSet<NodeId>,
    pub(super) heartbeat_interval: Option<Duration>,
    pub(super) idle_wakes: IdleWakes,
    heap: Heap<Event>,
    names: Vec<Arc<str>>,
    log: String,
    /// The scenario has ended, and its log with it.
    is_over: bool,
    wakes: Vec<Waker>,
}

impl Physics {
    /// The beginning of the world of this seed.
    pub(super) fn new(seed: u64) -> Self {
        Physics {
            now: 0,
            chance: Rng::with_seed(seed),
            links: Links::default(),
            rules: Vec::new(),
            counters: Counters::default(),
            paused: BTreeSet::new(),
            heartbeat_interval: None,
            idle_wakes: IdleWakes::Never,
            heap: Heap::new(),
            names: Vec::new(),
            log: String::new(),
            is_over: false,
            wakes: Vec::new(),
        }
    }

    /// Lets `event` happen at the instant `at`, or now if that is past.
    pub(super) fn at(&mut self, at: u64, event: Event) {
        self.heap.push(at.max(self.now), event);
    }

    /// When the next event happens.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.heap.next_at()
    }

    /// Goes to the next event.
    pub(super) fn next(&mut self) -> Option<Event> {
        let (at, event) = self.heap.pop()?;
        self.now = self.now.max(at);
        Some(event)
    }

    /// Adds a line to the log, unless that has ended.
    pub(super) fn log(&mut self, line: fmt::Arguments<'_>) {
        use fmt::Write as _;
        if self.is_over {
            return;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(self.log, "{} {line}", self.now);
    }

    /// Ends the log.
    pub(super) fn end_log(&mut self) {
        self.is_over = true;
    }

    /// Returns the whole log.
    pub(super) fn log_text(&self) -> &str {
        &self.log
    }

    /// Remembers to wake somebody once the world is unlocked.
    pub(super) fn wake(&mut self, waker: Option<Waker>) {
        self.wakes.extend(waker);
    }

    /// Returns the wakers of the tasks that are to be woken.
    pub(super) fn take_wakes(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wakes)
    }

    /// Returns the number of a node's name.
    pub(super) fn node(&mut self, name: &str) -> NodeId {
        self.names.iter().position(|known| &**known == name).unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        })
    }

    /// Returns a node's name.
    pub(super) fn name(&self, node: NodeId) -> Arc<str> {
        self.names[node].clone()
    }

    /// Puts bytes on a path.
    pub(super) fn pass(&mut self, path: (NodeId, NodeId), bytes: usize) -> Passage {
        self.links.pass(path, bytes, self.now, &mut self.chance)
    }

    /// Returns an instant one latency (and some jitter) away.
    pub(super) fn after_latency(&mut self, from: NodeId, to: NodeId) -> u64 {
        let model = self.links.model(from, to);
        self.now + nanos(model.latency) + self.chance.u64(0..=nanos(model.jitter))
    }

    /// Returns when an acknowledgement that starts now arrives: sometimes only after answers that
    /// were sent much later.
    pub(super) fn after_ack(&mut self, from: NodeId, to: NodeId) -> u64 {
        let at = self.after_latency(from, to);
        let lazy = self.chance.u8(0..4) == 0;
        let latency = nanos(self.links.model(from, to).latency);
        if lazy { at + self.chance.u64(0..=latency.saturating_mul(12)) } else { at }
    }

    /// Returns when a sender that starts to wait now gives up.
    pub(super) fn after_retry(&mut self, from: NodeId, to: NodeId) -> u64 {
        let retry = nanos(self.links.model(from, to).retry);
        self.now + retry + self.chance.u64(0..=retry.saturating_mul(3))
    }

    /// Returns an instant within this time.
    pub(super) fn within(&mut self, time: Duration) -> u64 {
        self.now + self.chance.u64(0..=nanos(time))
    }

    /// True once in `n` times.
    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.chance.u32(0..n) == 0
    }

    /// Returns what becomes of this; counted and logged if it is not to pass.
    pub(super) fn judge(&mut self, on: On, path: (NodeId, NodeId), index: u64) -> Verdict {
        let Physics { rules, chance, names, .. } = self;
        let (from, to) = (&*names[path.0], &*names[path.1]);
        let case = Case { on, from, to, index };
        let verdict = rules.iter_mut().find_map(|rule| rule.judge(case, chance));
        let verdict = verdict.unwrap_or(Verdict::Pass);
        if verdict != Verdict::Pass {
            self.counters.meet(on, verdict);
            let (from, to) = path;
            self.log(format_args!("{on:?} {index} from node {from} to {to} meets {verdict:?}"));
        }
        verdict
    }

    /// Returns how many of `count` bytes, from this index on, can be judged as one.
    pub(super) fn judged_as_one(&self, path: (NodeId, NodeId), index: u64, count: usize) -> usize {
        let (from, to) = (&*self.names[path.0], &*self.names[path.1]);
        let case = Case { on: On::Bytes, from, to, index };
        self.rules.iter().fold(count, |count, rule| rule.before(case, count))
    }
}
