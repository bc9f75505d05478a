//! The acts of a scene of spawns.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures::future::{join, join3};
use ringpost::prelude::*;

use super::super::{MS, SECOND, Scene};
use super::book::{self, How, NODES, Order, Outcome};
use super::guest::{Guest, Known};
use super::judge::judge;
use super::patron::{Hire, Patron, Way, Wish};

/// Longer than a spawn waits, and than anything takes when the faults are over.
const SETTLED: Duration = Duration::from_secs(40);

/// A patron, with its number.
type Numbered = (u64, ActorRef<Patron>);

struct Stage {
    scene: Scene,
    nodes: RefCell<Vec<Option<Node>>>,
    patrons: RefCell<Vec<Option<Numbered>>>,
    made: Cell<u64>,
}

/// Plays the scene of a seed, and judges it.
///
/// # Panics
/// When a rule was broken.
pub(in crate::models) async fn play(scene: Scene) {
    book::open();
    let (nodes, patrons) = Default::default();
    let stage = Stage { scene, nodes, patrons, made: Cell::new(0) };
    for at in 0..NODES.len() {
        stage.nodes.borrow_mut().push(None);
        stage.patrons.borrow_mut().push(None);
        stage.start(at).await;
    }
    let faults = stage.scene.one_of(&[0, 0, 1, 3, 6]);
    let troubles = async {
        for _ in 0..faults {
            stage.scene.rest(2 * SECOND).await;
            stage.trouble().await;
        }
    };
    let steps = async |at| {
        for _ in 0..stage.scene.below(12) {
            stage.scene.rest(stage.scene.one_of(&[MS, 20 * MS, SECOND])).await;
            stage.step(at).await;
        }
    };
    let all = join3(steps(0), steps(1), steps(2));
    join(join(all, join3(steps(0), steps(1), steps(2))), troubles).await;
    stage.scene.cluster.mend_all();
    stage.scene.cluster.sleep(SETTLED).await;
    stage.look().await;
    stage.end_all().await;
    stage.scene.cluster.sleep(SETTLED).await;
    judge(&stage.scene, book::close(), faults == 0);
}

impl Stage {
    /// Starts a node with its offer and a patron.
    async fn start(&self, at: usize) {
        let node = self.scene.cluster.node(NODES[at]).await;
        node.offer::<Guest>().unwrap();
        self.make_patron(at, &node).await;
        self.nodes.borrow_mut()[at] = Some(node);
    }

    async fn make_patron(&self, at: usize, node: &Node) {
        let number = self.made.get();
        self.made.set(number + 1);
        if let Ok(patron) = node.spawn("patron", Patron { number }).await {
            self.patrons.borrow_mut()[at] = Some((number, patron));
        }
    }

    fn node(&self, at: usize) -> Option<Node> {
        self.nodes.borrow()[at].clone()
    }

    async fn step(&self, at: usize) {
        match self.scene.below(10) {
            0..4 => self.spawn(at).await,
            4..8 => self.hire(at).await,
            8 => self.end(at).await,
            _ => self.end_patron(at).await,
        }
    }

    fn wish(&self, from: usize, patron: Option<u64>) -> Wish {
        let on = self.scene.below(NODES.len());
        let how = match self.scene.below(16) {
            0 => How::Refuse,
            1 => How::PanicAtOnce,
            2 => How::Fail,
            3 => How::Panic,
            4 => How::StopSoon,
            5 => How::PanicSoon,
            6..9 => How::Slow(self.scene.below(2000) as u64),
            _ => How::Live,
        };
        let name = match self.scene.below(4) {
            0 => None,
            number => Some(format!("guest{number}")),
        };
        let long = [SECOND, 5 * SECOND, 20 * SECOND];
        let way = Way {
            timeout: match self.scene.below(4) {
                0 => self.scene.one_of(&[MS, 50 * MS]),
                _ => self.scene.one_of(&long),
            },
            waits_for_link: self.scene.one_in(3),
            patience: match self.scene.below(5) {
                0 => self.scene.one_of(&[MS, MS / 2, 20 * MS]),
                _ => 60 * SECOND,
            },
        };
        let is_patient = way.timeout >= 5 * SECOND && way.patience > 20 * SECOND;
        let what = (how, name.clone());
        let number = book::with(|pages| pages.begin((from, on), what, patron, is_patient));
        Wish { number, on, name, how, way }
    }

