//! The rules for the ends that members are told, judged from the log of all members.
//!
//! - **Once**: each time that a member begins to watch, it is told one end, unless it ended itself
//!   or watched no longer before; and nothing that it did not ask for.
//! - **True**: it is told how the member ended. It is told that there was no member only if that
//!   had ended, and in a world without faults only if it had ended when the watch began; that the
//!   node is down only after its own node had lost that.
//! - **Last**: after the end no word comes of a member that has ended; and before it come all words
//!   that the member had said, if both are of one node or the world has no faults.

use std::collections::{BTreeMap, HashMap, hash_map};
use std::time::Duration;

use ringpost::{ActorExit, Address};

use super::super::reached::Reached;
use super::log::{Entry, Id, Run};

/// In a world without faults a node that is asked for an actor has answered after this time.
const ASKED_NS: u64 = Duration::from_millis(300).as_nanos() as u64;

/// Each of them has to be reached by a run of all seeds.
const STATES: [&str; 26] = [
    "a link was lost that ends were to be told by",
    "a member was told again of one that had ended",
    "a member was watched that had ended",
    "a restart was no end",
    "a watch was repeated",
    "a watcher ended before the member that it watched",
    "a watcher failed and was restarted",
    "an end came behind words",
    "an end that was not told yet was watched no longer",
    "it was watched no longer",
    "it was not watched",
    "its node was down, and it lives",
    "several watchers were told of one end",
    "told far: there was no such actor",
    "told far: it failed",
    "told far: it panicked",
    "told far: it stopped",
    "told far: it was killed",
    "told far: its node is down",
    "told near: it failed",
    "told near: it panicked",
    "told near: it stopped",
    "told near: it was killed",
    "a node was started again within a millisecond",
    "a node was started again when it had been given up",
    "a node left",
];

/// One time that a member watches another.
#[derive(Debug, Clone)]
struct Watched {
    actor: Id,
    near: bool,
    since: u64,
}

/// One end that a member was told.
#[derive(Debug)]
struct Told {
    watcher: Id,
    watched: Watched,
    exit: ActorExit,
    at: u64,
    /// Its number in the log.
    number: usize,
}

pub(super) struct Judge {
    is_calm: bool,
    log: Vec<(u64, Entry)>,
    runs: BTreeMap<Id, Run>,
    ends: BTreeMap<Id, (u64, ActorExit)>,
    over: BTreeMap<Run, u64>,
    downs: BTreeMap<(Run, Run), u64>,
    open: HashMap<(Id, Address), Watched>,
    told: Vec<Told>,
    faults: Vec<String>,
    reached: Reached,
}

/// Judges a log. Returns the rules that were broken, and which states were reached.
pub(super) fn judge(log: Vec<(u64, Entry)>, is_calm: bool) -> (Vec<String>, Reached) {
    let mut judge = Judge::new(log, is_calm);
    judge.note_facts();
    for number in 0..judge.log.len() {
        let (at, entry) = judge.log[number].clone();
        judge.read(number, at, entry);
    }
    judge.conclude();
    (judge.faults, judge.reached)
}

/// Returns the states, none of which was reached yet.
pub(super) fn nothing_reached() -> Reached {
    let mut reached = Reached::default();
    STATES.iter().for_each(|state| reached.note(state, 0));
    reached
}

impl Judge {
    fn new(log: Vec<(u64, Entry)>, is_calm: bool) -> Self {
        let (runs, ends, over, downs) = Default::default();
        let (open, told, faults) = Default::default();
        let reached = nothing_reached();
        Judge { is_calm, log, runs, ends, over, downs, open, told, faults, reached }
    }

    /// Notes the facts that do not depend on what members were told.
    fn note_facts(&mut self) {
        for (at, entry) in &self.log {
            match entry {
                Entry::Spawned(id, run) => drop(self.runs.insert(*id, *run)),
                Entry::Ended(id, exit) => drop(self.ends.insert(*id, (*at, exit.clone()))),
                Entry::Over(run) => drop(self.over.insert(*run, *at)),
                Entry::NodeDown(run, other) => {
                    self.downs.entry((*run, *other)).or_insert(*at);
                }
                _ => {}
            }
        }
    }

    fn read(&mut self, number: usize, at: u64, entry: Entry) {
        match entry {
            Entry::Watched { watcher, actor, address, near } => {
                self.watch((watcher, address), Watched { actor, near, since: at });
            }
            Entry::Unwatched { watcher, address, was } => self.unwatch((watcher, address), was, at),
            Entry::Told { watcher, address, exit } => match self.open.remove(&(watcher, address)) {
                Some(watched) => self.told.push(Told { watcher, watched, exit, at, number }),
                None => self.faults.push(format!("{watcher} did not ask for that: {exit}")),
            },
            Entry::Dropped(id) => self.drop(id, at),
            Entry::Over(run) => {
                let runs = &self.runs;
                self.open.retain(|(watcher, _), _| runs[watcher] != run);
            }
            Entry::LinkDown(run, other) => {
                let (runs, open) = (&self.runs, &self.open);
                let is_hit = |((watcher, _), watched): (&(Id, Address), &Watched)| {
                    runs[watcher] == run && runs[&watched.actor] == other
                };
                if open.iter().any(is_hit) {
                    self.reached.note("a link was lost that ends were to be told by", 1);
                }
            }
            _ => {}
        }
    }

