//! Writing, checking and reading archives: the rkyv strategies behind every message.

use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;

use ringpost_transport::limits::ARCHIVE_DEPTH_MAX;
use ringpost_transport::memory::{
    Checked, InvalidArchive, Payload, TooDeep, Unarchiver, buffer, write_root,
};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::{Error, Fallible, Source, Strategy};
use rkyv::ser::allocator::ArenaHandle;
use rkyv::ser::sharing::Share;
use rkyv::ser::{Positional, Serializer, Writer};
use rkyv::util::AlignedVec;
use rkyv::with::{ArchiveWith, DeserializeWith, SerializeWith, With};
use rkyv::{Archive, Archived, Deserialize, Place, Portable, Serialize};

use crate::node::Node;
use crate::schema::Schema;

/// The buffer that an archive is written to. It is a separate type, so that the bound on messages
/// does not name the type of the buffer.
pub struct Sink<'a> {
    buffer: &'a mut AlignedVec<16>,
}

impl Positional for Sink<'_> {
    fn pos(&self) -> usize {
        self.buffer.len()
    }
}

impl Writer<Error> for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        buffer::reserve(self.buffer, bytes.len());
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }
}

/// Archives any `PhantomData` as nothing.
#[doc(hidden)]
pub struct Phantom;

impl<T: ?Sized> ArchiveWith<PhantomData<T>> for Phantom {
    type Archived = ();
    type Resolver = ();

    fn resolve_with(_: &PhantomData<T>, (): (), _: Place<()>) {}
}

impl<T: ?Sized, S: Fallible + ?Sized> SerializeWith<PhantomData<T>, S> for Phantom {
    fn serialize_with(_: &PhantomData<T>, _: &mut S) -> Result<(), S::Error> {
        Ok(())
    }
}

impl<T: ?Sized, D: Fallible + ?Sized> DeserializeWith<(), PhantomData<T>, D> for Phantom {
    fn deserialize_with((): &(), _: &mut D) -> Result<PhantomData<T>, D::Error> {
        Ok(PhantomData)
    }
}

/// Archives a recursive field like any other, and counts the levels of nesting. Too many levels are
/// an error, because the writing thread would run out of stack.
#[doc(hidden)]
pub struct DepthLimit;

thread_local! {
    /// Number of nested recursive fields that this thread is writing.
    static LEVELS: Cell<usize> = const { Cell::new(0) };
}

/// One counted level of nesting, which ends when this guard is dropped.
struct DepthGuard;

impl DepthLimit {
    fn enter() -> Result<DepthGuard, TooDeep> {
        let levels = LEVELS.get() + 1;
        if levels >= ARCHIVE_DEPTH_MAX {
            return Err(TooDeep);
        }
        LEVELS.set(levels);
        Ok(DepthGuard)
    }
}

impl Drop for DepthGuard {
    fn drop(&mut self) {
        LEVELS.set(LEVELS.get() - 1);
    }
}

impl<T: Archive> ArchiveWith<T> for DepthLimit {
    type Archived = T::Archived;
    type Resolver = T::Resolver;

    fn resolve_with(field: &T, resolver: T::Resolver, out: Place<T::Archived>) {
        field.resolve(resolver, out);
    }
}

impl<T: Serialize<S>, S: Fallible<Error: Source> + ?Sized> SerializeWith<T, S> for DepthLimit {
    fn serialize_with(field: &T, serializer: &mut S) -> Result<T::Resolver, S::Error> {
        let _entered = DepthLimit::enter().map_err(S::Error::new)?;
        field.serialize(serializer)
    }
}

impl<T, D> DeserializeWith<T::Archived, T, D> for DepthLimit
where
    T: Archive<Archived: Deserialize<T, D>>,
    D: Fallible + ?Sized,
{
    fn deserialize_with(field: &T::Archived, deserializer: &mut D) -> Result<T, D::Error> {
        field.deserialize(deserializer)
    }
}

/// The serializer that writes archives.
pub type Ser<'a> = Strategy<Serializer<Sink<'a>, ArenaHandle<'a>, Share>, Error>;
/// The validator that checks archives.
pub type Check<'a> = rkyv::api::high::HighValidator<'a, Error>;
/// The deserializer that reads values back from archives.
pub type De<'a> = Strategy<Unarchiver<'a, Node>, Error>;

/// A deserializer that knows its node, and so can bind references to actors.
#[diagnostic::on_unimplemented(
    message = "a reference to an actor can only be deserialised by a node",
    note = "use `View::to_owned` or `Context::own` instead of `rkyv::deserialize` or \
         `rkyv::from_bytes`"
)]
pub trait InNode {
    /// Returns the node.
    fn node(&self) -> &Node;
}

