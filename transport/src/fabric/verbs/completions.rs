//! A completion queue with a channel of its own.
#![allow(unsafe_code, reason = "calls libibverbs about completion queues (VB-1, VB-4)")]

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::{
    ibv_ack_cq_events, ibv_comp_channel, ibv_cq, ibv_create_comp_channel, ibv_create_cq,
    ibv_destroy_comp_channel, ibv_destroy_cq, ibv_get_cq_event, ibv_poll_cq, ibv_req_notify_cq,
    ibv_wc, ibv_wc_flags, ibv_wc_status,
};

use super::device::{Device, check};
use super::registration::refused;
use super::vectors::Vector;
use crate::fabric::{FabricError, Notify, Status};
use crate::limits::{POLL_BATCH, VERBS_ACKNOWLEDGE_EVERY};
use crate::log;

/// Where the events of one completion queue arrive.
struct Channel {
    channel: NonNull<ibv_comp_channel>,
    device: Arc<Device>,
}

impl Channel {
    fn new(device: Arc<Device>) -> Result<Self, FabricError> {
        // SAFETY: the context is open.
        let channel = NonNull::new(unsafe { ibv_create_comp_channel(device.context()) });
        let Some(channel) = channel else {
            return Err(refused("ibv_create_comp_channel", &device, 0));
        };
        let channel = Channel { channel, device };
        rustix::fs::fcntl_setfl(channel.events(), rustix::fs::OFlags::NONBLOCK).map_err(|e| {
            FabricError::Device {
                call: "fcntl",
                device: channel.device.name().into(),
                source: e.into(),
            }
        })?;
        Ok(channel)
    }

    fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel lives, and this field is written by nothing after it was made. There
        // is no reference to the whole: the library counts its queues in it from any thread.
        let fd = unsafe { (*self.channel.as_ptr()).fd };
        // SAFETY: the descriptor stays open as long as the channel, which the borrow keeps.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: its one completion queue is destroyed: it drops this last (VB-1). Destroyed once.
        if let Err(error) = check(unsafe { ibv_destroy_comp_channel(self.channel.as_ptr()) }) {
            let (device, call) = (self.device.name(), "ibv_destroy_comp_channel");
            log::error!(device, call, %error, "an RDMA resource could not be given back");
        }
    }
}

/// A completion queue.
pub(super) struct Completions {
    cq: NonNull<ibv_cq>,
    /// Events that were taken and not acknowledged.
    unacknowledged: u32,
    place: Box<[ibv_wc]>,
    // After the queue, which the drop destroys first (VB-1).
    channel: Channel,
    _vector: Vector,
}

// SAFETY: libibverbs allows the calls made with a completion queue from any thread; the buffer
// `place` holds integers.
unsafe impl Send for Completions {}

/// A work request that ended, as the device tells it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    /// The number it was posted with.
    pub(super) id: u64,
    pub(super) status: Status,
    /// 0 after an error.
    pub(super) bytes: u32,
    /// The number that came with a write, to a receive (PV-17).
    pub(super) notice: Option<u32>,
    /// Of an error, what the device's vendor says of it.
    pub(super) vendor_code: u32,
}

impl Ended {
    /// Of an error, only number, status and the vendor's code mean anything; the rest may be left
    /// over (PV-7).
    fn new(wc: &ibv_wc) -> Self {
        let status = status(wc.status);
        if status != Status::Success {
            let vendor_code = wc.vendor_err;
            return Ended { id: wc.wr_id, status, bytes: 0, notice: None, vendor_code };
        }
        let has_notice = wc.wc_flags & ibv_wc_flags::IBV_WC_WITH_IMM.0 != 0;
        // SAFETY: both fields of the union are integers of the same place.
        let number = unsafe { wc.imm_data_invalidated_rkey_union.imm_data };
        let notice = has_notice.then_some(u32::from_be(number));
        Ended { id: wc.wr_id, status, bytes: wc.byte_len, notice, vendor_code: 0 }
    }
}

impl Completions {
    /// Returns a queue that holds `entries`.
    pub(super) fn new(device: Arc<Device>, entries: u32) -> Result<Self, FabricError> {
        let channel = Channel::new(device)?;
        let context = channel.device.context();
        let entries = entries.max(1) as i32;
        let vector = Vector::new(channel.device.vectors.clone());
        let events = channel.channel.as_ptr();
        // SAFETY: the channel lives, of the same device, which has a vector of this number; the
        // caller's own pointer is not used.
        let cq = unsafe { ibv_create_cq(context, entries, null_mut(), events, vector.number()) };
        let Some(cq) = NonNull::new(cq) else {
            return Err(refused("ibv_create_cq", &channel.device, entries as usize * 64));
        };
        // SAFETY: the structure is made of integers, for which zero is a value.
        let place = (0..POLL_BATCH).map(|_| unsafe { zeroed() }).collect();
        Ok(Completions { cq, unacknowledged: 0, place, channel, _vector: vector })
    }

    pub(super) fn cq(&self) -> *mut ibv_cq {
        self.cq.as_ptr()
    }

