//! Bytes that arrived, and archives found in them.
#![allow(unsafe_code, reason = "reads an archive in place after it was checked (ME-4)")]

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::ops::{Deref, Range};

use rkyv::Portable;
use rkyv::api::high::HighValidator;
use rkyv::bytecheck::{CheckBytes, Verify};
use rkyv::rancor::{Error, Fallible, Source, Strategy};
use rkyv::util::AlignedVec;
use rkyv::validation::archive::ArchiveValidator;
use rkyv::validation::shared::SharedValidator;
use rkyv::validation::{ArchiveContextExt, Validator};

use super::buffer::{self, Buffer};
use super::pool::Lease;
use crate::limits;

/// The bytes of one message, 16-byte aligned: in the receive slot they arrived in, or copied out.
/// Only ever read. Owns its memory: `Send + 'static`.
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

    /// Takes the bytes, and leaves none.
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Payload::owned(AlignedVec::new()))
    }

    /// Keeps the first `len` bytes, or all where there are fewer.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.0 {
            Place::Leased { range, .. } => range.end = range.end.min(range.start + len as u32),
            Place::Owned(bytes) => bytes.truncate(len),
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
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid archive: {0}")]
pub struct InvalidArchive(pub String);

crate::debug_by_display!(InvalidArchive);

/// The error of a value that is nested too deeply for an archive.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "it has {} levels or more, one inside the other, and an archive has {} at most: send it in \
     parts, or as a list whose elements name their places in it",
    limits::ARCHIVE_DEPTH_MAX,
    limits::ARCHIVE_DEPTH_MAX - 1
)]
pub struct TooDeep;

crate::debug_by_display!(TooDeep);

