//! The registry of a node: a table of slots with their occupants (actors), and the names that lead
//! to the occupants.
//!
//! A name leads to at most one occupant; if two want it at once, only one gets it. The name is free
//! again when the occupant is removed. A slot is never given twice with the same generation, so an
//! old identity never leads to a later occupant.

use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use parking_lot::RwLock;

/// An index that stands for no slot.
const NO_PLACE: u32 = u32::MAX;

/// The identity of an occupant: the index of its slot in the table, and a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) index: u32,
    /// Starts at 1.
    pub(crate) generation: u32,
}

impl Key {
    /// Returns the key as one number, by which other nodes know it.
    pub(crate) fn id(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Returns the key with this number.
    pub(crate) fn of(id: u64) -> Self {
        Key { index: id as u32, generation: (id >> 32) as u32 }
    }
}

/// The reason why an occupant was not admitted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RegisterError {
    /// The name is taken.
    NameTaken,
    /// No occupant is admitted any more.
    Closed,
}

/// Occupants by key and by name.
pub(crate) struct Registry<T: ?Sized> {
    /// The entry of a name is locked while its occupant gets a slot, so it must never be locked by
    /// a thread that has locked the table.
    names: DashMap<Arc<str>, Key>,
    table: RwLock<Table<T>>,
}

struct Table<T: ?Sized> {
    places: Vec<RegistrySlot<T>>,
    /// The slot that was freed last; [`NO_PLACE`] if all are taken.
    free: u32,
    closed: bool,
}

struct RegistrySlot<T: ?Sized> {
    generation: u32,
    /// For a free slot: the slot that was freed before it. With this list, the end of an actor
    /// allocates nothing: a vector of free slots that grows while a million actors end would lie
    /// above all the memory that they free, and keep the allocator from returning it.
    next: u32,
    occupant: Option<Arc<T>>,
}

impl<T: ?Sized> Registry<T> {
    pub(crate) fn new() -> Self {
        let table = Table { places: Vec::new(), free: NO_PLACE, closed: false };
        Registry { names: DashMap::new(), table: RwLock::new(table) }
    }

    /// Adds the occupant that `make` builds, and returns it; `make` runs under the table's lock.
    pub(crate) fn insert(
        &self,
        name: Option<Arc<str>>,
        make: impl FnOnce(Key) -> Arc<T>,
    ) -> Result<Arc<T>, RegisterError> {
        let vacant = match name.clone().map(|name| self.names.entry(name)) {
            Some(Entry::Occupied(_)) => return Err(RegisterError::NameTaken),
            Some(Entry::Vacant(vacant)) => Some(vacant),
            None => None,
        };
        let mut table = self.table.write();
        if table.closed {
            return Err(RegisterError::Closed);
        }
        let index = table.take_free();
        let place = &mut table.places[index as usize];
        let key = Key { index, generation: place.generation };
        let made = make(key);
        place.occupant = Some(made.clone());
        drop(table);
        if let Some(vacant) = vacant {
            vacant.insert(key);
        }
        Ok(made)
    }

    /// Removes an occupant, and frees its slot and name. Returns the occupant, which the caller
    /// drops outside of the lock.
    pub(crate) fn remove(&self, key: Key, name: Option<&str>) -> Option<Arc<T>> {
        // The name first, so that no name is taken without an occupant.
        if let Some(name) = name {
            self.names.remove_if(name, |_, named| *named == key);
        }
        self.table.write().leave(key)
    }

    pub(crate) fn at(&self, key: Key) -> Option<Arc<T>> {
        let table = self.table.read();
        let place = table.places.get(key.index as usize)?;
        let occupant = place.occupant.as_ref()?;
        (place.generation == key.generation).then(|| occupant.clone())
    }

    pub(crate) fn named(&self, name: &str) -> Option<Arc<T>> {
        let key = *self.names.get(name)?;
        self.at(key)
    }

    /// Refuses further occupants from now on.
    pub(crate) fn close(&self) {
        self.table.write().closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.table.read().closed
    }

    /// Returns all occupants, in the order of their slots.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let table = self.table.read();
        table.places.iter().filter_map(|p| p.occupant.clone()).collect()
    }
}

impl<T: ?Sized> Table<T> {
    /// Takes a free slot, or a new one if none is free, and returns its index.
    fn take_free(&mut self) -> u32 {
        let index = self.free;
        if let Some(place) = self.places.get(index as usize) {
            self.free = place.next;
            return index;
        }
        self.places.push(RegistrySlot { generation: 1, next: NO_PLACE, occupant: None });
        (self.places.len() - 1) as u32
    }

    fn leave(&mut self, key: Key) -> Option<Arc<T>> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let left = place.occupant.take()?;
        // A slot whose generations are used up is not reused.
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            place.next = self.free;
            self.free = key.index;
        }
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(registry: &Registry<u8>, name: &str) -> Result<Key, RegisterError> {
        let mut given = None;
        let make = |key| {
            given = Some(key);
            Arc::new(7)
        };
        registry.insert(Some(name.into()), make)?;
        Ok(given.unwrap())
    }

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn a_name_is_given_once_until_it_is_freed() {
        let registry = Registry::new();
        let first = insert(&registry, "a").unwrap();
        assert_eq!(insert(&registry, "a"), Err(RegisterError::NameTaken));
        assert!(registry.named("a").is_some());
        assert!(registry.remove(first, Some("a")).is_some());
        assert!(registry.remove(first, Some("a")).is_none());
        assert!(registry.named("a").is_none());
        assert!(insert(&registry, "a").is_ok());
    }

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn an_old_key_does_not_lead_to_the_next_occupant() {
        let registry = Registry::new();
        let first = insert(&registry, "a").unwrap();
        registry.remove(first, Some("a"));
        let second = insert(&registry, "b").unwrap();
        assert_eq!(first.index, second.index);
        assert!(registry.at(first).is_none());
        assert!(registry.at(second).is_some());
        registry.close();
        assert_eq!(insert(&registry, "c"), Err(RegisterError::Closed));
        assert_eq!(registry.all().len(), 1);
    }

    #[test]
    fn places_are_given_again_and_to_leave_one_allocates_nothing() {
        let registry = Registry::<usize>::new();
        let keys = |count: usize| {
            let mut keys = Vec::new();
            for number in 0..count {
                let note = |key| {
                    keys.push(key);
                    Arc::new(number)
                };
                registry.insert(None, note).unwrap();
            }
            keys
        };
        let first = keys(1000);
        let leaving = allocation_counter::measure(|| {
            first.iter().for_each(|key| drop(registry.remove(*key, None)));
        });
        assert_eq!(leaving.count_total, 0);
        let mut again: Vec<u32> = keys(1001).iter().map(|key| key.index).collect();
        again.sort_unstable();
        assert_eq!(again, (0..=1000).collect::<Vec<u32>>());
        assert!(registry.at(first[0]).is_none() && registry.all().len() == 1001);
    }
}
