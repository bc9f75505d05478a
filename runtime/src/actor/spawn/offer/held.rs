//! The actors that are held until their watchers tell them to begin.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{NOT_BEGUN, Offered, count};
use crate::actor::spawn::UnstartedActor;
use crate::actor::{Down, Recipient};
use crate::address::Address;

/// A held actor.
pub(super) struct HeldActor<A: Offered> {
    pub(super) actor: UnstartedActor<A>,
    pub(super) address: Address,
    pub(super) watcher: Recipient<Down>,
}

/// The held actors by number, and their numbers by watcher, so that the cost of one actor does not
/// grow with the number of others.
pub(super) struct HeldActors<A: Offered> {
    by_id: BTreeMap<u64, HeldActor<A>>,
    /// No set is empty.
    by_watcher: HashMap<Address, BTreeSet<u64>>,
}

impl<A: Offered> HeldActors<A> {
    pub(super) fn new() -> Self {
        HeldActors { by_id: BTreeMap::new(), by_watcher: HashMap::new() }
    }

    pub(super) fn insert(&mut self, id: u64, held: HeldActor<A>) {
        self.by_watcher.entry(held.watcher.address().clone()).or_default().insert(id);
        self.by_id.insert(id, held);
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<HeldActor<A>> {
        let held = self.by_id.remove(&id)?;
        let watcher = held.watcher.address();
        if let Some(ids) = self.by_watcher.get_mut(watcher) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_watcher.remove(watcher);
            }
        }
        Some(held)
    }

    /// Ends the actors that are held for a watcher, and returns their numbers.
    pub(super) fn remove_watcher(&mut self, watcher: &Address) -> BTreeSet<u64> {
        let ids = self.by_watcher.remove(watcher).unwrap_or_default();
        for id in &ids {
            self.by_id.remove(id);
        }
        ids
    }

    pub(super) fn has_watcher(&self, watcher: &Address) -> bool {
        self.by_watcher.contains_key(watcher)
    }
}

/// The actors that are still held end with the [`Spawner`](super::Spawner).
impl<A: Offered> Drop for HeldActors<A> {
    fn drop(&mut self) {
        self.by_id.keys().for_each(|_| count(A::NAME, NOT_BEGUN));
    }
}
