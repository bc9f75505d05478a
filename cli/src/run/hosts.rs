//! Where ranks listen: the lines of a file.

use std::path::Path;

use ringpost_ranks::limits::RANKS_MAX;

use crate::failure::Failure;
use crate::settings;

/// Longest file of hosts, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads the addresses in a file, one on a line.
///
/// # Errors
/// [`Failure::Hosts`] names the file and the reason.
pub(super) fn read(file: &Path) -> Result<Vec<String>, Failure> {
    let wrong = |why: String| Failure::Hosts { file: file.display().to_string(), why };
    let size = std::fs::metadata(file).map_err(|error| wrong(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(wrong(format!("it has {size} bytes, and may have {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let mut hosts = Vec::new();
    for (line, text) in text.lines().enumerate().map(|(index, text)| (index + 1, text.trim())) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let host = settings::address(text).map_err(|why| wrong(format!("line {line}: {why}")))?;
        if host.starts_with('-') || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(wrong(format!("line {line}: a host has no blanks and begins with no `-`")));
        }
        if hosts.contains(&host) {
            return Err(wrong(format!("line {line}: {host} stands there twice")));
        }
        hosts.push(host);
    }
    match hosts.len() {
        0 => Err(wrong("it names no host".into())),
        count if count > RANKS_MAX => Err(wrong(format!("it names more than {RANKS_MAX}"))),
        _ => Ok(hosts),
    }
}
