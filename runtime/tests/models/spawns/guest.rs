//! The actors that are spawned.

use std::time::Duration;

use ringpost::prelude::*;
use ringpost::spawn::Offered;

use super::book::{self, How};

/// Most that live on a node.
pub(super) const LIVING_MAX: usize = 4;

#[message]
#[derive(Debug, Clone)]
pub(super) struct Arguments {
    pub(super) number: u64,
    pub(super) how: How,
}

/// The part of it that other nodes need to know.
#[protocol]
pub(super) trait Known {
    /// Returns the number of its spawn.
    fn number() -> u64;
}

pub(super) struct Guest(Arguments);

#[actor(name = "models::Guest")]
impl Actor for Guest {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let mut earlier = None;
        book::note(self.0.number, |spawn, at| earlier = spawn.starts.replace(at));
        fault(earlier.is_some(), || format!("{} starts twice", self.0.number));
        match self.0.how {
            How::Slow(time) => tokio::time::sleep(Duration::from_millis(time)).await,
            How::Fail => return Err("no bed".into()),
            // Without what a panic writes to the terminal.
            How::Panic => std::panic::resume_unwind(Box::new("no stairs")),
            How::StopSoon => cx.stop(),
            How::PanicSoon => cx.actor().try_tell(Fall {})?,
            _ => {}
        }
        book::note(self.0.number, |spawn, _| spawn.has_started = true);
        Ok(())
    }
}

#[handlers]
impl Guest {
    #[handler(protocol = Known)]
    fn number(&self) -> u64 {
        self.0.number
    }

    #[handler]
    fn fall(&self) {
        std::panic::resume_unwind(Box::new("no floor"))
    }
}

impl Offered for Guest {
    type Arguments = Arguments;
    const LIVING_MAX: usize = LIVING_MAX;

    fn create(arguments: Arguments) -> Result<Self, BoxError> {
        let number = arguments.number;
        // Before it can fail: also that happens once, and in no other's place.
        let guest = Guest(arguments);
        book::with(|pages| check_room(pages, number));
        let mut earlier = None;
        book::note(number, |spawn, at| earlier = spawn.made.replace(at));
        fault(earlier.is_some(), || format!("{number} is made twice"));
        match guest.0.how {
            How::Refuse => Err("no room".into()),
            How::PanicAtOnce => std::panic::resume_unwind(Box::new("no house")),
            _ => Ok(guest),
        }
    }
}

/// Notes a fault: a panic here would be the actor's own.
fn fault(is_one: bool, text: impl FnOnce() -> String) {
    if is_one {
        book::with(|pages| pages.faults.push(text()));
    }
}

/// Notes a fault unless fewer live there than may, and none of its name.
fn check_room(pages: &mut book::Pages, number: u64) {
    let Some(new) = pages.spawns.get(&number) else { return };
    let living: Vec<u64> = pages.living(new.on).collect();
    let is_twin = |other: &&u64| new.name.is_some() && pages.spawns[other].name == new.name;
    let twin = living.iter().find(is_twin).copied();
    if living.len() >= LIVING_MAX {
        pages.faults.push(format!("too many live there: {living:?} and {number}"));
    }
    if let Some(twin) = twin {
        pages.faults.push(format!("{number} has the name of {twin}, which lives"));
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        book::note(self.0.number, |spawn, at| spawn.dropped = Some(at));
    }
}
