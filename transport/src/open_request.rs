//! Open requests, and the messages that a mailbox accepts.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::id::Incarnation;

/// Which mailbox a peer wants to send to.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// The mailbox.
    pub target: Target,
    /// The kind of mailbox that the sender expects, as a hash; 0 for any.
    pub kind: u128,
    /// Its names, for people. They stay on this node, and are no part of equality.
    pub called: Called,
}

/// The names of a mailbox of another node, as far as its sender knows them.
#[derive(Debug, Clone, Default)]
pub struct Called {
    /// Its name there.
    pub name: Option<Arc<str>>,
    /// The name of its kind; empty where the sender expects any.
    pub kind: &'static str,
}

impl OpenRequest {
    /// A request of which people know no more than the peer.
    pub fn new(target: Target, kind: u128) -> Self {
        OpenRequest { target, kind, called: Called::default() }
    }
}

impl PartialEq for OpenRequest {
    fn eq(&self, other: &Self) -> bool {
        (&self.target, self.kind) == (&other.target, other.kind)
    }
}

impl Eq for OpenRequest {}

impl Hash for OpenRequest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.target, self.kind).hash(state);
    }
}

impl fmt::Display for OpenRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.called.name, &self.target) {
            (Some(name), _) => f.write_str(name),
            (None, Target::Name(name)) => f.write_str(name),
            (None, Target::Identity { id, .. }) => {
                write!(f, "{}#{}.{}", self.called.kind, *id as u32, id >> 32)
            }
        }
    }
}

/// A mailbox of a node: by its name, or by its identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// The mailbox that has this name when it is opened: 1 to 512 bytes of UTF-8.
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
