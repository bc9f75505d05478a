//! Groups, pools, regions and spawns on simulated nodes: random work and random faults, judged by
//! models that know nothing of how the runtime does it.
//!
//! Each test draws one scene for each seed, writes down the acts and their outcomes, and then
//! judges the book: `groups/judge.rs`, `pools/judge.rs`, `regions/book.rs` and `spawns/judge.rs`
//! say by which rules. `RINGPOST_TEST_CASES` says how many seeds there are, and
//! `RINGPOST_TEST_SEED` which one runs alone. Over the usual number of seeds each state that is
//! listed has to be reached; how often each was is printed.

mod groups;
mod pools;
mod regions;
mod spawns;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ringpost::test_kit::{self, Cluster};

use crate::random::Reached;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Judges one scene for each seed. The usual number of seeds reaches all states.
fn check<F: Future<Output = ()>>(states: &[&'static str], usual: u64, play: impl Fn(Scene) -> F) {
    check_but(None, states, usual, play);
}

/// As [`check`]; five times the usual number of seeds reach the `rare` state.
fn check_but<F: Future<Output = ()>>(
    rare: Option<&'static str>,
    states: &[&'static str],
    usual: u64,
    play: impl Fn(Scene) -> F,
) {
    let (reached, runs) = (Rc::new(RefCell::new(Reached::new(states))), Cell::new(0));
    test_kit::check(0..usual, |cluster| {
        runs.set(runs.get() + 1);
        play(Scene { cluster, reached: reached.clone() })
    });
    let reached = reached.borrow();
    println!("{} seeds\n{reached}", runs.get());
    let mut missing = reached.missing();
    missing.retain(|state| Some(*state) != rare || runs.get() >= 5 * usual);
    assert!(runs.get() < usual || missing.is_empty(), "not reached: {missing:?}");
}

/// Asserts that a seed has one log, with these events of real scenes.
fn repeats<F: Future<Output = ()>>(states: &[&'static str], seed: u64, play: impl Fn(Scene) -> F) {
    let log = || {
        let reached = Rc::new(RefCell::new(Reached::new(states)));
        let mut kept = None;
        Cluster::seeded(seed).run(|cluster| {
            kept = Some(cluster.clone());
            play(Scene { cluster, reached })
        });
        kept.expect("the body ran").log_text()
    };
    let (first, second) = (log(), log());
    let differs = first.lines().zip(second.lines()).find(|(a, b)| a != b);
    assert!(first == second, "seed {seed} has two logs: {differs:?}");
}

#[test]
fn scenes_are_repeatable() {
    for seed in 0..6 {
        repeats(&groups::judge::STATES, seed, groups::play::play);
        repeats(&pools::judge::STATES, seed, pools::play::play);
        repeats(&regions::book::STATES, seed, regions::play::play);
        repeats(&spawns::judge::STATES, seed, spawns::play::play);
    }
}

/// A cluster, chance drawn by its seed, and which states were reached. Clones are the same scene.
#[derive(Clone)]
struct Scene {
    cluster: Cluster,
    reached: Rc<RefCell<Reached>>,
}

impl Scene {
    fn note(&self, state: &'static str) {
        self.reached.borrow_mut().note(state);
    }

    fn note_if(&self, is_so: bool, state: &'static str) {
        if is_so {
            self.note(state);
        }
    }

    /// Returns a number below `bound`, which is not 0.
    fn below(&self, bound: usize) -> usize {
        usize::try_from(self.cluster.random() % bound as u64).unwrap()
    }

    fn one_in(&self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Returns one of `all`, which has some.
    fn one_of<T: Copy>(&self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Waits for a time that the seed draws.
    async fn rest(&self, longest: Duration) {
        self.cluster.sleep_up_to(longest).await;
    }

    /// Disturbs the ways between two nodes, for a while; `long` is enough for each to find the
    /// other down.
    async fn disturb(&self, a: &str, b: &str, long: bool) {
        let cluster = &self.cluster;
        match self.below(5) {
            0 => cluster.world().sever_data(a, b),
            1 => cluster.world().sever_streams(a, b),
            2 => cluster.cut_one_way(a, b),
            3 => cluster.cut(a, b),
            _ => cluster.pause(b),
        }
        self.rest(if long { 12 * SECOND } else { SECOND / 2 }).await;
        cluster.mend(a, b);
        cluster.resume(b);
    }
}
