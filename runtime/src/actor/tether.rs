//! The request by which a node links one of its actors to an actor of another node.

use super::route::{Label, forms};
use crate::address::Address;
use crate::busy::Duty;
use crate::message;
use crate::message::Message;
use crate::remote::MessageForms;

/// Asks for a link to an actor of another node. The runtime there answers with the address of a
/// tie, which watches the tie here.
#[message(name = "ringpost::Tether")]
#[derive(Clone)]
pub(super) struct Tether {
    /// The tie of the node that asks.
    pub(super) tie: Address,
    /// The actor that links.
    pub(super) actor: Address,
}

/// The row that each actor accepts after its own messages.
pub(super) const TETHER: MessageForms = forms::<Tether, Address>();

/// The label of a tether, for dead letters and the log.
pub(super) const LABEL: &Label =
    &Label { id: Tether::ID, duty: Duty::handles("the runtime", Tether::NAME), waits: false };
