//! The public face: a node's endpoint, and senders to the mailboxes of other nodes.

mod archive;
mod remote_sender;
mod shared_memory;
#[cfg(test)]
mod tests;
mod waiter;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::cause::LinkCause;
use crate::host::Host;
use crate::id::{NodeId, NodeName};
use crate::mesh::Mesh;
use crate::open_request::OpenRequest;

pub use crate::bootstrap::{InvalidSecret, Secret};
pub use crate::config::{Config, Encryption, Network};
pub use crate::confirm::Confirmation;
pub use crate::connect_error::{ConnectCause, ConnectError};
pub use crate::id::ShareId;
pub use crate::ip_network::{InvalidNetwork, IpNetwork};
pub use crate::link::{
    Awaited, CloseNotice, FetchStats, LinkStats, LinkView, LoanStats, PendingReply, Receipt,
    Replier, ReplyLoss, RingStats, SendKind, Unsent, WaitStats, Waiting, WaitsFor,
};
pub use crate::mesh::{PeerState, PeerStatus, PeerView, StartError, Unlinked, is_host_and_port};
pub use crate::profile::{InvalidProfile, Lending, Profile, RingGrowth};
pub use crate::shares::{Share, ShareHolder, Term};
pub use crate::wire::is_service;
pub use archive::{Archive, ArchiveFailed, Archived};
pub use remote_sender::RemoteSender;
#[cfg(test)]
pub(crate) use shared_memory::take_left;
pub use shared_memory::{AccessError, Draft, Fetched, LocalShares, SharedMemory, SharedWriter};
pub use waiter::Waiter;

/// A node's place in the network. Clones are the same endpoint.
#[derive(Clone)]
pub struct Endpoint {
    mesh: Arc<Mesh>,
}

impl Endpoint {
    /// Checks a configuration, as [`start`](Self::start) does first.
    ///
    /// # Errors
    /// [`StartError`], which names the problem.
    pub fn check(config: &Config) -> Result<(), StartError> {
        crate::mesh::check(config)
    }

    /// Starts listening and dialling the seeds; returns when it listens.
    ///
    /// The future is boxed here, so that the mesh is not compiled again in the crate that awaits
    /// it.
    ///
    /// # Errors
    /// [`StartError`] when the configuration is wrong or the address cannot be listened on.
    pub fn start(
        config: Config,
        host: Arc<dyn Host>,
    ) -> BoxFuture<'static, Result<Self, StartError>> {
        Box::pin(async move { Ok(Endpoint { mesh: Mesh::start(config, host).await? }) })
    }

    /// Returns this node.
    pub fn id(&self) -> &NodeId {
        self.mesh.id()
    }

    /// Returns the addresses it tells its peers.
    pub fn addresses(&self) -> Vec<String> {
        self.mesh.addresses()
    }

    /// Waits until `count` other nodes are linked.
    ///
    /// # Errors
    /// [`ConnectError`]: a seed finds that another live node has the name of this one.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn ready(&self, count: usize) -> Result<(), ConnectError> {
        tokio::select! {
            biased;
            () = self.mesh.ready(count) => Ok(()),
            error = self.mesh.refused() => Err(error),
        }
    }

    /// Returns the refusal of a seed at which another live node has the name of this one.
    pub fn refusal(&self) -> Option<ConnectError> {
        self.mesh.refusal()
    }

    /// Connects this node to the one at `address`, which is a seed from then on.
    ///
    /// # Errors
    /// [`ConnectError`]: at once where trying again cannot help, otherwise the last failure when
    /// the time is over.
    ///
    /// # Cancel safety
    /// When the future is dropped the address is no seed, unless it was one before.
    pub async fn connect(&self, address: &str, within: Duration) -> Result<NodeId, ConnectError> {
        self.mesh.connect(address, within).await
    }

    /// Says goodbye to a peer, and waits until its link has ended. Returns false when it was not
    /// linked.
    ///
    /// # Cancel safety
    /// The goodbye goes on when the future is dropped.
    pub async fn disconnect(&self, name: &NodeName) -> bool {
        self.mesh.disconnect(name).await
    }

    /// Returns the nodes that are linked now.
    pub fn linked(&self) -> Vec<NodeId> {
        self.mesh.linked()
    }

    /// Returns what the links to each node have carried, links that ended included. Of nodes that
    /// are gone only the last thousand or so are remembered.
    pub fn stats(&self) -> Vec<(NodeName, LinkStats)> {
        self.mesh.stats()
    }

    /// Returns what each peer looks like now, by name: its link, and what senders wait for.
    pub fn view(&self) -> Vec<PeerView> {
        self.mesh.view()
    }

    /// Returns the bytes by which the rings of all links have grown: at most what
    /// [`RingGrowth::bytes_max`] allows.
    pub fn ring_growth_bytes(&self) -> u64 {
        self.mesh.ring_growth_bytes()
    }

    /// Returns a way to a mailbox of the node `peer`. Costs nothing until something is sent.
    pub fn remote_sender(&self, peer: &NodeName, request: OpenRequest) -> RemoteSender {
        RemoteSender::new(self.mesh.peer(peer), request)
    }

    /// Returns the shares of this node: its peers use them, too.
    pub fn shares(&self) -> LocalShares {
        LocalShares(self.mesh.shares().clone())
    }

    /// Returns memory that `node` shares; its own is used without a network. Costs nothing until it
    /// is used.
    pub fn shared_memory(&self, node: &NodeId, share: ShareId) -> SharedMemory {
        if node.name == self.id().name {
            return self.shares().memory(node == self.id(), share);
        }
        SharedMemory::there(self.mesh.peer(&node.name), node.incarnation, share)
    }

    /// Returns true if it has closed, or was closed because the runtime of its links is gone.
    pub fn is_closed(&self) -> bool {
        self.mesh.is_closed()
    }

    /// Returns the state of each peer that is linked, or was and is still known, by name.
    pub fn states(&self) -> Vec<PeerState> {
        self.mesh.states()
    }

    /// Returns the version of [`states`](Self::states): read before them, it says later whether
    /// they may have changed.
    pub fn version(&self) -> u64 {
        self.mesh.version()
    }

    /// Waits until the version is another than `seen`. Returns false when it is not, and the node
    /// is closing. The wait does not keep the node alive.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub fn changed(&self, seen: u64) -> impl Future<Output = bool> + Send + use<> {
        self.mesh.changed(seen)
    }

    /// Tells all peers that this node is about to shut down: their asks of it fail at once with
    /// [`Unsent::Leaving`]. Asks that were sent before go on, and so do all links.
    pub fn leave(&self) {
        self.mesh.leave();
    }

    /// Says goodbye on every link, waits for the answers for as long as `deadline`, and closes.
    ///
    /// # Cancel safety
    /// When the future is dropped the node is closing, and its links end without having waited.
    pub fn shutdown(&self, deadline: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.mesh.shutdown(deadline))
    }

    /// Closes at once, without a goodbye.
    pub fn abort(&self) {
        self.mesh.abort(LinkCause::Shutdown);
    }
}
