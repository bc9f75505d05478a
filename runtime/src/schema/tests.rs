//! Changes that alter a type's identity and layout, and changes that do not.

use super::*;

#[test]
fn arguments_are_those_at_the_end_of_a_path() {
    for (path, found) in [
        ("a::Plain", ""),
        ("<a::B<u8> as a::C>::d::Plain", ""),
        ("a::Pool<u8>", "<u8>"),
        (
            "<a::B<u8> as a::C>::d::Pool<b::C<u8>, fn(u8) -> b::D<u8>, 3>",
            "<b::C<u8>, fn(u8) -> b::D<u8>, 3>",
        ),
        ("a::Pool<fn() -> u8>", "<fn() -> u8>"),
        (">", ""),
    ] {
        assert_eq!(arguments(path), found, "{path}");
    }
    let plain = ActorKind::of("worker");
    assert_eq!(plain.with_arguments_of("a::Worker"), plain);
    let of = |path| plain.with_arguments_of(path).hash;
    assert_eq!(of("a::Worker<u8>"), of("b::Worker<u8>"), "the name is that which it was given");
    assert_ne!(of("a::Worker<u8>"), of("a::Worker<u16>"));
}
use crate::wire::Wire;
use crate::{message, rkyv};
use std::collections::hash_map::RandomState;

/// The messages below are versions of one message, with the same name.
macro_rules! version {
    ($name:ident, $($item:tt)*) => {
        mod $name {
            use super::*;
            #[message(name = "tests::Account")]
            #[derive(Debug)]
            $($item)*
        }
    };
}

version! {
    first,
    pub(super) struct Account {
        pub(super) owner: String,
        pub(super) cents: u64,
    }
}
version! { again, pub(super) struct Renamed { pub(super) owner: String, pub(super) cents: u64 } }
version! { derived, #[derive(Clone, PartialEq)] #[rkyv(derive(Debug), compare(PartialEq))]
pub(super) struct Account { pub(super) owner: String, pub(super) cents: u64 } }
version! {
    field_name,
    pub(super) struct Account {
        pub(super) holder: String,
        pub(super) cents: u64,
    }
}
version! {
    field_type,
    pub(super) struct Account {
        pub(super) owner: String,
        pub(super) cents: i64,
    }
}
version! {
    field_order,
    pub(super) struct Account {
        pub(super) cents: u64,
        pub(super) owner: String,
    }
}
version! {
    field_more,
    pub(super) struct Account {
        pub(super) owner: String,
        pub(super) cents: u64,
        pub(super) open: bool,
    }
}
version! { field_with, pub(super) struct Account {
    pub(super) owner: String,
    #[rkyv(with = rkyv::with::AsBox)] pub(super) cents: u64,
} }
version! { variants, pub(super) enum Account { Open { owner: String }, Closed } }
version! { variant_name, pub(super) enum Account { Open { owner: String }, Gone } }
version! { variant_order, pub(super) enum Account { Closed, Open { owner: String } } }

#[message(name = "tests::Account", version = 2)]
struct AccountVersion2 {
    owner: String,
    cents: u64,
}

#[message]
struct Page<T> {
    items: Vec<T>,
}

#[message]
struct Block<const N: usize> {
    bytes: [u8; N],
}

fn distinct(hashes: &[u128]) {
    for (index, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..index].contains(hash), "{index} equals an earlier one");
    }
}

#[test]
fn identity_stays_when_the_fields_change() {
    for other in [
        again::Renamed::TYPE,
        field_name::Account::TYPE,
        field_type::Account::TYPE,
        variants::Account::TYPE,
        AccountVersion2::TYPE,
    ] {
        assert_eq!(first::Account::TYPE, other);
    }
}

#[test]
fn layout_stays_when_only_names_of_types_and_derives_change() {
    assert_eq!(first::Account::LAYOUT, again::Renamed::LAYOUT);
    assert_eq!(first::Account::LAYOUT, derived::Account::LAYOUT);
}

#[test]
fn layout_changes_with_every_property_of_the_archive() {
    distinct(&[
        first::Account::LAYOUT,
        field_name::Account::LAYOUT,
        field_type::Account::LAYOUT,
        field_order::Account::LAYOUT,
        field_more::Account::LAYOUT,
        field_with::Account::LAYOUT,
        variants::Account::LAYOUT,
        variant_name::Account::LAYOUT,
        variant_order::Account::LAYOUT,
        AccountVersion2::LAYOUT,
    ]);
}

#[test]
fn a_changed_part_changes_the_whole() {
    distinct(&[
        <Vec<first::Account>>::LAYOUT,
        <Vec<field_name::Account>>::LAYOUT,
        <VecDeque<first::Account>>::LAYOUT,
        <Option<Vec<first::Account>>>::LAYOUT,
        <[first::Account; 2]>::LAYOUT,
        <[first::Account; 3]>::LAYOUT,
    ]);
}

#[test]
fn generic_messages_differ_by_their_arguments() {
    distinct(&[Page::<u32>::TYPE, Page::<u64>::TYPE, Page::<first::Account>::TYPE]);
    distinct(&[Page::<u32>::LAYOUT, Page::<u64>::LAYOUT, Page::<first::Account>::LAYOUT]);
    distinct(&[Block::<1>::TYPE, Block::<2>::TYPE]);
    assert_eq!(Page::<first::Account>::TYPE, Page::<field_name::Account>::TYPE);
    assert_ne!(Page::<first::Account>::LAYOUT, Page::<field_name::Account>::LAYOUT);
}

