//! The request by which a node links one of its actors to an actor of another node.

use super::route::{Label, forms};
use crate::address::Address;
use crate::busy::HandlerInfo;
use crate::message;
use crate::message::Message;
use crate::remote::MessageForms;

/// Asks for a link to an actor of another node. Each node has a tie, an actor that stands in for
/// the linked actor of the other node. The runtime answers with the address of its tie, which
/// watches the tie of the asking node.
#[message(name = "ringpost::Tether")]
#[derive(Clone)]
pub(crate) struct Tether {
    /// The tie of the node that asks.
    pub(crate) tie: Address,
    /// The actor that asks for the link.
    pub(crate) actor: Address,
}

/// The id and the layouts of the link request, which each actor accepts after its own messages.
pub(crate) const TETHER: MessageForms = forms::<Tether, Address>();

/// The label of a link request, for dead letters and the log.
pub(crate) const LABEL: &Label = &Label {
    id: Tether::ID,
    duty: HandlerInfo::handles("the runtime", Tether::NAME),
    waits: false,
};
