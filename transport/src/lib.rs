//! Links between nodes.
//!
//! Knows nodes, links, mailbox numbers and bytes, but not the types of messages. In reading order:
//!
//! - [`endpoint`]: the public face. Start a node's endpoint, get a [`RemoteSender`] to a mailbox of
//!   another node, commit messages to it.
//! - [`host`]: what the layer above provides ([`Host`], [`Inbox`]) and is told.
//! - `mesh`: which nodes are connected: listening, dialling, heartbeats, link loss, node loss.
//! - `bootstrap`: how two nodes that meet prove themselves and agree on a link.
//! - `driver`: one task per link; the only place that knows both `proto` and `fabric`.
//! - `link`: what senders and the driver of a link share; `driver_signals`, `accounts` and
//!   `unresolved`: what outlives it.
//! - `proto`: the link protocol, sans I/O.
//! - [`fabric`]: queue pairs: `tcp`, `verbs` for RDMA devices, and `sim` for tests.
//! - [`wire`]: where nodes meet: TCP, or the simulated one.
//! - [`memory`]: registered memory, slots, leases, checked archives.
//! - `config`, `ip_network` and `profile`: what a node is started with; [`open_request`],
//!   [`note`], [`cause`] and `connect_error`: plain values.
//! - [`limits`], [`id`], [`entropy`], `noise`, `sync`; for the tests only: `mutants`, planted bugs,
//!   `steps`, at which a process can be made to die, and `fuzz`, the readers of a peer's bytes as
//!   functions of any bytes.

mod accounts;
mod bootstrap;
pub mod cause;
pub mod close_reason;
mod config;
mod confirm;
mod connect_error;
mod driver;
mod driver_signals;
pub mod endpoint;
pub mod entropy;
pub mod fabric;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod host;
pub mod id;
mod ip_network;
pub mod limits;
mod link;
pub mod log;
mod log_limiter;
pub mod memory;
mod mesh;
#[cfg(feature = "mutants")]
pub mod mutants;
#[cfg(not(feature = "mutants"))]
mod mutants;
mod noise;
pub mod note;
pub mod open_request;
mod profile;
mod proto;
mod reach;
#[cfg(all(test, any(feature = "sim", feature = "verbs")))]
mod recorder;
mod shares;
pub mod shield;
#[cfg(feature = "steps")]
pub mod steps;
#[cfg(not(feature = "steps"))]
mod steps;
mod sync;
pub mod text;
mod unresolved;
pub mod wire;

pub use endpoint::{Config, Endpoint, RemoteSender};
pub use host::{Host, Inbox};

/// Returns how many seeds, or rounds, a test runs: what `RINGPOST_TEST_CASES` says, or else
/// `by_day`, as many as each commit can wait for.
#[cfg(test)]
pub(crate) fn cases(by_day: u64) -> u64 {
    let said = std::env::var("RINGPOST_TEST_CASES").ok();
    said.map_or(by_day, |count| count.parse().expect("RINGPOST_TEST_CASES is a number"))
}
