//! A link's pool of receive slots and the leases on filled ones. Safe code: it hands out owned
//! slots (ME-1).
//!
//! The shell that counts the holders of a leased slot is kept with the pool when its last holder
//! has gone, so that a lease allocates nothing. (Two holders that go at the same moment may both
//! leave it to the other; then it is freed, and the slot still comes back.)

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::region::Slot;

/// Spare receive slots of one link. The link takes one for each that it leases upward; leased
/// slots come back by drop, from any thread (ME-3).
pub struct Pool {
    home: Arc<Mutex<Home>>,
    /// Number of slots that are spare when none is leased; shared with the gauge.
    idle: Arc<AtomicUsize>,
}

/// The slots that are not leased, and the shells of leases that ended.
struct Home {
    spare: Vec<Slot>,
    /// Empty; at most as many as there were leases at once.
    shells: Vec<Arc<Filled>>,
}

impl Pool {
    /// Creates a pool that starts with these spare slots.
    pub fn new(spare: Vec<Slot>) -> Self {
        let idle = Arc::new(AtomicUsize::new(spare.len()));
        Pool { home: Arc::new(Mutex::new(Home { spare, shells: Vec::new() })), idle }
    }

    /// Takes a spare slot. If there is none, copy the arrived frame out and post its slot again.
    pub fn take(&self) -> Option<Slot> {
        self.home.lock().spare.pop()
    }

    /// Takes back a slot that was [taken](Self::take) and not leased.
    pub(crate) fn give(&self, slot: Slot) {
        self.home.lock().spare.push(slot);
    }

    /// Returns the number of slots that are neither posted nor leased.
    pub fn spare(&self) -> usize {
        self.home.lock().spare.len()
    }

    /// Adds spare slots, for a ring that grows.
    pub(crate) fn grow(&self, slots: Vec<Slot>) {
        self.idle.fetch_add(slots.len(), Ordering::Relaxed);
        self.home.lock().spare.extend(slots);
    }

    /// Returns a gauge that shows how many slots are leased.
    pub(crate) fn gauge(&self) -> Gauge {
        Gauge { home: Arc::downgrade(&self.home), idle: self.idle.clone() }
    }

    /// Leases a filled slot upward: its first `bytes` bytes are readable until the last clone of
    /// the lease is dropped; then the slot is spare again.
    pub fn lease(&self, slot: Slot, bytes: usize) -> Lease {
        assert!(bytes <= slot.len(), "a lease lies inside its slot");
        let mut shell = self.home.lock().shells.pop();
        match shell.as_mut().and_then(Arc::get_mut) {
            Some(filled) => {
                (filled.slot, filled.bytes) = (Some(slot), bytes);
                Lease(shell)
            }
            None => {
                let home = Arc::downgrade(&self.home);
                Lease(Some(Arc::new(Filled { slot: Some(slot), bytes, home })))
            }
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} spare)", self.spare())
    }
}

/// The gauge that shows how many slots of a pool are leased. It keeps no slot alive.
pub(crate) struct Gauge {
    home: Weak<Mutex<Home>>,
    /// Number of slots that are spare when none is leased. Relaxed: it is a number to look at.
    idle: Arc<AtomicUsize>,
}

impl Gauge {
    /// Returns how many slots are leased; 0 when the pool is gone.
    pub(crate) fn leased(&self) -> usize {
        let spare = self.home.upgrade().map(|home| home.lock().spare.len());
        let idle = self.idle.load(Ordering::Relaxed);
        spare.map_or(0, |spare| idle.saturating_sub(spare))
    }
}

struct Filled {
    slot: Option<Slot>,
    bytes: usize,
    /// The pool, unless it is gone.
    home: Weak<Mutex<Home>>,
}

impl Drop for Filled {
    fn drop(&mut self) {
        if let (Some(slot), Some(home)) = (self.slot.take(), self.home.upgrade()) {
            home.lock().spare.push(slot);
        }
    }
}

/// A filled receive slot, shared by all that read it. Keeps the slot, its region and nothing else
/// of the link alive; may outlive the link.
#[derive(Clone)]
pub struct Lease(Option<Arc<Filled>>);

impl Drop for Lease {
    #[inline]
    fn drop(&mut self) {
        // A cheap look first; `give_back` decides.
        if let Some(shell) = &self.0
            && Arc::strong_count(shell) == 1
        {
            self.give_back();
        }
    }
}

impl Lease {
    /// Gives the slot back, if this is its last holder.
    #[cold]
    fn give_back(&mut self) {
        let Some(mut shell) = self.0.take() else { return };
        let Some(filled) = Arc::get_mut(&mut shell) else { return };
        if let (Some(slot), Some(home)) = (filled.slot.take(), filled.home.upgrade()) {
            let mut home = home.lock();
            home.spare.push(slot);
            home.shells.push(shell);
        }
    }
}

impl Deref for Lease {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let Some(Filled { slot: Some(slot), bytes, .. }) = self.0.as_deref() else { return &[] };
        &slot[..*bytes]
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({} bytes)", self.len())
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

    #[test]
    fn the_shell_of_a_lease_is_used_again() {
        let pool = Pool::new(Region::heap(4096 * 2).into_slots(4096));
        let shell = |lease: &Lease| lease.0.as_ref().map(Arc::as_ptr);
        let [first, second] = [1, 2].map(|bytes| pool.lease(pool.take().unwrap(), bytes));
        let (other, before) = (first.clone(), shell(&first));
        drop(first);
        assert_eq!((other.len(), pool.spare()), (1, 0), "a clone still holds it");
        drop(other);
        let again = pool.lease(pool.take().unwrap(), 3);
        assert_eq!((shell(&again), again.len(), second.len()), (before, 3, 2));
        assert_ne!(shell(&second), before);
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
