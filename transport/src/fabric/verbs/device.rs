//! Devices: which there are, what they and their ports can do, and what happens to them.
#![allow(unsafe_code, reason = "calls libibverbs about devices (VB-1, VB-4)")]

use std::ffi::CStr;
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, addr_of};
use std::slice;
use std::sync::Once;

use rdma_sys::{
    ibv_ack_async_event, ibv_async_event, ibv_close_device, ibv_context, ibv_device,
    ibv_device_attr, ibv_event_type, ibv_fork_init, ibv_free_device_list, ibv_get_async_event,
    ibv_get_device_list, ibv_get_device_name, ibv_gid, ibv_open_device, ibv_port_attr,
    ibv_port_state, ibv_query_device, ibv_query_gid, ibv_query_port,
};

use super::events::{Event, Listeners};

/// An open device.
pub(super) struct Device {
    context: NonNull<ibv_context>,
    name: String,
    /// The queue pairs that its events may end.
    pub(super) listeners: Listeners,
}

// SAFETY: libibverbs allows the calls made with a context from any thread.
unsafe impl Send for Device {}
// SAFETY: as above, and at the same time.
unsafe impl Sync for Device {}

/// What a device can do at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceLimits {
    pub(super) ports: u8,
    pub(super) work_requests: u32,
    pub(super) completions: u32,
}

/// What a port is.
#[derive(Debug, Clone, Copy)]
pub(super) struct PortAttributes {
    /// As the library numbers it.
    pub(super) state: u32,
    /// 1 for 256 bytes, 5 for 4096.
    pub(super) mtu: u8,
    pub(super) lid: u16,
    pub(super) frame_bytes_max: u32,
    pub(super) gids: u32,
    pub(super) ethernet: bool,
}

impl PortAttributes {
    pub(super) fn is_active(&self) -> bool {
        self.state == ibv_port_state::IBV_PORT_ACTIVE
    }
}

/// An answer of the library that is 0 or an error number.
pub(super) fn check(answer: i32) -> io::Result<()> {
    match answer {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        number => Err(io::Error::from_raw_os_error(number.abs())),
    }
}

/// The list of devices, freed when dropped.
struct List(NonNull<*mut ibv_device>);

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list came from `ibv_get_device_list` and is freed once.
        unsafe { ibv_free_device_list(self.0.as_ptr()) }
    }
}

/// Asks once, before anything else, that registered memory stays with the parent of a fork (kernels
/// since 5.12 copy it themselves, and the library then does nothing).
fn survive_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: takes nothing, and may be called at any time; too late it fails and does nothing.
        if let Err(error) = check(unsafe { ibv_fork_init() }) {
            tracing::warn!(%error, "processes forked from this one may disturb RDMA");
        }
    });
}

impl Device {
    /// All devices, opened, with their names.
    pub(super) fn all() -> io::Result<Vec<(String, io::Result<Device>)>> {
        survive_forks();
        let mut count = 0;
        // SAFETY: `count` is a place for one number.
        let list = unsafe { ibv_get_device_list(&mut count) };
        let list = List(NonNull::new(list).ok_or_else(io::Error::last_os_error)?);
        // SAFETY: the list holds `count` pointers until it is freed, which is after the loop.
        let devices = unsafe { slice::from_raw_parts(list.0.as_ptr(), count.max(0) as usize) };
        Ok(devices.iter().map(|device| Device::open(*device)).collect())
    }

