//! A node that was granted shares and keeps to none of their terms: the operations that it posts
//! are changed below its own checks (RE-2), so that only the owner of the memory can refuse them.

use std::collections::VecDeque;
use std::mem::take;
use std::task::{Context, Poll, Waker};

use super::over::Over;
use super::sharing::{Owned, reached};
use super::simulated::{self, sim_config};
use super::tcp;
use super::*;
use crate::cause::NotShared;
use crate::endpoint::{AccessError, SharedMemory};
use crate::fabric::one_sided::{
    Access, Executor, Granting, Key, Kind, Locked, Making, OneSided, Operation, Outcome,
};
use crate::fabric::{PostError, Status, sim};
use crate::memory::{Buffer, Words};

type Change = Box<dyn Fn(&mut Operation) + Send>;

/// The plan by which a rogue changes or holds back its operations.
#[derive(Default)]
struct Plan {
    /// Changes each operation before it is posted.
    change: Option<Change>,
    /// The key of the last operation that was not changed.
    key: Option<Key>,
    /// Operations wait below their node, which takes them for posted.
    is_held: bool,
    /// So many of them.
    held: usize,
    /// How many were changed and posted.
    posted: usize,
    /// How those ended that were changed, and whether their slot was left as it was.
    ended: Vec<(Status, bool)>,
    waker: Option<Waker>,
}

/// A queue pair that does what its [`Plan`] says.
struct RoguePair {
    below: Box<dyn OneSided>,
    plan: Arc<Mutex<Plan>>,
    held: Vec<Operation>,
    /// Of each operation without an outcome, in order (PV-14), whether it was changed.
    changed: VecDeque<bool>,
}

/// Each byte of the slot of an operation that is changed.
const SLOT: u8 = 0xee;

impl RoguePair {
    fn post_held(&mut self) {
        let mut plan = self.plan.lock();
        if !plan.is_held && !self.held.is_empty() {
            self.below.post(&mut self.held).expect("the owner has to refuse it");
        }
        plan.held = self.held.len();
    }
}

impl OneSided for RoguePair {
    fn grant(&mut self, memory: &Arc<Words>, at: u64, bytes: u64, access: Access) -> Granting {
        self.below.grant(memory, at, bytes, access)
    }

    fn lend(&mut self, bytes: &Arc<Buffer>) -> Granting {
        self.below.lend(bytes)
    }

    fn alloc(&self, bytes: usize) -> Making<Locked> {
        self.below.alloc(bytes)
    }

    fn executor(&self) -> Executor {
        self.below.executor()
    }

    fn post(&mut self, batch: &mut Vec<Operation>) -> Result<(), PostError> {
        for operation in batch.iter_mut() {
            let mut plan = self.plan.lock();
            match &plan.change {
                Some(change) => {
                    operation.slot.fill(SLOT);
                    change(operation);
                    plan.posted += 1;
                    self.changed.push_back(true);
                }
                None => {
                    plan.key = Some(operation.key);
                    self.changed.push_back(false);
                }
            }
        }
        self.held.append(batch);
        self.post_held();
        Ok(())
    }

    fn poll(&mut self, out: &mut Vec<Outcome>, max: usize) -> usize {
        self.post_held();
        let before = out.len();
        let count = self.below.poll(out, max);
        for outcome in &out[before..] {
            if let Outcome::Done { slot, status } = outcome
                && self.changed.pop_front() == Some(true)
            {
                let is_left = slot.iter().all(|byte| *byte == SLOT);
                self.plan.lock().ended.push((*status, is_left));
            }
        }
        count
    }

    fn arm(&mut self) {
        self.below.arm();
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.plan.lock().waker = Some(cx.waker().clone());
        self.below.poll_ready(cx)
    }

    fn close(&mut self) {
        self.below.close();
    }
}

/// Bytes of a share: more than a frame carries, and fewer than a slot.
const BYTES: u64 = 20_000;
/// Bytes of the same memory on either side of them, which are not shared.
const MARGIN: u64 = 64;
/// Each byte of that memory.
const MEMORY: u8 = 7;
const WORD: u64 = u64::from_ne_bytes([MEMORY; 8]);
const SWAP: Kind = Kind::CompareAndSwap { expected: WORD, new: u64::MAX };
/// Operations that bring or change something, wherever in that memory they are done.
const KINDS: [Kind; 4] = [Kind::Read, Kind::Write, Kind::FetchAdd(1), SWAP];
const NO_ATOMICS: Access = Access { read: true, write: true, atomic: false };

