//! Open requests, and the messages that a mailbox accepts.

use crate::id::Incarnation;

/// Which mailbox a peer wants to send to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenRequest {
    /// The mailbox.
    pub target: Target,
    /// What kind of mailbox the sender expects, as a hash; 0 for any.
    pub kind: u128,
}

/// A mailbox of a node: by its name, or by its identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// Whatever has this name when the mailbox is opened: 1 to 512 bytes of UTF-8.
    Name(String),
    /// Exactly this one.
    Identity {
        /// The run of the node it lives in.
        incarnation: Incarnation,
        /// Its number there, as [`Inbox::id`](crate::Inbox::id) says.
        id: u64,
    },
}

/// One message a mailbox accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Accepted {
    /// Which message.
    pub id: u128,
    /// The layout of its archive.
    pub layout: u128,
    /// The layout of its reply's archive; 0 where the reply cannot leave its node.
    pub reply: u128,
}
