//! Connecting to an address: it becomes a seed, and stays one if a link comes about.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::connect_error::{ConnectCause, ConnectError};
use crate::id::NodeId;
use crate::limits;
use crate::mesh::address_policy::is_host_and_port;
use crate::mesh::seeds::Met;
use crate::mesh::table::Table;
use crate::wire::is_service;

/// Connects this node to the node at `address`, within a time.
///
/// # Errors
/// [`ConnectError`]: at once where trying again cannot help, otherwise the last failure.
///
/// # Cancel safety
/// When the future is dropped the address is no seed, unless it was one before.
pub(in crate::mesh) async fn connect(
    table: &Arc<Table>,
    address: &str,
    within: Duration,
) -> Result<NodeId, ConnectError> {
    check(address)?;
    let deadline = Instant::now() + within.min(limits::DOWN_AFTER_MAX);
    let mut seed = Added::new(table, address);
    loop {
        let version = table.events.version();
        let last = match table.events.seeds().look(address) {
            Some((_, Some(Met::Node(node)))) => {
                if let Some((node, _)) = table.peer(&node.name).linked() {
                    seed.is_own = false;
                    return Ok(node);
                }
                None
            }
            // An older failure says nothing of now.
            Some((count, Some(Met::Failed { error, .. })))
                if count > seed.count || error.cause == ConnectCause::Itself =>
            {
                if !error.is_retryable() {
                    return Err(error);
                }
                Some(error)
            }
            Some(_) => None,
            // Another call that had added it has failed.
            None => {
                seed = Added::new(table, address);
                None
            }
        };
        tokio::select! {
            biased;
            is_open = table.events.changed(version) => if !is_open {
                let text = "this node is shutting down";
                return Err(ConnectError::new(address, ConnectCause::Shutdown, text));
            },
            () = sleep_until(deadline) => return Err(last.unwrap_or_else(|| {
                let text = format!("nothing answered within {within:?}");
                ConnectError::new(address, ConnectCause::NoAnswer, text)
            })),
        }
    }
}

/// Checks that an address has the form of one.
fn check(address: &str) -> Result<(), ConnectError> {
    let invalid = |text| Err(ConnectError::new(address, ConnectCause::InvalidAddress, text));
    if is_service(address) {
        let can = cfg!(feature = "srv");
        return if can { Ok(()) } else { invalid("services need the cargo feature `srv`") };
    }
    if is_host_and_port(address, true) { Ok(()) } else { invalid("it is no address") }
}

/// A seed that is taken out when this is dropped, if this has added it and it leads to no link.
struct Added<'a> {
    table: &'a Table,
    address: &'a str,
    /// How often something had been met there.
    count: u64,
    is_own: bool,
}

impl<'a> Added<'a> {
    fn new(table: &'a Arc<Table>, address: &'a str) -> Self {
        let (count, is_own) = table.events.seeds().add(address);
        if is_own {
            table.spawn_vital("seed", super::keep(table.clone(), address.into()));
        }
        Added { table, address, count, is_own }
    }
}

impl Drop for Added<'_> {
    fn drop(&mut self) {
        if self.is_own {
            self.table.events.seeds().remove(self.address);
            // Another call that waits for this seed adds it again.
            self.table.events.bump();
            self.table.events.tell();
        }
    }
}
