//! Descriptions of nodes, which the environment completes, and their first link.

use std::time::Duration;

use ringpost::net::ConnectCause;
use ringpost::{Node, NodeBuilder, Peer};
use tokio::time::Instant;

use crate::failure::Failure;

/// The longest wait for another node that is there and slow: a machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Describes a node by the environment.
///
/// # Errors
/// A variable is wrong.
pub(crate) fn described() -> Result<NodeBuilder, Failure> {
    let builder = Node::from_env()?;
    match std::env::var_os("RINGPOST_ASK_TIMEOUT") {
        Some(_) => Ok(builder),
        None => Ok(builder.ask_timeout(PATIENCE)),
    }
}

/// Describes a node by the environment, with an invented name that begins so.
///
/// # Errors
/// A variable is wrong, or the system gives no random number.
pub(crate) fn invented(prefix: &str) -> Result<NodeBuilder, Failure> {
    Ok(described()?.name(format!("{prefix}-{:016x}", random()?)))
}

/// Links a node to the node at an address. Tries again while that answers too late or breaks off:
/// it may be busy.
///
/// # Errors
/// Nothing listens there, it refuses, or it was busy for [`PATIENCE`].
pub(crate) async fn link(node: &Node, address: &str) -> Result<Peer, Failure> {
    let until = Instant::now() + PATIENCE;
    let is_busy = |cause| matches!(cause, ConnectCause::NoAnswer | ConnectCause::Failed);
    loop {
        match node.connect(address).await {
            Err(error) if is_busy(error.cause) && Instant::now() < until => {}
            linked => return Ok(linked?),
        }
    }
}

/// Starts a node that is linked to the node at an address.
///
/// # Errors
/// The node cannot start, and the errors of [`link`].
pub(crate) async fn start_linked(
    builder: NodeBuilder,
    address: &str,
) -> Result<(Node, Peer), Failure> {
    let node = builder.seeds([address]).start().await?;
    let linked = link(&node, address).await;
    if linked.is_err() {
        node.shutdown(Duration::ZERO).await;
    }
    Ok((node, linked?))
}

/// Returns a random number.
///
/// # Errors
/// The system gives none.
pub(crate) fn random() -> Result<u64, Failure> {
    getrandom::u64().map_err(|error| Failure::failed(format!("no random number: {error}")))
}