    fn watch(&mut self, key: (Id, Address), watched: Watched) {
        let was_told = |told: &&Told| told.watcher == key.0 && told.watched.actor == watched.actor;
        if self.told.iter().rfind(was_told).is_some_and(|told| told.exit != ActorExit::NodeDown) {
            self.reached.note("a member was told again of one that had ended", 1);
        }
        if self.end_of(watched.actor).is_some_and(|end| end <= watched.since) {
            self.reached.note("a member was watched that had ended", 1);
        }
        match self.open.entry(key) {
            hash_map::Entry::Occupied(_) => self.reached.note("a watch was repeated", 1),
            hash_map::Entry::Vacant(open) => drop(open.insert_entry(watched)),
        }
    }

    fn unwatch(&mut self, key: (Id, Address), was: bool, at: u64) {
        let watched = self.open.remove(&key);
        if watched.is_some() != was {
            self.faults.push(format!("{} unwatched {watched:?} and was told {was}", key.0));
        }
        let state = match watched {
            None => "it was not watched",
            Some(watched) if self.end_of(watched.actor).is_some_and(|end| end <= at) => {
                "an end that was not told yet was watched no longer"
            }
            Some(_) => "it was watched no longer",
        };
        self.reached.note(state, 1);
    }

    /// Ends an incarnation of a member, and the watches that it began.
    fn drop(&mut self, id: Id, at: u64) {
        let before = self.open.len();
        self.open.retain(|(watcher, _), _| *watcher != id);
        let has_ended = self.ends.get(&id).is_some_and(|(end, _)| *end <= at);
        if self.open.len() < before {
            self.reached.note(
                match has_ended {
                    true => "a watcher ended before the member that it watched",
                    false => "a watcher failed and was restarted",
                },
                1,
            );
        }
        if !has_ended && self.open.values().any(|watched| watched.actor == id) {
            self.reached.note("a restart was no end", 1);
        }
    }

    /// Returns when a member was no more: it had ended, or its run was over.
    fn end_of(&self, id: Id) -> Option<u64> {
        let ended = self.ends.get(&id).map(|(at, _)| *at);
        let over = self.over.get(&self.runs[&id]).copied();
        ended.into_iter().chain(over).min()
    }

    fn conclude(&mut self) {
        let lost = self.open.iter().filter(|(_, watched)| self.end_of(watched.actor).is_some());
        let lost =
            lost.map(|((watcher, _), watched)| format!("{watcher} lost an end: {watched:?}"));
        let lost: Vec<String> = lost.collect();
        self.faults.extend(lost);
        let mut counts: BTreeMap<Id, u64> = BTreeMap::new();
        for told in std::mem::take(&mut self.told) {
            if let Err(why) = self.check_truth(&told).and_then(|()| self.check_words(&told)) {
                self.faults
                    .push(format!("{why}: {told:?}, by {:?}", self.ends.get(&told.watched.actor)));
            }
            if told.exit != ActorExit::NodeDown {
                *counts.entry(told.watched.actor).or_default() += 1;
            }
            let place = if told.watched.near { "near" } else { "far" };
            let exit = told.exit.to_string();
            let exit = exit.split(':').next().unwrap_or_default();
            self.reached.note(&format!("told {place}: {exit}"), 1);
        }
        let several = counts.values().filter(|count| **count > 1).count() as u64;
        self.reached.note("several watchers were told of one end", several);
    }

    fn check_truth(&mut self, told: &Told) -> Result<(), &'static str> {
        let Told { watcher, watched: Watched { actor, near, since }, exit, at, .. } = told;
        match exit {
            ActorExit::NodeDown if *near => Err("the node is its own"),
            ActorExit::NodeDown => {
                let runs = (self.runs[watcher], self.runs[actor]);
                if self.downs.get(&runs).is_none_or(|down| down > at) {
                    return Err("the node was not down");
                }
                if self.end_of(*actor).is_none_or(|end| end > *at) {
                    self.reached.note("its node was down, and it lives", 1);
                }
                Ok(())
            }
            ActorExit::NoActor => {
                let allowed = if *near { 0 } else { ASKED_NS };
                match self.end_of(*actor) {
                    None => Err("it lives"),
                    Some(end) if end > *at => Err("it lived"),
                    Some(end) if (self.is_calm || *near) && end > since + allowed => {
                        Err("it lived when it was watched")
                    }
                    Some(_) => Ok(()),
                }
            }
            exit => match self.ends.get(actor) {
                Some((end, truth)) if truth == exit && end <= at => Ok(()),
                _ => Err("that is not true"),
            },
        }
    }

    fn check_words(&mut self, told: &Told) -> Result<(), &'static str> {
        let Told { watcher, watched: Watched { actor, near, .. }, exit, at, number } = told;
        let is_gone = self.end_of(*actor).is_some_and(|end| end <= *at);
        let heard = |entry: &Entry| match entry {
            Entry::Heard { from, by, number } if from == actor && by == watcher => Some(*number),
            _ => None,
        };
        let (before, after) = self.log.split_at(*number);
        if is_gone && after.iter().any(|(_, entry)| heard(entry).is_some()) {
            return Err("a word came after the end");
        }
        let heard: Vec<u64> = before.iter().filter_map(|(_, entry)| heard(entry)).collect();
        if !heard.is_sorted_by(|a, b| a < b) {
            return Err("words came twice, or in another order");
        }
        let is_whole = !matches!(exit, ActorExit::NoActor | ActorExit::NodeDown);
        let is_missing = |entry: &Entry| match entry {
            Entry::Said { from, to, number } => {
                from == actor && to == watcher && !heard.contains(number)
            }
            _ => false,
        };
        if is_whole && (*near || self.is_calm) && self.log.iter().any(|(_, e)| is_missing(e)) {
            return Err("words were lost");
        }
        if is_whole && !heard.is_empty() {
            self.reached.note("an end came behind words", 1);
        }
        Ok(())
    }
}
