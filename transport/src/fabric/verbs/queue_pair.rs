//! A queue pair, its completion queue, and the slots of its outstanding work requests.
#![allow(unsafe_code, reason = "calls libibverbs about queue pairs (VB-1, VB-3)")]

mod operations;

use std::io;
use std::mem::{take, zeroed};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use rdma_sys::{
    ibv_access_flags, ibv_create_qp, ibv_destroy_qp, ibv_gid, ibv_modify_qp, ibv_mtu, ibv_qp,
    ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_init_attr, ibv_qp_state, ibv_qp_type, ibv_query_qp,
    ibv_send_flags,
};

use super::completions::Completions;
use super::device::{Reads, check};
use super::events::End;
use super::ledger::Ledger;
use super::memory::{OwnRegistrations, local_key};
use super::partition::Partition;
use super::posting::{Piece, Posted, Receives, Sends, Work};
use super::registration::{Domain, error_number, refused};
use crate::fabric::{FabricError, PostError, QueuePairConfig, SendRequest};
use crate::limits::{POST_LIST_MAX, VERBS_FRAME_BYTES_MAX, VERBS_HOP_LIMIT, VERBS_RNR_TIMER};
use crate::log;
use crate::memory::{Region, Slot};

/// A queue pair. Until it is destroyed it owns the slots of its work requests (VB-3).
pub(super) struct QueuePair {
    qp: NonNull<ibv_qp>,
    destroyed: bool,
    in_doubt: bool,
    inline: Inline,
    /// The region of the last slot posted, and its key: mostly the next slot is of that region,
    /// too. Its address is not used again as long as this counts it.
    last_key: Option<(Weak<Region>, u32)>,
    pub(super) sends: Ledger,
    pub(super) recvs: Ledger,
    /// Receives of no memory that were posted so far (PV-17).
    notices: u64,
    pub(super) end: Arc<End>,
    // These after the queue pair, which the drop destroys first (VB-1).
    pub(super) completions: Completions,
    /// The posted memory of a queue pair that has a domain of its own.
    own: Option<OwnRegistrations>,
    domain: Arc<Domain>,
}

// SAFETY: libibverbs allows the calls made with a queue pair from any thread.
unsafe impl Send for QueuePair {}

/// The port that a queue pair uses, and in which partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Port {
    /// Counted from 1.
    pub(super) number: u8,
    pub(super) partition: Partition,
}

/// How a queue pair reaches its peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    pub(super) peer_number: u32,
    pub(super) peer_first_packet: u32,
    pub(super) first_packet: u32,
    /// 1 for 256 bytes, 5 for 4096.
    pub(super) mtu: u8,
    pub(super) port: u8,
    pub(super) gid_index: u8,
    pub(super) peer_gid: [u8; 16],
    pub(super) peer_lid: u16,
    /// The number of reads and atomic operations that may be under way.
    pub(super) reads: Option<Reads>,
    pub(super) tuning: Tuning,
}

/// The settings that may be made by hand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tuning {
    pub(super) timeout: u8,
    pub(super) retries: u8,
    pub(super) rnr_retry: u8,
    pub(super) traffic_class: u8,
    pub(super) service_level: u8,
}

impl QueuePair {
    /// Returns a queue pair in the state INIT: receives can be posted. Peers reach no memory.
    pub(super) fn new(
        domain: Arc<Domain>,
        port: Port,
        config: &QueuePairConfig,
    ) -> Result<Self, FabricError> {
        // No access flags: peers can neither read nor write memory.
        Self::with_access(domain, port, config, ibv_access_flags(0))
    }

    fn with_access(
        domain: Arc<Domain>,
        port: Port,
        config: &QueuePairConfig,
        access: ibv_access_flags,
    ) -> Result<Self, FabricError> {
        let entries = config.send_queue + config.recv_queue;
        let completions = Completions::new(domain.device.clone(), entries)?;
        // SAFETY: the structure is made of integers and pointers that may be null.
        let mut wanted: ibv_qp_init_attr = unsafe { zeroed() };
        wanted.send_cq = completions.cq();
        wanted.recv_cq = completions.cq();
        wanted.qp_type = ibv_qp_type::IBV_QPT_RC;
        wanted.cap.max_send_wr = config.send_queue.max(1);
        wanted.cap.max_recv_wr = config.recv_queue.max(1);
        wanted.cap.max_send_sge = 1;
        wanted.cap.max_recv_sge = 1;
        wanted.cap.max_inline_data = config.inline_bytes;
        // SAFETY: domain and completion queue live, of the same device.
        let qp = unsafe { ibv_create_qp(domain.pd(), &mut wanted) };
        let Some(qp) = NonNull::new(qp) else {
            return Err(refused("ibv_create_qp", &domain.device, entries as usize * 128));
        };
        // Older events do not concern it, and may not have been read by any owner.
        domain.device.spread_events();
        let end = domain.device.listeners.add(
            qp.as_ptr() as usize,
            completions.cq() as usize,
            port.number,
        );
        let mut queue_pair = QueuePair {
            qp,
            destroyed: false,
            in_doubt: false,
            inline: Inline { asked: config.inline_bytes, granted: wanted.cap.max_inline_data },
            last_key: None,
            sends: Ledger::default(),
            recvs: Ledger::default(),
            notices: 0,
            end,
            completions,
            own: None,
            domain,
        };
        queue_pair.initialise(port, access)?;
        Ok(queue_pair)
    }