type Breach = (&'static str, Access, fn(&mut Operation));

/// Changes that make an operation break the terms of a share with this access.
const BREACHES: [Breach; 19] = [
    ("the number is guessed", Access::ALL, |it| it.key.number += 3),
    ("the number is another peer's", Access::ALL, |it| it.key.number = 9),
    ("the number is the last one there is", Access::ALL, |it| it.key.number = u32::MAX),
    ("the base is that of another memory", Access::ALL, |it| it.key.base = 8),
    ("the base wraps around", Access::ALL, |it| it.key.base = u64::MAX - 7),
    ("it ends a byte beyond", Access::ALL, |it| {
        it.at = if it.kind.is_atomic() { BYTES } else { BYTES - 7 };
    }),
    ("it begins where the share ends", Access::ALL, |it| it.at = BYTES),
    ("it is a byte longer", NO_ATOMICS, |it| {
        (it.at, it.bytes) = (0, BYTES as u32 + 1);
    }),
    ("it begins a word before", Access::ALL, |it| it.at = u64::MAX - 7),
    ("its end wraps around", NO_ATOMICS, |it| it.at = u64::MAX - 3),
    ("its beginning is far off", Access::ALL, |it| it.at = 1 << 63),
    ("it writes what may be read", Access::READ, |it| it.kind = Kind::Write),
    ("it writes there and tells", Access::READ, |it| it.kind = Kind::WriteAndNotify(1)),
    ("it adds to what may be read", Access::READ, |it| it.kind = Kind::FetchAdd(1)),
    ("it reads what may be written", Access::WRITE, |it| it.kind = Kind::Read),
    ("it swaps what may be written", Access::WRITE, |it| it.kind = SWAP),
    ("it reads what is for atomics", Access::ATOMIC, |it| it.kind = Kind::Read),
    ("it writes what is for atomics", Access::ATOMIC, |it| it.kind = Kind::Write),
    ("it writes and tells beyond the share", Access::WRITE, |it| {
        (it.kind, it.at) = (Kind::WriteAndNotify(1), BYTES - 7);
    }),
];

/// Alpha shares memory, beta keeps to the terms and gamma does not.
struct Scene<'a> {
    alpha: &'a Node,
    beta: &'a Node,
    gamma: &'a Node,
    plan: &'a Mutex<Plan>,
    memory: Arc<Words>,
    /// A word to which beta and gamma add, and how often they did.
    counter: Owned,
    count: u64,
    /// Refusals that the rogue's queue pair was told.
    refused: usize,
}

impl Scene<'_> {
    fn share(&self, access: Access) -> crate::endpoint::Share {
        self.alpha.mesh.shares().share(&self.memory, MARGIN, BYTES, access).unwrap()
    }

    fn plan(&self, change: impl Fn(&mut Operation) + Send + 'static) {
        self.plan.lock().change = Some(Box::new(change));
    }

    async fn queue_pairs(&self, node: &Node, peer: &str) -> u32 {
        node.link(peer).await.unwrap().reach().queue_pairs()
    }

    /// Nothing was read or written, and each operation was refused; the honest node has lost
    /// nothing, and the rogue just its queue pair. (Where the owner's UNABLE comes before its
    /// refusal, the queue pair is gone before that.)
    async fn was_refused(&mut self, what: &str) {
        let (posted, ended) = {
            let plan = &mut *self.plan.lock();
            plan.change = None;
            (take(&mut plan.posted), take(&mut plan.ended))
        };
        assert!(posted > 0, "{what}: it was posted");
        self.refused += ended.len();
        for ended in ended {
            assert_eq!(ended, (Status::RemoteAccess, true), "{what}: nothing is brought");
        }
        let mut found = vec![0; self.memory.bytes()];
        self.memory.read(0, &mut found).unwrap();
        assert!(found.iter().all(|byte| *byte == MEMORY), "{what}: nothing is written");
        for node in [self.beta, self.gamma] {
            let memory = reached(node, self.alpha, self.counter.share.id());
            assert_eq!(memory.fetch_add(0, 1).await, Ok(self.count), "{what}");
            self.count += 1;
        }
        assert_eq!(self.queue_pairs(self.beta, "alpha").await, 1, "{what}: an honest one");
        assert_eq!(self.queue_pairs(self.alpha, "beta").await, 1, "{what}: an honest one");
    }

    /// A share ends while the rogue holds its key: after the rogue has said that it has let go of
    /// it, or while an operation is under way that it does not end.
    async fn use_a_share_that_has_ended(&mut self, kind: Kind, lets_go: bool) {
        let what = format!("{kind:?} after the end, let go of: {lets_go}");
        let [ending, other] = [(); 2].map(|()| self.share(Access::ALL));
        let [memory, allowed] =
            [&ending, &other].map(|share| reached(self.gamma, self.alpha, share.id()));
        allowed.read(0, &mut [0]).await.unwrap();
        memory.read(0, &mut [0]).await.unwrap();
        let key = self.plan.lock().key.unwrap();
        let queue_pairs = self.queue_pairs(self.gamma, "alpha").await;
        if lets_go {
            ending.end().await;
            assert_eq!(
                operate(&memory, kind).await,
                Err(AccessError::NotShared(NotShared::Revoked))
            );
            self.plan(move |it| it.key = key);
            operate(&allowed, kind).await.unwrap_err();
        } else {
            self.plan.lock().is_held = true;
            self.plan(|_| {});
            let under_way = tokio::spawn(async move { operate(&memory, kind).await });
            while self.plan.lock().held == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            ending.end().await;
            assert_eq!(self.queue_pairs(self.gamma, "alpha").await, queue_pairs);
            let waker = {
                let mut plan = self.plan.lock();
                plan.is_held = false;
                plan.waker.take()
            };
            waker.unwrap().wake();
            under_way.await.unwrap().unwrap_err();
        }
        self.was_refused(&what).await;
    }
}

