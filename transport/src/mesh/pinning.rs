//! Keeps a thread on one core: on Linux, through the system's calls about affinity.

use std::io;

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

#[cfg(target_os = "linux")]
use crate::log;

/// Returns the cores that this thread may run on; none where threads cannot be pinned.
#[cfg(target_os = "linux")]
pub(super) fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect()
}

/// The cores that a thread had before it was kept on one.
pub(super) struct Before(#[cfg(target_os = "linux")] CpuSet);

impl Before {
    /// Gives this thread these cores back: it inherited the core of the pinned thread that started
    /// it.
    pub(super) fn restore(&self) {
        #[cfg(target_os = "linux")]
        if let Err(error) = sched_setaffinity(None, &self.0) {
            log::warn!(%error, "a thread that may block shares the core of the pinned drivers");
        }
    }
}

/// Keeps this thread on one of its [`cores`]. Returns the cores that it had.
///
/// # Errors
/// The system has no such core, or not for this process.
#[cfg(target_os = "linux")]
pub(super) fn pin_to(core: usize) -> io::Result<Before> {
    let before = Before(sched_getaffinity(None)?);
    let mut one = CpuSet::new();
    if core < CpuSet::MAX_CPU {
        one.set(core);
    }
    sched_setaffinity(None, &one)?;
    Ok(before)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn cores() -> Vec<usize> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn pin_to(_: usize) -> io::Result<Before> {
    Err(io::ErrorKind::Unsupported.into())
}
