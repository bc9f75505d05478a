//! The ask by which a node has an actor of its own linked to one of another node.

use super::route::{Label, forms};
use crate::address::Address;
use crate::busy::Duty;
use crate::message;
use crate::message::Message;
use crate::remote::MessageForms;

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

/// What each actor accepts after its own messages.
pub(super) const TETHER: MessageForms = forms::<Tether, Address>();

/// The same, for dead letters and the log.
pub(super) const LABEL: &Label =
    &Label { id: Tether::ID, duty: Duty::handles("the runtime", Tether::NAME) };

/// The name of the actors that stand in for those of other nodes.
pub(super) const TIE: &str = "ringpost::Tie";
