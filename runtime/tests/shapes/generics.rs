//! Generic actors and messages, recursion, foreign fields, actors inside of functions.
#![deny(warnings)]

use ringpost::prelude::*;
use ringpost::wire::Wire;
use std::collections::HashMap;
use std::path::PathBuf;

pub trait Backend: Send + Sync + 'static {
    fn get(&self, key: &str) -> Option<u64>;
}

/// The requirements of a worker's jobs: the user's own trait, with `Wire` as its supertrait.
pub trait Job: Wire + Clone {
    fn run(&self) -> u64;
}

#[message]
#[derive(Clone)]
pub struct Square {
    pub n: u64,
}

impl Job for Square {
    fn run(&self) -> u64 {
        self.n * self.n
    }
}

#[message]
#[derive(Clone)]
pub struct Batch<T> {
    pub items: Vec<T>,
    pub tags: HashMap<String, (u8, Option<T>)>,
}

#[actor]
pub struct Worker<T: Job> {
    done: Vec<T>,
}

#[handlers]
impl<T: Job> Worker<T> {
    #[handler]
    pub async fn run(&mut self, job: T, times: u64) -> u64 {
        let result = job.run() * times;
        self.done.push(job);
        result
    }

    #[handler]
    pub async fn batch(&mut self, msg: Batch<T>) -> Vec<u64> {
        msg.items.iter().map(Job::run).collect()
    }

    #[handler]
    pub fn count(&self) -> u64 {
        self.done.len() as u64
    }

    #[handler]
    pub fn same(&self, other: ActorRef<Self>, cx: &mut Context<Self>) -> bool {
        other == *cx.actor()
    }
}

/// A parameter that no message uses, and a bound that speaks of both.
#[actor]
pub struct Store<B: Backend, K> {
    backend: B,
    keys: Vec<K>,
}

#[handlers]
impl<B, K> Store<B, K>
where
    B: Backend,
    K: Wire + Sync + Into<String>,
    (B, K): Send,
{
    #[handler]
    pub async fn get(&mut self, key: K) -> Option<u64> {
        self.keys.clear();
        self.backend.get(&key.into())
    }
}

pub struct Constant;

impl Backend for Constant {
    fn get(&self, key: &str) -> Option<u64> {
        Some(key.len() as u64)
    }
}

#[actor]
pub struct Ring<T, const N: usize> {
    rows: Vec<[T; N]>,
}

#[handlers]
impl<T: Wire + Sync, const N: usize> Ring<T, N> {
    #[handler]
    pub async fn push(&mut self, row: [T; N]) -> u64 {
        self.rows.push(row);
        self.rows.len() as u64
    }
}

/// The macro sees the type's own name in a field.
#[message]
#[derive(Debug, PartialEq, Clone)]
pub struct Tree {
    pub value: u32,
    pub children: Vec<Tree>,
}

/// A cycle of two messages: one field of each says so.
#[message]
#[derive(Debug, PartialEq, Clone)]
pub struct Folder {
    #[message(recursive)]
    pub entries: Vec<Entry>,
}

#[message]
#[derive(Debug, PartialEq, Clone)]
pub enum Entry {
    File(u64),
    Folder(#[message(recursive)] Box<Folder>),
}

/// A cycle that one field closes.
#[message]
pub struct Chapter {
    #[message(recursive)]
    pub parts: Vec<Section>,
}

#[message]
pub enum Section {
    Text(String),
    Chapter { number: u8, chapter: Box<Chapter> },
}

/// Foreign types: by the text of the type, through a wrapper of rkyv.
#[message]
#[derive(Debug, PartialEq, Clone)]
pub struct Foreign {
    #[message(opaque)]
    pub name: std::ffi::CString,
    #[message(opaque)]
    #[rkyv(with = ringpost::rkyv::with::AsString)]
    pub path: PathBuf,
}

#[actor]
pub struct Keeper;

#[handlers]
impl Keeper {
    #[handler(name = PutTree)]
    pub fn tree(&self, tree: Tree, folder: Folder) -> (Tree, Folder) {
        (tree, folder)
    }

    #[handler]
    pub fn foreign(&self, msg: View<Foreign>) -> Foreign {
        msg.to_owned()
    }

    #[handler]
    pub fn parameter(
        &self,
        #[message(opaque)]
        #[rkyv(with = ringpost::rkyv::with::AsString)]
        path: PathBuf,
    ) -> u64 {
        path.as_os_str().len() as u64
    }
}

#[tokio::test]
async fn it_runs() {
    let node = Node::builder("alpha").start().await.unwrap();
    let worker = node.spawn("worker", Worker::<Square> { done: Vec::new() }).await.unwrap();
    assert_eq!(worker.run(Square { n: 3 }, 2).await.unwrap(), 18);
    assert_eq!(worker.ask(Run { job: Square { n: 3 }, times: 1 }).await.unwrap(), 9);
    let batch = Batch { items: vec![Square { n: 2 }], tags: HashMap::new() };
    assert_eq!(worker.batch(batch).await.unwrap(), [4]);
    assert_eq!(worker.count().await.unwrap(), 2);
    assert!(worker.same(worker.clone()).await.unwrap());

    let store = Store { backend: Constant, keys: vec![String::new()] };
    let store = node.spawn("store", store).await.unwrap();
    assert_eq!(store.get("four".into()).await.unwrap(), Some(4));

    let ring = node.spawn("ring", Ring::<u8, 4> { rows: Vec::new() }).await.unwrap();
    assert_eq!(ring.push([0; 4]).await.unwrap(), 1);

    let keeper = node.spawn("keeper", Keeper).await.unwrap();
    let leaf = Tree { value: 2, children: Vec::new() };
    let tree = Tree { value: 1, children: vec![leaf] };
    let inner = Folder { entries: vec![Entry::File(1)] };
    let folder = Folder { entries: vec![Entry::Folder(Box::new(inner))] };
    let back = keeper.tree(tree.clone(), folder.clone()).await.unwrap();
    assert_eq!(back, (tree, folder));
    let foreign = Foreign { name: c"x".into(), path: "/x".into() };
    assert_eq!(keeper.foreign(foreign.clone()).await.unwrap(), foreign);
    assert_eq!(keeper.parameter("/x".into()).await.unwrap(), 2);

    #[message]
    struct Inside {
        part: Part,
    }
    #[message]
    struct Part {
        n: u8,
    }
    #[actor]
    struct Nested;
    #[handlers]
    impl Nested {
        #[handler]
        fn one(&self, part: Part) -> u8 {
            part.n
        }
        #[handler]
        async fn two(&self, msg: Inside) -> u8 {
            msg.part.n
        }
    }
    let nested = node.spawn("nested", Nested).await.unwrap();
    assert_eq!(nested.one(Part { n: 1 }).await.unwrap(), 1);
    assert_eq!(nested.two(Inside { part: Part { n: 2 } }).await.unwrap(), 2);
}
