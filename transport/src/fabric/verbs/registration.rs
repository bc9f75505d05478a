//! Registration of memory with a device: protection domains, and the memory registered with them
//! for this side and for its peers.
#![allow(unsafe_code, reason = "registers memory with devices (VB-1, VB-9, VB-10)")]

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::{
    ibv_access_flags, ibv_alloc_pd, ibv_dealloc_pd, ibv_dereg_mr, ibv_mr, ibv_pd, ibv_reg_mr_iova,
};
use rustix::io::Errno;

use super::device::{Device, check};
use super::machine;
use crate::fabric::FabricError;
use crate::fabric::one_sided::{Access, Key};
use crate::log;
use crate::memory::{Buffer, Words};

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

/// A protection domain: its queue pairs reach its memory and no other.
pub(super) struct Domain {
    pd: NonNull<ibv_pd>,
    pub(super) device: Arc<Device>,
}

// SAFETY: libibverbs allows the calls made with a protection domain from any thread.
unsafe impl Send for Domain {}
// SAFETY: as above, and at the same time.
unsafe impl Sync for Domain {}

impl Domain {
    pub(super) fn new(device: Arc<Device>) -> Result<Self, FabricError> {
        // SAFETY: the context is open.
        let pd = unsafe { ibv_alloc_pd(device.context()) };
        match NonNull::new(pd) {
            Some(pd) => Ok(Domain { pd, device }),
            None => Err(refused("ibv_alloc_pd", &device, 0)),
        }
    }

    pub(super) fn pd(&self) -> *mut ibv_pd {
        self.pd.as_ptr()
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: queue pairs and registrations hold a counted reference to this (VB-1), so none of
        // them is left, and it is given back once.
        if let Err(error) = check(unsafe { ibv_dealloc_pd(self.pd()) }) {
            let (device, call) = (self.device.name(), "ibv_dealloc_pd");
            log::error!(device, call, %error, "an RDMA resource could not be given back");
        }
    }
}

/// The registration of memory with one domain.
pub(super) struct Registration {
    mr: NonNull<ibv_mr>,
    domain: Arc<Domain>,
    ended: bool,
}

// SAFETY: the structure behind the pointer is not written after it was made, and may be given back
// from any thread.
unsafe impl Send for Registration {}
// SAFETY: as above: shared, it is only read.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers `bytes` bytes; work requests count them from `place` on.
    ///
    /// # Safety
    /// They are mapped until the registration has ended. Where `access` lets peers write, they are
    /// words that are shared (ME-10); where it lets them read, nothing else writes them but words.
    pub(super) unsafe fn new(
        domain: &Arc<Domain>,
        (start, bytes): (*mut u8, usize),
        place: u64,
        access: ibv_access_flags,
    ) -> Result<Self, FabricError> {
        let (pd, access) = (domain.pd(), access.0 as i32);
        // SAFETY: the domain lives, and keeps to the end of the registration (VB-1); the memory
        // does by the caller's promise.
        let mr = unsafe { ibv_reg_mr_iova(pd, start.cast(), bytes, place, access) };
        let Some(mr) = NonNull::new(mr) else {
            return Err(refused("ibv_reg_mr", &domain.device, bytes));
        };
        Ok(Registration { mr, domain: domain.clone(), ended: false })
    }

    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: the registration lives, and this field is written by nothing after it was made.
        unsafe { (*self.mr.as_ptr()).lkey }
    }

    fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.mr.as_ptr()).rkey }
    }

    /// Gives it back. Returns false, and says so in the log, if the device may still use it.
    fn end(&mut self) -> bool {
        if std::mem::replace(&mut self.ended, true) {
            return true;
        }
        // SAFETY: it was made by `ibv_reg_mr_iova`, and is given back once: see the flag. No work
        // request of this side is left that names its key: a queue pair keeps the slots of its work
        // requests, these their region. Peers that name it are refused from now on.
        let answer = check(unsafe { ibv_dereg_mr(self.mr.as_ptr()) });
        if let Err(error) = &answer {
            let (device, call) = (self.domain.device.name(), "ibv_dereg_mr");
            log::error!(device, call, %error, "an RDMA resource could not be given back");
        }
        answer.is_ok()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.end();
    }
}

