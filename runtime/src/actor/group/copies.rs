//! The copies of a message that goes to many: clones on this node, one archive for all others; of a
//! message that gained fields one in each of its forms (SH-4), for members of nodes of earlier
//! builds.

use std::sync::Arc;

use ringpost_transport::memory::{InvalidArchive, Payload, buffer};
use rkyv::rancor::{Error, Source};
use rkyv::util::AlignedVec;

use crate::error::Cause;
use crate::message::{Codec, Message, Wire};
use crate::mutants::planted;
use crate::node::Node;
use crate::schema::no_such_form;

/// A message that goes to many.
pub(super) struct Copies<M> {
    message: M,
    /// Made for the first member of another node (GR-5).
    packed: Option<Result<Packed<M>, Cause>>,
}

/// What one member is told.
pub(super) enum OneCopy<M> {
    Near(M),
    Far(Packed<M>),
}

/// The archives of an `M`, as a message: on the wire it is an `M`, and it is sent to other nodes
/// only.
pub(super) struct Packed<M> {
    /// One in each form, newest first: of most messages one.
    archives: Arc<[AlignedVec<16>]>,
    _message: std::marker::PhantomData<fn(M)>,
}

impl<M: Message + Wire + Clone> Copies<M> {
    pub(super) fn new(message: M) -> Self {
        Copies { message, packed: None }
    }

    /// Returns the copy for a member of this node, or of another one.
    ///
    /// # Errors
    /// [`Cause::Archive`] for all members of other nodes, if the message has no archive.
    pub(super) fn of(&mut self, is_far: bool) -> Result<OneCopy<M>, Cause> {
        if !is_far {
            return Ok(OneCopy::Near(self.message.clone()));
        }
        let message = &self.message;
        if planted!(ArchivedEach) {
            self.packed = None;
        }
        let packed = self.packed.get_or_insert_with(|| Packed::new(message));
        packed.clone().map(OneCopy::Far)
    }
}

impl<M: Message + Wire> Packed<M> {
    fn new(message: &M) -> Result<Self, Cause> {
        let codec = const { Codec::<M>::of() };
        let forms = 0..codec.layouts.len();
        let archives = forms.map(|form| {
            let mut archive = AlignedVec::new();
            let written = (codec.encode)(message, form as u8, &mut archive);
            written.map(|()| archive).map_err(|error| Cause::Archive(error.to_string()))
        });
        let archives = archives.collect::<Result<_, _>>()?;
        Ok(Packed { archives, _message: std::marker::PhantomData })
    }
}

impl<M> Clone for Packed<M> {
    fn clone(&self) -> Self {
        Packed { archives: self.archives.clone(), _message: std::marker::PhantomData }
    }
}

#[diagnostic::do_not_recommend]
impl<M: Message + Wire> Message for Packed<M> {
    const NAME: &'static str = M::NAME;
    const ID: u128 = M::ID;
    const CODEC: Option<Codec<Self>> =
        Some(Codec { layouts: M::LAYOUTS, encode: copy::<M>, decode: no_decode::<M> });
}

fn copy<M>(packed: &Packed<M>, form: u8, out: &mut AlignedVec<16>) -> Result<(), Error> {
    let archive = packed.archives.get(usize::from(form));
    let archive = archive.ok_or_else(|| Error::new(no_such_form(form)))?;
    buffer::reserve(out, archive.len());
    out.extend_from_slice(archive);
    Ok(())
}

/// It arrives as an `M`.
fn no_decode<M>(_: &Payload, _: &Node, _: u8) -> Result<Packed<M>, InvalidArchive> {
    Err(InvalidArchive("a copy of an archive is sent and never received".into()))
}
