//! Archives of maps and sets, written byte by byte, which rkyv's check wrongly accepts.

use std::hash::Hash;
use std::ops::Range;
use std::sync::LazyLock;

use ringpost_transport::memory::Slot;
use rkyv::hash::{FxHasher64, hash_value};
use rkyv::rend::u32_le;

pub(super) const SLOT_BYTES: usize = 64 * 1024;

/// The widest group of control bytes that a look-up reads.
const GROUP: usize = 16;

/// Length of each text in the previous slot, which is full of them.
const SECRET_BYTES: usize = 16;

static SECRETS: LazyLock<String> =
    LazyLock::new(|| (0..(SLOT_BYTES / SECRET_BYTES) as u32).map(secret).collect());

/// Returns the text with this number in another node's message.
pub(super) fn secret(number: u32) -> String {
    format!("secret text{number:>5}")
}

/// Returns true if a forged archive may show this text, because it was checked.
pub(super) fn is_honest(text: &str) -> bool {
    text.starts_with("ok")
}

/// A map, whose entries have a number before their text, or a set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CollectionKind {
    Map,
    Set,
}

impl CollectionKind {
    /// Returns the hash for a look-up of the secret with this number.
    fn hash(self, number: u32) -> u64 {
        fn of(value: &(impl Hash + ?Sized)) -> u64 {
            hash_value::<_, FxHasher64>(value)
        }
        match self {
            CollectionKind::Map => of(&u32_le::from_native(number)),
            CollectionKind::Set => of(secret(number).as_str()),
        }
    }

    /// Returns the control byte of that secret.
    fn control(self, number: u32) -> u8 {
        (self.hash(number) >> 57) as u8
    }

    /// Returns the index at which a look-up of that secret begins in a table.
    fn place(self, number: u32, capacity: usize) -> usize {
        (self.hash(number) % capacity as u64) as usize
    }
}

/// The reference to a map or set in the value that contains it.
#[derive(Clone, Copy)]
pub(super) enum Header {
    Table { controls: usize, entries: usize, capacity: usize },
    Tree { root: usize, entries: usize },
}

/// An archive that is written for the beginning of a slot.
pub(super) struct ArchiveForger {
    bytes: Vec<u8>,
    /// Offset of the secrets from the beginning of the slot.
    secrets: isize,
    /// The number of the secret to look up.
    sought: u32,
}

