//! Registered memory: a protection domain, and regions that its queue pairs may read and write.
#![allow(unsafe_code, reason = "registers memory with devices (VB-1, VB-2)")]

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, OnceLock};

use rdma_sys::{
    ibv_access_flags, ibv_alloc_pd, ibv_dealloc_pd, ibv_dereg_mr, ibv_mr, ibv_pd, ibv_reg_mr,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::device::{Device, check};
use super::machine;
use crate::fabric::FabricError;
use crate::memory::{Backing, Region, Slot};

const PAGE: usize = 4096;

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
    pub(super) fn new(device: Arc<Device>) -> io::Result<Self> {
        // SAFETY: the context is open.
        let pd = unsafe { ibv_alloc_pd(device.context()) };
        Ok(Domain { pd: NonNull::new(pd).ok_or_else(io::Error::last_os_error)?, device })
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
            tracing::error!(device, call, %error, "an RDMA resource could not be given back");
        }
    }
}

/// Memory that the devices behind some domains may read and write.
struct Registered {
    domains: Arc<[Arc<Domain>]>,
    /// One for each domain, made when its first slot is used there (VB-2).
    // Before the pages: these are given back first (VB-1).
    registrations: Vec<OnceLock<Registration>>,
    pages: Pages,
}

// SAFETY: the pages are mapped, zeroed and page-aligned, and unmapped by the drop alone; devices
// touch only slots that were posted.
unsafe impl Backing for Registered {
    fn base(&self) -> NonNull<u8> {
        self.pages.base
    }

    fn bytes(&self) -> usize {
        self.pages.bytes
    }
}

/// The kind of pages that a region is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    Ordinary,
    Huge,
}

/// One slab of `bytes` for the queue pairs of `domains`. Where there is one domain it is registered
/// now; otherwise with those that use it, since each registration locks the memory once more.
pub(super) fn slab(
    domains: Arc<[Arc<Domain>]>,
    bytes: usize,
    kind: PageKind,
) -> Result<Region, FabricError> {
    let pages = Pages::map(bytes, kind).map_err(|source| FabricError::Device {
        call: "mmap",
        device: "this machine".into(),
        source,
    })?;
    let registrations = domains.iter().map(|_| OnceLock::new()).collect();
    let registered = Registered { domains, registrations, pages };
    if let [domain] = &*registered.domains {
        registered.key(domain)?;
    }
    Ok(Region::new(registered))
}

/// Returns true if `slot` is memory that was made for the queue pairs of this domain, among others
/// (PV-1).
pub(super) fn is_of(domain: &Arc<Domain>, slot: &Slot) -> bool {
    let registered = slot.region().backing::<Registered>();
    registered.is_some_and(|it| it.domains.iter().any(|own| Arc::ptr_eq(own, domain)))
}

/// Returns the key by which queue pairs of `domain` reach `slot`; `None` when it is not memory for
/// that domain (PV-1).
///
/// # Errors
/// [`FabricError`] when it cannot be registered.
pub(super) fn local_key(domain: &Arc<Domain>, slot: &Slot) -> Result<Option<u32>, FabricError> {
    match slot.region().backing::<Registered>() {
        Some(registered) => registered.key(domain),
        None => Ok(None),
    }
}

impl Registered {
    fn key(&self, domain: &Arc<Domain>) -> Result<Option<u32>, FabricError> {
        let place = self.domains.iter().position(|it| Arc::ptr_eq(it, domain));
        let Some(place) = place.and_then(|place| self.registrations.get(place)) else {
            return Ok(None);
        };
        let registration = match place.get() {
            Some(registration) => registration,
            None => {
                let made = Registration::new(domain.clone(), &self.pages)?;
                // Of two that are made at the same time one is given back.
                place.get_or_init(|| made)
            }
        };
        // SAFETY: the registration lives, since its region does, and this field is written by
        // nothing after it was made.
        Ok(Some(unsafe { (*registration.mr.as_ptr()).lkey }))
    }
}

/// The registration of all pages of a region with one domain.
struct Registration {
    mr: NonNull<ibv_mr>,
    domain: Arc<Domain>,
}

// SAFETY: the structure behind the pointer is not written after it was made, and may be given back
// from any thread.
unsafe impl Send for Registration {}
// SAFETY: as above: shared, it is only read.
unsafe impl Sync for Registration {}

impl Registration {
    fn new(domain: Arc<Domain>, pages: &Pages) -> Result<Self, FabricError> {
        let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0 as i32;
        let start = pages.base.as_ptr().cast();
        // SAFETY: the pages are mapped, and stay so until the registration is given back: see
        // `Registered`. Peers get no access.
        let mr = unsafe { ibv_reg_mr(domain.pd(), start, pages.bytes, access) };
        let Some(mr) = NonNull::new(mr) else {
            return Err(refused("ibv_reg_mr", &domain.device, pages.bytes));
        };
        Ok(Registration { mr, domain })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: it was made by `ibv_reg_mr` and is given back once. No work request is left that
        // names its key: a queue pair keeps the slots of its work requests, these their region.
        if let Err(error) = check(unsafe { ibv_dereg_mr(self.mr.as_ptr()) }) {
            let (device, call) = (self.domain.device.name(), "ibv_dereg_mr");
            tracing::error!(device, call, %error, "an RDMA resource could not be given back");
        }
    }
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

/// Zeroed pages of this process.
struct Pages {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the pages are owned, and reached only through slots (ME-1).
unsafe impl Send for Pages {}
// SAFETY: shared, they give their address and nothing else.
unsafe impl Sync for Pages {}

impl Pages {
    /// Takes ordinary pages where the system has no huge ones left.
    fn map(bytes: usize, kind: PageKind) -> io::Result<Self> {
        if kind == PageKind::Huge {
            let size = machine::huge_page_bytes().unwrap_or(PAGE);
            match Pages::map_with(bytes.next_multiple_of(size), MapFlags::HUGETLB) {
                Ok(pages) => return Ok(pages),
                Err(error) => {
                    tracing::warn!(%error, bytes, "no huge pages are left: small ones are taken");
                }
            }
        }
        Pages::map_with(bytes.next_multiple_of(PAGE), MapFlags::empty())
    }

    fn map_with(bytes: usize, flags: MapFlags) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, flags | MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address of the system's choice changes no other memory.
        let base = unsafe { mmap_anonymous(null_mut(), bytes, protection, flags) }?;
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Pages { base, bytes })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: it is the whole mapping, made above, unmapped once; slots keep their region
        // alive (ME-2), so none is left.
        if let Err(error) = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) } {
            tracing::error!(%error, "memory could not be given back");
        }
    }
}
