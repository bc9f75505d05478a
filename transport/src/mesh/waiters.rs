//! Those that wait for a link to one peer.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::cause::NodeDownCause;

/// Those that wait for a link, by ticket.
#[derive(Default)]
pub(super) struct Waiters {
    places: BTreeMap<u64, Place>,
    /// How many of them wait: the others have failed.
    waiting: usize,
    next: u64,
}

enum Place {
    Waiting(Waker),
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
        match self.places.insert(ticket, Place::Waiting(waker)) {
            Some(Place::Waiting(old)) => Some(old),
            _ => {
                self.waiting += 1;
                None
            }
        }
    }

    /// Returns how many wait.
    pub(super) fn count(&self) -> usize {
        self.waiting
    }

    /// Why the wait of this ticket failed, if it did.
    pub(super) fn failed(&mut self, ticket: u64) -> Option<NodeDownCause> {
        match self.places.get(&ticket) {
            Some(Place::Failed(cause)) => Some(cause.clone()),
            _ => None,
        }
    }

    /// Gives a place up; what it held is to be dropped without a lock held.
    pub(super) fn remove(&mut self, ticket: u64) -> Option<Waker> {
        match self.places.remove(&ticket) {
            Some(Place::Waiting(waker)) => {
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
            .partition::<BTreeMap<_, _>, _>(|(_, p)| matches!(p, Place::Waiting(_)));
        self.places = failed;
        waiting
            .into_values()
            .filter_map(|place| match place {
                Place::Waiting(waker) => Some(waker),
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
                Place::Waiting(waker) => Some(waker),
                earlier => {
                    *place = earlier;
                    None
                }
            })
            .collect()
    }
}
