//! Peers that will not be linked again soon: refused, gone, or disconnected.

use std::net::{IpAddr, SocketAddr};
use std::task::Waker;
use std::time::Duration;

use tokio::time::timeout;

use super::Peer;
use super::connection_state::{Command, ConnectionState};
use super::state::State;
use crate::cause::{LinkCause, NodeDown, NodeDownCause};

impl Peer {
    /// Returns the refusal that makes waits for a link vain: its own, or the refusal of a seed
    /// while no address of this peer is known.
    pub(super) fn refused(&self, state: &State) -> Option<NodeDown> {
        let (by, error) = self.events.seeds().refusal()?;
        let is_unknown = !state.reach.addresses.ever_known && state.reach.seeds.is_empty();
        let is_vain = is_unknown || by.as_ref() == Some(&self.name);
        is_vain.then_some(NodeDown { cause: NodeDownCause::Refused(error), down_ms: 0 })
    }

    /// Lets waits fail that a refusal has made vain.
    pub(in crate::mesh) fn fail_refused(&self) {
        let wakers = {
            let mut state = self.state.lock();
            let down = self.refused(&state).filter(|_| state.connection.link().is_none());
            down.map(|down| state.waiters.fail(&down)).unwrap_or_default()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Records that all its addresses refuse connections, one of them at the host of its last link,
    /// which was closed: its process is gone (MS-4).
    pub(in crate::mesh) fn note_gone(&self) {
        let wakers = {
            let mut state = self.state.lock();
            state.lose_gone(self)
        };
        wakers.into_iter().for_each(Waker::wake);
        self.events.tell();
    }

    /// Returns true if its last link was closed without a goodbye, and was with the host of this
    /// address.
    pub(in crate::mesh) fn was_closed_at(&self, address: &str) -> bool {
        let closed_at = self.state.lock().closed_at;
        closed_at.is_some() && closed_at == host_of(address)
    }

    /// Says goodbye to it, and waits until its link has ended: `limit` at most for the answer.
    /// Returns false when it was not linked.
    ///
    /// # Cancel safety
    /// The goodbye goes on when the future is dropped.
    pub(in crate::mesh) async fn disconnect(&self, limit: Duration) -> bool {
        let ConnectionState::Linked(owner, link) = self.state.lock().connection.clone() else {
            return false;
        };
        let _ = owner.commands.send(Command::Disconnect);
        if timeout(limit, owner.gone()).await.is_err() {
            link.close(LinkCause::Disconnected);
            owner.gone().await;
        }
        true
    }
}

/// Returns the host of an address, where that is an IP address.
pub(super) fn host_of(address: &str) -> Option<IpAddr> {
    address.parse::<SocketAddr>().ok().map(|address| address.ip().to_canonical())
}
