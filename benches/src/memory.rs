//! The memory of this process.

use std::fs;
use std::time::Duration;

use tokio::time::sleep;

use crate::failure::Failure;

/// Waits until the memory of this process does not change any more, and returns its bytes.
///
/// # Errors
/// When the system does not say it.
pub async fn settled() -> Result<f64, Failure> {
    const LOOK: Duration = Duration::from_millis(100);
    let mut last = f64::NAN;
    loop {
        sleep(LOOK).await;
        let now = memory()?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
}

/// Returns the bytes of memory that this process occupies.
///
/// # Errors
/// When the system does not say it.
pub fn memory() -> Result<f64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    let kilobytes: f64 =
        kilobytes.ok_or_else(|| Failure::Failed("this process has no VmRSS".into()))?;
    Ok(kilobytes * 1024.0)
}
