//! `View`: a message read where it arrived.

use std::fmt;
use std::ops::Deref;

use ringpost_transport::memory::{Checked, InvalidArchive, Payload};
use rkyv::util::AlignedVec;

use crate::archive;
use crate::error::Cause;
use crate::message::{Message, Wire};
use crate::node::Node;

/// The archive of an `M`, checked once. It dereferences to the archived type of `M`.
///
/// A message from another node is read in the buffer where it arrived. The exceptions are messages
/// with a map or a set anywhere in them, or a field that is `opaque`, recursive or changed by
/// `#[rkyv(..)]`, and messages in an earlier version. rkyv's check does not cover all of these, so
/// they are read back and archived again in a separate buffer; for them a handler that takes `M`
/// costs less. A message that was sent on this node is archived in the same way.
///
/// Archived hash maps and sets hash without a secret key: a node that chooses their keys can make
/// writing and searching one take time quadratic in its size. From untrusted nodes, take them as
/// `M`, or use a `BTreeMap`.
///
/// A view owns its bytes, so it may outlive the handler and move to other tasks. While it lives, it
/// may hold a receive buffer of its link, and so the part of the receive ring that was allocated
/// with that buffer, even after the link has ended: by default 0.4 MB, or up to 8.7 MB of a ring
/// that has grown. [`detach`](View::detach) a view that you keep for long.
pub struct View<M: Wire> {
    archive: Checked<M::Archived>,
    node: Node,
}

impl<M: Wire> View<M> {
    pub(crate) fn new(payload: Payload, node: &Node) -> Result<Self, InvalidArchive> {
        Ok(View { archive: Checked::new(payload)?, node: node.clone() })
    }

    /// Returns the message as an `M`. Its references to actors are bound to the node where it
    /// arrived.
    ///
    /// # Panics
    /// Panics if a field's own `Deserialize` fails on an archive that its own check found valid;
    /// the implementations of rkyv and of this crate never do.
    pub fn to_owned(&self) -> M {
        archive::own::<M>(&self.archive, &self.node)
            .expect("a field's `Deserialize` refuses what its own `CheckBytes` accepted")
    }

    /// Copies the archive out of the receive buffer, so that the buffer returns to its link.
    pub fn detach(self) -> Self {
        View { archive: self.archive.detach(), node: self.node }
    }
}

impl<M: Wire> Deref for View<M> {
    type Target = M::Archived;
    fn deref(&self) -> &M::Archived {
        &self.archive
    }
}

impl<M: Wire<Archived: fmt::Debug>> fmt::Debug for View<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.archive.fmt(f)
    }
}

/// The type in which a handler takes a message: `M` itself or `View<M>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a message a handler can take",
    label = "expected a `#[message]` type, or `View<..>` of one",
    note = "a handler takes `M` or `View<M>`, where `M` is a `#[message]` type"
)]
pub trait Input: Sized + Send + 'static {
    /// The message.
    type Message: Message;

    /// True for `M`, and false for `View<M>`.
    #[doc(hidden)]
    const IS_MESSAGE: bool = false;

    /// Makes the input of a message that was sent on this node. For `M`, this runs no code of a
    /// user.
    ///
    /// # Errors
    /// Returns the cause if this fails; then `message` still contains the message.
    #[doc(hidden)]
    fn take_local(message: &mut Option<Self::Message>, node: &Node) -> Result<Self, Cause>;

    /// Like [`take_local`](Self::take_local), but only for `M`: returns `None` for a `View`.
    #[inline]
    #[doc(hidden)]
    fn take_at_once(_message: &mut Option<Self::Message>) -> Option<Self> {
        None
    }

    /// Makes the input of a message that another node sent in the version whose layout is
    /// `LAYOUTS[form]`. A `View` that is read where it arrived takes the bytes out of `payload`.
    ///
    /// # Errors
    /// Returns [`InvalidArchive`] if the bytes are not an archive of the message.
    #[doc(hidden)]
    fn from_remote(payload: &mut Payload, node: &Node, form: u8) -> Result<Self, InvalidArchive>;
}

#[diagnostic::do_not_recommend]
impl<M: Message> Input for M {
    type Message = M;

    const IS_MESSAGE: bool = true;

    #[inline]
    fn take_local(message: &mut Option<M>, _node: &Node) -> Result<M, Cause> {
        message.take().ok_or(Cause::NotAccepted)
    }

    #[inline]
    fn take_at_once(message: &mut Option<M>) -> Option<M> {
        message.take()
    }

    fn from_remote(payload: &mut Payload, node: &Node, form: u8) -> Result<M, InvalidArchive> {
        match M::CODEC {
            Some(codec) => (codec.decode)(payload, node, form),
            None => Err(stays()),
        }
    }
}

impl<M: Message + Wire> Input for View<M> {
    type Message = M;

    fn take_local(message: &mut Option<M>, node: &Node) -> Result<Self, Cause> {
        let Some(taken) = message else { return Err(Cause::NotAccepted) };
        let mut bytes = AlignedVec::new();
        archive::write(taken, &mut bytes).map_err(|error| Cause::Archive(error.to_string()))?;
        let view = View::new(Payload::owned(bytes), node);
        let view = view.map_err(|error| Cause::Archive(error.0))?;
        *message = None;
        Ok(view)
    }

    fn from_remote(payload: &mut Payload, node: &Node, form: u8) -> Result<Self, InvalidArchive> {
        // A message without earlier versions needs no code for them.
        if const { M::IN_PLACE && M::LAYOUTS.len() == 1 } || const { M::IN_PLACE } && form == 0 {
            View::new(payload.take(), node)
        } else {
            of_value(payload, node, form)
        }
    }
}

#[cold]
fn stays() -> InvalidArchive {
    InvalidArchive("this message does not cross nodes".into())
}

/// Reads a message back, and creates a view of a new archive. This is needed if the message was
/// sent in an earlier version, while views show the newest, or if rkyv's check does not cover all
/// of its archive (SH-5).
fn of_value<M: Message + Wire>(
    payload: &Payload,
    node: &Node,
    form: u8,
) -> Result<View<M>, InvalidArchive> {
    let Some(codec) = M::CODEC else { return Err(stays()) };
    let message = (codec.decode)(payload, node, form)?;
    View::take_local(&mut Some(message), node).map_err(|cause| InvalidArchive(cause.to_string()))
}

#[cfg(test)]
mod tests;