impl<E> InNode for Strategy<Unarchiver<'_, Node>, E> {
    fn node(&self) -> &Node {
        self.context()
    }
}

/// Writes the archive of `value` at the end of `out`, which is empty.
pub(crate) fn write<T>(value: &T, out: &mut AlignedVec<16>) -> Result<(), Error>
where
    T: for<'a> Serialize<Ser<'a>>,
{
    with_serializer(out, &ValueRef(value))
}

/// The serializer that [`Ser`] wraps.
type RawSerializer<'a> = Serializer<Sink<'a>, ArenaHandle<'a>, Share>;

/// A value of any type, to be archived. (A closure would be compiled twice per message type of a
/// program, because a pointer to a closure can also call it as `FnOnce`.)
trait ErasedSerialize {
    fn write(&self, serializer: &mut RawSerializer<'_>) -> Result<(), Error>;
}

struct ValueRef<'a, T>(&'a T);

impl<T: for<'a> Serialize<Ser<'a>>> ErasedSerialize for ValueRef<'_, T> {
    fn write(&self, serializer: &mut RawSerializer<'_>) -> Result<(), Error> {
        match self.0.serialize(Strategy::<_, Error>::wrap(serializer)) {
            Ok(resolver) => {
                write_root(self.0, resolver, serializer.writer.buffer);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// Writes the archive of `root` to `out`. It is not generic, so it is compiled once and not per
/// message type of a program.
fn with_serializer(out: &mut AlignedVec<16>, root: &dyn ErasedSerialize) -> Result<(), Error> {
    rkyv::util::with_arena(|arena| {
        root.write(&mut Serializer::new(Sink { buffer: out }, arena.acquire(), Share::new()))
    })
}

/// Checks the archive of a `T` before it is sent, as its reader will. Only types that may be nested
/// deeply need this check, and none of those is read in place (SH-5).
pub(crate) fn check_written<T: Schema, A>(bytes: &[u8]) -> Result<(), Error>
where
    A: Portable + for<'a> CheckBytes<Check<'a>>,
{
    if const { T::IN_PLACE } { Ok(()) } else { Checked::<A>::check(bytes) }
}

/// Writes the archive of `value` in the earlier version that the type `F` describes. Generated code
/// of messages that gained fields calls it.
///
/// # Errors
/// Returns an error if a field cannot be archived.
pub fn write_as<T, F>(value: &T, out: &mut AlignedVec<16>) -> Result<(), Error>
where
    T: Schema,
    F: for<'a> SerializeWith<T, Ser<'a>>,
    F::Archived: Portable + for<'a> CheckBytes<Check<'a>>,
{
    write(With::<T, F>::cast(value), out)?;
    check_written::<T, F::Archived>(out)
}

/// Checks the bytes, and reads the value back from the earlier version that the type `F` describes.
/// Generated code of messages that gained fields calls it.
///
/// # Errors
/// Returns [`InvalidArchive`] if the bytes are not an archive of that version, or `node` is not a
/// [`Node`].
pub fn read_as<T, F>(payload: &Payload, node: &dyn Any) -> Result<T, InvalidArchive>
where
    F: ArchiveWith<T> + for<'a> DeserializeWith<F::Archived, T, De<'a>>,
    F::Archived: Portable + for<'a> CheckBytes<Check<'a>>,
{
    let node = node.downcast_ref::<Node>().ok_or_else(|| InvalidArchive("not at a node".into()))?;
    let archive = Checked::<F::Archived>::look(payload)?;
    let mut reader = Unarchiver::new(node);
    F::deserialize_with(archive, Strategy::<_, Error>::wrap(&mut reader)).map_err(unread)
}

/// Checks the bytes and reads the value back.
pub(crate) fn read<T>(payload: &Payload, node: &Node) -> Result<T, InvalidArchive>
where
    T: Archive<Archived: Portable + for<'a> CheckBytes<Check<'a>> + for<'a> Deserialize<T, De<'a>>>,
{
    // Written without combinators, because this is compiled for each message type of a program.
    match Checked::<Archived<T>>::look(payload) {
        Ok(archive) => match own::<T>(archive, node) {
            Ok(value) => Ok(value),
            Err(error) => Err(unread(error)),
        },
        Err(invalid) => Err(invalid),
    }
}

#[cold]
fn unread(error: Error) -> InvalidArchive {
    InvalidArchive(error.to_string())
}

/// Reads the value back from a checked archive. Its references to actors are bound to `node`.
pub(crate) fn own<T>(archive: &Archived<T>, node: &Node) -> Result<T, Error>
where
    T: Archive<Archived: for<'a> Deserialize<T, De<'a>>>,
{
    archive.deserialize(Strategy::<_, Error>::wrap(&mut Unarchiver::new(node)))
}
