//! Monitors: actors of three nodes watch each other, and end in every way, while words are on their
//! way, links are lost, and nodes leave, are killed and start again.

mod judge;
mod log;
mod member;

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use ringpost::net::Profile;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart};
use ringpost::test_kit::{Cluster, LinkModel};

use super::faults;
use super::reached::Reached;
use super::scenario::Outcome;
use judge::judge;
use log::{Entry, Id, Log, Run};
use member::{Member, Speak, Then, Unwatch, Watch};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// Members that a node has at the same time.
const MEMBERS: usize = 5;
const DOWN_AFTER: Duration = Duration::from_secs(3);
/// Virtual time that a scenario may take.
const LIMIT: Duration = Duration::from_secs(600);
/// Longer than anything takes when the faults are over.
const SETTLED: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs the scenario of a seed.
///
/// # Panics
/// When it stalls or the library panics; the message names the seed.
pub fn monitors(seed: u64) -> Outcome {
    Cluster::seeded(seed).limit(LIMIT).run(|cluster| Scene::play(seed, cluster))
}

struct Scene {
    cluster: Cluster,
    log: Log,
    rng: Rng,
    places: Vec<Place>,
    /// Members that live, and the last members that ended.
    members: Vec<Someone>,
    next: Id,
    /// The watches that were asked for: the watcher, and the watched member.
    asked: Vec<(Someone, Id)>,
    reached: Reached,
}

struct Place {
    node: Node,
    run: Run,
}

/// A member as the scenario knows it.
#[derive(Clone)]
struct Someone {
    id: Id,
    place: usize,
    run: Run,
    /// Its reference on its own node.
    actor: ActorRef<Member>,
}

impl Someone {
    fn path(&self) -> String {
        format!("{}/m{}", NAMES[self.place], self.id)
    }
}

impl Scene {
    async fn play(seed: u64, cluster: Cluster) -> Outcome {
        let mut rng = Rng::with_seed(seed ^ 0x3071);
        cluster.set_links(LinkModel {
            latency: Duration::from_nanos(rng.u64(500..2_000_000)),
            bytes_per_second: [20_000_000, 100_000_000, 12_500_000_000][rng.usize(0..3)],
            retry: Duration::from_millis(rng.u64(20..600)),
            ..LinkModel::default()
        });
        let log = Log::new(cluster.clone());
        let (places, members, asked) = Default::default();
        let reached = judge::nothing_reached();
        let mut scene = Scene { cluster, log, rng, places, members, next: 0, asked, reached };
        for at in 0..NAMES.len() {
            let place = scene.start(at).await;
            scene.places.push(place);
        }
        for place in &scene.places {
            place.node.ready(NAMES.len() - 1).await.expect("names differ");
        }
        let faults = [0, 0, 1, 3, 6][scene.rng.usize(0..5)];
        scene.live(faults).await;
        scene.cluster.world().clear_rules();
        scene.cluster.sleep(SETTLED).await;
        let (faults, reached) = judge(scene.log.take(), faults == 0);
        scene.reached.add(&reached);
        for place in &scene.places {
            scene.log.end_run(place.run);
            place.node.shutdown(PATIENCE).await;
        }
        let log = scene.cluster.log_text();
        Outcome { faults, reached: scene.reached, log, history: String::new() }
    }

    /// Starts a node in a place, and notes which nodes and links it loses.
    async fn start(&mut self, at: usize) -> Place {
        let profile = Profile { down_after: DOWN_AFTER, ..Profile::default() };
        // Does not wait for its links: events meanwhile belong to the scene.
        let node = self.cluster.builder(NAMES[at]).profile(profile).start();
        let node = node.await.expect("a node starts");
        self.cluster.adopt(&node);
        let run = self.log.add_run(node.id().clone());
        let (mut events, log) = (node.events(), self.log.clone());
        tokio::spawn(async move {
            while let Ok(event) = events.recv().await {
                let entry = match &event {
                    NodeEvent::NodeDown { node, .. } => {
                        log.run_of(node).map(|of| Entry::NodeDown(run, of))
                    }
                    NodeEvent::LinkDown { node, .. } => {
                        log.run_of(node).map(|of| Entry::LinkDown(run, of))
                    }
                    _ => None,
                };
                entry.into_iter().for_each(|entry| log.note(run, entry));
            }
        });
        Place { node, run }
    }

