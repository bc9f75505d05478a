//! The runtime's integration tests: one binary, one module for each subject.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, reason = "tests")]
#![allow(clippy::mutable_key_type, reason = "references compare and hash by their address only")]

mod actors;
mod asking;
mod asking_many;
mod backpressure;
mod behaviour;
mod bounds;
mod broadcasting;
mod chains;
mod cost;
mod down;
mod encryption;
mod ending;
mod ending_early;
mod finding;
mod forwarding;
mod groups;
mod idle;
mod in_place;
mod linking;
mod log;
mod models;
mod names;
mod operating;
mod plugged;
mod pooling;
mod random;
mod references;
mod registered;
mod remote;
mod resting;
pub mod shapes;
mod slow;
mod snapshot;
mod spans;
mod spawning;
mod staying;
mod supervising;
mod test_kit;
mod timers;
mod trees;
mod turns;
mod ui;
mod watching;

use ringpost::{AskCause, AskError};

/// Returns why an ask was not answered, without whom it asked.
fn cause<T>(asked: Result<T, AskError>) -> Result<T, AskCause> {
    asked.map_err(|error| error.cause)
}
