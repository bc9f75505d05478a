//! Registered memory: regions that the queue pairs of protection domains may read and write.
#![allow(unsafe_code, reason = "maps memory and registers it with devices (VB-1, VB-2)")]

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, OnceLock};

use rdma_sys::ibv_access_flags;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::machine;
use super::registration::{Domain, PAGE, Registration};
use crate::fabric::FabricError;
use crate::log;
use crate::memory::{Backing, Region, Slot};

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

/// Allocates one slab of `bytes` for the queue pairs of `domains`. With a single domain it is
/// registered now, otherwise on first use, since each registration locks the memory once more.
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

/// The regions that are registered with a domain of a single queue pair, and are found nowhere
/// else: at most the regions of which there are slots, and one more (VB-2).
#[derive(Default)]
pub(super) struct OwnRegistrations(Vec<OwnRegistration>);

/// A region and its registration.
pub(super) struct OwnRegistration {
    // Before what keeps its pages: it is given back first (VB-1).
    registration: Registration,
    region: Arc<Region>,
}

impl OwnRegistration {
    /// Registers the region of `slot`, which [`slab`] made for no domain.
    ///
    /// # Errors
    /// [`FabricError`] when it cannot be registered, or is other memory.
    pub(super) fn new(domain: &Arc<Domain>, slot: &Slot) -> Result<Self, FabricError> {
        let region = slot.region();
        let registered = region.backing::<Registered>();
        let registered = registered.ok_or(FabricError::Offer("memory of another fabric"))?;
        let registration = registered.pages.register(domain)?;
        Ok(OwnRegistration { registration, region: region.clone() })
    }
}

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
        if let Some(own) = self.0.iter().find(|own| Arc::ptr_eq(&own.region, region)) {
            return Ok(Some(own.registration.local_key()));
        }
        drop(self.take_unused());
        if region.backing::<Registered>().is_none() {
            return Ok(None);
        }
        let own = OwnRegistration::new(domain, slot)?;
        let key = own.registration.local_key();
        self.0.push(own);
        Ok(Some(key))
    }

    /// Adds a registration that was made before its memory is posted.
    pub(super) fn add(&mut self, own: OwnRegistration) {
        self.0.push(own);
    }

    /// Removes the registrations of regions of which all slots are gone: none can be posted again.
    pub(super) fn take_unused(&mut self) -> Vec<OwnRegistration> {
        self.0.extract_if(.., |own| Arc::strong_count(&own.region) == 1).collect()
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
                    log::warn!(%error, bytes, "no huge pages are left: small ones are taken");
                }
            }
        }
        Pages::map_with(bytes.next_multiple_of(PAGE), MapFlags::empty())
    }

    /// Registers all of them, for local writing only (VB-2).
    fn register(&self, domain: &Arc<Domain>) -> Result<Registration, FabricError> {
        let (start, access) = (self.base.as_ptr(), ibv_access_flags::IBV_ACCESS_LOCAL_WRITE);
        // SAFETY: the pages are mapped, and stay so until the registration is given back: it is
        // kept beside them, or beside their region, and dropped first (VB-1). Peers get no access.
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
            log::error!(%error, "memory could not be given back");
        }
    }
}