    /// Returns the number by which peers know it.
    pub(super) fn number(&self) -> u32 {
        // SAFETY: the queue pair lives, and this field is written by nothing after it was made.
        // There is no reference to the whole: the library changes others from any thread.
        unsafe { (*self.qp.as_ptr()).qp_num }
    }

    /// Returns the inline limit, in bytes: the smaller of the request and the device's grant.
    pub(super) fn inline_bytes(&self) -> u32 {
        self.inline.asked.min(self.inline.granted)
    }

    pub(super) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    fn modify(
        &mut self,
        call: &'static str,
        mut attributes: ibv_qp_attr,
        mask: ibv_qp_attr_mask,
    ) -> Result<(), FabricError> {
        let mask = (mask | ibv_qp_attr_mask::IBV_QP_STATE).0 as i32;
        // SAFETY: the queue pair lives; the attributes that the mask names are set.
        let answer = unsafe { ibv_modify_qp(self.qp.as_ptr(), &mut attributes, mask) };
        let device = || self.domain.device.name().into();
        check(answer).map_err(|source| FabricError::Device { call, device: device(), source })
    }

    fn initialise(&mut self, port: Port, access: ibv_access_flags) -> Result<(), FabricError> {
        let mut attributes = attributes(ibv_qp_state::IBV_QPS_INIT);
        attributes.port_num = port.number;
        attributes.pkey_index = port.partition.index;
        attributes.qp_access_flags = access.0;
        let mask = ibv_qp_attr_mask::IBV_QP_PKEY_INDEX
            | ibv_qp_attr_mask::IBV_QP_PORT
            | ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS;
        self.modify("ibv_modify_qp to INIT", attributes, mask)
    }

    /// Connects: ready to receive, then ready to send.
    pub(super) fn connect(&mut self, path: &Path) -> Result<(), FabricError> {
        let mut attributes = attributes(ibv_qp_state::IBV_QPS_RTR);
        attributes.path_mtu =
            u32::from(path.mtu).clamp(ibv_mtu::IBV_MTU_256, ibv_mtu::IBV_MTU_4096);
        attributes.dest_qp_num = path.peer_number;
        attributes.rq_psn = path.peer_first_packet;
        attributes.max_dest_rd_atomic = path.reads.map_or(0, |reads| reads.peers);
        attributes.min_rnr_timer = VERBS_RNR_TIMER;
        attributes.ah_attr.is_global = 1;
        attributes.ah_attr.grh.dgid = ibv_gid { raw: path.peer_gid };
        attributes.ah_attr.grh.sgid_index = path.gid_index;
        attributes.ah_attr.grh.hop_limit = VERBS_HOP_LIMIT;
        attributes.ah_attr.grh.traffic_class = path.tuning.traffic_class;
        attributes.ah_attr.dlid = path.peer_lid;
        attributes.ah_attr.sl = path.tuning.service_level;
        attributes.ah_attr.port_num = path.port;
        let mask = ibv_qp_attr_mask::IBV_QP_AV
            | ibv_qp_attr_mask::IBV_QP_PATH_MTU
            | ibv_qp_attr_mask::IBV_QP_DEST_QPN
            | ibv_qp_attr_mask::IBV_QP_RQ_PSN
            | ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER;
        self.modify("ibv_modify_qp to RTR", attributes, mask)?;
        self.send_from(path)
    }

