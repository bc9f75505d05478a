//! What one node asks of another to link an actor of its own to one of that node.

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
