//! Archives with forged maps that pass rkyv's check: views must not show data outside of them
//! (SH-5).

mod forge;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::mpsc;
use std::time::Duration;

use ringpost_transport::memory::{Pool, Region};
use rkyv::collections::btree_map::ArchivedBTreeMap;
use rkyv::collections::btree_set::ArchivedBTreeSet;
use rkyv::collections::swiss_table::{ArchivedHashMap, ArchivedHashSet};
use rkyv::rend::u32_le;
use rkyv::string::ArchivedString;

use self::forge::{
    ArchiveForger, CollectionKind, Header, SLOT_BYTES, is_honest, never_ending, secret, table, tree,
};
use super::*;
use crate::{message, rkyv};

#[message]
struct PlainField<T> {
    held: T,
}

#[message]
struct VecField<T> {
    held: Vec<T>,
}

#[message]
struct OptionField<T> {
    held: Option<T>,
}

#[message]
#[allow(dead_code, reason = "forged alone")]
enum EnumField<T> {
    Nothing,
    Held { held: T },
}

#[message]
struct NestedField<T> {
    number: u32,
    inner: PlainField<T>,
}

#[message]
struct OpaqueField<T> {
    #[message(opaque)]
    held: T,
}

#[message]
struct RecursiveField<T> {
    held: T,
    below: Vec<RecursiveField<T>>,
}

/// A message that contains a map or set, with the function that writes the root of its archive.
trait Shape<T: Wire>: Message + Wire {
    fn write(header: Header, out: &mut ArchiveForger);
    fn held(root: &Self::Archived) -> &T::Archived;
}

macro_rules! shape {
    ($name:ident, |$header:ident, $out:ident| $write:expr, |$root:ident| $held:expr) => {
        impl<T: Wire> Shape<T> for $name<T> {
            fn write($header: Header, $out: &mut ArchiveForger) {
                $write;
            }

            fn held($root: &Self::Archived) -> &T::Archived {
                $held
            }
        }
    };
}

shape!(PlainField, |header, out| out.header(header), |root| &root.held);
shape!(OpaqueField, |header, out| out.header(header), |root| &root.held);
shape!(NestedField, |header, out| out.number(7).header(header), |root| &root.inner.held);
shape!(OptionField, |header, out| out.number(1).header(header), |root| {
    root.held.as_ref().expect("it is there")
});
shape!(EnumField, |header, out| out.number(1).header(header), |root| match root {
    ArchivedEnumField::Held { held } => held,
    ArchivedEnumField::Nothing => panic!("it is there"),
});
shape!(RecursiveField, |header, out| out.listed(header, 0), |root| &root.held);
shape!(VecField, |header, out| out.listed(header, 1), |root| &root.held[0]);

/// A map or set in an archive, with all texts that its methods find for a key and a text.
trait TextCollection {
    const KIND: CollectionKind;
    fn texts(&self, key: u32, text: &str) -> Vec<String>;
}

fn owned<'a>(texts: impl IntoIterator<Item = &'a ArchivedString>) -> Vec<String> {
    texts.into_iter().map(|text| text.as_str().to_owned()).collect()
}

impl TextCollection for ArchivedHashMap<u32_le, ArchivedString> {
    const KIND: CollectionKind = CollectionKind::Map;

    fn texts(&self, key: u32, _: &str) -> Vec<String> {
        let key = u32_le::from_native(key);
        let found = self.get(&key).into_iter().chain(self.get_key_value(&key).map(|found| found.1));
        assert_eq!(self.contains_key(&key), self.get(&key).is_some());
        assert_eq!(self.keys().count(), self.len());
        owned(found.chain(self.iter().map(|(_, text)| text)).chain(self.values()))
    }
}

impl TextCollection for ArchivedHashSet<ArchivedString> {
    const KIND: CollectionKind = CollectionKind::Set;

    fn texts(&self, _: u32, text: &str) -> Vec<String> {
        assert_eq!(self.contains(text), self.get(text).is_some());
        owned(self.get(text).into_iter().chain(self.iter()))
    }
}

impl TextCollection for ArchivedBTreeMap<u32_le, ArchivedString> {
    const KIND: CollectionKind = CollectionKind::Map;

    fn texts(&self, key: u32, _: &str) -> Vec<String> {
        let key = u32_le::from_native(key);
        let found = self.get(&key).into_iter().chain(self.get_key_value(&key).map(|found| found.1));
        assert_eq!(self.contains_key(&key), self.get(&key).is_some());
        assert_eq!(self.keys().count(), self.len());
        let found = found.chain(self.iter().map(|(_, text)| text)).chain(self.values());
        let found = found.chain(self.range(..key).map(|(_, text)| text));
        owned(found.chain(self.range(key..).map(|(_, text)| text)))
    }
}

impl TextCollection for ArchivedBTreeSet<ArchivedString> {
    const KIND: CollectionKind = CollectionKind::Set;

    fn texts(&self, _: u32, text: &str) -> Vec<String> {
        assert_eq!(self.contains_key(text), self.get(text).is_some());
        owned(self.get(text).into_iter().chain(self.iter()))
    }
}

