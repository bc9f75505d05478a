//! Bytes taken for the archives of messages, and archives with bytes changed.

use std::sync::OnceLock;

use ringpost::prelude::*;
use ringpost::{Input, Wire};
use ringpost_transport::memory::Payload;
use rkyv::Serialize;
use rkyv::api::high::HighSerializer;
use rkyv::rancor::Error;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use tokio::runtime::Runtime;

/// Lists of lists, texts, and what may be missing.
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

/// Who takes part in it.
#[message]
#[derive(Debug, Clone)]
pub struct Parties {
    /// References.
    pub all: Vec<ActorRef<Anyone>>,
    /// One that may be missing.
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

/// Reads `input` as a message of a shape that the first byte chooses: bytes as they are, or, when
/// the second is odd, a good archive with bytes changed, each by three: where (two) and how.
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
            let at = usize::from(u16::from_le_bytes([low, high])) % bytes.len();
            bytes[at] ^= change;
        }
    }
    match shape {
        0 => read::<Nested>(&bytes, node),
        1 => read::<Tree>(&bytes, node),
        _ => read::<Parties>(&bytes, node),
    }
}

/// Both ways to take a message that arrived come to the same end.
fn read<M: Message + Wire>(bytes: &AlignedVec<16>, node: &Node) {
    let view = View::<M>::from_remote(&mut Payload::owned(bytes.clone()), node, 0);
    let owned = M::from_remote(&mut Payload::owned(bytes.clone()), node, 0);
    assert_eq!(view.is_ok(), owned.is_ok());
    if let Ok(view) = view {
        drop(view.to_owned());
    }
}

/// What all runs share.
struct Stage {
    node: Node,
    /// A good archive of each shape.
    archives: [AlignedVec<16>; 3],
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
        let archives = [archive(&nested), archive(&tree), archive(&parties)];
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
    use super::*;

    /// A tree of so many levels, archived.
    fn chain(levels: usize) -> AlignedVec<16> {
        // Archiving it takes stack, and so does its end.
        let deep = std::thread::Builder::new().stack_size(1 << 30).spawn(move || {
            let leaf = Tree::Leaf(1);
            archive(&(1..levels).fold(leaf, |below, _| Tree::Chain(Box::new(below))))
        });
        deep.unwrap().join().unwrap()
    }

    /// A message that is nothing but pointers would have its reader run out of stack.
    // Promised in docs/SEMANTICS.md.
    #[test]
    fn an_archive_that_is_too_deep_is_an_error() {
        let node = &stage().node;
        for (levels, valid) in [(1, true), (127, true), (128, false), (1_000_000, false)] {
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