    async fn spawn(&self, from: usize) {
        let Some(node) = self.node(from) else { return };
        self.wish(from, None).grant(&node).await;
    }

    async fn hire(&self, from: usize) {
        let patron = self.patrons.borrow()[from].clone();
        let Some((number, patron)) = patron else { return };
        let wish = self.wish(from, Some(number));
        patron.ask(Hire(wish)).timeout(100 * SECOND).await.ok();
    }

    /// Ends a guest, from some node.
    async fn end(&self, from: usize) {
        let Some(node) = self.node(from) else { return };
        let on = self.scene.below(NODES.len());
        let path = format!("{}/guest{}", NODES[on], 1 + self.scene.below(3));
        let Ok(guest) = node.actor::<Guest>(&path).await else { return };
        let known = guest.protocol::<Known>();
        let Ok(number) = known.number().timeout(SECOND).await else { return };
        let order = self.scene.one_of(&[Order::Stop, Order::Kill]);
        book::note(number, |spawn, _| spawn.orders.push(order));
        match order {
            Order::Stop => guest.stop().await.ok(),
            Order::Kill => guest.kill().await.ok(),
        };
    }

    /// Ends a patron, and spawns another one.
    async fn end_patron(&self, at: usize) {
        let taken = self.patrons.borrow_mut()[at].take();
        let (Some((_, patron)), Some(node)) = (taken, self.node(at)) else { return };
        patron.kill().await.ok();
        patron.wait_stopped().await;
        self.scene.note("a watcher ended");
        self.make_patron(at, &node).await;
    }

    async fn trouble(&self) {
        let at = self.scene.below(NODES.len());
        let other = (at + 1 + self.scene.below(NODES.len() - 1)) % NODES.len();
        if self.scene.one_in(4) {
            return self.restart(at).await;
        }
        // A pause cuts it off from both.
        for third in (0..NODES.len()).filter(|third| *third != other) {
            let pair = (third.min(other), third.max(other));
            book::with(|pages| pages.cuts.push(pair));
        }
        self.scene.disturb(NODES[at], NODES[other], self.scene.one_in(2)).await;
    }

    async fn restart(&self, at: usize) {
        self.nodes.borrow_mut()[at] = None;
        self.patrons.borrow_mut()[at] = None;
        book::with(|pages| {
            let moment = pages.tick();
            pages.kills.push((at, moment));
        });
        self.scene.cluster.kill(NODES[at]).await;
        self.scene.note("a node was killed");
        self.scene.rest(self.scene.one_of(&[MS, SECOND, 12 * SECOND])).await;
        self.start(at).await;
    }

    /// Looks for the actors that should live, by their names and from another node.
    async fn look(&self) {
        for (on, at) in NODES.iter().enumerate() {
            let living: Vec<u64> = book::with(|pages| pages.living(on).collect());
            for number in living {
                let (name, is_known) = book::with(|pages| {
                    let spawn = &pages.spawns[&number];
                    assert!(spawn.has_started, "an orphan: {spawn:?}");
                    let is_known = matches!(spawn.outcome, Outcome::Spawned(_));
                    (spawn.name.clone(), is_known)
                });
                self.scene.note_if(!is_known, "nobody was told of one that lives");
                let Some(name) = name else { continue };
                let node = self.node((on + 1) % NODES.len()).expect("it was started again");
                let path = format!("{at}/{name}");
                let found: Ref<Known> = node.reference(&path).await.expect("it lives");
                assert_eq!(found.number().await, Ok(number), "{path}");
            }
        }
    }

    /// Stops all that live, so that their watchers are told.
    async fn end_all(&self) {
        for on in 0..NODES.len() {
            let node = self.node(on).expect("it was started again");
            for actor in node.snapshot().actors {
                let (is_guest, name) = (actor.kind == "models::Guest", actor.address.name());
                let Some(name) = name.filter(|_| is_guest) else { continue };
                if let Ok(guest) = node.actor::<Guest>(name).await {
                    guest.stop().await.ok();
                }
            }
        }
    }
}