    /// Runs random steps of members, with `faults` faults between.
    async fn live(&mut self, faults: usize) {
        let steps = self.rng.usize(60..160);
        let faulty: Vec<usize> = (0..faults).map(|_| self.rng.usize(5..steps)).collect();
        for _ in 0..2 * NAMES.len() {
            self.spawn().await;
        }
        for step in 0..steps {
            let longest = [1, 300, 5_000, 50_000][self.rng.usize(0..4)];
            let pause = Duration::from_micros(self.rng.u64(0..longest));
            self.cluster.sleep(pause).await;
            self.step().await;
            if faulty.contains(&step) {
                self.inflict().await;
            }
        }
    }

    async fn step(&mut self) {
        match self.rng.u32(0..20) {
            0..3 => self.spawn().await,
            3..12 => self.watch(),
            12..14 => self.unwatch(),
            14..17 => self.speak(),
            _ => self.end(),
        }
    }

    async fn spawn(&mut self) {
        let place = self.rng.usize(0..NAMES.len());
        let Place { node, run } = &self.places[place];
        let lives = |someone: &&Someone| someone.run == *run;
        if self.members.iter().filter(lives).count() >= 2 * MEMBERS {
            // Its place is for another one; it may live on.
            let oldest = self.members.iter().position(|someone| someone.run == *run);
            self.members.remove(oldest.expect("there are some"));
        }
        let (id, run) = (self.next, *run);
        self.next += 1;
        let log = self.log.clone();
        let make = move || {
            let (watchers, watched) = (BTreeMap::new(), BTreeMap::new());
            Member { id, run, log: log.clone(), watchers, watched }
        };
        let restart = match self.rng.u32(0..3) {
            0 => Restart::never(),
            most => Restart::on_failure().at_most(most - 1, LIMIT),
        };
        let pause = Duration::from_millis(self.rng.u64(0..20));
        let child = Child::new(make).named(format!("m{id}")).restart(restart.backoff(pause, pause));
        self.log.note(run, Entry::Spawned(id, run));
        let Ok(actor) = node.supervise(child).await else { return };
        let (log, living) = (self.log.clone(), actor.clone());
        tokio::spawn(async move { log.note(run, Entry::Ended(id, living.wait_stopped().await)) });
        self.members.push(Someone { id, place, run, actor });
    }

    fn anyone(&mut self) -> Option<Someone> {
        let count = self.members.len();
        (count > 0).then(|| self.members[self.rng.usize(0..count)].clone())
    }

    /// Makes one member watch another: by a reference that came from there, or by name.
    fn watch(&mut self) {
        let (Some(watcher), Some(watched)) = (self.anyone(), self.anyone()) else { return };
        if watcher.id == watched.id {
            return;
        }
        self.asked.push((watcher.clone(), watched.id));
        let watch = Watch { id: watched.id, actor: watched.actor.clone() };
        if watcher.run == watched.run {
            // An error says that it has ended, as with the others here.
            return drop(watcher.actor.try_tell(watch));
        }
        let node = self.places[watched.place].node.clone();
        if self.rng.bool() {
            tokio::spawn(async move {
                let there = node.actor::<Member>(&watcher.path()).await;
                if let Ok(there) = there {
                    drop(there.tell(watch).timeout(PATIENCE).await);
                }
            });
            return;
        }
        let node = self.places[watcher.place].node.clone();
        tokio::spawn(async move {
            if let Ok(actor) = node.actor::<Member>(&watched.path()).await {
                drop(watcher.actor.try_tell(Watch { id: watched.id, actor }));
            }
        });
    }

