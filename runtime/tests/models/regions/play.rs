//! The play of a scene of regions.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures::future::{join, join_all};
use ringpost::prelude::*;
use ringpost::region::{Access, Region, RemoteRegion};
use tokio::time::timeout;

use super::super::{MS, SECOND, Scene};
use super::book::{self, WORDS, judge};
use super::user::{Act, User};

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];
/// Longer than anything takes when the faults are over.
const SETTLED: Duration = Duration::from_secs(40);

/// Memory of a node, which outlives it here: so it can be seen that nothing reaches it any more.
struct Owned {
    on: usize,
    region: Region<u64>,
    share: RemoteRegion<u64>,
    /// Its words when the share ended.
    at_its_end: RefCell<Option<Vec<u64>>>,
}

impl Owned {
    fn words(&self) -> Vec<u64> {
        self.region.read(..).unwrap()
    }
}

/// A node that lives, and its user.
type Living = (Node, ActorRef<User>);

struct Stage {
    scene: Scene,
    nodes: RefCell<Vec<Option<Living>>>,
    /// By the numbers of their shares.
    owned: RefCell<Vec<Rc<Owned>>>,
    users: Cell<usize>,
}

/// Plays the scene of a seed, and judges it.
///
/// # Panics
/// When a rule was broken.
pub(in crate::models) async fn play(scene: Scene) {
    book::open();
    let (nodes, owned) = (RefCell::new(vec![None; NODES.len()]), RefCell::default());
    let stage = Stage { scene, nodes, owned, users: Cell::new(0) };
    for at in 0..NODES.len() {
        stage.start(at).await;
    }
    let is_calm = stage.scene.one_in(4);
    stage.scene.note_if(is_calm, "a calm scene");
    for _ in 0..2 + stage.scene.below(6) {
        stage.round(is_calm).await;
    }
    stage.scene.cluster.mend_all();
    stage.scene.cluster.sleep(SETTLED).await;
    // Users settle their unknown operations, and find that ended shares are closed.
    let count = stage.owned.borrow().len();
    for (at, number) in (0..NODES.len()).flat_map(|at| (0..count).map(move |it| (at, it))) {
        let is_well = stage.work(at, number, vec![Act::AddOwn, Act::Write, Act::Look]).await;
        let is_open = !book::with(number, |page| page.is_ending);
        book::fault(is_open && !is_well, || format!("share {number} is lost for {}", NODES[at]));
    }
    let owned = stage.owned.take();
    let memories = owned.iter().map(|it| (it.words(), it.at_its_end.take()));
    judge(&stage.scene, &memories.collect::<Vec<_>>());
}

impl Stage {
    /// Starts a node with a user, and has it share memory.
    async fn start(&self, at: usize) {
        let node = self.scene.cluster.node(NODES[at]).await;
        let number = self.users.get();
        self.users.set(number + 1);
        let user = node.spawn("user", User::new(number)).await.unwrap();
        self.nodes.borrow_mut()[at] = Some((node, user));
        self.share(at).await;
        // It uses the shares that others have already. (One by one: the list may grow meanwhile.)
        let count = self.owned.borrow().len();
        for number in 0..count {
            self.hand_out(number, at).await;
        }
    }

    fn node(&self, at: usize) -> Option<Living> {
        self.nodes.borrow()[at].clone()
    }

    /// Makes memory of a node, and gives a share of it to the users of all.
    async fn share(&self, on: usize) {
        let Some((node, _)) = self.node(on) else { return };
        let region = node.region::<u64>(WORDS).unwrap();
        let share = region.share(Access::READ | Access::WRITE | Access::ATOMIC).unwrap();
        let number = book::add_share();
        let owned = Owned { on, region, share, at_its_end: RefCell::default() };
        self.owned.borrow_mut().push(Rc::new(owned));
        for at in 0..NODES.len() {
            self.hand_out(number, at).await;
        }
    }

    /// Sends a share from its node to the user of another one, as far as both live.
    async fn hand_out(&self, number: usize, at: usize) {
        let owned = self.owned.borrow()[number].clone();
        // (Of a node that was killed this has memory yet, which no user of its next run had.)
        if book::with(number, |page| page.is_ending) {
            return;
        }
        let Some((node, _)) = self.node(owned.on) else { return };
        let Ok(user) = node.actor::<User>(&format!("{}/user", NODES[at])).await else { return };
        drop(user.hold(number as u64, owned.share.clone()).timeout(SECOND).await);
    }

