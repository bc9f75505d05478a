//! Devices: their list, the capabilities of devices and of their ports, and their events.
#![allow(unsafe_code, reason = "calls libibverbs about devices (VB-1, VB-4)")]

use std::ffi::CStr;
use std::io;
use std::mem::{MaybeUninit, offset_of, zeroed};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::{Arc, OnceLock};

use rdma_sys::{
    ibv_ack_async_event, ibv_async_event, ibv_atomic_cap, ibv_close_device, ibv_context,
    ibv_device, ibv_device_attr, ibv_event_type, ibv_fork_init, ibv_free_device_list,
    ibv_get_async_event, ibv_get_device_list, ibv_get_device_name, ibv_gid, ibv_mtu,
    ibv_open_device, ibv_port_attr, ibv_port_state, ibv_query_device, ibv_query_gid,
    ibv_query_pkey, ibv_query_port, ibv_transport_type,
};

use super::events::{Event, Listeners};
use super::vectors::Vectors;
use crate::limits::VERBS_READS_MAX;
use crate::log;

/// An open device.
pub(super) struct Device {
    context: NonNull<ibv_context>,
    name: String,
    /// The queue pairs that its events may end.
    pub(super) listeners: Listeners,
    pub(super) vectors: Arc<Vectors>,
    /// The attributes that a test has its ports say.
    #[cfg(test)]
    pub(super) altered: parking_lot::Mutex<Altered>,
}

/// Attributes that the ports of a device say in place of their own.
#[cfg(test)]
#[derive(Debug, Default)]
pub(super) struct Altered {
    pub(super) mtu: Option<u8>,
    pub(super) lid: Option<u16>,
    pub(super) pkeys: Option<Vec<u16>>,
}

// SAFETY: libibverbs allows the calls made with a context from any thread.
unsafe impl Send for Device {}
// SAFETY: as above, and at the same time.
unsafe impl Sync for Device {}

/// The limits of a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceLimits {
    pub(super) ports: u8,
    pub(super) work_requests: u32,
    pub(super) completions: u32,
    /// `None`: its queue pairs cannot do all that one-sided access needs (VB-9).
    pub(super) reads: Option<Reads>,
}

/// Reads and atomic operations that a queue pair may have under way; at least 1 of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reads {
    /// Of its own.
    pub(super) own: u8,
    /// Of its peer.
    pub(super) peers: u8,
}

impl Reads {
    fn new(attributes: &ibv_device_attr) -> Option<Self> {
        let count = |most: i32| most.clamp(0, VERBS_READS_MAX.into()) as u8;
        let (own, peers) =
            (count(attributes.max_qp_init_rd_atom), count(attributes.max_qp_rd_atom));
        let atomics = attributes.atomic_cap != ibv_atomic_cap::IBV_ATOMIC_NONE;
        (atomics && own > 0 && peers > 0).then_some(Reads { own, peers })
    }
}

/// The attributes of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PortAttributes {
    /// As the library numbers it.
    pub(super) state: u32,
    /// 1 for 256 bytes, 5 for 4096.
    pub(super) mtu: u8,
    pub(super) lid: u16,
    pub(super) frame_bytes_max: u32,
    pub(super) gids: u32,
    /// Entries of the table of partition keys.
    pub(super) pkeys: u16,
    pub(super) ethernet: bool,
}

impl PortAttributes {
    /// An active port whose numbers this build does not know is an error (VB-4). An inactive port
    /// may report nothing useful.
    fn new(attributes: &ibv_port_attr) -> io::Result<Self> {
        const LINK_LAYERS: RangeInclusive<u8> = 0..=ETHERNET;
        const ETHERNET: u8 = 2;
        const MTUS: RangeInclusive<u32> = ibv_mtu::IBV_MTU_256..=ibv_mtu::IBV_MTU_4096;
        let (mtu, layer) = (attributes.active_mtu, attributes.link_layer);
        let known = PortAttributes {
            state: attributes.state,
            mtu: mtu.clamp(*MTUS.start(), *MTUS.end()) as u8,
            lid: attributes.lid,
            frame_bytes_max: attributes.max_msg_sz,
            gids: attributes.gid_tbl_len.max(0) as u32,
            pkeys: attributes.pkey_tbl_len,
            ethernet: layer == ETHERNET,
        };
        let unknown = |what, number| {
            Err(io::Error::other(format!("this build knows no {what} of number {number}")))
        };
        if known.is_active() && !MTUS.contains(&mtu) {
            unknown("MTU", mtu)
        } else if known.is_active() && !LINK_LAYERS.contains(&layer) {
            unknown("link layer", layer.into())
        } else {
            Ok(known)
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.state == ibv_port_state::IBV_PORT_ACTIVE
    }
}

/// Turns an answer of the library, 0 or an error number, into a result.
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
///
/// # Errors
/// It was too late, or the system cannot: a process that is forked could take a frame's memory away
/// from its device (VB-8).
fn survive_forks() -> io::Result<()> {
    static DONE: OnceLock<Result<(), i32>> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        // SAFETY: takes nothing, and may be called at any time; too late it fails and does nothing.
        let done = check(unsafe { ibv_fork_init() });
        done.map_err(|error| error.raw_os_error().unwrap_or(0))
    });
    done.map_err(|number| {
        let error = io::Error::from_raw_os_error(number);
        io::Error::other(format!(
            "processes forked from this one would disturb RDMA (ibv_fork_init: {error}): set \
             RDMAV_FORK_SAFE=1 for this process, or use a kernel from 5.12 on"
        ))
    })
}

