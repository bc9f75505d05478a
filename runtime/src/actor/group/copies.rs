//! The copies of a message that goes to many members: clones on this node, and one archive for all
//! other nodes. A message that gained fields has an archive for each of its versions, for members
//! on nodes of earlier builds.

use std::sync::Arc;

use ringpost_transport::memory::{InvalidArchive, Payload, buffer};
use rkyv::rancor::{Error, Source};
use rkyv::util::AlignedVec;

use crate::error::Cause;
use crate::message::{Codec, Message, Wire};
use crate::node::Node;
use crate::schema::no_such_form;

/// A message that goes to many members.
pub(super) struct Copies<M> {
    message: M,
    /// Archived for the first member on another node.
    packed: Option<Result<MessageArchives<M>, Cause>>,
}

/// The copy for one member.
pub(super) enum OneCopy<M> {
    Near(M),
    Far(MessageArchives<M>),
}

/// The archives of an `M`, as a message that is only sent to other nodes. On the wire it is an `M`.
pub(super) struct MessageArchives<M> {
    /// One archive for each version of the message, newest first; most messages have one version.
    archives: Arc<[AlignedVec<16>]>,
    _message: std::marker::PhantomData<fn(M)>,
}

impl<M: Message + Wire + Clone> Copies<M> {
    pub(super) fn new(message: M) -> Self {
        Copies { message, packed: None }
    }

    /// Returns the copy for a member on this node or on another one.
    ///
    /// # Errors
    /// [`Cause::Archive`] for each member on another node, if the message cannot be archived.
    pub(super) fn of(&mut self, is_far: bool) -> Result<OneCopy<M>, Cause> {
        if !is_far {
            return Ok(OneCopy::Near(self.message.clone()));
        }
        let message = &self.message;
        let packed = self.packed.get_or_insert_with(|| MessageArchives::new(message));
        packed.clone().map(OneCopy::Far)
    }
}

impl<M: Message + Wire> MessageArchives<M> {
    fn new(message: &M) -> Result<Self, Cause> {
        let codec = const { Codec::<M>::of() };
        let forms = 0..codec.layouts.len();
        let archives = forms.map(|form| {
            let mut archive = AlignedVec::new();
            let written = (codec.encode)(message, form as u8, &mut archive);
            written.map(|()| archive).map_err(|error| Cause::Archive(error.to_string()))
        });
        let archives = archives.collect::<Result<_, _>>()?;
        Ok(MessageArchives { archives, _message: std::marker::PhantomData })
    }
}

impl<M> Clone for MessageArchives<M> {
    fn clone(&self) -> Self {
        MessageArchives { archives: self.archives.clone(), _message: std::marker::PhantomData }
    }
}

#[diagnostic::do_not_recommend]
impl<M: Message + Wire> Message for MessageArchives<M> {
    const NAME: &'static str = M::NAME;
    const ID: u128 = M::ID;
    const CODEC: Option<Codec<Self>> =
        Some(Codec { layouts: M::LAYOUTS, encode: copy::<M>, decode: no_decode::<M> });
}

fn copy<M>(packed: &MessageArchives<M>, form: u8, out: &mut AlignedVec<16>) -> Result<(), Error> {
    let archive = packed.archives.get(usize::from(form));
    let archive = archive.ok_or_else(|| Error::new(no_such_form(form)))?;
    buffer::reserve(out, archive.len());
    out.extend_from_slice(archive);
    Ok(())
}

/// Fails: the message arrives as an `M`, and never as a `MessageArchives`.
fn no_decode<M>(_: &Payload, _: &Node, _: u8) -> Result<MessageArchives<M>, InvalidArchive> {
    Err(InvalidArchive("a copy of an archive is sent and never received".into()))
}