    /// Makes all users work, most of them on one share, while something happens to it.
    async fn round(&self, is_calm: bool) {
        let count = self.owned.borrow().len();
        let focus = count - 1 - self.scene.below(count.min(NODES.len()));
        let turns = async |at| {
            for _ in 0..1 + self.scene.below(3) {
                let elsewhere = self.scene.one_in(4);
                let number = if elsewhere { self.scene.below(count) } else { focus };
                let acts =
                    [Act::Add, Act::Exchange, Act::AddOwn, Act::AddOwn, Act::Write, Act::Look];
                let acts = (0..self.scene.below(12)).map(|_| self.scene.one_of(&acts));
                self.work(at, number, acts.collect()).await;
            }
        };
        let trouble = async {
            if !is_calm {
                self.scene.rest(self.scene.one_of(&[MS, 4 * MS])).await;
                self.trouble(focus).await;
            }
        };
        join(join_all((0..NODES.len()).map(turns)), trouble).await;
    }

    /// Asks the user of a node to use a share, if it has it. Returns true if nothing failed.
    async fn work(&self, at: usize, number: usize, acts: Vec<Act>) -> bool {
        let Some((_, user)) = self.node(at) else { return true };
        self.scene.note_if(self.owned.borrow()[number].on == at, "used by its own node");
        user.serve(number as u64, acts).timeout(100 * SECOND).await.unwrap_or(false)
    }

    async fn trouble(&self, focus: usize) {
        let owner = self.owned.borrow()[focus].on;
        let other = (owner + 1 + self.scene.below(NODES.len() - 1)) % NODES.len();
        match self.scene.below(6) {
            0 => self.kill(owner).await,
            1 => self.kill(other).await,
            2 => self.revoke(focus).await,
            3 => self.scene.cluster.world().sever_data(NODES[owner], NODES[other]),
            _ => self.scene.disturb(NODES[owner], NODES[other], self.scene.one_in(3)).await,
        }
    }

    /// Kills a node, and starts it again.
    async fn kill(&self, at: usize) {
        self.nodes.borrow_mut()[at] = None;
        let owned: Vec<_> = self.owned.borrow().iter().cloned().enumerate().collect();
        let ends = |number: &usize| book::with(*number, |page| !page.has_ended);
        let on_it = owned.into_iter().filter(|(number, it)| it.on == at && ends(number));
        let on_it: Vec<_> = on_it.collect();
        for (number, _) in &on_it {
            let under_way = book::with(*number, |page| {
                (page.is_ending, page.is_killed) = (true, true);
                page.under_way
            });
            self.scene.note_if(under_way > 0, "an owner was killed at work");
        }
        self.scene.cluster.kill(NODES[at]).await;
        for (number, it) in on_it {
            book::with(number, |page| page.has_ended = true);
            *it.at_its_end.borrow_mut() = Some(it.words());
        }
        self.scene.rest(self.scene.one_of(&[MS, SECOND, 12 * SECOND])).await;
        self.start(at).await;
    }

    /// Revokes a share, and has its node share other memory.
    async fn revoke(&self, number: usize) {
        let owned = self.owned.borrow()[number].clone();
        if book::with(number, |page| std::mem::replace(&mut page.is_ending, true)) {
            return;
        }
        let under_way = book::with(number, |page| page.under_way);
        self.scene.note_if(under_way > 0, "revoked under work");
        let patience = self.scene.one_of(&[MS / 4, 100 * SECOND]);
        let first = timeout(patience, owned.region.revoke(&owned.share)).await;
        // The next one waits for the end, too.
        self.scene.note_if(first.is_err(), "revoked again under way");
        assert!(!owned.region.revoke(&owned.share).await, "share {number} was shared twice");
        let was_shared = first.unwrap_or(true);
        if !book::with(number, |page| page.is_killed) {
            assert!(was_shared, "share {number} was shared");
            book::with(number, |page| page.has_ended = true);
            *owned.at_its_end.borrow_mut() = Some(owned.words());
        }
        self.share(owned.on).await;
    }
}
