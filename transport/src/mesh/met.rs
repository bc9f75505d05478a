//! A bootstrap connection whose two nodes have proven themselves.

use crate::bootstrap::{Channel, Hello};
use crate::fabric::Side;

/// A connection of two proven nodes.
pub(super) struct Met {
    /// What carries their messages.
    pub(super) channel: Channel,
    /// Who the peer is.
    pub(super) hello: Hello,
    /// Who dialled.
    pub(super) side: Side,
}
