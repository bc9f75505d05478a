//! Registered memory: a protection domain, and regions that its queue pairs may read and write.
#![allow(unsafe_code, reason = "registers memory with devices (VB-1, VB-2)")]

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, OnceLock};

use rdma_sys::{
    ibv_access_flags, ibv_alloc_pd, ibv_dealloc_pd, ibv_dereg_mr, ibv_mr, ibv_pd, ibv_reg_mr_iova,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::device::{Device, check};
use super::machine;
use crate::fabric::FabricError;
use crate::fabric::one_sided::{Access, Key};
use crate::memory::{Backing, Region, Slot, Words};

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
                let made = self.pages.register(domain)?;
                // Of two that are made at the same time one is given back.
                place.get_or_init(|| made)
            }
        };
        Ok(Some(registration.local_key()))
    }
}

/// The regions that are registered with a domain of a single queue pair, which are found nowhere
/// else: at most those of which there are slots, and one more (VB-2).
#[derive(Default)]
pub(super) struct OwnRegistrations(Vec<(Registration, Arc<Region>)>);

impl OwnRegistrations {
    /// Returns the key by which the queue pair reaches `slot`, as [`local_key`] does.
    ///
    /// # Errors
    /// [`FabricError`] when it cannot be registered.
    pub(super) fn local_key(
        &mut self,
        domain: &Arc<Domain>,
        slot: &Slot,
    ) -> Result<Option<u32>, FabricError> {
        let region = slot.region();
        if let Some((registration, _)) = self.0.iter().find(|(_, it)| Arc::ptr_eq(it, region)) {
            return Ok(Some(registration.local_key()));
        }
        // Of the others all slots are gone: none can be posted any more.
        self.0.retain(|(_, region)| Arc::strong_count(region) > 1);
        let Some(registered) = region.backing::<Registered>() else { return Ok(None) };
        let registration = registered.pages.register(domain)?;
        let key = registration.local_key();
        // The registration before what keeps its pages: it is given back first (VB-1).
        self.0.push((registration, region.clone()));
        Ok(Some(key))
    }
}

/// The registration of memory with one domain.
struct Registration {
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
    /// They are mapped until the registration has ended. Where `access` lets peers in, they are
    /// words that are shared (ME-10).
    unsafe fn new(
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

    fn local_key(&self) -> u32 {
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
            tracing::error!(device, call, %error, "an RDMA resource could not be given back");
        }
        answer.is_ok()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.end();
    }
}

/// Words that the peer of the one queue pair of a domain may reach, as long as this lives (PV-13).
pub(super) struct Granted {
    registration: Registration,
    memory: Option<Arc<Words>>,
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
        // until the registration has ended; it is made of shared words (ME-10).
        let registration =
            unsafe { Registration::new(domain, (start, bytes), base, remote(access)) }?;
        let key = Key { number: registration.remote_key(), base };
        Ok((Granted { registration, memory: Some(memory.clone()) }, key))
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        // PV-13: the device has let go of the memory when this returns. If it has not, or nobody
        // knows, the memory is never used for anything else.
        if !self.registration.end() {
            tracing::error!("memory that was granted to a peer is kept for good");
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

    /// Registers all of them, for local writing only (VB-2).
    fn register(&self, domain: &Arc<Domain>) -> Result<Registration, FabricError> {
        let (start, access) = (self.base.as_ptr(), ibv_access_flags::IBV_ACCESS_LOCAL_WRITE);
        // SAFETY: the pages are mapped, and stay so until the registration is given back: who keeps
        // one keeps the other longer. Peers get no access.
        unsafe { Registration::new(domain, (start, self.bytes), start as u64, access) }
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
