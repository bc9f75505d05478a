//! Values that cross between ranks as rkyv archives.

use ringpost::rkyv;
use rkyv::api::high::{HighDeserializer, HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Deserialize, Serialize};

use crate::error::WorldError;

/// A value that ranks can send each other: what `#[message]` or rkyv's derives are on, numbers,
/// strings and collections. A reference to an actor, or a region, is none: it is bound to a node,
/// and goes in a message of an actor.
pub trait Value:
    Sized
    + Archive<
        Archived: for<'a> CheckBytes<HighValidator<'a, Error>>
                      + Deserialize<Self, HighDeserializer<Error>>,
    > + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Error>>
    + Send
    + 'static
{
}

impl<V> Value for V where
    V: Archive<
            Archived: for<'a> CheckBytes<HighValidator<'a, Error>>
                          + Deserialize<V, HighDeserializer<Error>>,
        > + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Error>>
        + Send
        + 'static
{
}

/// Returns the archive of a value.
pub(crate) fn write<V: Value>(value: &V) -> Result<AlignedVec, WorldError> {
    rkyv::to_bytes::<Error>(value).map_err(|error| WorldError::Archive(error.to_string()))
}

/// Checks an archive and reads the value back.
pub(crate) fn read<V: Value>(bytes: &AlignedVec) -> Result<V, WorldError> {
    rkyv::from_bytes::<V, Error>(bytes).map_err(|error| WorldError::Archive(error.to_string()))
}

/// Returns bytes that an archive can be read from.
pub(crate) fn buffer(bytes: usize) -> AlignedVec {
    let mut buffer = AlignedVec::new();
    buffer.resize(bytes, 0);
    buffer
}

/// Returns the value of an archive that may lie anywhere.
pub(crate) fn read_unaligned<V: Value>(bytes: &[u8]) -> Result<V, WorldError> {
    let mut aligned = AlignedVec::with_capacity(bytes.len());
    aligned.extend_from_slice(bytes);
    read(&aligned)
}
