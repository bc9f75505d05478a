//! The rules of spawns on other nodes, apart from their code:
//!
//! - **One actor**: a spawn makes one actor at most, and starts it once. If it gave a reference,
//!   the actor has started; if it failed, except for a missing answer, no actor of it runs, and its
//!   cause is true. (`guest.rs` asserts when an actor is made that there is room for it, and that
//!   no other has its name.)
//! - **No orphan**: an actor that was placed and not begun ends on its own.
//! - **Told once**: a watcher is told of the end of each actor that it got a reference to, once and
//!   truly, and of no other.

use ringpost::ActorExit;
use ringpost::spawn::RemoteSpawnCause;

use super::super::Scene;
use super::book::{How, Order, Outcome, Pages, Spawn, Told};
use super::guest::LIVING_MAX;

pub(in crate::models) const STATES: [&str; 24] = [
    "a calm scene",
    "a name was taken",
    "a node was killed",
    "a watcher ended",
    "as many lived there as may",
    "dropped, and it was not spawned",
    "dropped, and it was spawned",
    "it could not be made",
    "it could not start",
    "it panicked as it was made",
    "it panicked as it started",
    "it was killed as it started",
    "it was not sent",
    "its node did not offer it yet",
    "nobody was told of one that lives",
    "placed, and it never began",
    "placed, and let go",
    "told: it panicked",
    "told: it stopped",
    "told: it was killed",
    "told: its node is down",
    "told: there was no such actor",
    "unanswered, and it was not spawned",
    "unanswered, and it was spawned",
];

/// # Panics
/// When a rule was broken.
pub(super) fn judge(scene: &Scene, pages: Pages, is_calm: bool) {
    scene.note_if(is_calm, "a calm scene");
    assert!(pages.faults.is_empty(), "{:?}", pages.faults);
    let judge = Judge { scene, pages, is_calm };
    for (number, spawn) in &judge.pages.spawns {
        if let Err(why) = judge.check(spawn) {
            panic!("{why}: {number}, {spawn:?}");
        }
        if let Err(why) = judge.check_told(spawn) {
            panic!("{why}: {number}, {spawn:?}; {:?}", judge.pages);
        }
    }
    for told in &judge.pages.told {
        let is_asked_for = judge.pages.spawns.values().any(|spawn| is_of(told, spawn));
        assert!(is_asked_for, "told of an end that it did not ask for: {told:?}");
    }
}

fn is_of(told: &Told, spawn: &Spawn) -> bool {
    let is_it = matches!(&spawn.outcome, Outcome::Spawned(actor) if *actor == told.actor);
    is_it && spawn.patron == Some(told.patron)
}

struct Judge<'a> {
    scene: &'a Scene,
    pages: Pages,
    is_calm: bool,
}

