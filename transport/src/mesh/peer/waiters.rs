//! Senders that wait for a link to one peer.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::cause::NodeDown;

/// The senders that wait for a link, by ticket.
#[derive(Default)]
pub(in crate::mesh) struct Waiters {
    places: BTreeMap<u64, Place>,
    /// Number of them that wait: the others have failed.
    waiting: usize,
    next: u64,
}

enum Place {
    /// A sender that waits; a patient one also while the node is down.
    Waiting {
        waker: Waker,
        patient: bool,
    },
    Failed(NodeDown),
}

impl Waiters {
    /// Waits on, under `ticket` or under a new one. The waker that was there before, if any, is to
    /// be dropped without a lock held.
    pub(in crate::mesh) fn wait(
        &mut self,
        ticket: &mut Option<u64>,
        waker: Waker,
        patient: bool,
    ) -> Option<Waker> {
        let ticket = *ticket.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        if let Some(Place::Waiting { waker: kept, .. }) = self.places.get_mut(&ticket) {
            return Some(std::mem::replace(kept, waker));
        }
        self.waiting += 1;
        self.places.insert(ticket, Place::Waiting { waker, patient });
        None
    }

    /// Returns how many wait.
    pub(in crate::mesh) fn count(&self) -> usize {
        self.waiting
    }

    /// Returns why the wait of this ticket failed, if it did.
    pub(in crate::mesh) fn failed(&mut self, ticket: u64) -> Option<NodeDown> {
        match self.places.get(&ticket) {
            Some(Place::Failed(down)) => Some(down.clone()),
            _ => None,
        }
    }

    /// Gives a place up. The returned waker is to be dropped without a lock held.
    pub(in crate::mesh) fn remove(&mut self, ticket: u64) -> Option<Waker> {
        match self.places.remove(&ticket) {
            Some(Place::Waiting { waker, .. }) => {
                self.waiting -= 1;
                Some(waker)
            }
            _ => None,
        }
    }

    /// Returns all wakers in the order of their tickets, to be woken without a lock held; none is
    /// kept.
    pub(in crate::mesh) fn take(&mut self) -> Vec<Waker> {
        self.waiting = 0;
        let mut wakers = Vec::new();
        for (ticket, place) in std::mem::take(&mut self.places) {
            match place {
                Place::Waiting { waker, .. } => wakers.push(waker),
                failed @ Place::Failed(_) => drop(self.places.insert(ticket, failed)),
            }
        }
        wakers
    }

    /// Fails every wait except those by patient senders. The wakers are to be woken without a lock
    /// held.
    pub(in crate::mesh) fn fail(&mut self, down: &NodeDown) -> Vec<Waker> {
        self.fail_those(down, |patient| !patient)
    }

    /// Fails every wait, as [`fail`](Self::fail) does.
    pub(in crate::mesh) fn fail_all(&mut self, down: &NodeDown) -> Vec<Waker> {
        self.fail_those(down, |_| true)
    }

    fn fail_those(&mut self, down: &NodeDown, fails: impl Fn(bool) -> bool) -> Vec<Waker> {
        let fail = |place: &mut Place| match place {
            Place::Waiting { patient, .. } if fails(*patient) => {
                match std::mem::replace(place, Place::Failed(down.clone())) {
                    Place::Waiting { waker, .. } => Some(waker),
                    Place::Failed(_) => None,
                }
            }
            Place::Waiting { .. } | Place::Failed(_) => None,
        };
        let wakers: Vec<Waker> = self.places.values_mut().filter_map(fail).collect();
        self.waiting -= wakers.len();
        wakers
    }
}
