//! The receivers of a link's events.

use std::sync::Arc;

use crate::cause::Fate;
use crate::host::{Host, Lost};
use crate::id::{NodeId, NodeName};
use crate::memory::Budget;
use crate::unresolved::{UnackedTell, Unresolved};

/// The receivers of a link's events: the host, and the state that the node keeps of its peer.
/// Created by the session, before the driver.
pub(crate) struct Reports {
    /// The node at the other end.
    pub(crate) peer: NodeId,
    /// The layer above.
    pub(crate) host: Arc<dyn Host>,
    /// The memory that the links of this node share when their rings grow.
    pub(crate) budget: Arc<Budget>,
    /// Messages, reports and accounts that outlive the link.
    pub(crate) unresolved: Arc<Unresolved>,
    /// The link's number there: the same on both sides, and no other link's.
    pub(crate) epoch: u64,
}

impl Reports {
    pub(super) fn settle(&self, tell: UnackedTell, fate: Result<(), Fate>) {
        settle(&*self.host, &self.peer.name, tell, fate);
    }
}

/// Reports the fate of a tell to the sender that waits for it, and to the layer above when it is
/// lost. (Signals have none: their message is 0.)
pub(crate) fn settle(host: &dyn Host, peer: &NodeName, tell: UnackedTell, fate: Result<(), Fate>) {
    if let (Err(fate), 1..) = (fate, tell.message) {
        let target = tell.request.target.clone();
        host.lost(Lost { peer: peer.clone(), target, message: tell.message, fate });
    }
    if let Some(confirm) = tell.confirm {
        confirm.tell(fate);
    }
}