/// The variables that have a driver go without locks, so that no two threads may use its devices.
const WITHOUT_LOCKS: [&str; 2] = ["MLX5_SINGLE_THREADED", "MLX4_SINGLE_THREADED"];

/// # Errors
/// The environment, whose variables `value` returns, makes a driver run without locks. The library
/// reads it when a device is opened.
fn keep_locks(value: impl Fn(&str) -> Option<String>) -> io::Result<()> {
    let set = WITHOUT_LOCKS.iter().find(|name| value(name).is_some_and(|value| value != "0"));
    set.map_or(Ok(()), |name| {
        let why = "it has the driver of the devices go without locks, and threads share them";
        Err(io::Error::other(format!("{name} is set: unset it, for {why}")))
    })
}

/// # Errors
/// The device is not of InfiniBand or RoCE, whose queue pairs are different from the queue pairs of
/// iWARP and EFA.
pub(super) fn check_transport(transport: ibv_transport_type::Type) -> io::Result<()> {
    match transport {
        ibv_transport_type::IBV_TRANSPORT_IB => Ok(()),
        _ => Err(io::Error::other("only devices of InfiniBand and RoCE are used")),
    }
}

impl Device {
    /// Returns all devices, opened, with their names.
    pub(super) fn all() -> io::Result<Vec<(String, io::Result<Device>)>> {
        keep_locks(|name| std::env::var(name).ok())?;
        survive_forks()?;
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
        // SAFETY: an entry of the list is a whole device, which is only read.
        let transport = unsafe { (*device).transport_type };
        let opened = check_transport(transport).and_then(|()| {
            // SAFETY: an entry of the list can be opened; an open context outlives the list.
            let context = NonNull::new(unsafe { ibv_open_device(device) });
            let context = context.ok_or_else(io::Error::last_os_error)?;
            // SAFETY: the context is open, so its fields can be read.
            let vectors = unsafe { (*context.as_ptr()).num_comp_vectors };
            let device = Device {
                context,
                name: name.clone(),
                listeners: Listeners::default(),
                vectors: Arc::new(Vectors::new(vectors)),
                #[cfg(test)]
                altered: Default::default(),
            };
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
            reads: Reads::new(&attributes),
        })
    }

    /// Ports are counted from 1.
    pub(super) fn port(&self, port: u8) -> io::Result<PortAttributes> {
        // SAFETY: the structure is made of integers, for which zero is a value.
        let mut attributes: ibv_port_attr = unsafe { zeroed() };
        let place = (&raw mut attributes).cast();
        // SAFETY: the library fills the older, shorter form of the structure; the rest stays zero.
        check(unsafe { ibv_query_port(self.context(), port, place) })?;
        #[cfg(test)]
        self.altered.lock().apply(&mut attributes);
        PortAttributes::new(&attributes)
    }

    pub(super) fn gid(&self, port: u8, index: u32) -> io::Result<[u8; 16]> {
        let mut gid = ibv_gid { raw: [0; 16] };
        // SAFETY: the context is open, and `gid` has room for one.
        check(unsafe { ibv_query_gid(self.context(), port, index as i32, &mut gid) })?;
        // SAFETY: every byte of it was initialised, above or by the library.
        Ok(unsafe { gid.raw })
    }

    /// Returns the partition keys of a port, by their places in its table.
    pub(super) fn pkeys(&self, port: u8, count: u16) -> io::Result<Vec<u16>> {
        #[cfg(test)]
        if let Some(keys) = &self.altered.lock().pkeys {
            return Ok(keys.clone());
        }
        let query = |index: u16| {
            let mut key = 0;
            // SAFETY: the context is open, and `key` has room for one.
            check(unsafe { ibv_query_pkey(self.context(), port, index.into(), &mut key) })?;
            Ok(u16::from_be(key))
        };
        (0..count).map(query).collect()
    }

