//! The spawns that were asked for, their outcomes, and the ends that watchers were told, in the
//! order in which they happened.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ringpost::prelude::*;
use ringpost::spawn::RemoteSpawnCause;
use ringpost::{ActorExit, Address};

pub(super) const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// The course that a guest takes.
#[message]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Live,
    /// Takes this many milliseconds to start.
    Slow(u64),
    /// `create` fails, or panics.
    Refuse,
    PanicAtOnce,
    /// `on_start` fails, or panics.
    Fail,
    Panic,
    /// It stops, or panics, as soon as it has started.
    StopSoon,
    PanicSoon,
}

/// A moment: of two entries the later one has the greater.
pub(super) type Moment = u64;
pub(super) const NEVER: Moment = Moment::MAX;

/// The outcome of a spawn.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    Spawned(Address),
    Failed(RemoteSpawnCause),
    /// Its future was dropped, or its patron has ended.
    Dropped,
}

/// One spawn, from its beginning to its outcome, and the life of its actor.
#[derive(Debug)]
pub(super) struct Spawn {
    pub(super) how: How,
    pub(super) name: Option<String>,
    pub(super) from: usize,
    pub(super) on: usize,
    /// The patron that watches it, by its number.
    pub(super) patron: Option<u64>,
    pub(super) begin: Moment,
    pub(super) end: Moment,
    pub(super) outcome: Outcome,
    /// When it was made, began to start, and was dropped.
    pub(super) made: Option<Moment>,
    pub(super) starts: Option<Moment>,
    pub(super) has_started: bool,
    pub(super) dropped: Option<Moment>,
    /// How the scene ordered it to end.
    pub(super) orders: Vec<Order>,
    /// It waits long enough for all but trouble.
    pub(super) is_patient: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Stop,
    Kill,
}

#[derive(Debug)]
pub(super) struct Told {
    pub(super) patron: u64,
    pub(super) actor: Address,
    pub(super) exit: ActorExit,
}

#[derive(Debug, Default)]
pub(super) struct Pages {
    moment: Moment,
    /// By number.
    pub(super) spawns: BTreeMap<u64, Spawn>,
    pub(super) told: Vec<Told>,
    /// Faults that were found where a panic would be an actor's own.
    pub(super) faults: Vec<String>,
    /// Patrons that ended before the end of the scene, with all that they watched.
    pub(super) gone: Vec<u64>,
    /// Each time that a node was killed, or two were cut off from each other.
    pub(super) cuts: Vec<(usize, usize)>,
    pub(super) kills: Vec<(usize, Moment)>,
}

thread_local! {
    /// All nodes of a scene run on one thread, and what makes an offered actor gets its arguments
    /// only.
    static PAGES: RefCell<Pages> = RefCell::default();
}

/// Opens an empty book.
pub(super) fn open() {
    PAGES.take();
}

/// Takes all notes.
pub(super) fn close() -> Pages {
    PAGES.take()
}

pub(super) fn with<T>(act: impl FnOnce(&mut Pages) -> T) -> T {
    PAGES.with_borrow_mut(act)
}

/// Notes something about what a spawn made, unless the scene is over.
pub(super) fn note(number: u64, act: impl FnOnce(&mut Spawn, Moment)) {
    with(|pages| {
        let at = pages.tick();
        if let Some(spawn) = pages.spawns.get_mut(&number) {
            act(spawn, at);
        }
    });
}

impl Pages {
    pub(super) fn tick(&mut self) -> Moment {
        self.moment += 1;
        self.moment
    }

    /// Notes a spawn that begins. Returns its number.
    pub(super) fn begin(
        &mut self,
        (from, on): (usize, usize),
        (how, name): (How, Option<String>),
        patron: Option<u64>,
        is_patient: bool,
    ) -> u64 {
        let (begin, number) = (self.tick(), self.spawns.len() as u64);
        let (made, starts, dropped, orders) = (None, None, None, Vec::new());
        let (outcome, has_started, end) = (Outcome::Dropped, false, NEVER);
        let spawn = Spawn {
            how,
            name,
            from,
            on,
            patron,
            begin,
            end,
            outcome,
            made,
            starts,
            has_started,
            dropped,
            orders,
            is_patient,
        };
        self.spawns.insert(number, spawn);
        number
    }

    /// Returns the numbers of the actors that live on a node, as far as they were made.
    pub(super) fn living(&self, on: usize) -> impl Iterator<Item = u64> {
        let lives = move |spawn: &Spawn| spawn.on == on && spawn.made.is_some();
        let living = self.spawns.iter().filter(move |(_, spawn)| lives(spawn));
        living.filter(|(_, spawn)| spawn.dropped.is_none()).map(|(number, _)| *number)
    }
}
