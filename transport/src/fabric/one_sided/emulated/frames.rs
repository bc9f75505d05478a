//! The slots of frames that are no frames of the link: cut when the first operation needs them.

use std::sync::Arc;

use super::QUEUE;
use crate::memory::{Region, Slot};

pub(super) struct Frames {
    /// The memory, until it is cut.
    uncut: Option<Region>,
    slot_bytes: usize,
    /// Slots for frames that are to be sent; the others are on their way.
    free: Vec<Slot>,
    /// The memory of the slots.
    region: Option<Arc<Region>>,
}

impl Frames {
    pub(super) fn new(memory: Region, slot_bytes: usize) -> Self {
        Frames { uncut: Some(memory), slot_bytes, free: Vec::new(), region: None }
    }

    /// Cuts the memory. Returns the receives to be posted, the first time.
    pub(super) fn cut(&mut self) -> Option<Vec<Slot>> {
        let mut receives = self.uncut.take()?.into_slots(self.slot_bytes);
        // A fabric may round up to pages.
        receives.truncate(2 * QUEUE);
        self.free = receives.split_off(QUEUE);
        self.region = self.free.first().map(|slot| slot.region().clone());
        Some(receives)
    }

    pub(super) fn take(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    pub(super) fn give(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Returns true if a slot is one of these.
    pub(super) fn owns(&self, slot: &Slot) -> bool {
        self.region.as_ref().is_some_and(|region| Arc::ptr_eq(slot.region(), region))
    }

    /// Returns true if all of them are on their way.
    pub(super) fn are_all_sent(&self) -> bool {
        self.region.is_some() && self.free.is_empty()
    }

    /// Returns true if none of them is on its way.
    pub(super) fn are_all_here(&self) -> bool {
        self.free.len() == QUEUE
    }
}
