//! A link's pool of receive slots and the leases on filled ones. Safe code: what it hands out are
//! owned slots (ME-1).

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::region::Slot;

/// Spare receive slots of one link. The link takes one for each that it leases upward; leased
/// slots come back by drop, from any thread (ME-3).
pub struct Pool {
    spare: Arc<Mutex<Vec<Slot>>>,
    /// How many are spare when none is leased; shared with the gauge.
    idle: Arc<AtomicUsize>,
}

impl Pool {
    /// A pool that starts with these spare slots.
    pub fn new(spare: Vec<Slot>) -> Self {
        let idle = Arc::new(AtomicUsize::new(spare.len()));
        Pool { spare: Arc::new(Mutex::new(spare)), idle }
    }

    /// A spare slot; when there is none, what arrived is to be copied out and its slot posted
    /// again.
    pub fn take(&self) -> Option<Slot> {
        self.spare.lock().pop()
    }

    /// Slots that are neither posted nor leased.
    pub fn spare(&self) -> usize {
        self.spare.lock().len()
    }

    /// Adds spare slots, for a ring that grows.
    pub(crate) fn grow(&self, slots: Vec<Slot>) {
        self.idle.fetch_add(slots.len(), Ordering::Relaxed);
        self.spare.lock().extend(slots);
    }

    /// Shows how many slots are leased.
    pub(crate) fn gauge(&self) -> Gauge {
        Gauge { spare: Arc::downgrade(&self.spare), idle: self.idle.clone() }
    }

    /// Leases a filled slot upward: its first `bytes` bytes are readable until the last clone of
    /// the lease is dropped; then the slot is spare again.
    pub fn lease(&self, slot: Slot, bytes: usize) -> Lease {
        assert!(bytes <= slot.len(), "a lease lies inside its slot");
        Lease(Arc::new(Filled { slot: Some(slot), bytes, home: Arc::downgrade(&self.spare) }))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} spare)", self.spare())
    }
}

/// Shows how many slots of a pool are leased. Keeps no slot alive.
pub(crate) struct Gauge {
    spare: Weak<Mutex<Vec<Slot>>>,
    /// How many are spare when none is leased. Relaxed: it is a number to look at.
    idle: Arc<AtomicUsize>,
}

impl Gauge {
    /// How many slots are leased; 0 when the pool is gone.
    pub(crate) fn leased(&self) -> usize {
        let spare = self.spare.upgrade().map(|spare| spare.lock().len());
        let idle = self.idle.load(Ordering::Relaxed);
        spare.map_or(0, |spare| idle.saturating_sub(spare))
    }
}

struct Filled {
    slot: Option<Slot>,
    bytes: usize,
    /// The pool, unless it is gone.
    home: Weak<Mutex<Vec<Slot>>>,
}

impl Drop for Filled {
    fn drop(&mut self) {
        if let (Some(slot), Some(home)) = (self.slot.take(), self.home.upgrade()) {
            home.lock().push(slot);
        }
    }
}

/// A filled receive slot, shared by all that read it. Keeps the slot, its region and nothing else
/// of the link alive; may outlive the link.
#[derive(Clone)]
pub struct Lease(Arc<Filled>);

impl Deref for Lease {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.slot.as_ref().map_or(&[], |slot| &slot[..self.0.bytes])
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({} bytes)", self.0.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Region;

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn a_lease_returns_its_slot_from_another_thread_and_may_outlive_the_pool() {
        let mut slots = Region::heap(4096 * 4).into_slots(4096);
        let mut filled = slots.pop().unwrap();
        filled[..3].copy_from_slice(b"abc");
        let pool = Pool::new(slots);
        let lease = pool.lease(filled, 3);
        let other = lease.clone();
        drop(lease);
        assert_eq!(pool.spare(), 3, "a clone still holds it");
        std::thread::spawn(move || assert_eq!(&*other, b"abc")).join().unwrap();
        assert_eq!(pool.spare(), 4);
        let taken = pool.take().unwrap();
        let late = pool.lease(taken, 0);
        drop(pool);
        assert!(late.is_empty());
    }

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn without_a_spare_slot_nothing_is_taken_until_a_lease_is_dropped() {
        let pool = Pool::new(Region::heap(4096).into_slots(4096));
        let lease = pool.lease(pool.take().unwrap(), 0);
        assert!(pool.take().is_none());
        drop(lease);
        assert!(pool.take().is_some());
    }
}