    /// A descriptor that becomes readable when the queue has an event.
    pub(super) fn events_fd(&self) -> io::Result<OwnedFd> {
        self.channel.events().as_fd().try_clone_to_owned()
    }

    /// Asks for one event (PV-8).
    pub(super) fn arm(&mut self, on: Notify) -> io::Result<()> {
        // SAFETY: the queue lives.
        check(unsafe { ibv_req_notify_cq(self.cq(), i32::from(on == Notify::Solicited)) })
    }

    /// Takes an event, if there is one.
    pub(super) fn take_event(&mut self) -> io::Result<bool> {
        let (mut cq, mut context) = (null_mut(), null_mut());
        let channel = self.channel.channel.as_ptr();
        // SAFETY: the channel lives and does not block; there is room for both answers.
        if unsafe { ibv_get_cq_event(channel, &mut cq, &mut context) } != 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) };
        }
        self.unacknowledged += 1;
        if self.unacknowledged >= VERBS_ACKNOWLEDGE_EVERY {
            self.acknowledge();
        }
        Ok(true)
    }

    fn acknowledge(&mut self) {
        // SAFETY: `unacknowledged` events of this queue were taken and not yet acknowledged.
        unsafe { ibv_ack_cq_events(self.cq(), self.unacknowledged) };
        self.unacknowledged = 0;
    }

    /// Appends a batch of completions at most; returns their number: 0 only if there are none.
    pub(super) fn poll(&mut self, out: &mut Vec<Ended>) -> io::Result<usize> {
        let (cq, room) = (self.cq(), self.place.len() as i32);
        // SAFETY: the queue lives, and `place` has `room` entries.
        let count = unsafe { ibv_poll_cq(cq, room, self.place.as_mut_ptr()) };
        let count = usize::try_from(count).map_err(|_| io::Error::other("ibv_poll_cq"))?;
        out.extend(self.place.iter().take(count).map(Ended::new));
        Ok(count)
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // Destroying waits for all events that were taken to be acknowledged.
        self.acknowledge();
        // SAFETY: its queue pair is destroyed: that owns this and drops it last (VB-1). Destroyed
        // once.
        if let Err(error) = check(unsafe { ibv_destroy_cq(self.cq()) }) {
            let (device, call) = (self.channel.device.name(), "ibv_destroy_cq");
            log::error!(device, call, %error, "an RDMA resource could not be given back");
        }
    }
}

/// Returns the status that the device gives a work request; a number that this build does not know
/// is an error like any other (VB-4).
fn status(number: ibv_wc_status::Type) -> Status {
    match number {
        ibv_wc_status::IBV_WC_SUCCESS => Status::Success,
        ibv_wc_status::IBV_WC_WR_FLUSH_ERR => Status::Flushed,
        ibv_wc_status::IBV_WC_RNR_RETRY_EXC_ERR => Status::RnrRetryExceeded,
        ibv_wc_status::IBV_WC_RETRY_EXC_ERR => Status::RetryExceeded,
        // The second of each as rxe has it (VB-7).
        ibv_wc_status::IBV_WC_LOC_LEN_ERR | ibv_wc_status::IBV_WC_LOC_QP_OP_ERR => {
            Status::LocalLength
        }
        ibv_wc_status::IBV_WC_REM_INV_REQ_ERR | ibv_wc_status::IBV_WC_REM_OP_ERR => {
            Status::RemoteInvalidRequest
        }
        ibv_wc_status::IBV_WC_REM_ACCESS_ERR => Status::RemoteAccess,
        ibv_wc_status::IBV_WC_FATAL_ERR => Status::Fatal,
        other => Status::Other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VB-4: a status of a later library is an error, and keeps its number.
    #[test]
    fn an_unknown_status_is_an_error() {
        assert_eq!(status(ibv_wc_status::IBV_WC_SUCCESS), Status::Success);
        assert_eq!(status(4711), Status::Other(4711));
        assert_eq!(status(u32::MAX), Status::Other(u32::MAX));
    }

    /// PV-7: what a device left in the other fields of an error is not read.
    #[test]
    fn an_error_completion_has_no_length_and_no_notice() {
        // SAFETY: the structure is made of integers, for which zero is a value.
        let mut wc: ibv_wc = unsafe { zeroed() };
        (wc.wr_id, wc.byte_len, wc.opcode, wc.vendor_err) = (9, u32::MAX, 4711, 0x81);
        let taken = |wc: &ibv_wc| {
            let Ended { id, status, bytes, notice, vendor_code } = Ended::new(wc);
            (id, status, bytes, notice, vendor_code)
        };
        wc.wc_flags = ibv_wc_flags::IBV_WC_WITH_IMM.0;
        wc.imm_data_invalidated_rkey_union.imm_data = 7u32.to_be();
        wc.status = ibv_wc_status::IBV_WC_WR_FLUSH_ERR;
        assert_eq!(taken(&wc), (9, Status::Flushed, 0, None, 0x81));
        wc.status = ibv_wc_status::IBV_WC_SUCCESS;
        assert_eq!(taken(&wc), (9, Status::Success, u32::MAX, Some(7), 0));
        wc.wc_flags = 0;
        assert_eq!(taken(&wc), (9, Status::Success, u32::MAX, None, 0));
    }
}
