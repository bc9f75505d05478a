//! Who is connected to whom.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::cause::{LinkCause, NodeDownCause};
use crate::config::Config;
use crate::host::Host;
use crate::id::{NodeId, NodeName};
use crate::link::{Link, LinkStats};

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {}

/// All peers of a node.
pub(crate) struct Mesh {}

impl Mesh {
    pub(crate) async fn start(
        _config: Config,
        _host: Arc<dyn Host>,
    ) -> Result<Arc<Mesh>, StartError> {
        unimplemented!()
    }
    pub(crate) fn id(&self) -> &NodeId {
        unimplemented!()
    }
    pub(crate) fn addresses(&self) -> Vec<String> {
        unimplemented!()
    }
    pub(crate) async fn ready(&self, _count: usize) {
        unimplemented!()
    }
    pub(crate) fn linked(&self) -> Vec<NodeId> {
        unimplemented!()
    }
    pub(crate) fn stats(&self) -> Vec<(NodeName, LinkStats)> {
        unimplemented!()
    }
    /// The peer of this name; made when it was never heard of.
    pub(crate) fn peer(&self, _name: &NodeName) -> Arc<Peer> {
        unimplemented!()
    }
    pub(crate) async fn shutdown(&self, _deadline: Duration) {
        unimplemented!()
    }
    pub(crate) fn abort(&self, _cause: LinkCause) {
        unimplemented!()
    }
}

/// One peer: its link, or the search for one.
pub(crate) struct Peer {}

impl Peer {
    pub(crate) fn name(&self) -> &NodeName {
        unimplemented!()
    }
    /// The link there is now, if it is up.
    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        unimplemented!()
    }
    /// Waits for a link, having one made when there is none; fails when the node is down (nothing
    /// heard for `down_after` since the later of its last sign of life and the first of these calls).
    /// `ticket` is the caller's place among those that wait; give the same one to each poll.
    pub(crate) fn poll_link(
        &self,
        _ticket: &mut Option<u64>,
        _cx: &mut Context<'_>,
    ) -> Poll<Result<Arc<Link>, NodeDownCause>> {
        unimplemented!()
    }
    /// Gives up a place among those that wait.
    pub(crate) fn forget(&self, _ticket: u64) {
        unimplemented!()
    }
    /// Has a link made when there is none, without waiting.
    pub(crate) fn want_link(&self) {
        unimplemented!()
    }
}