impl Judge<'_> {
    fn check(&self, spawn: &Spawn) -> Result<(), &'static str> {
        let fails = matches!(spawn.how, How::Refuse | How::PanicAtOnce);
        let is_let_go = spawn.made.is_some() && spawn.starts.is_none() && !fails;
        self.scene.note_if(is_let_go, "placed, and let go");
        if is_let_go && spawn.dropped.is_none() {
            return Err("it is held for ever");
        }
        let was_spawned = spawn.starts.is_some();
        match &spawn.outcome {
            Outcome::Spawned(_) if !spawn.has_started => Err("it has not started"),
            Outcome::Spawned(_) => Ok(()),
            Outcome::Dropped if was_spawned => {
                self.scene.note("dropped, and it was spawned");
                Ok(())
            }
            Outcome::Dropped => {
                self.scene.note("dropped, and it was not spawned");
                Ok(())
            }
            Outcome::Failed(cause) => self.check_cause(spawn, cause),
        }
    }

    fn check_cause(&self, spawn: &Spawn, cause: &RemoteSpawnCause) -> Result<(), &'static str> {
        use RemoteSpawnCause as Why;
        let lives = spawn.starts.is_some() && spawn.dropped.is_none();
        if let Why::Unanswered(_) = cause {
            self.scene.note(match spawn.starts {
                Some(_) => "unanswered, and it was spawned",
                None => "unanswered, and it was not spawned",
            });
            let is_late = self.is_calm && spawn.is_patient;
            return if is_late { Err("nothing was amiss") } else { Ok(()) };
        }
        if lives {
            return Err("it lives");
        }
        let may_start = matches!(cause, Why::Start(_) | Why::Panicked(_) | Why::Killed);
        if spawn.starts.is_some() && !may_start {
            return Err("it has begun");
        }
        let may_be_made = may_start
            || matches!(cause, Why::Refused(_) | Why::NotBegun(_) | Why::NotSent(_) | Why::Leaving);
        if spawn.made.is_some() && !may_be_made {
            return Err("it was made");
        }
        let (state, is_true) = match (cause, spawn.how) {
            (Why::Refused(text), How::Refuse) => ("it could not be made", text == "no room"),
            (Why::Panicked(text), How::PanicAtOnce) => {
                ("it panicked as it was made", text == "no house")
            }
            (Why::Panicked(text), How::Panic) => ("it panicked as it started", text == "no stairs"),
            (Why::Start(text), How::Fail) => ("it could not start", text == "no bed"),
            (Why::NameTaken(name), _) => {
                let is_it = spawn.name.as_ref() == Some(name);
                ("a name was taken", is_it && self.beside(spawn, true) > 0)
            }
            (Why::TooMany(most), _) => {
                let were_many = spawn.from == spawn.on || self.beside(spawn, false) >= LIVING_MAX;
                ("as many lived there as may", *most == LIVING_MAX as u64 && were_many)
            }
            (Why::NotSent(_), _) => ("it was not sent", !(self.is_calm && spawn.is_patient)),
            (Why::NotBegun(_), _) => {
                ("placed, and it never began", !(self.is_calm && spawn.is_patient))
            }
            (Why::NotOffered, _) => {
                let is_new = self.pages.kills.iter().any(|(at, _)| *at == spawn.on);
                ("its node did not offer it yet", is_new)
            }
            (Why::Killed, _) => {
                let is_killed = self.pages.kills.iter().any(|(at, _)| *at == spawn.on);
                ("it was killed as it started", is_killed || !spawn.orders.is_empty())
            }
            _ => return Err("its cause is another one"),
        };
        self.scene.note(state);
        if is_true { Ok(()) } else { Err("its cause is not true") }
    }

    /// Returns how many others were there at some time of a spawn: of its name, or at all.
    fn beside(&self, new: &Spawn, of_its_name: bool) -> usize {
        let is_beside = |other: &&Spawn| {
            let is_there = other.made.is_some_and(|made| made < new.end);
            let was_there = other.dropped.is_none_or(|dropped| dropped > new.begin);
            let fits = !of_its_name || other.name == new.name;
            other.on == new.on && fits && is_there && was_there && !std::ptr::eq(*other, new)
        };
        self.pages.spawns.values().filter(is_beside).count()
    }

    fn check_told(&self, spawn: &Spawn) -> Result<(), &'static str> {
        let (Some(patron), Outcome::Spawned(_)) = (spawn.patron, &spawn.outcome) else {
            return Ok(());
        };
        let told: Vec<&Told> = self.pages.told.iter().filter(|told| is_of(told, spawn)).collect();
        if told.len() > 1 {
            return Err("told twice");
        }
        let Some(told) = told.first() else {
            let is_over = spawn.dropped.is_some();
            let is_lost = is_over && !self.pages.gone.contains(&patron);
            return if is_lost { Err("an end was not told") } else { Ok(()) };
        };
        let pair = (spawn.from.min(spawn.on), spawn.from.max(spawn.on));
        let is_killed = self.pages.kills.iter().any(|(at, _)| *at == spawn.on);
        let is_cut = spawn.from != spawn.on && (is_killed || self.pages.cuts.contains(&pair));
        let has_ended = spawn.dropped.is_some();
        let (state, is_true) = match &told.exit {
            ActorExit::Stopped => ("told: it stopped", has_ended && spawn.how != How::PanicSoon),
            ActorExit::Killed => {
                ("told: it was killed", has_ended && spawn.orders.contains(&Order::Kill))
            }
            ActorExit::Panicked(text) => {
                let is_true = spawn.how == How::PanicSoon && **text == *"no floor";
                ("told: it panicked", is_true)
            }
            ActorExit::NodeDown => ("told: its node is down", is_cut),
            ActorExit::NoActor => ("told: there was no such actor", is_cut && has_ended),
            _ => return Err("told of another end"),
        };
        self.scene.note(state);
        if is_true { Ok(()) } else { Err("what was told is not true") }
    }
}
