//! Looks at all that the maps and sets of a view show. Each part has to lie where the walk finds it
//! by which a value is read back: that one meets checked parts alone.

use std::collections::HashSet;
use std::ops::ControlFlow;

use rkyv::collections::btree_map::ArchivedBTreeMap;
use rkyv::collections::btree_set::ArchivedBTreeSet;
use rkyv::collections::swiss_table::{ArchivedHashMap, ArchivedHashSet};
use rkyv::rend::u32_le;
use rkyv::string::ArchivedString;

/// Keys that are looked for.
fn keys() -> impl Iterator<Item = u32_le> {
    (0..64).map(u32_le::from_native)
}

/// Texts that are looked for.
const TEXTS: [&str; 12] =
    ["", "a", "b", "c", "d", "e", "f", "g", "aa", "ab", "\0", "\0\0\0\0\0\0\0\0"];

/// Where parts of an archive lie.
#[derive(Default)]
struct Places(HashSet<usize>);

impl Places {
    fn add<T>(&mut self, part: &T) {
        self.0.insert(std::ptr::from_ref(part).addr());
    }

    fn has<T>(&self, part: &T, how: &str) {
        let is_there = self.0.contains(&std::ptr::from_ref(part).addr());
        assert!(is_there, "{how} shows what was not checked");
    }
}

/// A value in an archive, all of which is looked at.
pub(super) trait Look {
    fn look(&self);
}

impl Look for ArchivedString {
    fn look(&self) {
        assert!(std::str::from_utf8(self.as_bytes()).is_ok());
    }
}

impl<T: Look> Look for rkyv::vec::ArchivedVec<T> {
    fn look(&self) {
        self.iter().for_each(Look::look);
    }
}

impl<T: Look> Look for rkyv::option::ArchivedOption<T> {
    fn look(&self) {
        self.iter().for_each(Look::look);
    }
}

impl<V: Look> Look for ArchivedHashMap<u32_le, V> {
    fn look(&self) {
        let mut places = Places::default();
        for (key, value) in self.iter() {
            places.add(key);
            places.add(value);
            value.look();
        }
        self.keys().for_each(|key| places.has(key, "keys"));
        self.values().for_each(|value| places.has(value, "values"));
        for key in keys() {
            assert_eq!(self.contains_key(&key), self.get(&key).is_some());
            if let Some((key, value)) = self.get_key_value(&key) {
                places.has(key, "get_key_value");
                places.has(value, "get");
            }
        }
    }
}

impl Look for ArchivedHashSet<ArchivedString> {
    fn look(&self) {
        let mut places = Places::default();
        for text in self.iter() {
            places.add(text);
            text.look();
        }
        for text in TEXTS {
            assert_eq!(self.contains(text), self.get(text).is_some());
            self.get(text).inspect(|text| places.has(*text, "get of a set"));
        }
    }
}

impl<V: Look> Look for ArchivedBTreeMap<u32_le, V> {
    fn look(&self) {
        let mut places = Places::default();
        self.visit(|key, value| {
            places.add(key);
            places.add(value);
            value.look();
            ControlFlow::<()>::Continue(())
        });
        self.iter().for_each(|(key, _)| places.has(key, "iter of a tree"));
        self.keys().for_each(|key| places.has(key, "keys of a tree"));
        self.values().for_each(|value| places.has(value, "values of a tree"));
        for key in keys() {
            assert_eq!(self.contains_key(&key), self.get(&key).is_some());
            if let Some((key, value)) = self.get_key_value(&key) {
                places.has(key, "get_key_value of a tree");
                places.has(value, "get of a tree");
            }
            self.range(key..).for_each(|(key, _)| places.has(key, "range of a tree"));
            self.range(..=key).for_each(|(key, _)| places.has(key, "range of a tree"));
        }
    }
}

impl Look for ArchivedBTreeSet<ArchivedString> {
    fn look(&self) {
        let mut places = Places::default();
        self.visit(|text| {
            places.add(text);
            text.look();
            ControlFlow::<()>::Continue(())
        });
        self.iter().for_each(|text| places.has(text, "iter of a set"));
        for text in TEXTS {
            assert_eq!(self.contains_key(text), self.get(text).is_some());
            self.get(text).inspect(|text| places.has(*text, "get of a set"));
        }
    }
}
