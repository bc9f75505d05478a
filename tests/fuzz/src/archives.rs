//! Bytes taken for the archives of messages, and archives with bytes changed.

mod look;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::OnceLock;

use look::Look;

use ringpost::Input;
use ringpost::prelude::*;
use ringpost::wire::Wire;
use ringpost_transport::memory::Payload;
use rkyv::Serialize;
use rkyv::api::high::HighSerializer;
use rkyv::rancor::Error;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use tokio::runtime::Runtime;

/// Lists of lists, texts, and values that may be missing.
#[message]
#[derive(Debug, Clone, PartialEq)]
pub struct Nested {
    /// Lists of lists.
    pub rows: Vec<Vec<u32>>,
    /// Texts that may be missing.
    pub texts: Vec<Option<String>>,
    /// A choice.
    pub choice: Choice,
    /// A character, of which not every number is one.
    pub letter: char,
    /// One of two bytes.
    pub yes: bool,
}

/// One of several.
#[message]
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// Nothing.
    None,
    /// A number.
    Number(u64),
    /// A pair.
    Pair {
        /// Its text.
        text: String,
        /// Its bytes.
        bytes: Vec<u8>,
    },
}

/// As deep as it likes.
#[message]
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    /// An end.
    Leaf(u16),
    /// One below.
    Chain(#[message(recursive)] Box<Tree>),
    /// Several below.
    Fork(#[message(recursive)] Vec<Tree>),
}

/// References to actors.
#[message]
#[derive(Debug, Clone)]
pub struct Parties {
    /// References.
    pub all: Vec<ActorRef<Anyone>>,
    /// A reference that may be missing.
    pub first: Option<ActorRef<Anyone>>,
}

/// An actor of no account.
#[actor]
#[derive(Default)]
pub struct Anyone;

#[handlers]
impl Anyone {
    /// Does nothing.
    #[handler]
    pub fn nothing(&mut self) {}
}

/// Hash tables.
#[message]
#[derive(Debug, Clone, PartialEq)]
pub struct Tables {
    /// A map.
    pub map: HashMap<u32, String>,
    /// A set.
    pub set: HashSet<String>,
}

/// B-trees.
#[message]
#[derive(Debug, Clone, PartialEq)]
pub struct Trees {
    /// A map.
    pub map: BTreeMap<u32, String>,
    /// A set.
    pub set: BTreeSet<String>,
}

/// Maps in lists, and in each other.
#[message]
#[derive(Debug, Clone, PartialEq)]
pub struct Mixed {
    /// Trees of tables.
    pub trees: Vec<BTreeMap<u32, HashSet<String>>>,
    /// A table of trees.
    pub table: Option<HashMap<u32, BTreeSet<String>>>,
}

/// A message, in whose views all maps and sets are looked at.
trait Seen: Message + Wire {
    fn look(_: &Self::Archived) {}
}

impl Seen for Nested {}
impl Seen for Tree {}
impl Seen for Parties {}

impl Seen for Tables {
    fn look(archive: &Self::Archived) {
        archive.map.look();
        archive.set.look();
    }
}

impl Seen for Trees {
    fn look(archive: &Self::Archived) {
        archive.map.look();
        archive.set.look();
    }
}

impl Seen for Mixed {
    fn look(archive: &Self::Archived) {
        archive.trees.look();
        archive.table.look();
    }
}

/// Reads `input` as a message; the first byte chooses its shape. If the second byte is even, the
/// rest is the archive; if odd, each three bytes of the rest change a good archive: a place (two
/// bytes) and a change, which by the second byte alters one byte or copies four from another place.
pub fn archives(input: &[u8]) {
    let Some((&[shape, how], rest)) = input.split_first_chunk() else { return };
    let Stage { node, archives, .. } = stage();
    let shape = usize::from(shape) % archives.len();
    let mut bytes = AlignedVec::<16>::new();
    if how & 1 == 0 {
        bytes.extend_from_slice(rest);
    } else {
        bytes.extend_from_slice(&archives[shape]);
        for &[low, high, change] in rest.as_chunks().0 {
            let at = usize::from(u16::from_le_bytes([low, high]));
            if how & 2 == 0 {
                let at = at % bytes.len();
                bytes[at] ^= change;
            } else {
                let words = bytes.len() / 4;
                let (from, to) = (usize::from(change) % words * 4, at % words * 4);
                bytes.copy_within(from..from + 4, to);
            }
        }
    }
    match shape {
        0 => read::<Nested>(&bytes, node),
        1 => read::<Tree>(&bytes, node),
        2 => read::<Parties>(&bytes, node),
        3 => read::<Tables>(&bytes, node),
        4 => read::<Trees>(&bytes, node),
        _ => read::<Mixed>(&bytes, node),
    }
}

/// Checks that a view and an owned message accept the same bytes; reads an accepted view.
fn read<M: Seen>(bytes: &AlignedVec<16>, node: &Node) {
    let view = View::<M>::from_remote(&mut Payload::owned(bytes.clone()), node, 0);
    let owned = M::from_remote(&mut Payload::owned(bytes.clone()), node, 0);
    assert_eq!(view.is_ok(), owned.is_ok());
    if let Ok(view) = view {
        M::look(&view);
        drop(view.to_owned());
    }
}

/// The node and the good archives that all runs share.
struct Stage {
    node: Node,
    /// A good archive of each shape.
    archives: [AlignedVec<16>; 6],
    /// The node lives in it.
    _runtime: Runtime,
}

fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime of one thread");
        let (node, anyone) = runtime.block_on(async {
            let node = Node::builder("fuzz").start().await.expect("it does not listen");
            let anyone = node.spawn("anyone", Anyone).await.expect("the name is free");
            (node, anyone)
        });
        let nested = Nested {
            rows: vec![vec![1, 2], Vec::new()],
            texts: vec![Some("a text that is kept elsewhere".into()), None, Some("b".into())],
            choice: Choice::Pair { text: "short".into(), bytes: vec![1; 20] },
            letter: 'x',
            yes: true,
        };
        let leaf = Tree::Chain(Box::new(Tree::Leaf(7)));
        let tree = Tree::Fork(vec![leaf.clone(), Tree::Fork(Vec::new()), leaf]);
        let parties = Parties { all: vec![anyone.clone(), anyone.clone()], first: Some(anyone) };
        let text = |number: u32| "abcdefg"[..number as usize % 8].to_owned();
        let pairs = || (0..14).map(|number| (number, text(number)));
        let tables = Tables { map: pairs().collect(), set: ["b".into()].into() };
        let trees = Trees { map: pairs().take(6).collect(), set: (0..6).map(text).collect() };
        let mixed = Mixed {
            trees: vec![BTreeMap::from([(1, tables.set.clone())]), BTreeMap::new()],
            table: Some(HashMap::from([(2, trees.set.clone())])),
        };
        let archives = [
            archive(&nested),
            archive(&tree),
            archive(&parties),
            archive(&tables),
            archive(&trees),
            archive(&mixed),
        ];
        Stage { node, archives, _runtime: runtime }
    })
}