    fn send_from(&mut self, path: &Path) -> Result<(), FabricError> {
        let mut attributes = attributes(ibv_qp_state::IBV_QPS_RTS);
        attributes.sq_psn = path.first_packet;
        attributes.timeout = path.tuning.timeout;
        attributes.retry_cnt = path.tuning.retries;
        attributes.rnr_retry = path.tuning.rnr_retry;
        attributes.max_rd_atomic = path.reads.map_or(0, |reads| reads.own);
        let mask = ibv_qp_attr_mask::IBV_QP_SQ_PSN
            | ibv_qp_attr_mask::IBV_QP_TIMEOUT
            | ibv_qp_attr_mask::IBV_QP_RETRY_CNT
            | ibv_qp_attr_mask::IBV_QP_RNR_RETRY
            | ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify("ibv_modify_qp to RTS", attributes, mask)
    }

    /// Moves to the error state: nothing more arrives or is sent.
    pub(super) fn stop(&mut self) -> Result<(), FabricError> {
        let attributes = attributes(ibv_qp_state::IBV_QPS_ERR);
        self.modify("ibv_modify_qp to ERR", attributes, ibv_qp_attr_mask::IBV_QP_STATE)
    }

    /// Why `request` cannot be posted, or the key of its memory.
    fn check(&mut self, request: &SendRequest) -> Result<u32, PostError> {
        let bytes = request.bytes;
        if request.tail.is_some() {
            Err(PostError::Tail)
        } else if bytes as usize > request.slot.len() || bytes > VERBS_FRAME_BYTES_MAX {
            Err(PostError::TooLong)
        } else if request.inline && bytes > self.inline.asked {
            Err(PostError::InlineTooLong)
        } else {
            self.key(&request.slot)
        }
    }

    /// Registers the memory of `slot`, if it is not registered.
    pub(super) fn prepare(&mut self, slot: &Slot) -> Result<(), PostError> {
        self.key(slot).map(|_| ())
    }

    fn key(&mut self, slot: &Slot) -> Result<u32, PostError> {
        if let Some((region, key)) = &self.last_key
            && region.as_ptr() == Arc::as_ptr(slot.region())
        {
            return Ok(*key);
        }
        let key = match &mut self.own {
            Some(own) => own.local_key(&self.domain, slot),
            None => local_key(&self.domain, slot),
        };
        match key {
            Ok(Some(key)) => {
                self.last_key = Some((Arc::downgrade(slot.region()), key));
                Ok(key)
            }
            Ok(None) => Err(PostError::Foreign),
            Err(error) => {
                log::error!(%error, "memory could not be registered for RDMA");
                Err(PostError::Device(error_number(&error)))
            }
        }
    }

