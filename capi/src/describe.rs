//! Descriptions of nodes, which the environment completes.

use ringpost::{Node, NodeBuilder};

use crate::failure::Failure;

/// Describes a node by the environment, with an invented name that begins so.
///
/// # Errors
/// A variable is wrong, or the system gives no random number.
pub(crate) fn invented(prefix: &str) -> Result<NodeBuilder, Failure> {
    Ok(Node::from_env()?.name(format!("{prefix}-{:016x}", random()?)))
}

/// Returns a random number.
///
/// # Errors
/// The system gives none.
pub(crate) fn random() -> Result<u64, Failure> {
    getrandom::u64().map_err(|error| Failure::failed(format!("no random number: {error}")))
}