    /// Makes all commands of the library to the system about this device fail while `during` runs.
    #[cfg(test)]
    pub(super) fn cut_off(&self, during: impl FnOnce()) {
        // SAFETY: the context is open, and the test uses it from no other thread meanwhile.
        let commands = unsafe { &raw mut (*self.context()).cmd_fd };
        // SAFETY: as above; a number that is no descriptor is refused by the system.
        let descriptor = unsafe { commands.replace(-1) };
        during();
        // SAFETY: as above.
        unsafe { commands.write(descriptor) };
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
        while self.spread_event() {}
    }

    fn spread_event(&self) -> bool {
        let mut place = MaybeUninit::<ibv_async_event>::zeroed();
        // SAFETY: there is room for one event; the descriptor does not block.
        if unsafe { ibv_get_async_event(self.context(), place.as_mut_ptr()) } != 0 {
            return false;
        }
        let raw = place.as_ptr().cast::<RawEvent>();
        // SAFETY: the integers lie where the fields are (VB-4), and every byte is initialised: all
        // were zero before the library wrote some.
        let RawEvent { element, kind } = unsafe { raw.read() };
        let event = RawEvent { element, kind }.event();
        log::debug!(device = self.name, ?event, "the device has an event");
        // Told before it is acknowledged: until then the queue pair or completion queue it is about
        // cannot be destroyed, and another one cannot have its address.
        self.listeners.tell(event);
        // SAFETY: the event was taken above, and is acknowledged once.
        unsafe { ibv_ack_async_event(place.as_mut_ptr()) };
        true
    }
}

/// An event as the integers that it is in C: a type that this build does not know would be no value
/// of the Rust enum.
#[repr(C)]
struct RawEvent {
    /// An address, or a port in its first bytes.
    element: usize,
    kind: i32,
}

const _: () = assert!(size_of::<RawEvent>() == size_of::<ibv_async_event>());
const _: () = assert!(offset_of!(RawEvent, kind) == offset_of!(ibv_async_event, event_type));

impl RawEvent {
    fn port(&self) -> u8 {
        let [a, b, c, d, ..] = self.element.to_ne_bytes();
        i32::from_ne_bytes([a, b, c, d]) as u8
    }

