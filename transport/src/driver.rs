//! One task per link: the only place that knows both `proto` and `fabric`.

use std::sync::Arc;

use crate::cause::LinkCause;
use crate::fabric::{Fabric, FabricError, Side};
use crate::host::Host;
use crate::id::NodeId;
use crate::link::Link;
use crate::profile::Profile;

/// What one side of a link tells the other before they connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Receive slots posted.
    pub(crate) ring_slots: u32,
    /// Bytes of each.
    pub(crate) slot_bytes: u32,
    /// Largest message this side takes, in bytes.
    pub(crate) message_bytes_max: u32,
    /// The fabric's own part.
    pub(crate) queue_pair: Vec<u8>,
}

/// A queue pair with its ring posted, not yet connected.
pub(crate) struct Prepared {}

/// Whom a link connects.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    /// This node.
    pub(crate) local: NodeId,
    /// The other.
    pub(crate) peer: NodeId,
}

impl Prepared {
    /// Opens a queue pair of `fabric`, allocates the link's memory and posts the whole ring.
    pub(crate) fn new(
        _fabric: &Arc<dyn Fabric>,
        _profile: &Profile,
        _side: Side,
    ) -> Result<Self, FabricError> {
        unimplemented!()
    }

    /// What the peer needs.
    pub(crate) fn offer(&self) -> Offer {
        unimplemented!()
    }

    /// Connects and starts the driver task on the current tokio runtime. The peer's offer must have
    /// been checked against the limits.
    pub(crate) async fn connect(
        self,
        _peer: Offer,
        _ends: Ends,
        _host: Arc<dyn Host>,
    ) -> Result<Running, FabricError> {
        unimplemented!()
    }
}

/// A link whose driver runs.
pub(crate) struct Running {
    /// What its senders share. Not to be used before it is confirmed.
    pub(crate) link: Arc<Link>,
}

impl Running {
    /// Waits until a full-sized CONFIRM frame went through in both directions.
    ///
    /// # Errors
    /// Why the link ended before that.
    ///
    /// # Cancel safety
    /// May be called again.
    pub(crate) async fn confirmed(&mut self) -> Result<(), LinkCause> {
        unimplemented!()
    }

    /// Waits for the end of the link: its queue pair is drained, what was pending has its fate.
    ///
    /// # Cancel safety
    /// May be called again.
    pub(crate) async fn ended(&mut self) -> LinkCause {
        unimplemented!()
    }
}
