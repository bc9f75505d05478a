//! `View`: a message read where it arrived.

use std::fmt;
use std::ops::Deref;

use ringpost_transport::memory::{Checked, InvalidArchive, Payload};
use rkyv::util::AlignedVec;

use crate::archive;
use crate::error::Cause;
use crate::message::{Message, Wire};
use crate::node::Node;

/// The archive of an `M`, checked once. Dereferences to `M`'s archived form.
///
/// A message from another node is read in the buffer it arrived in, unless it has a map or a set
/// anywhere in it, or a field that is `opaque`, recursive or changed by `#[rkyv(..)]`, or was sent
/// in an earlier form. Such a message is read back and archived again in a buffer of its own, since
/// rkyv's check does not cover all of it; a handler that takes `M` costs less. A message that was
/// sent on this node is archived in the same way.
///
/// Archived hash maps and sets hash without a secret key: a node that chooses their keys can make
/// writing and searching one take a time that grows with the square of its size. Take them from
/// nodes that are not trusted as `M`, or use a `BTreeMap`.
///
/// A view owns its bytes: it may be kept beyond the handler and moved to other tasks. As long as it
/// lives it may hold a receive buffer of its link; [`detach`](View::detach) a view that is kept for
/// long.
pub struct View<M: Wire> {
    archive: Checked<M::Archived>,
    node: Node,
}

impl<M: Wire> View<M> {
    pub(crate) fn new(payload: Payload, node: &Node) -> Result<Self, InvalidArchive> {
        Ok(View { archive: Checked::new(payload)?, node: node.clone() })
    }

    /// Makes an `M` of it; references to actors are bound to the node it arrived at.
    ///
    /// # Panics
    /// If a field's own `Deserialize` fails on an archive that its own check found valid; those of
    /// rkyv and of this crate never do.
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

/// The form in which a handler takes a message: `M` itself or `View<M>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a message a handler can take",
    label = "expected a `#[message]` type, or `View<..>` of one",
    note = "a handler takes `M` or `View<M>`, where `M` is a `#[message]` type"
)]
pub trait Input: Sized + Send + 'static {
    /// The message.
    type Message: Message;

    /// It is the message itself.
    #[doc(hidden)]
    const IS_MESSAGE: bool = false;

    /// Takes a message that was sent on this node. Where it is the message itself, this runs
    /// nothing of a user.
    ///
    /// # Errors
    /// Why it could not be taken; the message is left then.
    #[doc(hidden)]
    fn take_local(message: &mut Option<Self::Message>, node: &Node) -> Result<Self, Cause>;

    /// As [`take_local`](Self::take_local), where it is the message itself.
    #[inline]
    #[doc(hidden)]
    fn take_at_once(_message: &mut Option<Self::Message>) -> Option<Self> {
        None
    }

    /// Takes a message that was sent on another node, in the form that has this place among its
    /// layouts. A `View` takes the bytes.
    ///
    /// # Errors
    /// [`InvalidArchive`] when the bytes are not an archive of it.
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
        // One that has no earlier form needs no code for that.
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

/// Makes a view of the value of a message: it was sent in an earlier form, and a view shows the
/// newest form; or the check does not cover all of its archive (SH-5).
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
