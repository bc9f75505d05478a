//! The ask by which a node has an actor of its own linked to one of another node.

use super::route::accepted;
use crate::address::Address;
use crate::message;
use crate::remote::Accepted;

/// Asks an actor of another node to be linked. The runtime there answers it, with the address of a
/// tie that watches the one here.
#[message(name = "ringpost::Tether")]
#[derive(Clone)]
pub(super) struct Tether {
    /// The tie of the node that asks.
    pub(super) tie: Address,
    /// The actor that links.
    pub(super) actor: Address,
}

/// The last of the messages that each actor accepts.
pub(super) const TETHER: Accepted = accepted::<Tether, Address>();

/// The name of the actors that stand in for those of other nodes.
pub(super) const TIE: &str = "ringpost::Tie";