impl ArchiveForger {
    /// Starts an archive for the second slot, and writes another node's message into the first.
    pub(super) fn beside(slots: &mut [Slot]) -> Self {
        let [first, second, ..] = slots else { panic!("there are three slots") };
        first.copy_from_slice(SECRETS.as_bytes());
        let secrets = first.as_ptr().addr() as isize - second.as_ptr().addr() as isize;
        ArchiveForger { bytes: Vec::new(), secrets, sought: 0 }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn sought(&self) -> u32 {
        self.sought
    }

    pub(super) fn number(&mut self, number: u32) -> &mut Self {
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn offset(&mut self, to: isize) -> &mut Self {
        let offset = to - self.len() as isize;
        self.number(offset as u32)
    }

    pub(super) fn header(&mut self, header: Header) -> &mut Self {
        match header {
            Header::Table { controls, entries, capacity } => {
                self.offset(controls as isize).number(entries as u32).number(capacity as u32)
            }
            Header::Tree { root, entries } => self.offset(root as isize).number(entries as u32),
        }
    }

    /// Writes a map or set, and then a list of `elements` elements.
    pub(super) fn listed(&mut self, header: Header, elements: u32) -> &mut Self {
        let at = self.len();
        self.header(header).offset(at as isize).number(elements)
    }

    /// Writes an honest text.
    fn honest_text(&mut self, number: usize) {
        let end = self.len() + 8;
        self.bytes.extend_from_slice(format!("ok{number}").as_bytes());
        self.bytes.resize(end, 0xff);
    }

    /// Writes a text that lies in the previous slot.
    fn secret_text(&mut self, number: u32) {
        let to = self.secrets + number as isize * SECRET_BYTES as isize - self.len() as isize;
        self.number(SECRET_BYTES as u32 | 0x80).number(to as u32);
    }
}

/// Returns the number of a table's control bytes, and the checked ones after its capacity.
fn controls(capacity: usize) -> (usize, Range<usize>) {
    let count = capacity.next_multiple_of(GROUP) + GROUP - 1;
    (count, capacity..(2 * capacity).min(count - capacity))
}

/// Writes a table: its buckets from the last to the first, then its control bytes.
fn write_table(
    out: &mut ArchiveForger,
    (controls, capacity): (&[u8], usize),
    bucket: impl Fn(&mut ArchiveForger, usize),
) -> Header {
    (0..capacity).rev().for_each(|index| bucket(out, index));
    let at = out.len();
    out.bytes.extend_from_slice(controls);
    let entries = controls[..capacity].iter().filter(|byte| **byte < 0x80).count();
    out.bytes.resize(out.len().next_multiple_of(4), 0);
    Header::Table { controls: at, entries, capacity }
}

/// Writes a table with one entry, and with a control byte after its capacity that names another
/// bucket.
pub(super) fn table(out: &mut ArchiveForger, kind: CollectionKind, capacity: usize) -> Header {
    let (count, checked) = controls(capacity);
    let unchecked = checked.end.max(capacity)..count;
    let reached = |number| {
        let end = count.min(kind.place(number, capacity) + GROUP);
        let forged = (unchecked.start..end).find(|index| index % capacity != 0)?;
        Some((number, forged))
    };
    let (number, forged) = (0..(SLOT_BYTES / SECRET_BYTES) as u32)
        .find_map(reached)
        .unwrap_or_else(|| panic!("no look-up begins near the end of {capacity} buckets"));
    out.sought = number;
    let entry = !kind.control(number) & 0x7f;
    let mut bytes = vec![0xff; count];
    bytes[0] = entry;
    checked.filter(|index| index % capacity == 0).for_each(|index| bytes[index] = entry);
    bytes[forged] = kind.control(number);
    write_table(out, (&bytes, capacity), |out, index| {
        if kind == CollectionKind::Map {
            out.number(if index == 0 { 100_000 } else { number });
        }
        if index == 0 { out.honest_text(0) } else { out.secret_text(number) }
    })
}

/// Writes a table in which a look-up finds no control byte that ends it.
pub(super) fn never_ending(out: &mut ArchiveForger, kind: CollectionKind) -> Header {
    const CAPACITY: usize = GROUP;
    let (count, _) = controls(CAPACITY);
    let number = (0..).find(|number| kind.place(*number, CAPACITY) == 1);
    let number = number.expect("one in sixteen does");
    out.sought = number;
    let mut bytes = vec![!kind.control(number) & 0x7f; count];
    bytes[0] = 0xff;
    write_table(out, (&bytes, CAPACITY), |out, index| {
        if kind == CollectionKind::Map {
            out.number(100_000 + index as u32);
        }
        out.honest_text(index);
    })
}

/// Number of entries per node.
const NODE: u32 = 5;

/// Marks a missing child.
const NO_CHILD: u32 = 1;

/// Writes a tree with one inner node, whose first child is a leaf without entries or missing.
pub(super) fn tree(out: &mut ArchiveForger, kind: CollectionKind, has_leaf: bool) -> Header {
    let node = |out: &mut ArchiveForger, tag| {
        let at = out.len();
        out.number(tag);
        for index in (0..NODE).filter(|_| kind == CollectionKind::Map) {
            out.number(10 * (1 + index));
        }
        at
    };
    let leaf = has_leaf.then(|| {
        let leaf = node(out, 0);
        (0..NODE).for_each(|index| out.secret_text(index));
        out.number(0);
        leaf
    });
    let root = node(out, 1);
    (0..NODE).for_each(|index| out.honest_text(index as usize));
    match leaf {
        Some(leaf) => out.offset(leaf as isize),
        None => out.number(NO_CHILD),
    };
    for _ in 0..NODE {
        out.number(NO_CHILD);
    }
    // A look-up of a missing child would read here.
    (0..32).for_each(|index| out.secret_text(index));
    Header::Tree { root, entries: NODE as usize }
}
