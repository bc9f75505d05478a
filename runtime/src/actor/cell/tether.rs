//! The request by which a node links one of its actors to an actor of another node.

use super::route::{Label, forms};
use crate::address::Address;
use crate::busy::HandlerInfo;
use crate::message;
use crate::message::Message;
use crate::remote::MessageForms;

/// Asks for a link to an actor of another node. The runtime there answers with the address of a
/// tie, which watches the tie here.
#[message(name = "ringpost::Tether")]
#[derive(Clone)]
pub(crate) struct Tether {
    /// The tie of the node that asks.
    pub(crate) tie: Address,
    /// The actor that links.
    pub(crate) actor: Address,
}

/// The row that each actor accepts after its own messages.
pub(crate) const TETHER: MessageForms = forms::<Tether, Address>();

/// The label of a tether, for dead letters and the log.
pub(crate) const LABEL: &Label = &Label {
    id: Tether::ID,
    duty: HandlerInfo::handles("the runtime", Tether::NAME),
    waits: false,
};