    /// Posts up to `count` requests, a list at most, with one doorbell; takes what the device has
    /// from the front.
    pub(super) fn post_sends(
        &mut self,
        batch: &mut Vec<SendRequest>,
        count: usize,
    ) -> Result<(), PostError> {
        let mut list = Sends::new();
        let mut result = Ok(());
        for request in batch.iter().take(count.min(POST_LIST_MAX)) {
            let lkey = match self.check(request) {
                Ok(lkey) => lkey,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let id = SEND | (self.sends.next() + list.staged() as u64);
            let address = request.slot.as_ptr() as u64;
            let piece = Piece { id, address, bytes: request.bytes, lkey };
            list.stage(piece, Work::Send, self.inline.flags(request));
        }
        // SAFETY: the queue pair lives. Each entry names bytes of a slot that was checked and that
        // is in the caller's batch now and in `sends` next, until the device is done with it
        // (VB-3).
        let posted = unsafe { list.post(self.qp.as_ptr()) };
        for request in batch.drain(..posted.kept(list.staged())) {
            self.sends.push(request.slot);
        }
        self.settle(posted).and(result)
    }

    /// Posts up to `count` receives, a list at most; takes what the device has from the front.
    pub(super) fn post_recvs(
        &mut self,
        slots: &mut Vec<Slot>,
        count: usize,
    ) -> Result<(), PostError> {
        let mut list = Receives::new();
        let mut result = Ok(());
        for slot in slots.iter_mut().take(count.min(POST_LIST_MAX)) {
            let lkey = match self.key(slot) {
                Ok(lkey) => lkey,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let id = self.recvs.next() + list.staged() as u64;
            let bytes = slot.len().min(u32::MAX as usize) as u32;
            list.stage(Piece { id, address: slot.as_mut_ptr() as u64, bytes, lkey });
        }
        // SAFETY: the queue pair lives. Each entry names a whole slot of registered memory, which
        // is in the caller's list now and in `recvs` next, until the device is done with it (VB-3).
        let posted = unsafe { list.post(self.qp.as_ptr()) };
        for slot in slots.drain(..posted.kept(list.staged())) {
            self.recvs.push(slot);
        }
        self.settle(posted).and(result)
    }

    /// Notes what a device did with a list.
    fn settle(&mut self, posted: Posted) -> Result<(), PostError> {
        match posted {
            Posted::All => Ok(()),
            Posted::Part(_, error) => Err(PostError::Device(error)),
            Posted::InDoubt(error) => {
                self.in_doubt = true;
                let (device, error) = (self.domain.device.name(), PostError::Device(error));
                log::error!(device, %error, "a device did not say which work requests it has");
                Err(error)
            }
        }
    }

    /// Returns true if the device may have work requests that it did not accept: the queue pair is
    /// of no use any more.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Returns the settings as the device reports them.
    #[cfg(test)]
    pub(super) fn settings(&self) -> ibv_qp_attr {
        self.query(ibv_qp_attr_mask(0x1f_ffff)).unwrap()
    }

    fn query(&self, mask: ibv_qp_attr_mask) -> io::Result<ibv_qp_attr> {
        let mut attributes = attributes(ibv_qp_state::IBV_QPS_RESET);
        // SAFETY: the structure is made of integers and pointers that may be null.
        let mut made: ibv_qp_init_attr = unsafe { zeroed() };
        let (qp, mask) = (self.qp.as_ptr(), mask.0 as i32);
        // SAFETY: the queue pair lives, and there is room for both answers.
        check(unsafe { ibv_query_qp(qp, &mut attributes, mask, &mut made) })?;
        Ok(attributes)
    }

    /// Destroys the queue pair and gives the slots of both queues back: sends, receives.
    pub(super) fn destroy(mut self) -> [Ledger; 2] {
        self.end_device_access();
        [take(&mut self.sends), take(&mut self.recvs)]
        // The rest of `self` is dropped here, and finds nothing to keep.
    }

    /// After this the device touches none of the slots. If it cannot be had, they are never given
    /// back (VB-3).
    fn end_device_access(&mut self) {
        if self.destroyed {
            return;
        }
        self.destroyed = true;
        self.domain.device.listeners.remove(self.qp.as_ptr() as usize);
        // SAFETY: it was made by `ibv_create_qp`, and is destroyed once: see the flag.
        if let Err(error) = check(unsafe { ibv_destroy_qp(self.qp.as_ptr()) }) {
            let (device, call) = (self.domain.device.name(), "ibv_destroy_qp");
            log::error!(device, call, %error, "an RDMA resource could not be given back");
            std::mem::forget((take(&mut self.sends), take(&mut self.recvs)));
        }
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.end_device_access();
    }
}

/// Marks the numbers of sends; the rest is the position in its queue.
pub(super) const SEND: u64 = 1 << 63;

fn attributes(state: ibv_qp_state::Type) -> ibv_qp_attr {
    // SAFETY: the structure is made of integers, for which zero is a value.
    let mut attributes: ibv_qp_attr = unsafe { zeroed() };
    attributes.qp_state = state;
    attributes
}

/// Bytes that may be sent inline. A device may grant fewer than it was asked for and not say so.
#[derive(Debug, Clone, Copy)]
struct Inline {
    asked: u32,
    granted: u32,
}

impl Inline {
    /// Returns the flags of a send. If the device does not take it inline, it is read from its
    /// slot, which stays until the send has completed in either case.
    fn flags(self, request: &SendRequest) -> u32 {
        let inline = request.inline && request.bytes <= self.granted;
        let wanted = [
            (request.signaled, ibv_send_flags::IBV_SEND_SIGNALED),
            (request.solicited, ibv_send_flags::IBV_SEND_SOLICITED),
            (inline, ibv_send_flags::IBV_SEND_INLINE),
        ];
        wanted.iter().filter(|(wanted, _)| *wanted).fold(0, |flags, (_, flag)| flags | flag.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PV-9: a device that grants less than it was asked for is sent nothing inline that is longer.
    #[test]
    fn what_is_longer_than_granted_is_not_sent_inline() {
        let slot = Region::heap(64).into_slots(64).remove(0);
        let mut request = SendRequest {
            slot,
            bytes: 32,
            tail: None,
            signaled: false,
            solicited: false,
            inline: true,
        };
        let clamped = Inline { asked: 128, granted: 32 };
        assert_eq!(clamped.flags(&request), ibv_send_flags::IBV_SEND_INLINE.0);
        request.bytes = 48;
        assert_eq!(clamped.flags(&request), 0);
        (request.signaled, request.solicited) = (true, true);
        let both = ibv_send_flags::IBV_SEND_SIGNALED.0 | ibv_send_flags::IBV_SEND_SOLICITED.0;
        assert_eq!(clamped.flags(&request), both);
    }
}