/// This compiles because the compiler knows the constants.
const _: () = assert!(Page::<u32>::LAYOUT != Page::<u64>::LAYOUT);

#[test]
fn the_hash_is_fnv_1a() {
    // The algorithm's reference values for no bytes and for "a".
    assert_eq!(Hash(Hash::OFFSET).end(), 0x6c62272e07bb014262b821756295c58d);
    assert_eq!(Hash(Hash::OFFSET).bytes(b"a").end(), 0xd228cb696f1a8caf78912b704e4a8964);
}

#[test]
fn the_end_of_a_text_is_part_of_the_hash() {
    assert_ne!(Hash::new("x").str("ab").str("c").end(), Hash::new("x").str("a").str("bc").end());
}

/// Every type with a schema can really cross nodes.
#[test]
fn standard_types_are_wire_and_have_layouts_of_their_own() {
    let leaves = [
        layout::<()>(),
        layout::<bool>(),
        layout::<char>(),
        layout::<u8>(),
        layout::<u16>(),
        layout::<u32>(),
        layout::<u64>(),
        layout::<u128>(),
        layout::<i8>(),
        layout::<i16>(),
        layout::<i32>(),
        layout::<i64>(),
        layout::<i128>(),
        layout::<f32>(),
        layout::<f64>(),
        layout::<NonZeroU8>(),
        layout::<NonZeroU16>(),
        layout::<NonZeroU32>(),
        layout::<NonZeroU64>(),
        layout::<NonZeroU128>(),
        layout::<NonZeroI8>(),
        layout::<NonZeroI16>(),
        layout::<NonZeroI32>(),
        layout::<NonZeroI64>(),
        layout::<NonZeroI128>(),
        layout::<String>(),
        layout::<Duration>(),
        layout::<Uuid>(),
        layout::<IpAddr>(),
        layout::<Ipv4Addr>(),
        layout::<Ipv6Addr>(),
        layout::<SocketAddr>(),
        layout::<SocketAddrV4>(),
        layout::<SocketAddrV6>(),
        layout::<RangeFull>(),
    ];
    distinct(&[leaves.as_slice(), made().as_slice()].concat());
}

fn layout<T: Wire>() -> u128 {
    T::LAYOUT
}

/// Returns the layouts of types that are made of other types.
fn made() -> Vec<u128> {
    vec![
        layout::<Option<u8>>(),
        layout::<Result<u8, u8>>(),
        layout::<Vec<u8>>(),
        layout::<VecDeque<u8>>(),
        layout::<BTreeMap<u8, u8>>(),
        layout::<BTreeSet<u8>>(),
        layout::<HashMap<u8, u8, RandomState>>(),
        layout::<HashSet<u8, RandomState>>(),
        layout::<Box<u8>>(),
        layout::<Box<str>>(),
        layout::<Box<[u8]>>(),
        layout::<Arc<u8>>(),
        layout::<Arc<str>>(),
        layout::<Arc<[u8]>>(),
        layout::<PhantomData<u8>>(),
        layout::<Bound<u8>>(),
        layout::<Range<u8>>(),
        layout::<RangeFrom<u8>>(),
        layout::<RangeInclusive<u8>>(),
        layout::<RangeTo<u8>>(),
        layout::<RangeToInclusive<u8>>(),
        layout::<[u8; 4]>(),
        layout::<(u8,)>(),
        layout::<(u8, u8)>(),
        layout::<(u8, u8, u8, u8, u8, u8, u8, u8)>(),
    ]
}

/// Versions of one message, as their builds declare it.
mod versions {
    use super::*;

    #[message(name = "tests::Account")]
    pub(super) struct AccountV1 {
        pub(super) owner: String,
    }

    #[message(name = "tests::Account", version = 2)]
    pub(super) struct AccountV2 {
        pub(super) owner: String,
        pub(super) cents: u64,
    }

    #[message(name = "tests::Account")]
    pub(super) struct AccountSince2 {
        pub(super) owner: String,
        #[message(since = 2)]
        pub(super) cents: u64,
    }

    #[message(name = "tests::Account")]
    pub(super) struct AccountSince3 {
        pub(super) owner: String,
        #[message(since = 2, default = 1)]
        pub(super) cents: u64,
        #[message(since = 3)]
        pub(super) open: bool,
    }

    #[message(name = "tests::Account", version = 1)]
    pub(super) struct ExplicitV1 {
        pub(super) owner: String,
    }
}

// Promised in docs/SEMANTICS.md.
#[test]
fn layouts_of_versions_are_those_of_their_builds() {
    use versions::{AccountSince2, AccountSince3, AccountV1, AccountV2, ExplicitV1};
    let one = AccountV1::LAYOUT;
    assert_eq!(ExplicitV1::LAYOUTS, [one], "a message that says no version is of version 1");
    assert_eq!(AccountSince2::LAYOUTS, [AccountV2::LAYOUT, one]);
    assert_eq!(AccountSince3::LAYOUTS, [AccountSince3::LAYOUT, AccountV2::LAYOUT, one]);
    assert_eq!(AccountSince3::TYPE, AccountV2::TYPE);
    distinct(AccountSince3::LAYOUTS);
    // Inside of another type, only the newest version is known.
    assert_eq!(<Option<AccountSince2>>::LAYOUTS, [<Option<AccountV2>>::LAYOUT]);
}
