//! Communication with other nodes: the only module that uses the transport's endpoint.
//!
//! A [`RemoteSender`] sends messages to one actor of another node. For messages from other nodes, a
//! [`Directory`] finds the actor that a peer wants to send to, and the messages go to its
//! [`Inbox`].

mod host;
mod sender;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use ringpost_transport::Endpoint;
use ringpost_transport::id::{NodeId, NodeName};
use ringpost_transport::open_request::{Called, OpenRequest};
use tokio::runtime::Handle;

use crate::address::Address;
use crate::busy::RuntimeWatchdog;
use crate::schema::ActorKind;

pub use ringpost_transport::endpoint::{
    ConnectCause, ConnectError, Encryption, FetchStats, InvalidNetwork, InvalidProfile,
    InvalidSecret, IpNetwork, Lending, LinkStats, LinkView, LoanStats, Network, PeerState,
    PeerStatus, PeerView, Profile, RingGrowth, RingStats, StartError, Unlinked, WaitStats, Waiting,
    WaitsFor,
};
pub use ringpost_transport::entropy::Entropy;
pub use ringpost_transport::fabric::one_sided::Access;
#[cfg(feature = "verbs")]
pub use ringpost_transport::fabric::verbs::{
    NoVerbs, Survey, VerbsAddress, VerbsConfig, VerbsFabric,
};

pub(crate) use host::{Directory, Observers, code, ends, signals};
pub(crate) use ringpost_transport::RemoteSender;
pub(crate) use ringpost_transport::cause::LinkCause;
pub(crate) use ringpost_transport::close_reason::CloseReason;
pub(crate) use ringpost_transport::endpoint::{
    AccessError, ArchiveFailed, Archived, Awaited, CloseNotice, Confirmation, Draft, Fetched,
    LocalShares, PendingReply, Replier, ReplyLoss, SendKind, Share, ShareHolder, ShareId,
    SharedMemory, SharedWriter, Term, Unsent, Waiter,
};
pub(crate) use ringpost_transport::endpoint::{Config, Secret, is_host_and_port, is_service};
pub(crate) use ringpost_transport::host::{
    Accepted, Deliveries, Delivery, Form, Inbox, MessageForms, OpenRefusal, Refusal, Target, Tells,
};
pub(crate) use ringpost_transport::memory::{OutOfRange, Words};
pub(crate) use ringpost_transport::note::Note;
pub(crate) use sender::{
    cause_of, closed, code_of, fate, find, lost, reason_of, signal, try_signal,
};

/// The endpoint through which this node communicates with other nodes.
pub(crate) struct NodeEndpoint {
    endpoint: Endpoint,
    host: Arc<host::ActorHost>,
}

impl NodeEndpoint {
    pub(crate) fn check(config: &Config) -> Result<(), StartError> {
        Endpoint::check(config)
    }

    pub(crate) async fn start(
        config: Config,
        directory: Arc<dyn Directory>,
        observers: Observers,
    ) -> Result<Self, StartError> {
        let watch = RuntimeWatchdog::new(config.name.to_string(), Handle::current().id());
        let host = Arc::new(host::ActorHost::new(directory, observers, watch));
        Ok(NodeEndpoint { endpoint: Endpoint::start(config, host.clone()).await?, host })
    }

    pub(crate) fn id(&self) -> &NodeId {
        self.endpoint.id()
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.endpoint.addresses()
    }

    pub(crate) fn ready(&self, count: usize) -> BoxFuture<'_, Result<(), ConnectError>> {
        Box::pin(self.endpoint.ready(count))
    }

    /// Returns the refusal by a seed that knows another live node with the name of this one, if
    /// any.
    pub(crate) fn refusal(&self) -> Option<ConnectError> {
        self.endpoint.refusal()
    }

    pub(crate) fn connect<'a>(
        &'a self,
        address: &'a str,
        within: Duration,
    ) -> BoxFuture<'a, Result<NodeId, ConnectError>> {
        Box::pin(self.endpoint.connect(address, within))
    }

    pub(crate) fn disconnect<'a>(&'a self, name: &'a NodeName) -> BoxFuture<'a, bool> {
        Box::pin(self.endpoint.disconnect(name))
    }

    pub(crate) fn linked(&self) -> Vec<NodeId> {
        self.endpoint.linked()
    }

    pub(crate) fn stats(&self) -> Vec<(NodeName, LinkStats)> {
        self.endpoint.stats()
    }

    pub(crate) fn view(&self) -> Vec<PeerView> {
        self.endpoint.view()
    }

    /// Returns true if the network has closed, or has lost the runtime of its links.
    pub(crate) fn is_closed(&self) -> bool {
        self.endpoint.is_closed()
    }

    /// Returns how long this node's runtime has not run a task, or `None` if that is not too long.
    pub(crate) fn blocked(&self) -> Option<Duration> {
        self.host.blocked()
    }

    pub(crate) fn states(&self) -> Vec<PeerState> {
        self.endpoint.states()
    }

    pub(crate) fn version(&self) -> u64 {
        self.endpoint.version()
    }

    pub(crate) fn changed(&self, seen: u64) -> BoxFuture<'static, bool> {
        Box::pin(self.endpoint.changed(seen))
    }

    pub(crate) fn shares(&self) -> LocalShares {
        self.endpoint.shares()
    }

    pub(crate) fn shared_memory(&self, node: &NodeId, share: ShareId) -> SharedMemory {
        self.endpoint.shared_memory(node, share)
    }

    pub(crate) fn leave(&self) {
        self.endpoint.leave();
    }

    pub(crate) fn ring_growth_bytes(&self) -> u64 {
        self.endpoint.ring_growth_bytes()
    }

    /// Returns a sender to the actor at `address` with the type `kind`, or `None` if no actor can
    /// have the address.
    pub(crate) fn sender(&self, address: &Address, kind: ActorKind) -> Option<RemoteSender> {
        let peer = NodeName::new(address.node()).ok()?;
        let target = host::target_of(address)?;
        let called = Called { name: address.shared_name(), kind: kind.name };
        Some(self.endpoint.remote_sender(&peer, OpenRequest { target, kind: kind.hash, called }))
    }

    pub(crate) async fn shutdown(&self, deadline: Duration) {
        self.endpoint.shutdown(deadline).await;
    }

    /// Closes at once, without a goodbye.
    #[cfg(feature = "test-kit")]
    pub(crate) fn abort(&self) {
        self.endpoint.abort();
    }
}
