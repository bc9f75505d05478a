//! Messages that gained fields, compared with the archives of earlier builds.

use proptest::prelude::*;

use super::*;
use crate::{Node, rkyv};

/// The message as the builds of its versions declare it.
mod first {
    use crate::message;

    #[message(name = "tests::Order")]
    #[derive(Debug, Clone, PartialEq)]
    pub(super) struct Order {
        pub(super) lines: Vec<(String, u32)>,
        pub(super) note: Option<String>,
        #[message(opaque)]
        #[rkyv(with = super::rkyv::with::AsBox)]
        pub(super) total: u64,
    }
}

mod third {
    use crate::message;

    #[message(name = "tests::Order", version = 3)]
    #[derive(Debug, Clone, PartialEq)]
    #[rkyv(derive(Debug))]
    pub(super) struct Order {
        /// The documentation of fields, and derives, are no part of an archive.
        pub(super) lines: Vec<(String, u32)>,
        pub(super) note: Option<String>,
        #[message(opaque)]
        #[rkyv(with = super::rkyv::with::AsBox)]
        pub(super) total: u64,
        #[message(since = 2, default = super::DISCOUNT)]
        pub(super) discount: u64,
        #[message(since = 2)]
        pub(super) coupon: String,
        #[message(since = 3)]
        pub(super) tags: Vec<u128>,
    }
}

const DISCOUNT: u64 = 7;

impl first::Order {
    fn new((lines, note, total): (Vec<(String, u32)>, Option<String>, u64)) -> Self {
        first::Order { lines, note, total }
    }

    fn later(self, discount: u64, coupon: &str, tags: Vec<u128>) -> third::Order {
        let first::Order { lines, note, total } = self;
        third::Order { lines, note, total, discount, coupon: coupon.to_owned(), tags }
    }
}

const FIRST: Codec<first::Order> = Codec::of();
const THIRD: Codec<third::Order> = Codec::of();

fn written<T>(codec: &Codec<T>, value: &T, form: u8) -> AlignedVec<16> {
    let mut out = AlignedVec::new();
    (codec.encode)(value, form, &mut out).unwrap();
    out
}

fn order() -> impl Strategy<Value = first::Order> {
    let lines = proptest::collection::vec((any::<String>(), any::<u32>()), 0..4);
    (lines, any::<Option<String>>(), any::<u64>()).prop_map(first::Order::new)
}

// Promised in docs/SEMANTICS.md.
/// The fields that an earlier build knows are archived with the same bytes as by that build. The
/// archives of that build are read with defaults for the missing fields.
#[test]
fn an_earlier_form_is_the_archive_of_the_earlier_build() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = runtime.block_on(Node::builder("alpha").start()).unwrap();
    assert_eq!(THIRD.layouts.len(), 3);
    assert_eq!(THIRD.layouts[2], FIRST.layouts[0]);
    let orders = (order(), any::<(u64, String, Vec<u128>)>());
    proptest!(|((first, (discount, coupon, tags)) in orders)| {
        let third = first.clone().later(discount, &coupon, tags);
        let bytes = written(&FIRST, &first, 0);
        prop_assert_eq!(&written(&THIRD, &third, 2)[..], &bytes[..]);
        prop_assert!(written(&THIRD, &third, 0).len() >= written(&THIRD, &third, 1).len());
        prop_assert!(written(&THIRD, &third, 1).len() >= bytes.len());
        let read = (THIRD.decode)(&Payload::owned(bytes), &node, 2).unwrap();
        prop_assert_eq!(read, first.clone().later(DISCOUNT, "", Vec::new()));
        let second = written(&THIRD, &third, 1);
        let read = (THIRD.decode)(&Payload::owned(second), &node, 1).unwrap();
        prop_assert_eq!(&read, &first.later(discount, &coupon, Vec::new()));
        let newest = written(&THIRD, &third, 0);
        prop_assert_eq!((THIRD.decode)(&Payload::owned(newest), &node, 0).unwrap(), third);
    });
}

// Promised in docs/SEMANTICS.md.
#[test]
fn bytes_that_are_no_archive_of_an_earlier_form_are_an_error() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = runtime.block_on(Node::builder("alpha").start()).unwrap();
    proptest!(|(bytes in proptest::collection::vec(any::<u8>(), 0..96), form in 0..3_u8)| {
        let mut garbage = AlignedVec::new();
        garbage.extend_from_slice(&bytes);
        // Both results are fine, but it must neither panic nor hang.
        let _ = (THIRD.decode)(&Payload::owned(garbage), &node, form);
    });
    let short = || Payload::owned(AlignedVec::new());
    for form in 0..3 {
        assert!((THIRD.decode)(&short(), &node, form).is_err());
    }
    let unknown = (THIRD.decode)(&short(), &node, 3).unwrap_err();
    assert_eq!(unknown.0, "the type has no form 3");
    let order = first::Order::new(Default::default());
    let refused = (FIRST.encode)(&order, 1, &mut AlignedVec::new()).unwrap_err();
    assert!(refused.to_string().contains("the type has no form 1"), "{refused}");
}