    fn unwatch(&mut self) {
        let count = self.asked.len();
        if count > 0 {
            let (watcher, id) = self.asked.swap_remove(self.rng.usize(0..count));
            drop(watcher.actor.try_tell(Unwatch { id }));
        }
    }

    fn speak(&mut self) {
        let then = match self.rng.u32(0..8) {
            0..3 => Then::Panic,
            3 => Then::Stop,
            4 => Then::Drain,
            _ => Then::Nothing,
        };
        let words = self.rng.u64(0..6);
        let bytes = if self.rng.u32(0..6) == 0 { self.rng.usize(0..300_000) } else { 8 };
        if let Some(someone) = self.anyone() {
            drop(someone.actor.try_tell(Speak { words, bytes, then }));
        }
    }

    /// Ends one, from its own node or from another.
    fn end(&mut self) {
        let Some(someone) = self.anyone() else { return };
        let watchers = self.asked.iter().filter(|(_, id)| *id == someone.id);
        let watchers: Vec<Someone> = watchers.map(|(watcher, _)| watcher.clone()).collect();
        let (id, is_unwatched) = (someone.id, self.rng.u32(0..4) == 0);
        let (order, node) = (self.rng.u32(0..4), self.rng.usize(0..NAMES.len()));
        let node = self.places[node].node.clone();
        let is_near = self.rng.bool();
        tokio::spawn(async move {
            let actor = match is_near {
                true => someone.actor,
                false => match node.actor::<Member>(&someone.path()).await {
                    Ok(actor) => actor,
                    Err(_) => return,
                },
            };
            let ended = match order {
                0 => actor.stop().await,
                1 => actor.drain().await,
                _ => actor.kill().await,
            };
            // Its node may be out of reach.
            drop(ended);
            for watcher in watchers.into_iter().filter(|_| is_unwatched) {
                drop(watcher.actor.try_tell(Unwatch { id }));
            }
        });
    }

    async fn inflict(&mut self) {
        for _ in 0..self.rng.usize(0..8) {
            self.watch();
        }
        self.cluster.sleep(Duration::from_micros(self.rng.u64(0..5_000))).await;
        let from = self.rng.usize(0..NAMES.len());
        let to = (from + self.rng.usize(1..NAMES.len())) % NAMES.len();
        let (a, b) = (NAMES[from], NAMES[to]);
        match self.rng.u32(0..10) {
            0 => self.cluster.world().sever_data(a, b),
            1 => self.cluster.world().sever_streams(a, b),
            2 => self.cluster.world().add_rule(faults::one_frame(a, b, &mut self.rng)),
            3 | 4 => {
                let longest = [500, 12_000][self.rng.usize(0..2)];
                self.cluster.cut(a, b);
                self.cluster.sleep(Duration::from_millis(self.rng.u64(0..longest))).await;
                self.cluster.mend(a, b);
            }
            5..9 => self.restart(from, false).await,
            _ => self.restart(from, true).await,
        }
    }

    /// Ends a node, in order or not, and starts it again: at once, soon, or once it is given up.
    async fn restart(&mut self, at: usize, leaves: bool) {
        let Place { node, run } = &self.places[at];
        let (node, run) = (node.clone(), *run);
        if leaves {
            let patience = Duration::from_millis(self.rng.u64(0..100));
            node.shutdown(patience).await;
            self.reached.note("a node left", 1);
            self.log.end_run(run);
        } else {
            self.log.end_run(run);
            self.cluster.kill(NAMES[at]).await;
        }
        let longest = [1_000, 200_000, 12_000_000][self.rng.usize(0..3)];
        let rest = Duration::from_micros(self.rng.u64(0..longest));
        if rest < Duration::from_millis(1) {
            self.reached.note("a node was started again within a millisecond", 1);
        } else if rest > 2 * DOWN_AFTER {
            self.reached.note("a node was started again when it had been given up", 1);
        }
        self.cluster.sleep(rest).await;
        self.members.retain(|someone| someone.run != run);
        self.places[at] = self.start(at).await;
    }
}
