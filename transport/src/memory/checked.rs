//! Bytes that arrived, and archives found in them.
#![allow(unsafe_code, reason = "reads an archive in place after it was checked (ME-4)")]

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::ops::{Deref, Range};

use rkyv::Portable;
use rkyv::api::high::HighValidator;
use rkyv::bytecheck::{CheckBytes, Verify};
use rkyv::rancor::{Error, Fallible, Source};
use rkyv::validation::Validator;
use rkyv::validation::archive::ArchiveValidator;
use rkyv::validation::shared::SharedValidator;

use super::buffer::{self, Buffer};
use super::pool::Lease;
use crate::limits;

/// The bytes of one message, 16-byte aligned: in the receive slot they arrived in, or copied out.
/// Only ever read. Owns what it points to: `Send + 'static`.
#[derive(Debug)]
pub struct Payload(Place);

#[derive(Debug)]
enum Place {
    Leased { lease: Lease, range: Range<u32> },
    Owned(Buffer),
}

impl Payload {
    /// Creates a payload that is a part of a leased slot. `range` lies inside the lease and starts
    /// 16-byte aligned.
    pub fn leased(lease: Lease, range: Range<usize>) -> Self {
        assert!(range.start.is_multiple_of(16) && range.end <= lease.len());
        Payload(Place::Leased { lease, range: range.start as u32..range.end as u32 })
    }

    /// Creates a payload with bytes of its own.
    pub fn owned(bytes: impl Into<Buffer>) -> Self {
        Payload(Place::Owned(bytes.into()))
    }

    /// Copies the bytes out of the receive slot, so that the slot returns to its link.
    pub fn detach(self) -> Self {
        match self.0 {
            Place::Owned(_) => self,
            Place::Leased { .. } => {
                let mut copy = buffer::take(self.len());
                copy.extend_from_slice(&self);
                Payload(Place::Owned(copy.into()))
            }
        }
    }

    /// Returns true if the bytes still lie in a receive slot.
    pub fn is_leased(&self) -> bool {
        matches!(self.0, Place::Leased { .. })
    }
}

impl Deref for Payload {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Leased { lease, range } => &lease[range.start as usize..range.end as usize],
            Place::Owned(bytes) => bytes,
        }
    }
}

/// The error of bytes that are not an archive of the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid archive: {0}")]
pub struct InvalidArchive(pub String);

/// An archive of type `T` in a [`Payload`], validated once; dereferences to it in place (ME-4).
pub struct Checked<T> {
    payload: Payload,
    _archive: PhantomData<T>,
}

impl<T> Checked<T>
where
    T: Portable + for<'a> CheckBytes<HighValidator<'a, Error>>,
{
    /// Validates the bytes as an archive whose root, of type `T`, ends at the end of the payload,
    /// and which has fewer than `ARCHIVE_DEPTH_MAX` levels, each behind a pointer in the one
    /// before: code that follows them, as this check does, needs stack for each.
    ///
    /// # Errors
    /// [`InvalidArchive`], with what the check found, when they are not.
    pub fn new(payload: Payload) -> Result<Self, InvalidArchive> {
        with_validator(&payload, &mut |bytes, validator| {
            rkyv::api::access_with_context::<T, _, Error>(bytes, validator).map(|_| ())
        })?;
        Ok(Checked { payload, _archive: PhantomData })
    }

    /// Copies the archive out of the receive slot, so that the slot returns to its link.
    pub fn detach(self) -> Self {
        Checked { payload: self.payload.detach(), _archive: PhantomData }
    }

    /// Returns true if the archive still lies in the receive slot it arrived in.
    pub fn is_leased(&self) -> bool {
        self.payload.is_leased()
    }
}

/// Checks bytes as one type of archive.
type Access<'f> = &'f mut dyn FnMut(
    &[u8],
    &mut Validator<ArchiveValidator<'_>, SharedValidator>,
) -> Result<(), Error>;

/// Not generic: it is compiled once, and not for each message of a program.
fn with_validator(bytes: &[u8], access: Access<'_>) -> Result<(), InvalidArchive> {
    let depth = NonZeroUsize::new(limits::ARCHIVE_DEPTH_MAX);
    let archive = ArchiveValidator::with_max_depth(bytes, depth);
    let mut validator = Validator::new(archive, SharedValidator::new());
    access(bytes, &mut validator).map_err(|e| InvalidArchive(e.to_string()))
}

impl<T: Portable> Deref for Checked<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: `new` validated these very bytes as a `T`, and a payload is never written while
        // it lives (ME-3, ME-4); moving a `Checked` does not move the bytes.
        unsafe { rkyv::access_unchecked::<T>(&self.payload) }
    }
}

impl<T: Portable + fmt::Debug> fmt::Debug for Checked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The part of an archive about which its own type has more to say than that it is one.
pub trait Inspect {
    /// Why it is not accepted.
    type Refusal: std::error::Error + Send + Sync + 'static;

    /// Looks at a part that is an archive of the type.
    ///
    /// # Errors
    /// Why the bytes are not accepted.
    fn inspect(&self) -> Result<(), Self::Refusal>;
}

/// A part of an archive that is [inspected](Inspect) whenever the archive is checked.
#[derive(Portable, CheckBytes)]
#[bytecheck(crate = rkyv::bytecheck, verify)]
#[repr(transparent)]
pub struct Inspected<T: Inspect>(pub T);

// SAFETY: no unsafe code relies on what is found (ME-4): any `T` that was checked is a valid one.
unsafe impl<T: Inspect, C: Fallible<Error: Source> + ?Sized> Verify<C> for Inspected<T> {
    fn verify(&self, _: &mut C) -> Result<(), C::Error> {
        self.0.inspect().map_err(C::Error::new)
    }
}

#[cfg(test)]
mod tests {
    use rkyv::util::AlignedVec;

    use super::*;
    use crate::memory::{Pool, Region};

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn an_archive_is_read_where_it_arrived_and_after_it_was_detached() {
        let bytes = rkyv::to_bytes::<Error>(&vec![1u32, 2, 3]).unwrap();
        let mut slot = Region::heap(4096).into_slots(4096).pop().unwrap();
        slot[16..16 + bytes.len()].copy_from_slice(&bytes);
        let pool = Pool::new(Vec::new());
        let lease = pool.lease(slot, 16 + bytes.len());
        type Archive = rkyv::Archived<Vec<u32>>;
        let payload = Payload::leased(lease, 16..16 + bytes.len());
        let checked = Checked::<Archive>::new(payload).unwrap();
        assert_eq!(checked.as_slice(), [1, 2, 3]);
        assert_eq!(pool.spare(), 0);
        let detached = checked.detach();
        assert_eq!(pool.spare(), 1);
        assert_eq!(detached.as_slice(), [1, 2, 3]);
    }

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn hostile_bytes_are_an_error() {
        let mut bytes = AlignedVec::new();
        bytes.extend_from_slice(&[0xfe; 64]);
        assert!(Checked::<rkyv::Archived<String>>::new(Payload::owned(bytes)).is_err());
    }
}