/// Does what its own node allows.
async fn operate(memory: &SharedMemory, kind: Kind) -> Result<(), AccessError> {
    match kind {
        Kind::Read => {
            let mut into = [0; 8];
            let read = memory.read(16, &mut into).await;
            assert_eq!(into, [0; 8]);
            read
        }
        Kind::Write | Kind::WriteAndNotify(_) => memory.write(16, &[0xff; 8]).await,
        Kind::FetchAdd(more) => memory.fetch_add(16, more).await.map(|_| ()),
        Kind::CompareAndSwap { expected, new } => {
            memory.compare_and_swap(16, expected, new).await.map(|_| ())
        }
    }
}

/// PV-13, PV-18: whatever a peer posts by the queue pair on which it was granted shares. Returns
/// how many refusals that queue pair was told.
async fn attack(alpha: &Node, beta: &Node, gamma: &Node, plan: &Mutex<Plan>) -> usize {
    let bytes = (MARGIN + BYTES + MARGIN) as usize;
    let memory = Arc::new(Words::zeroed(bytes).unwrap());
    memory.write(0, &vec![MEMORY; bytes]).unwrap();
    let counter = Owned::new(alpha, 8, Access::ALL);
    let mut scene = Scene { alpha, beta, gamma, plan, memory, counter, count: 0, refused: 0 };
    let links = [beta, gamma].map(|node| node.link("alpha"));
    let links = futures::future::join_all(links).await;
    // The numbers of beta's keys are none of gamma's.
    let of_beta: Vec<_> = (0..16).map(|_| scene.share(Access::ALL)).collect();
    for share in &of_beta {
        reached(beta, alpha, share.id()).read(0, &mut [0]).await.unwrap();
    }
    for (what, access, change) in BREACHES {
        let share = scene.share(access);
        let memory = reached(gamma, alpha, share.id());
        for kind in KINDS.into_iter().filter(|kind| access.allows(*kind)) {
            scene.plan(change);
            operate(&memory, kind).await.unwrap_err();
            scene.was_refused(&format!("{what}: {kind:?}")).await;
        }
    }
    for kind in KINDS {
        scene.use_a_share_that_has_ended(kind, true).await;
    }
    scene.use_a_share_that_has_ended(Kind::Read, false).await;
    scene.use_a_share_that_has_ended(Kind::Write, false).await;
    for (node, link) in [beta, gamma].into_iter().zip(links) {
        assert!(Arc::ptr_eq(&link.unwrap(), &node.link("alpha").await.unwrap()), "it went on");
    }
    assert_eq!(alpha.watcher.texts().len(), 2, "{:?}", alpha.watcher.texts());
    scene.refused
}

/// Makes the node of this configuration a rogue, which keeps to no terms.
fn rogue(config: &mut Config) -> Arc<Mutex<Plan>> {
    let plan: Arc<Mutex<Plan>> = Arc::default();
    let below = config.network.fabrics[0].clone();
    let of_pairs = plan.clone();
    let change = move |below| {
        let (held, changed) = (Vec::new(), VecDeque::new());
        Box::new(RoguePair { below, plan: of_pairs.clone(), held, changed }) as Box<dyn OneSided>
    };
    let rogue = Over { name: below.name(), below, operations: 1, change: Arc::new(change) };
    config.network.fabrics = vec![Arc::new(rogue)];
    plan
}

#[test]
fn a_rogue_reaches_nothing_by_what_it_posts() {
    for seed in 0..5 {
        sim::run(seed, |world| async move {
            let alpha = simulated::node(&world, "alpha", &[]).await;
            let beta = simulated::node(&world, "beta", &["alpha"]).await;
            let mut config = sim_config(&world, "gamma", &["alpha"]);
            let plan = rogue(&mut config);
            let gamma = Node::start(config).await.unwrap();
            alpha.mesh.ready(2).await;
            let refused = attack(&alpha, &beta, &gamma, &plan).await;
            assert!(refused > BREACHES.len(), "{refused}");
        });
    }
}

#[tokio::test]
async fn a_rogue_reaches_nothing_by_what_it_posts_over_tcp() {
    let alpha = tcp::node("alpha", &[]).await;
    let seeds = [alpha.address()];
    let beta = tcp::node("beta", &seeds).await;
    let mut config = config("gamma", Network::tcp(), &seeds);
    let plan = rogue(&mut config);
    let gamma = Node::start(config).await.unwrap();
    alpha.mesh.ready(2).await;
    attack(&alpha, &beta, &gamma, &plan).await;
    for node in [gamma, beta, alpha] {
        node.shutdown().await;
    }
}
