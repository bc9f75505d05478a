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

/// One form of a message that a mailbox accepts. A message that it accepts in several forms has as
/// many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Accepted {
    /// Which message.
    pub id: u128,
    /// The layout of its archive.
    pub layout: u128,
    /// The layout of its reply's archive; 0 where the reply cannot leave its node.
    pub reply: u128,
}

/// A message as one build knows it: the layouts in which it writes and reads it and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageForms {
    /// Which message.
    pub id: u128,
    /// The layouts of its archive, newest first; none where it cannot leave its node.
    pub layouts: &'static [u128],
    /// The layouts of its reply's archive, newest first; none where the reply cannot leave its
    /// node.
    pub replies: &'static [u128],
}

/// A form of a message and its reply: the places of their layouts in [`MessageForms`], 0 for the
/// newest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Form {
    /// Place of the layout of the message.
    pub message: u8,
    /// Place of the layout of its reply.
    pub reply: u8,
}

impl MessageForms {
    /// No message: what signals and look-ups carry.
    pub const NONE: MessageForms = MessageForms { id: 0, layouts: &[], replies: &[] };

    /// Returns the row of its newest form.
    pub const fn newest(&self) -> Accepted {
        self.row(Form { message: 0, reply: 0 })
    }

    /// Returns the number of its forms; at least 1.
    pub const fn count(&self) -> usize {
        let (layouts, replies) = (self.layouts.len(), self.replies.len());
        (if layouts == 0 { 1 } else { layouts }) * (if replies == 0 { 1 } else { replies })
    }

    /// Returns its forms, newest first.
    pub fn forms(&self) -> impl Iterator<Item = Form> + use<> {
        let replies = self.replies.len().max(1);
        let form = move |at| Form { message: (at / replies) as u8, reply: (at % replies) as u8 };
        (0..self.count()).map(form)
    }

    /// Returns true if a row is one of its forms.
    pub fn has(&self, row: &Accepted) -> bool {
        row.id == self.id && self.layouts.contains(&row.layout) && self.replies.contains(&row.reply)
    }

    /// Returns the row of a form; layouts that it does not have are 0.
    pub const fn row(&self, form: Form) -> Accepted {
        let (message, reply) = (form.message as usize, form.reply as usize);
        Accepted {
            id: self.id,
            layout: if message < self.layouts.len() { self.layouts[message] } else { 0 },
            reply: if reply < self.replies.len() { self.replies[reply] } else { 0 },
        }
    }
}
