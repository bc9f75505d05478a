//! The log of connections that came to nothing.
//!
//! - **MS-13 a stranger cannot fill the log**: of each cause there is at most one warning in
//!   `LOG_PERIOD`, which says how many went before it without one; the others are for debugging.
//!   The same holds for a node that knows the secret and comes under ever new names, which has a
//!   [limiter](LogLimiter) of its own: a stranger does not suppress what is said of it. The causes
//!   are the labels of [`Failure`] and a few more, so the memory is fixed. Of lines about links and
//!   nodes that come and go, or are not reached, there are `PEER_LINES_MAX` of each kind in that
//!   time, and one that counts the others.
//!
//! Without this each connection of a stranger wrote a line, and a log that blocks its writers
//! stopped the drivers of honest links, which run on the same threads.

use std::{fmt, io};

use tokio::time::Instant;

use crate::bootstrap::Failure;
use crate::log_limiter::LogLimiter;

use super::meter;

/// Counts and logs a connection from this address that came to nothing before its peer had proved
/// itself.
pub(super) fn report(log: &LogLimiter, from: &str, failure: &Failure) {
    let warns = match failure {
        Failure::Rejected(_)
        | Failure::VersionMismatch { .. }
        | Failure::Stale
        | Failure::Malformed(_) => !failure.is_dial_race(),
        // An honest node, or a probe that looks whether the port is open.
        Failure::RejectedByPeer(_) | Failure::SelfConnection | Failure::Closed | Failure::Io(_) => {
            false
        }
    };
    count(log, (from, failure.label()), failure, warns);
}

/// Counts and logs a data connection from this address whose token no queue pair waits for.
pub(super) fn report_token(log: &LogLimiter, from: &str) {
    count(log, (from, "token"), &"no queue pair waits for this data connection", true);
}

/// Logs that the system gives no connection, which it may go on to do.
pub(super) fn report_accept(log: &LogLimiter, error: &io::Error) {
    if let Some(suppressed) = log.admit("accept", Instant::now()) {
        tracing::warn!(%error, suppressed, "connections could not be accepted");
    }
}

fn count(
    log: &LogLimiter,
    (from, cause): (&str, &'static str),
    failure: &dyn fmt::Display,
    warns: bool,
) {
    meter::count_refusal(cause);
    let warned = if warns { log.admit(cause, Instant::now()) } else { None };
    match warned {
        Some(suppressed) => {
            tracing::warn!(from, %failure, suppressed, "a connection was refused");
        }
        None => tracing::debug!(from, %failure, "a connection ended"),
    }
}
