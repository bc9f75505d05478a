//! Values of every type without parts, and of types that hold them, on their way to another node.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::{
    NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroI128, NonZeroU8, NonZeroU16, NonZeroU32,
    NonZeroU64, NonZeroU128,
};
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};
use std::sync::Arc;
use std::time::Duration;

use ringpost::prelude::*;
use uuid::Uuid;

use super::world::{World, end};

/// Writes the message of one value of any of these types, and the table of all their values.
macro_rules! values {
    ($($name:ident($ty:ty): $values:expr;)*) => {
        #[message]
        #[derive(Debug, Clone, PartialEq)]
        pub enum Value { $($name($ty)),* }

        fn all() -> Vec<Value> {
            let mut all = Vec::new();
            $(all.extend(<[$ty]>::iter(&$values).cloned().map(Value::$name));)*
            all
        }
    };
}

values! {
    Bool(bool): [false, true];
    Char(char): ['\0', 'a', '\u{d7ff}', '\u{e000}', '\u{ffff}', char::MAX];
    U8(u8): [0, u8::MAX];
    U16(u16): [0, u16::MAX];
    U32(u32): [0, u32::MAX];
    U64(u64): [0, 1 << 32, u64::MAX];
    U128(u128): [0, 1 << 64, u128::MAX];
    I8(i8): [i8::MIN, -1, i8::MAX];
    I16(i16): [i16::MIN, -1, i16::MAX];
    I32(i32): [i32::MIN, -1, i32::MAX];
    I64(i64): [i64::MIN, -1, i64::MAX];
    I128(i128): [i128::MIN, -1, i128::MAX];
    NonZeroU8(NonZeroU8): [NonZeroU8::MIN, NonZeroU8::MAX];
    NonZeroU16(NonZeroU16): [NonZeroU16::MIN, NonZeroU16::MAX];
    NonZeroU32(NonZeroU32): [NonZeroU32::MIN, NonZeroU32::MAX];
    NonZeroU64(NonZeroU64): [NonZeroU64::new(1 << 32).unwrap(), NonZeroU64::MAX];
    NonZeroU128(NonZeroU128): [NonZeroU128::new(1 << 64).unwrap(), NonZeroU128::MAX];
    NonZeroI8(NonZeroI8): [NonZeroI8::MIN, NonZeroI8::MAX];
    NonZeroI16(NonZeroI16): [NonZeroI16::MIN, NonZeroI16::MAX];
    NonZeroI32(NonZeroI32): [NonZeroI32::MIN, NonZeroI32::MAX];
    NonZeroI64(NonZeroI64): [NonZeroI64::MIN, NonZeroI64::MAX];
    NonZeroI128(NonZeroI128): [NonZeroI128::MIN, NonZeroI128::MAX];
    F32(f32): [
        0.0, -0.0, f32::MIN_POSITIVE, f32::from_bits(1), f32::MAX, f32::NEG_INFINITY,
        f32::from_bits(0x7f80_0001), f32::from_bits(0xffc5_5555),
    ];
    F64(f64): [
        0.0, -0.0, f64::MIN_POSITIVE, f64::from_bits(1), f64::MAX, f64::NEG_INFINITY,
        f64::from_bits(0x7ff0_0000_0000_0001), f64::from_bits(0xfff8_5555_5555_5555),
    ];
    Text(String): [String::new(), "seven b".into(), "eight by".into(), "\0\u{10ffff}".repeat(99)];
    Duration(Duration): [Duration::ZERO, Duration::from_nanos(1), Duration::MAX];
    Uuid(Uuid): [Uuid::nil(), Uuid::max(), Uuid::from_u128(1)];
    Ipv4(Ipv4Addr): [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST];
    Ipv6(Ipv6Addr): [Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST, Ipv6Addr::from_bits(u128::MAX)];
    Ip(IpAddr): [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    SocketV4(SocketAddrV4): [SocketAddrV4::new(Ipv4Addr::BROADCAST, u16::MAX)];
    SocketV6(SocketAddrV6): [
        SocketAddrV6::new(Ipv6Addr::LOCALHOST, 0, 1, 2),
        SocketAddrV6::new(Ipv6Addr::from_bits(u128::MAX), u16::MAX, u32::MAX, u32::MAX),
    ];
    Socket(SocketAddr): [
        SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
        SocketAddrV6::new(Ipv6Addr::LOCALHOST, 1, 2, 3).into(),
    ];
    Unit(()): [()];
    Full(RangeFull): [..];
    Range(Range<i64>): [i64::MIN..i64::MAX, 1..1, Range { start: 3, end: 1 }];
    From(RangeFrom<u64>): [u64::MAX..];
    Inclusive(RangeInclusive<u64>): [0..=u64::MAX, RangeInclusive::new(1, 0)];
    To(RangeTo<u64>): [..u64::MAX];
    ToInclusive(RangeToInclusive<u64>): [..=u64::MAX];
    Bounds(Vec<Bound<u64>>): [vec![
        Bound::Unbounded, Bound::Included(u64::MAX), Bound::Excluded(u64::MAX),
    ]];
    Options(Vec<Option<u64>>): [vec![None, Some(0), Some(u64::MAX)]];
    Nested(Option<Option<()>>): [None, Some(None), Some(Some(()))];
    Results(Vec<Result<u8, String>>): [vec![Ok(u8::MAX), Err(String::new()), Err("no".into())]];
    Deque(VecDeque<u8>): [VecDeque::new(), {
        let mut deque = VecDeque::from([2, 3]);
        deque.rotate_left(1);
        deque.push_front(1);
        deque
    }];
    Map(BTreeMap<i64, String>): [BTreeMap::new(), (-99..99).map(|n| (n, n.to_string())).collect()];
    Set(BTreeSet<char>): [BTreeSet::new(), BTreeSet::from(['\0', char::MAX])];
    Hashed(HashMap<u64, bool>): [HashMap::new(), (0..99).map(|n| (n << 32, n > 9)).collect()];
    HashedSet(HashSet<String>): [HashSet::new(), (0..99).map(|n| "x".repeat(n)).collect()];
    Boxed(Box<u64>): [Box::new(u64::MAX)];
    BoxedText(Box<str>): ["".into(), "text of a box".into()];
    Slice(Box<[u64]>): [Box::new([]), Box::new([u64::MAX, 0])];
    Shared(Arc<str>): ["".into(), "text that is shared".into()];
    SharedSlice(Arc<[u16]>): [Arc::new([]), Arc::new([u16::MAX, 0])];
    Twice((Arc<u64>, Arc<u64>)): [{
        let one = Arc::new(u64::MAX);
        (one.clone(), one)
    }];
    Array([u64; 3]): [[0, 1 << 32, u64::MAX]];
    Nothing([u64; 0]): [[]];
    Empty(PhantomData<u64>): [PhantomData];
    Tuple((u8, i64, char, bool, f64, u16, u128, i8)): [
        (u8::MAX, i64::MIN, char::MAX, true, -0.0, u16::MAX, u128::MAX, i8::MIN),
    ];
}

/// Returns true if two values are equal to the bit.
fn are_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::F32(one), Value::F32(other)) => one.to_bits() == other.to_bits(),
        (Value::F64(one), Value::F64(other)) => one.to_bits() == other.to_bits(),
        (one, other) => one == other,
    }
}

#[actor]
struct Mirror;

#[handlers]
impl Mirror {
    #[handler]
    fn show(&self, values: Vec<Value>) -> Vec<Value> {
        values
    }
}

// Promised in docs/SEMANTICS.md.
pub async fn values_of_every_type_arrive_as_they_were_sent(world: &World) {
    let [alpha, beta] = world.pair().await;
    let near = alpha.spawn("mirror", Mirror).await.unwrap();
    beta.spawn("mirror", Mirror).await.unwrap();
    let far: ActorRef<Mirror> = alpha.actor("beta/mirror").await.unwrap();
    for mirror in [&near, &far] {
        let shown = mirror.show(all()).await.unwrap();
        assert_eq!(shown.len(), all().len());
        for (shown, sent) in shown.iter().zip(&all()) {
            assert!(are_same(shown, sent), "{sent:?} arrived as {shown:?}");
        }
    }
    // That it was iterated to its end is no part of its archive.
    let mut over = 0..=3;
    over.by_ref().for_each(drop);
    let shown = far.show(vec![Value::Inclusive(over)]).await.unwrap();
    assert_eq!(shown, [Value::Inclusive(3..=3)]);
    end([alpha, beta]).await;
}
