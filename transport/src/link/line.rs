//! The lines in which senders wait at an outlet (LN-2).

use std::collections::{HashMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use super::waits::WaitsFor;
use crate::proto::outbound::{Notice, Unopened};

/// All lines of a link.
#[derive(Default)]
pub(super) struct Lines {
    waiting: slab::Slab<Waiting>,
    /// Wakers that are no longer needed. Dropping one may run code of its executor, so it is done
    /// without the lock (LN-1).
    retired: Vec<Waker>,
    by_outlet: HashMap<u32, Line>,
    /// Waits that ended, until they are counted: how long each was, by what it was for.
    waited: Vec<(WaitsFor, Duration)>,
}

#[derive(Default)]
struct Line {
    senders: VecDeque<usize>,
    /// Those that wait beside the line: for the opening, or for the mailbox's end.
    watchers: Vec<usize>,
}

struct Waiting {
    outlet: u32,
    waker: Waker,
    ended: Option<Unopened>,
    /// What a sender in the line waits for, as it was at first, and since when.
    wait: Option<(WaitsFor, Instant)>,
}

/// A line in which somebody stands.
pub(super) struct Standing {
    pub(super) outlet: u32,
    /// How many do.
    pub(super) senders: usize,
    /// Since when the first one waits.
    pub(super) since: Instant,
}

/// Whose turn it is.
pub(super) enum Turn {
    /// The caller is first at this outlet.
    First(u32),
    /// Somebody is before it.
    NotYet,
    /// The outlet is gone.
    Ended(Unopened),
}

impl Lines {
    /// Stands at the end of a line.
    pub(super) fn join(&mut self, outlet: u32, waker: Waker, for_what: WaitsFor) -> usize {
        let wait = Some((for_what, Instant::now()));
        let key = self.waiting.insert(Waiting { outlet, waker, ended: None, wait });
        self.by_outlet.entry(outlet).or_default().senders.push_back(key);
        key
    }

    /// Waits for the end of an outlet, beside its line.
    pub(super) fn watch(&mut self, outlet: u32, waker: Waker) -> usize {
        let key = self.waiting.insert(Waiting { outlet, waker, ended: None, wait: None });
        self.by_outlet.entry(outlet).or_default().watchers.push(key);
        key
    }

    /// Whose turn it is; keeps the waker, if there is one.
    pub(super) fn turn(&mut self, key: usize, waker: Option<&Waker>) -> Turn {
        if let Some(waker) = waker {
            self.keep(key, waker);
        }
        let waiting = &self.waiting[key];
        if let Some(why) = waiting.ended {
            return Turn::Ended(why);
        }
        let line = self.by_outlet.get(&waiting.outlet);
        if line.and_then(|line| line.senders.front()) == Some(&key) {
            Turn::First(waiting.outlet)
        } else {
            Turn::NotYet
        }
    }

    pub(super) fn keep(&mut self, key: usize, waker: &Waker) {
        let kept = &mut self.waiting[key].waker;
        if !kept.will_wake(waker) {
            self.retired.push(std::mem::replace(kept, waker.clone()));
        }
    }

    /// Wakers to be dropped once the lock is free.
    pub(super) fn take_retired(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.retired)
    }

    /// The wakers of all that wait.
    pub(super) fn wakers(&self) -> Vec<Waker> {
        self.waiting.iter().map(|(_, waiting)| waiting.waker.clone()).collect()
    }

    /// The lines in which someone stands.
    pub(super) fn standing(&self) -> impl Iterator<Item = Standing> {
        self.by_outlet.iter().filter_map(|(outlet, line)| {
            let first = *line.senders.front()?;
            let (_, since) = self.waiting[first].wait?;
            Some(Standing { outlet: *outlet, senders: line.senders.len(), since })
        })
    }

    /// The waits that ended since the last call.
    pub(super) fn drain_waited(&mut self) -> impl Iterator<Item = (WaitsFor, Duration)> {
        self.waited.drain(..)
    }

    /// Whether nobody stands in this line.
    pub(super) fn is_empty(&self, outlet: u32) -> bool {
        self.by_outlet.get(&outlet).is_none_or(|line| line.senders.is_empty())
    }

    /// Leaves the line; gives who is first now, to be woken.
    pub(super) fn leave(&mut self, key: usize) -> Option<Waker> {
        let Waiting { outlet, waker, ended, wait } = self.waiting.try_remove(key)?;
        self.retired.push(waker);
        self.waited.extend(wait.map(|(for_what, since)| (for_what, since.elapsed())));
        if ended.is_some() {
            return None;
        }
        let line = self.by_outlet.get_mut(&outlet)?;
        let was_first = line.senders.front() == Some(&key);
        line.senders.retain(|k| *k != key);
        line.watchers.retain(|k| *k != key);
        let next = line.senders.front().copied();
        if next.is_none() && line.watchers.is_empty() {
            self.by_outlet.remove(&outlet);
        }
        next.filter(|_| was_first).map(|next| self.waiting[next].waker.clone())
    }

    /// Who is to be woken because of a notice.
    pub(super) fn notify(&mut self, notice: Notice, wake: &mut Vec<Waker>) {
        match notice {
            Notice::Ready(outlet) => {
                let Some(line) = self.by_outlet.get(&outlet) else { return };
                let woken = line.senders.front().into_iter().chain(&line.watchers);
                wake.extend(woken.map(|key| self.waiting[*key].waker.clone()));
            }
            Notice::Ended(outlet, why) => {
                let Some(line) = self.by_outlet.remove(&outlet) else { return };
                for key in line.senders.into_iter().chain(line.watchers) {
                    self.waiting[key].ended = Some(why);
                    wake.push(self.waiting[key].waker.clone());
                }
            }
        }
    }

    /// Empties all lines: the link has ended.
    pub(super) fn end(&mut self) -> Vec<Waker> {
        self.by_outlet.clear();
        let mut all = std::mem::take(&mut self.waiting);
        all.drain().map(|waiting| waiting.waker).collect()
    }
}
