//! The one connection that a peer may have, and what may be asked of the task that owns it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::bootstrap::Message;
use crate::cause::LinkCause;
use crate::id::Incarnation;
use crate::limits;
use crate::link::LinkHandle;

/// A peer's connection (MS-1: at most one).
#[derive(Clone)]
pub(in crate::mesh) enum ConnectionState {
    /// There is none.
    None,
    /// One was chosen and is being made into a link.
    Joining(Owner),
    /// There is a link.
    Linked(Owner, Arc<LinkHandle>),
}

/// The task that owns a peer's connection.
#[derive(Clone)]
pub(in crate::mesh) struct Owner {
    /// The run of the peer it talks to.
    pub(in crate::mesh) incarnation: Incarnation,
    /// Silence that it asks others to bear, bounded.
    pub(in crate::mesh) asked: Duration,
    /// The host that the connection is with, where that is an IP address.
    pub(in crate::mesh) host: Option<IpAddr>,
    /// Closed when the connection is given up and the peer has none.
    pub(in crate::mesh) commands: mpsc::UnboundedSender<Command>,
}

/// A command to that task.
pub(in crate::mesh) enum Command {
    /// Ask the peer for a sign of life, and say when it comes.
    Probe(oneshot::Sender<()>),
    /// Send this, when there is a link.
    Send(Message),
    /// Say goodbye on the link.
    Disconnect,
    /// Stop making a link.
    Abandon,
}

impl Owner {
    /// Returns true if the peer gives a sign of life within `DUPLICATE_PROBE_TIMEOUT`.
    pub(in crate::mesh) async fn answers(&self) -> bool {
        let (answer, answered) = oneshot::channel();
        // A command that the owner does not take any more drops its sender: no answer.
        let _ = self.commands.send(Command::Probe(answer));
        matches!(timeout(limits::DUPLICATE_PROBE_TIMEOUT, answered).await, Ok(Ok(())))
    }

    /// Waits until the connection is given up.
    pub(in crate::mesh) async fn gone(&self) {
        self.commands.closed().await;
    }
}

impl ConnectionState {
    /// Returns the link, if it is up and has not ended.
    pub(in crate::mesh) fn link(&self) -> Option<&Arc<LinkHandle>> {
        match self {
            ConnectionState::Linked(_, link) if !link.has_ended() => Some(link),
            _ => None,
        }
    }

    /// Asks for the end of the connection.
    pub(in crate::mesh) fn close(&self, cause: LinkCause) {
        match self {
            ConnectionState::None => {}
            ConnectionState::Joining(owner) => {
                let _ = owner.commands.send(Command::Abandon);
            }
            ConnectionState::Linked(_, link) => link.close(cause),
        }
    }
}