    /// `device` is an entry of a list that is not freed yet.
    fn open(device: *mut ibv_device) -> (String, io::Result<Device>) {
        // SAFETY: an entry of the list has a name.
        let name = unsafe { ibv_get_device_name(device) };
        // SAFETY: the library terminates it, and it lives as long as the list.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        // SAFETY: an entry of the list can be opened; the context keeps what it needs of it.
        let context = NonNull::new(unsafe { ibv_open_device(device) });
        let opened = context.ok_or_else(io::Error::last_os_error).and_then(|context| {
            let device = Device { context, name: name.clone(), listeners: Listeners::default() };
            rustix::fs::fcntl_setfl(device.events(), rustix::fs::OFlags::NONBLOCK)?;
            Ok(device)
        });
        (name, opened)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn context(&self) -> *mut ibv_context {
        self.context.as_ptr()
    }

    pub(super) fn limits(&self) -> io::Result<DeviceLimits> {
        // SAFETY: the structure is made of integers, for which zero is a value.
        let mut attributes: ibv_device_attr = unsafe { zeroed() };
        // SAFETY: the context is open, and the structure is the one of this library (VB-4).
        check(unsafe { ibv_query_device(self.context(), &mut attributes) })?;
        Ok(DeviceLimits {
            ports: attributes.phys_port_cnt,
            work_requests: attributes.max_qp_wr.max(0) as u32,
            completions: attributes.max_cqe.max(0) as u32,
        })
    }

    /// Ports are counted from 1.
    pub(super) fn port(&self, port: u8) -> io::Result<PortAttributes> {
        const ETHERNET: u8 = 2;
        // SAFETY: the structure is made of integers, for which zero is a value.
        let mut attributes: ibv_port_attr = unsafe { zeroed() };
        let place = (&raw mut attributes).cast();
        // SAFETY: the library fills the older, shorter form of the structure; the rest stays zero.
        check(unsafe { ibv_query_port(self.context(), port, place) })?;
        Ok(PortAttributes {
            state: attributes.state,
            mtu: attributes.active_mtu.clamp(1, 5) as u8,
            lid: attributes.lid,
            frame_bytes_max: attributes.max_msg_sz,
            gids: attributes.gid_tbl_len.max(0) as u32,
            ethernet: attributes.link_layer == ETHERNET,
        })
    }

    pub(super) fn gid(&self, port: u8, index: u32) -> io::Result<[u8; 16]> {
        let mut gid = ibv_gid { raw: [0; 16] };
        // SAFETY: the context is open, and `gid` has room for one.
        check(unsafe { ibv_query_gid(self.context(), port, index as i32, &mut gid) })?;
        // SAFETY: every byte of it was initialised, above or by the library.
        Ok(unsafe { gid.raw })
    }

    fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open, so its fields can be read.
        let fd = unsafe { (*self.context()).async_fd };
        // SAFETY: the descriptor stays open as long as the context, which the borrow keeps.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// A descriptor that becomes readable when the device has an event.
    pub(super) fn events_fd(&self) -> io::Result<OwnedFd> {
        self.events().as_fd().try_clone_to_owned()
    }

    /// Tells those concerned what happened to the device since the last call.
    pub(super) fn spread_events(&self) {
        while let Some(event) = self.next_event() {
            tracing::debug!(device = self.name, ?event, "the device has an event");
            self.listeners.tell(event);
        }
    }

    fn next_event(&self) -> Option<Event> {
        let mut place = MaybeUninit::<ibv_async_event>::uninit();
        // SAFETY: there is room for one event; the descriptor does not block.
        if unsafe { ibv_get_async_event(self.context(), place.as_mut_ptr()) } != 0 {
            return None;
        }
        let event = place.as_ptr();
        // SAFETY: the event is initialised. Its type is read as the integer that it is in C: one
        // that this build does not know would be no value of the Rust enum.
        let kind = unsafe { addr_of!((*event).event_type).cast::<i32>().read() };
        let about = |kind: ibv_event_type| kind as i32;
        let event = if [
            about(ibv_event_type::IBV_EVENT_QP_FATAL),
            about(ibv_event_type::IBV_EVENT_QP_REQ_ERR),
            about(ibv_event_type::IBV_EVENT_QP_ACCESS_ERR),
        ]
        .contains(&kind)
        {
            // SAFETY: of these events the element is a queue pair; only its address is used.
            Event::QueuePair(unsafe { (*event).element.qp } as usize)
        } else if kind == about(ibv_event_type::IBV_EVENT_CQ_ERR) {
            // SAFETY: of this event the element is a completion queue; only its address is used.
            Event::CompletionQueue(unsafe { (*event).element.cq } as usize)
        } else if kind == about(ibv_event_type::IBV_EVENT_PORT_ERR) {
            // SAFETY: of this event the element is a port.
            Event::PortDown(unsafe { (*event).element.port_num } as u8)
        } else if kind == about(ibv_event_type::IBV_EVENT_DEVICE_FATAL) {
            Event::DeviceFatal
        } else {
            Event::Other(kind)
        };
        // SAFETY: the event was taken above, and is acknowledged once. Until then the queue pair or
        // completion queue it is about cannot be destroyed.
        unsafe { ibv_ack_async_event(place.as_mut_ptr()) };
        Some(event)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: whatever was made of the context holds a counted reference to this (VB-1), so
        // none of it is left, and it is closed once.
        if let Err(error) = check(unsafe { ibv_close_device(self.context()) }) {
            tracing::error!(device = self.name, %error, "ibv_close_device");
        }
    }
}
