//! Senders that wait for a link to one peer.

use std::collections::BTreeMap;
use std::task::Waker;

use tokio::time::Instant;

use crate::cause::NodeDownCause;

/// The senders that wait for a link, by ticket.
#[derive(Default)]
pub(super) struct Waiters {
    places: BTreeMap<u64, Place>,
    /// Number of them that wait: the others have failed.
    waiting: usize,
    next: u64,
}

enum Place {
    /// The waker, and the time at which the wait began.
    Waiting(Waker, Instant),
    Failed(NodeDownCause),
}

impl Waiters {
    /// Waits on, under `ticket` or under a new one. The waker that was there before, if any, is to
    /// be dropped without a lock held.
    pub(super) fn wait(&mut self, ticket: &mut Option<u64>, waker: Waker) -> Option<Waker> {
        let ticket = *ticket.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        if let Some(Place::Waiting(kept, _)) = self.places.get_mut(&ticket) {
            return Some(std::mem::replace(kept, waker));
        }
        self.waiting += 1;
        self.places.insert(ticket, Place::Waiting(waker, Instant::now()));
        None
    }

    /// Returns how many wait.
    pub(super) fn count(&self) -> usize {
        self.waiting
    }

    /// Returns when the first of the waits that go on began.
    pub(super) fn since(&self) -> Option<Instant> {
        let since = |place: &Place| match place {
            Place::Waiting(_, since) => Some(*since),
            Place::Failed(_) => None,
        };
        self.places.values().filter_map(since).min()
    }

    /// Returns why the wait of this ticket failed, if it did.
    pub(super) fn failed(&mut self, ticket: u64) -> Option<NodeDownCause> {
        match self.places.get(&ticket) {
            Some(Place::Failed(cause)) => Some(cause.clone()),
            _ => None,
        }
    }

    /// Gives a place up; what it held is to be dropped without a lock held.
    pub(super) fn remove(&mut self, ticket: u64) -> Option<Waker> {
        match self.places.remove(&ticket) {
            Some(Place::Waiting(waker, _)) => {
                self.waiting -= 1;
                Some(waker)
            }
            _ => None,
        }
    }

    /// Returns all wakers in the order of their tickets, to be woken without a lock held; none is
    /// kept.
    pub(super) fn take(&mut self) -> Vec<Waker> {
        self.waiting = 0;
        let places = std::mem::take(&mut self.places);
        let (waiting, failed) = places
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(_, p)| matches!(p, Place::Waiting(..)));
        self.places = failed;
        waiting
            .into_values()
            .filter_map(|place| match place {
                Place::Waiting(waker, _) => Some(waker),
                Place::Failed(_) => None,
            })
            .collect()
    }

    /// Lets every wait fail with `cause`; the wakers are to be woken without a lock held.
    pub(super) fn fail(&mut self, cause: &NodeDownCause) -> Vec<Waker> {
        self.waiting = 0;
        self.places
            .values_mut()
            .filter_map(|place| match std::mem::replace(place, Place::Failed(cause.clone())) {
                Place::Waiting(waker, _) => Some(waker),
                earlier => {
                    *place = earlier;
                    None
                }
            })
            .collect()
    }
}
