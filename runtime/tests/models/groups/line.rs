//! The lines that a group tells its members; counts how often each line is archived.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ringpost::prelude::*;
use ringpost::rkyv::rancor::Fallible;
use ringpost::rkyv::with::{ArchiveWith, DeserializeWith, SerializeWith};
use ringpost::rkyv::{Archive, Archived, Place};

thread_local! {
    /// All nodes of a scene run on one thread.
    static ARCHIVED: RefCell<BTreeMap<u64, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Counts that a line is archived.
fn count_archive(number: u64) {
    ARCHIVED.with_borrow_mut(|counts| *counts.entry(number).or_default() += 1);
}

/// Takes how often each line was archived, by its number.
pub(super) fn take_archived() -> BTreeMap<u64, u64> {
    ARCHIVED.take()
}

#[message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    #[message(opaque)]
    #[rkyv(with = Counting)]
    pub(super) number: u64,
    pub(super) text: String,
}

struct Counting;

impl ArchiveWith<u64> for Counting {
    type Archived = Archived<u64>;
    type Resolver = ();

    fn resolve_with(field: &u64, (): (), out: Place<Self::Archived>) {
        field.resolve((), out);
    }
}

impl<S: Fallible + ?Sized> SerializeWith<u64, S> for Counting {
    fn serialize_with(number: &u64, _: &mut S) -> Result<(), S::Error> {
        count_archive(*number);
        Ok(())
    }
}

impl<D: Fallible + ?Sized> DeserializeWith<Archived<u64>, u64, D> for Counting {
    fn deserialize_with(field: &Archived<u64>, _: &mut D) -> Result<u64, D::Error> {
        Ok(field.to_native())
    }
}
