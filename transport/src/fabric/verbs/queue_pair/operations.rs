//! The functions that only a queue pair for one-sided access has.
#![allow(unsafe_code, reason = "hands operations to libibverbs (VB-3, VB-9)")]

use std::sync::Arc;

use rdma_sys::{ibv_access_flags, ibv_qp_attr_mask, ibv_qp_state, ibv_send_flags};

use super::{Port, QueuePair, SEND};
use crate::fabric::one_sided::Operation;
use crate::fabric::verbs::device::Device;
use crate::fabric::verbs::memory::OwnRegistrations;
use crate::fabric::verbs::posting::{Piece, Receives, Sends, Work};
use crate::fabric::verbs::registration::Domain;
use crate::fabric::{FabricError, PostError, QueuePairConfig};
use crate::limits::POST_LIST_MAX;
#[cfg(test)]
use crate::memory::Slot;

impl QueuePair {
    /// Returns a queue pair for one-sided access in the state INIT, in a protection domain of its
    /// own: no key of another domain means anything to its peer (PV-13, VB-9).
    pub(in crate::fabric::verbs) fn one_sided(
        device: Arc<Device>,
        port: Port,
        config: &QueuePairConfig,
    ) -> Result<Self, FabricError> {
        let domain = Arc::new(Domain::new(device)?);
        // Each grant decides which of these the peer may do.
        let access = ibv_access_flags::IBV_ACCESS_REMOTE_READ
            | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
            | ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC;
        let mut queue_pair = Self::with_access(domain, port, config, access)?;
        queue_pair.own = Some(OwnRegistrations::default());
        Ok(queue_pair)
    }

    /// Posts up to `count` operations, a list at most, with one doorbell; takes what the device has
    /// from the front. All of them were checked.
    pub(in crate::fabric::verbs) fn post_operations(
        &mut self,
        batch: &mut Vec<Operation>,
        count: usize,
    ) -> Result<(), PostError> {
        let mut list = Sends::new();
        let mut result = Ok(());
        for operation in batch.iter_mut().take(count.min(POST_LIST_MAX)) {
            let lkey = match self.key(&operation.slot) {
                Ok(lkey) => lkey,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let Operation { slot, bytes, key, at, kind } = operation;
            let id = SEND | (self.sends.next() + list.staged() as u64);
            let piece = Piece { id, address: slot.as_mut_ptr() as u64, bytes: *bytes, lkey };
            // Beyond the last place they go on at 0, where no grant reaches: each begins at its
            // base.
            let place = key.base.wrapping_add(*at);
            let work = Work::Operation { kind: *kind, place, key: key.number };
            list.stage(piece, work, ibv_send_flags::IBV_SEND_SIGNALED.0);
        }
        // SAFETY: the queue pair lives. Each entry names bytes of a slot that was checked and that
        // is in the caller's batch now and in `sends` next, until the device is done with it
        // (VB-3).
        let posted = unsafe { list.post(self.qp.as_ptr()) };
        for operation in batch.drain(..posted.kept(list.staged())) {
            self.sends.push(operation.slot);
        }
        self.settle(posted).and(result)
    }

    /// Returns the registrations made for it alone.
    pub(in crate::fabric::verbs) fn own(&mut self) -> Option<&mut OwnRegistrations> {
        self.own.as_mut()
    }

    /// Returns the key by which it reaches `slot` itself.
    #[cfg(test)]
    pub(in crate::fabric::verbs) fn local_key(&mut self, slot: &Slot) -> u32 {
        self.key(slot).unwrap()
    }

    /// Posts `count` receives for notices; they have no memory.
    pub(in crate::fabric::verbs) fn post_notices(&mut self, count: u32) -> Result<(), PostError> {
        let mut left = count as usize;
        while left > 0 {
            let mut list = Receives::new();
            for _ in 0..left.min(POST_LIST_MAX) {
                let id = self.notices + list.staged() as u64;
                list.stage(Piece { id, address: 0, bytes: 0, lkey: 0 });
            }
            // SAFETY: the queue pair lives, and the receives have no memory.
            let posted = unsafe { list.post(self.qp.as_ptr()) };
            let kept = posted.kept(list.staged());
            self.notices += kept as u64;
            self.settle(posted)?;
            left -= kept;
        }
        Ok(())
    }

    /// Returns true if the device has moved it to the error state, or does not say.
    pub(in crate::fabric::verbs) fn has_failed(&self) -> bool {
        let attributes = self.query(ibv_qp_attr_mask::IBV_QP_STATE);
        attributes.map_or(true, |attributes| attributes.qp_state != ibv_qp_state::IBV_QPS_RTS)
    }
}