    fn event(&self) -> Event {
        const QP_FATAL: i32 = ibv_event_type::IBV_EVENT_QP_FATAL as i32;
        const QP_REQ_ERR: i32 = ibv_event_type::IBV_EVENT_QP_REQ_ERR as i32;
        const QP_ACCESS_ERR: i32 = ibv_event_type::IBV_EVENT_QP_ACCESS_ERR as i32;
        const CQ_ERR: i32 = ibv_event_type::IBV_EVENT_CQ_ERR as i32;
        const PORT_ERR: i32 = ibv_event_type::IBV_EVENT_PORT_ERR as i32;
        const PORT_ACTIVE: i32 = ibv_event_type::IBV_EVENT_PORT_ACTIVE as i32;
        const LID_CHANGE: i32 = ibv_event_type::IBV_EVENT_LID_CHANGE as i32;
        const PKEY_CHANGE: i32 = ibv_event_type::IBV_EVENT_PKEY_CHANGE as i32;
        const SM_CHANGE: i32 = ibv_event_type::IBV_EVENT_SM_CHANGE as i32;
        const REREGISTER: i32 = ibv_event_type::IBV_EVENT_CLIENT_REREGISTER as i32;
        const GID_CHANGE: i32 = ibv_event_type::IBV_EVENT_GID_CHANGE as i32;
        const DEVICE_FATAL: i32 = ibv_event_type::IBV_EVENT_DEVICE_FATAL as i32;
        match self.kind {
            QP_FATAL | QP_REQ_ERR | QP_ACCESS_ERR => Event::QueuePair(self.element),
            CQ_ERR => Event::CompletionQueue(self.element),
            PORT_ERR => Event::PortDown(self.port()),
            PORT_ACTIVE => Event::PortUp(self.port()),
            LID_CHANGE | PKEY_CHANGE | SM_CHANGE | REREGISTER | GID_CHANGE => Event::PortChanged,
            DEVICE_FATAL => Event::DeviceFatal,
            other => Event::Other(other),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: each thing made of the context holds a counted reference to this (VB-1), so none
        // of them is left, and it is closed once.
        if let Err(error) = check(unsafe { ibv_close_device(self.context()) }) {
            let (device, call) = (&*self.name, "ibv_close_device");
            log::error!(device, call, %error, "an RDMA resource could not be given back");
        }
    }
}

#[cfg(test)]
impl Altered {
    fn apply(&self, attributes: &mut ibv_port_attr) {
        attributes.active_mtu = self.mtu.map_or(attributes.active_mtu, u32::from);
        attributes.lid = self.lid.unwrap_or(attributes.lid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VB-4: what a later library may say of an active port is an error, never another port's MTU.
    #[test]
    fn an_unknown_number_of_a_port_is_an_error() {
        let port = |state, active_mtu, link_layer| {
            // SAFETY: the structure is made of integers, for which zero is a value.
            let mut attributes: ibv_port_attr = unsafe { zeroed() };
            (attributes.state, attributes.active_mtu) = (state, active_mtu);
            attributes.link_layer = link_layer;
            PortAttributes::new(&attributes).map(|port| (port.mtu, port.ethernet))
        };
        const ACTIVE: u32 = ibv_port_state::IBV_PORT_ACTIVE;
        assert_eq!(port(ACTIVE, 3, 2).unwrap(), (3, true));
        assert_eq!(port(ACTIVE, 5, 0).unwrap(), (5, false));
        assert_eq!(port(1, 0, 0).unwrap(), (1, false));
        for (mtu, layer, what) in [(0, 2, "MTU"), (6, 2, "MTU"), (3, 3, "link layer")] {
            let error = port(ACTIVE, mtu, layer).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        let odd = port(4711, 3, 1).unwrap();
        assert_eq!(odd, (3, false), "a port in an unknown state is not active, so not used");
    }

    /// EFA and iWARP, and transports that a later library may name, are not used. (The library's
    /// numbers: iWARP, usNIC over Ethernet and over UDP, unspecified, as EFA is, and unknown.)
    #[test]
    fn devices_of_other_transports_are_refused() {
        check_transport(0).unwrap();
        for transport in [1, 2, 3, 4, -1, 4711] {
            let refused = check_transport(transport).unwrap_err().to_string();
            assert_eq!(refused, "only devices of InfiniBand and RoCE are used", "{transport}");
        }
    }

    /// VB-9: a device without atomic operations, or without reads, has no one-sided access.
    #[test]
    fn one_sided_access_needs_reads_and_atomic_operations() {
        let reads = |atomics, own, peers| {
            // SAFETY: the structure is made of integers, for which zero is a value.
            let mut attributes: ibv_device_attr = unsafe { zeroed() };
            attributes.atomic_cap = atomics;
            (attributes.max_qp_init_rd_atom, attributes.max_qp_rd_atom) = (own, peers);
            Reads::new(&attributes).map(|it| (it.own, it.peers))
        };
        assert_eq!(reads(ibv_atomic_cap::IBV_ATOMIC_HCA, 128, 4), Some((VERBS_READS_MAX, 4)));
        assert_eq!(reads(ibv_atomic_cap::IBV_ATOMIC_GLOB, 1, 1), Some((1, 1)));
        for (atomics, own, peers) in [(0, 16, 16), (1, 0, 16), (1, 16, 0), (1, -1, 16)] {
            assert_eq!(reads(atomics, own, peers), None, "{atomics} {own} {peers}");
        }
    }

    #[test]
    fn a_driver_without_locks_is_refused() {
        let set = |value: &'static str| {
            keep_locks(|name| (name == "MLX5_SINGLE_THREADED").then(|| value.to_owned()))
        };
        let refused = set("1").unwrap_err().to_string();
        assert!(refused.starts_with("MLX5_SINGLE_THREADED is set: unset it"), "{refused}");
        set("0").unwrap();
        keep_locks(|_| None).unwrap();
    }

    /// VB-4: an event of a later library is no undefined value, and concerns no queue pair.
    #[test]
    fn an_unknown_event_is_an_integer() {
        let event = |element, kind| RawEvent { element, kind }.event();
        assert_eq!(event(7, 4711), Event::Other(4711));
        assert_eq!(event(7, 1), Event::QueuePair(7));
        let port = usize::from_ne_bytes([2, 0, 0, 0, 9, 9, 9, 9]);
        #[cfg(target_endian = "little")]
        assert_eq!((event(port, 10), event(port, 9)), (Event::PortDown(2), Event::PortUp(2)));
        for change in [11, 12, 13, 17, 18] {
            assert_eq!(event(port, change), Event::PortChanged, "{change}");
        }
    }
}
