//! Random trees of supervisors and workers, to which random failures are done, compared after each
//! step with a model of what OTP does.
//!
//! A step ends when the tree is quiet. All tasks run on one thread, whose clock stands still while
//! any of them has something to do, and goes on to the next timer when none has. So when a sleep of
//! the test is over, everything is done that needs no timer, or an earlier one. A tree has two
//! kinds of timers: pauses of 0 ms, which take 1 ms at most each, and rests, which the model knows.
//! The test sleeps for a second. Each entry of the diary says when it was made, and may be at most
//! 50 ms later than the step, or the end of the rest, that it comes from by the model.
//!
//! The diaries agree in each entry and in their order; so do the living actors, whether each is
//! still the same actor, and how the others have ended.
//!
//! `RINGPOST_TREES` says how many seeds there are, and `RINGPOST_TREES_SEED` which one runs alone.

mod model;
mod plan;
mod reached;
mod world;

use std::time::Duration;

use ringpost::prelude::*;
use tokio::time::sleep_until;

use crate::actors::node;
use crate::random::{Dice, Reached, Replay, seeds};
use model::{Entry, Event, Model};
use plan::{Order, Recipe, Step, Targets, Type};
use reached::STATES;
use world::World;

const SEEDS: u64 = 4_000;

/// The time by which something may happen later than by the model, in milliseconds: each pause of
/// 0 ms may take one.
const LATE: u64 = 50;

// Promised in docs/SEMANTICS.md.
#[test]
fn trees_of_supervisors_do_what_otp_does() {
    let seeds = seeds("RINGPOST_TREES", SEEDS);
    let is_alone = seeds.end - seeds.start == 1;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    let mut reached = Reached::new(&STATES);
    runtime.block_on(async {
        let node = node().await;
        for seed in seeds {
            let _replay = Replay("RINGPOST_TREES", seed);
            if let Err(text) = try_tree(&node, seed, &mut reached).await {
                panic!("{text}");
            }
        }
    });
    println!("{reached}");
    assert!(is_alone || reached.missing().is_empty(), "not reached: {:?}", reached.missing());
}

/// Tests the tree of a seed. An error says how it differs from the model.
async fn try_tree(node: &Node, seed: u64, reached: &mut Reached) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let tree = plan::tree(&mut dice);
    let mut trial = Trial::new(node, &tree);
    let mut tried = trial.run(&mut dice).await;
    let left = node.snapshot().actors.len();
    if tried.is_ok() && left > 0 {
        tried = Err(format!("{left} actors are left"));
    }
    reached.add(&trial.model.reached);
    tried.map_err(|text| {
        let lines = tree.iter().map(|recipe| format!("    {recipe:?}\n"));
        let steps = trial.steps.iter().map(|step| format!("    {step:?}\n"));
        format!("{}{}{text}", lines.collect::<String>(), steps.collect::<String>())
    })
}

/// A tree while it is tested.
struct Trial<'a> {
    tree: &'a [Recipe],
    model: Model<'a>,
    world: World<'a>,
    /// When the last step ends, in milliseconds since the tree began.
    elapsed: u64,
    /// True for each worker of which an incarnation is there, by the diary.
    is_there: Vec<bool>,
    steps: Vec<Step>,
}

impl<'a> Trial<'a> {
    fn new(node: &'a Node, tree: &'a [Recipe]) -> Self {
        Trial {
            tree,
            model: Model::new(tree),
            world: World::new(node, tree),
            elapsed: 0,
            is_there: vec![false; tree.len()],
            steps: Vec::new(),
        }
    }

    async fn run(&mut self, dice: &mut Dice) -> Result<(), String> {
        let (started, expected) = (self.world.start().await, self.model.start());
        let started = started.map_err(|error| error.to_string());
        let expected = expected.map_err(|why| format!("the actor could not start: {why}"));
        if started != expected {
            return Err(format!("the start: {started:?}, by the model: {expected:?}"));
        }
        self.step(Step::Wait(1)).await?;
        if started.is_err() {
            return Ok(());
        }
        for _ in 0..2 + dice.below(18) {
            let living = self.model.living();
            let resting = living.iter().copied().filter(|at| self.model.rests(*at)).collect();
            let step = Targets { tree: self.tree, living, resting }.step(dice);
            self.step(step).await?;
        }
        // The root may be restarted however it ends.
        while self.model.living().contains(&0) {
            self.step(Step::Do(Order::StopAndKill, 0)).await?;
        }
        Ok(())
    }

    /// Does one step, waits until all is quiet, and compares the world with the model.
    async fn step(&mut self, step: Step) -> Result<(), String> {
        self.steps.push(step);
        let seconds = if let Step::Wait(seconds) = step { seconds } else { 1 };
        match step {
            Step::Do(order, actor) => self.world.order(order, actor).await,
            Step::HaveBadStarts(actor, count) => self.world.have_bad_starts(actor, count),
            Step::PanicBoth(first, second) => {
                self.world.order(Order::Panic, first).await;
                self.world.order(Order::Panic, second).await;
            }
            Step::Wait(_) => {}
        }
        self.elapsed += 1_000 * seconds;
        self.model.step(step, self.elapsed);
        sleep_until(self.world.begun + Duration::from_millis(self.elapsed)).await;
        self.check_diaries()?;
        for actor in 0..self.tree.len() {
            self.world.compare(actor, self.model.actors(actor)).await?;
        }
        Ok(())
    }

    fn check_diaries(&mut self) -> Result<(), String> {
        let (observed, expected) = (self.world.take_diary(), self.model.take_diary());
        let agrees = |(seen, said): (&Entry, &Entry)| {
            let is_late = seen.at < said.at || seen.at > said.at + LATE;
            (seen.actor, seen.event) == (said.actor, said.event) && !is_late
        };
        let agree = observed.len() == expected.len() && observed.iter().zip(&expected).all(agrees);
        if !agree {
            let (observed, expected) = (self.text(&observed), self.text(&expected));
            return Err(format!("the diary:\n{observed}by the model:\n{expected}"));
        }
        observed.iter().try_for_each(|entry| self.check_overlap(entry))
    }

    fn text(&self, diary: &[Entry]) -> String {
        let line = |Entry { actor, event, at }: &Entry| {
            format!("    {at:8} ms: {} {event:?}\n", self.tree[*actor].name)
        };
        diary.iter().map(line).collect()
    }

    /// No incarnation of a worker is made before the one before is dropped.
    fn check_overlap(&mut self, entry: &Entry) -> Result<(), String> {
        let Entry { actor, event, .. } = *entry;
        let is_there = &mut self.is_there[actor];
        if self.tree[actor].is != Type::Worker || (event != Event::Made) == *is_there {
            *is_there = event != Event::Dropped;
            return Ok(());
        }
        Err(format!("two incarnations of {} overlap: {entry:?}", self.tree[actor].name))
    }
}