type Attack<'a> = &'a dyn Fn(&mut ArchiveForger, CollectionKind) -> Header;

/// Views a forged archive in a receive slot whose neighbour holds another node's message, and
/// checks that no look-up shows a text of that message.
fn view<T: Wire<Archived: TextCollection>, M: Shape<T>>(node: &Node, attack: Attack<'_>) {
    let mut slots = Region::heap(3 * SLOT_BYTES).into_slots(SLOT_BYTES);
    let mut out = ArchiveForger::beside(&mut slots);
    let header = attack(&mut out, T::Archived::KIND);
    M::write(header, &mut out);
    let (mut slot, bytes) = (slots.remove(1), out.bytes());
    slot[..bytes.len()].copy_from_slice(bytes);
    let payload = Payload::leased(Pool::new(Vec::new()).lease(slot, bytes.len()), 0..bytes.len());
    let what = std::any::type_name::<M>();
    let view = match View::<M>::from_remote(&mut { payload }, node, 0) {
        Ok(view) => view,
        Err(error) => panic!("{what} is not what rkyv's check takes: {error}"),
    };
    let sought = out.sought();
    for text in M::held(&view).texts(sought, &secret(sought)) {
        assert!(is_honest(&text), "{what} shows {text:?}");
    }
}

fn shapes<T: Wire<Archived: TextCollection>>(node: &Node, attack: Attack<'_>) {
    view::<T, PlainField<T>>(node, attack);
    view::<T, VecField<T>>(node, attack);
    view::<T, OptionField<T>>(node, attack);
    view::<T, EnumField<T>>(node, attack);
    view::<T, NestedField<T>>(node, attack);
    view::<T, OpaqueField<T>>(node, attack);
    view::<T, RecursiveField<T>>(node, attack);
}

/// Runs a test that may not end on a separate thread.
async fn within_a_minute(test: impl FnOnce(&Node) + Send + 'static) {
    let node = Node::builder("alpha").start().await.expect("it has no network");
    let (done, ends) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test(&node);
        let _ = done.send(());
    });
    match ends.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a look-up does not end"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            thread.join().expect("no view shows what was not checked");
        }
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_look_up_in_a_forged_hash_table_shows_nothing_of_a_neighbour() {
    within_a_minute(|node| {
        for capacity in 2..=400 {
            let attack = move |out: &mut ArchiveForger, kind| table(out, kind, capacity);
            shapes::<HashMap<u32, String>>(node, &attack);
            shapes::<HashSet<String>>(node, &attack);
        }
    })
    .await;
}

#[tokio::test]
async fn a_look_up_in_a_forged_hash_table_ends() {
    within_a_minute(|node| {
        shapes::<HashMap<u32, String>>(node, &never_ending);
        shapes::<HashSet<String>>(node, &never_ending);
    })
    .await;
}

#[tokio::test]
async fn a_forged_tree_shows_nothing_of_a_neighbour() {
    within_a_minute(|node| {
        let empty_leaf = |out: &mut ArchiveForger, kind| tree(out, kind, true);
        shapes::<BTreeMap<u32, String>>(node, &empty_leaf);
        shapes::<BTreeSet<String>>(node, &empty_leaf);
    })
    .await;
}

#[tokio::test]
async fn a_forged_tree_without_a_first_child_is_not_followed() {
    within_a_minute(|node| {
        let no_child = |out: &mut ArchiveForger, kind| tree(out, kind, false);
        shapes::<BTreeMap<u32, String>>(node, &no_child);
        shapes::<BTreeSet<String>>(node, &no_child);
    })
    .await;
}

/// Returns true if a view of a message keeps the receive slot where it arrived.
fn keeps_its_slot<M: Message + Wire>(node: &Node, message: &M) -> bool {
    let mut archive = AlignedVec::new();
    archive::write(message, &mut archive).expect("it can be archived");
    let mut slot = Region::heap(4096).into_slots(4096).remove(0);
    slot[..archive.len()].copy_from_slice(&archive);
    let pool = Pool::new(Vec::new());
    let mut payload = Payload::leased(pool.lease(slot, archive.len()), 0..archive.len());
    let view = View::<M>::from_remote(&mut payload, node, 0);
    drop(payload);
    assert!(view.is_ok());
    pool.spare() == 0
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_view_is_read_where_it_arrived_unless_it_has_a_map() {
    let node = Node::builder("alpha").start().await.expect("it has no network");
    let texts = || vec![Some(("a text".to_owned(), [1u64; 2]))];
    assert!(keeps_its_slot(&node, &PlainField { held: texts() }));
    assert!(keeps_its_slot(&node, &NestedField { number: 1, inner: PlainField { held: texts() } }));
    assert!(!keeps_its_slot(&node, &PlainField { held: HashMap::from([(1u8, 2u8)]) }));
    assert!(!keeps_its_slot(
        &node,
        &NestedField { number: 1, inner: PlainField { held: BTreeSet::from([1]) } }
    ));
    assert!(!keeps_its_slot(&node, &OpaqueField { held: 1u8 }));
    assert!(!keeps_its_slot(&node, &RecursiveField { held: 1u8, below: Vec::new() }));
}
