//! Keeps a thread on one core: on Linux, through the system's calls about affinity.

use std::io;

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the cores that this thread may run on; none where threads cannot be pinned.
#[cfg(target_os = "linux")]
pub(super) fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect()
}

/// Keeps this thread on one of its [`cores`].
///
/// # Errors
/// The system has no such core, or not for this process.
#[cfg(target_os = "linux")]
pub(super) fn pin_to(core: usize) -> io::Result<()> {
    let mut one = CpuSet::new();
    if core < CpuSet::MAX_CPU {
        one.set(core);
    }
    Ok(sched_setaffinity(None, &one)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn cores() -> Vec<usize> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn pin_to(_: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