/// Memory that the peer of the one queue pair of a domain may reach, as long as this lives (PV-13).
pub(super) struct Granted {
    registration: Registration,
    memory: Option<Memory>,
}

/// The owner of the memory of a grant.
enum Memory {
    Shared {
        _words: Arc<Words>,
    },
    /// Bytes that are only ever read.
    Lent {
        _bytes: Arc<Buffer>,
    },
}

impl Granted {
    /// Grants `bytes` bytes, at least 1, from `at` on, all of them in `memory`. Returns the key
    /// with it: its base is no address of this process, but where in its page the memory begins.
    pub(super) fn new(
        domain: &Arc<Domain>,
        memory: &Arc<Words>,
        (at, bytes): (usize, usize),
        access: Access,
    ) -> Result<(Self, Key), FabricError> {
        let start = memory.base().wrapping_add(at);
        let base = (at % PAGE) as u64;
        // SAFETY: the caller has checked that the bytes lie in the memory, which is counted here
        // until the registration has ended (VB-10); it is made of shared words (ME-10). The access
        // is for the one queue pair of the domain (VB-9).
        let registration =
            unsafe { Registration::new(domain, (start, bytes), base, remote(access)) }?;
        let key = Key { number: registration.remote_key(), base };
        Ok((Granted { registration, memory: Some(Memory::Shared { _words: memory.clone() }) }, key))
    }

    /// Grants reads of these bytes, of which there is at least one.
    pub(super) fn lend(
        domain: &Arc<Domain>,
        bytes: &Arc<Buffer>,
    ) -> Result<(Self, Key), FabricError> {
        let start = bytes.as_ptr().cast_mut();
        let base = (start.addr() % PAGE) as u64;
        // SAFETY: the buffer is counted here until the registration has ended (VB-10), and a shared
        // one is not written, nor moves its bytes (ME-12). Devices only read them: neither this
        // side nor the peer is given more.
        let registration =
            unsafe { Registration::new(domain, (start, bytes.len()), base, remote(Access::READ)) }?;
        let key = Key { number: registration.remote_key(), base };
        Ok((Granted { registration, memory: Some(Memory::Lent { _bytes: bytes.clone() }) }, key))
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        // PV-13, VB-10: the device has let go of the memory when this returns. If it has not, or
        // does not say, the memory is never used for anything else.
        if !self.registration.end() {
            log::error!("memory that was granted to a peer is kept for good");
            std::mem::forget(self.memory.take());
        }
    }
}

/// Returns the flags that give just this access. A device that is to write for a peer has to be
/// allowed to write at all.
fn remote(access: Access) -> ibv_access_flags {
    let local = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
    let given = [
        (access.read, ibv_access_flags::IBV_ACCESS_REMOTE_READ),
        (access.write, ibv_access_flags::IBV_ACCESS_REMOTE_WRITE | local),
        (access.atomic, ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC | local),
    ];
    let given = given.into_iter().filter(|(given, _)| *given);
    given.fold(ibv_access_flags(0), |flags, (_, flag)| flags | flag)
}

/// Returns the last refusal of the library, which wanted `need` bytes of locked memory: they could
/// not be locked, or something else is amiss.
pub(super) fn refused(call: &'static str, device: &Device, need: usize) -> FabricError {
    let source = io::Error::last_os_error();
    if source.kind() == io::ErrorKind::OutOfMemory && machine::may_not_lock(need) {
        return FabricError::Locked { need: need as u64, limit: machine::locked_memory_limit() };
    }
    FabricError::Device { call, device: device.name().into(), source }
}

/// Returns the system's number of what made `error`; 0 where it did not come from the system.
pub(super) fn error_number(error: &FabricError) -> i32 {
    match error {
        FabricError::Locked { .. } => Errno::NOMEM.raw_os_error(),
        FabricError::Device { source, .. } => source.raw_os_error().unwrap_or(0),
        _ => 0,
    }
}