fn archive(
    message: &impl for<'a> Serialize<HighSerializer<AlignedVec<16>, ArenaHandle<'a>, Error>>,
) -> AlignedVec<16> {
    rkyv::api::high::to_bytes_in(message, AlignedVec::new()).expect("it can be archived")
}

#[cfg(test)]
mod tests {
    use rkyv::rancor::Source;
    use rkyv::ser::{Allocator, Writer};
    use rkyv::validation::ArchiveContext;
    use rkyv::{Archive, Serialize};

    use super::*;

    /// A [`Tree`] as another node may write it: as deep as it likes.
    #[derive(Archive, Serialize)]
    #[rkyv(serialize_bounds(__S: Writer + Allocator, __S::Error: Source))]
    #[rkyv(bytecheck(bounds(__C: ArchiveContext, __C::Error: Source)))]
    enum Forged {
        Leaf(u16),
        Chain(#[rkyv(omit_bounds)] Box<Forged>),
        #[allow(dead_code, reason = "the archive of a tree has its size")]
        Fork(#[rkyv(omit_bounds)] Vec<Forged>),
    }

    /// Returns the archive of a chain of `levels` levels.
    fn chain(levels: usize) -> AlignedVec<16> {
        // Archiving and dropping it both take much stack.
        let deep = std::thread::Builder::new().stack_size(1 << 30).spawn(move || {
            let leaf = Forged::Leaf(1);
            archive(&(1..levels).fold(leaf, |below, _| Forged::Chain(Box::new(below))))
        });
        deep.unwrap().join().unwrap()
    }

    /// Following a chain of pointers without a limit would overflow the stack of the reader.
    // Promised in docs/SEMANTICS.md.
    #[test]
    fn an_archive_that_is_too_deep_is_an_error() {
        let node = &stage().node;
        for (levels, valid) in [(1, true), (127, true), (128, false), (100_000, false)] {
            let bytes = chain(levels);
            assert_eq!(
                Tree::from_remote(&mut Payload::owned(bytes.clone()), node, 0).is_ok(),
                valid
            );
            assert_eq!(
                View::<Tree>::from_remote(&mut Payload::owned(bytes), node, 0).is_ok(),
                valid
            );
        }
    }
}