/// An archive of type `T` in a [`Payload`], validated once; dereferences to it in place (ME-4). Of
/// a peer's archive with a map or set in it nothing is safe but to read it back.
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
        match Checked::<T>::look(&payload) {
            Ok(_) => Ok(Checked { payload, _archive: PhantomData }),
            Err(invalid) => Err(invalid),
        }
    }

    /// Validates the bytes as [`new`](Checked::new) does, and leaves them where they are.
    ///
    /// # Errors
    /// [`InvalidArchive`], with what the check found, when they are not such an archive.
    pub fn look(payload: &Payload) -> Result<&T, InvalidArchive> {
        match check(payload, const { &Root::of::<T>() }) {
            // SAFETY: `check` validated what begins there as a `T`, by its `Root`; the bytes are
            // never written while the payload lives (ME-3, ME-4), which the result borrows.
            Ok(root) => Ok(unsafe { &*root.cast::<T>() }),
            Err(error) => Err(InvalidArchive(error.to_string())),
        }
    }

    /// Validates bytes that are to be sent, as [`new`](Checked::new) does.
    ///
    /// # Errors
    /// The fault that the check found, such as [`TooDeep`].
    pub fn check(bytes: &[u8]) -> Result<(), Error> {
        check(bytes, const { &Root::of::<T>() }).map(drop)
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

/// The type of an archive's root, as [`check`] needs it: made by [`Root::of`] alone, so that both
/// fields are of one type.
struct Root {
    layout: Layout,
    /// Checks what begins there, and all that it points to.
    ///
    /// SAFETY: where it begins is aligned as `layout` says, and as many bytes as that says follow
    /// which may be read.
    check: unsafe fn(*const u8, &mut HighValidator<'_, Error>) -> Result<(), Error>,
}

impl Root {
    const fn of<T: for<'a> CheckBytes<HighValidator<'a, Error>>>() -> Self {
        Root { layout: Layout::new::<T>(), check: check_as::<T> }
    }
}

/// Checks what begins at `root` as a `T`, and all that it points to.
///
/// # Safety
/// `root` is aligned for a `T`, and as many bytes as a `T` has follow that may be read.
unsafe fn check_as<T: for<'a> CheckBytes<HighValidator<'a, Error>>>(
    root: *const u8,
    validator: &mut HighValidator<'_, Error>,
) -> Result<(), Error> {
    // SAFETY: the caller promises an aligned `root` with the bytes of a `T`, as is required here.
    unsafe { T::check_bytes(root.cast(), validator) }
}

/// Checks bytes as the archive of a root of one type; returns where that begins. Not generic: it is
/// compiled once, and not for each message of a program.
fn check(bytes: &[u8], root: &Root) -> Result<*const u8, Error> {
    let depth = NonZeroUsize::new(limits::ARCHIVE_DEPTH_MAX);
    let archive = ArchiveValidator::with_max_depth(bytes, depth);
    let mut validator = Validator::new(archive, SharedValidator::new());
    // Of fewer bytes than a root has, the range that begins here is not all inside them.
    let at = bytes.as_ptr().wrapping_add(bytes.len().saturating_sub(root.layout.size()));
    let checked = Strategy::wrap(&mut validator).in_subtree_raw(at, root.layout, |validator| {
        // SAFETY: `in_subtree_raw` calls this only if `at` is aligned for this layout, and its
        // whole range lies in the bytes; `Root::of` took both from one type.
        unsafe { (root.check)(at, validator) }
    });
    match checked {
        Ok(()) => Ok(at),
        Err(error) => Err(explained(error)),
    }
}

/// Returns the error for people. The error of too many levels says that an `Option` is `None`; only
/// its trace names the levels.
#[cold]
fn explained(error: Error) -> Error {
    match format!("{error:?}").contains("ExceededMaximumSubtreeDepth") {
        true => Error::new(TooDeep),
        false => error,
    }
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

// SAFETY: no unsafe code relies on the result (ME-4): any `T` that was checked is a valid one.
unsafe impl<T: Inspect, C: Fallible<Error: Source> + ?Sized> Verify<C> for Inspected<T> {
    fn verify(&self, _: &mut C) -> Result<(), C::Error> {
        self.0.inspect().map_err(C::Error::new)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop, prop_assert_eq, proptest};

    use super::*;
    use crate::memory::{Pool, Region};

    type Texts = rkyv::Archived<Option<Vec<String>>>;
    type Nested = rkyv::Archived<Vec<Box<[u64]>>>;

    fn aligned(bytes: &[u8]) -> AlignedVec<16> {
        let mut aligned = AlignedVec::new();
        aligned.extend_from_slice(bytes);
        aligned
    }

    /// Returns the verdicts of this module and of rkyv itself on the bytes.
    fn verdicts<T>(bytes: &[u8]) -> (Result<(), String>, Result<(), String>)
    where
        T: Portable + for<'a> CheckBytes<HighValidator<'a, Error>>,
    {
        let payload = Payload::owned(aligned(bytes));
        let depth = NonZeroUsize::new(limits::ARCHIVE_DEPTH_MAX);
        let archive = ArchiveValidator::with_max_depth(&payload, depth);
        let mut validator = Validator::new(archive, SharedValidator::new());
        let rkyv = rkyv::api::access_with_context::<T, _, Error>(&payload, &mut validator);
        let rkyv = rkyv.map(|_| ()).map_err(|error| explained(error).to_string());
        let looked = Checked::<T>::look(&payload).map(|_| ()).map_err(|invalid| invalid.0);
        assert_eq!(Checked::<T>::new(payload).is_ok(), looked.is_ok());
        (looked, rkyv)
    }

    /// An archive of a type that is nested as deeply as its value is.
    #[derive(rkyv::Archive, rkyv::Serialize)]
    #[rkyv(serialize_bounds(__S: rkyv::ser::Writer, __S::Error: Source))]
    #[rkyv(bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: Source)))]
    struct Chain(#[rkyv(omit_bounds)] Option<Box<Chain>>);

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

    #[test]
    fn a_root_that_does_not_lie_in_the_bytes_or_is_not_aligned_is_an_error() {
        let (size, align) = (size_of::<Texts>(), align_of::<Texts>());
        assert!(align > 1, "this type shows nothing else");
        let zeros = [0; 64];
        assert_eq!(verdicts::<Texts>(&zeros[..size]).0, Ok(()), "a `None`");
        for length in (0..size).chain(size + 1..size + align) {
            let (ours, rkyv) = verdicts::<Texts>(&zeros[..length]);
            // Both texts contain the addresses of the same bytes.
            assert!(ours.is_err(), "{length}");
            assert_eq!(ours, rkyv, "{length}");
        }
        assert_eq!(verdicts::<()>(&[]).0, Ok(()));
    }

    #[test]
    fn an_archive_that_points_into_its_own_root_or_out_of_its_bytes_is_an_error() {
        let valid = rkyv::to_bytes::<Error>(&vec![vec![7u64].into_boxed_slice()]).unwrap();
        assert_eq!(verdicts::<Nested>(&valid).0, Ok(()));
        let root = valid.len() - size_of::<Nested>();
        // The root's pointer is relative, and of 32 bits.
        for to in [0, 1, i32::MIN, i32::MAX, -(root as i32) - 8] {
            let mut bytes = aligned(&valid);
            bytes[root..root + 4].copy_from_slice(&to.to_le_bytes());
            assert!(verdicts::<Nested>(&bytes).0.is_err(), "{to}");
        }
        // So is the number of its parts.
        let mut bytes = aligned(&valid);
        bytes[root + 4..root + 8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(verdicts::<Nested>(&bytes).0.is_err());
    }

    #[test]
    fn an_archive_of_too_many_levels_is_an_error() {
        // The root is the first.
        let archive = |levels: usize| {
            let chain = (1..levels).fold(Chain(None), |inner, _| Chain(Some(Box::new(inner))));
            rkyv::to_bytes::<Error>(&chain).unwrap()
        };
        let most = limits::ARCHIVE_DEPTH_MAX - 1;
        assert_eq!(verdicts::<ArchivedChain>(&archive(most)).0, Ok(()));
        let (ours, rkyv) = verdicts::<ArchivedChain>(&archive(most + 1));
        assert_eq!(ours, Err(TooDeep.to_string()));
        assert_eq!(ours, rkyv);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// Whatever bytes come: they are an archive exactly when rkyv says so.
        #[test]
        fn spoilt_archives_are_what_rkyv_finds_in_them(
            texts in prop::option::of(prop::collection::vec(".{0,12}", 0..4)),
            cut in 0..24usize,
            spoils in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let valid = rkyv::to_bytes::<Error>(&texts).unwrap();
            prop_assert_eq!(verdicts::<Texts>(&valid).0, Ok(()));
            let mut bytes = valid[cut.min(valid.len())..].to_vec();
            for (at, byte) in spoils {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            let (ours, rkyv) = verdicts::<Texts>(&bytes);
            prop_assert_eq!(ours, rkyv);
            let (ours, rkyv) = verdicts::<Nested>(&bytes);
            prop_assert_eq!(ours, rkyv);
        }
    }
}
