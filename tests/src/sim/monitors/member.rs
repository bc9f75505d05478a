//! An actor that watches others and is watched, and says words to the members that watch it.

use std::collections::BTreeMap;
use std::time::Duration;

use ringpost::prelude::*;

use super::log::{Entry, Id, Log, Run};

/// How long a word waits for room or a link.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) struct Member {
    pub(super) id: Id,
    pub(super) run: Run,
    pub(super) log: Log,
    /// The members that watch it, as far as they said so.
    pub(super) watchers: BTreeMap<Id, ActorRef<Member>>,
    /// The members that it watched, by the references that it used.
    pub(super) watched: BTreeMap<Id, ActorRef<Member>>,
}

impl Member {
    fn note(&self, entry: Entry) {
        self.log.note(self.run, entry);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.note(Entry::Dropped(self.id));
    }
}

#[actor(name = "member")]
impl Actor for Member {}

#[message]
pub(super) struct Watch {
    pub(super) id: Id,
    pub(super) actor: ActorRef<Member>,
}

/// Says that `actor` watches the receiver.
#[message]
pub(super) struct Hello {
    pub(super) id: Id,
    pub(super) actor: ActorRef<Member>,
}

#[message]
pub(super) struct Word {
    pub(super) from: Id,
    pub(super) number: u64,
    pub(super) bytes: Vec<u8>,
}

/// Says words to all watchers, and then does something else.
#[message(local)]
pub(super) struct Speak {
    pub(super) words: u64,
    pub(super) bytes: usize,
    pub(super) then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Nothing,
    Panic,
    Stop,
    Drain,
}

#[handlers]
impl Member {
    #[handler]
    fn watch(&mut self, msg: Watch, cx: &mut Context<Self>) {
        let Watch { id, actor } = msg;
        let (address, near) = (actor.address().clone(), actor.is_local());
        self.note(Entry::Watched { watcher: self.id, actor: id, address, near });
        cx.watch(&actor);
        let hello = Hello { id: self.id, actor: cx.actor().clone() };
        self.watched.insert(id, actor.clone());
        cx.spawn_task(async move {
            // The words that follow are in the log, so the result does not matter.
            drop(actor.tell(hello).timeout(PATIENCE).await);
        });
    }

    #[handler]
    pub(super) fn unwatch(&mut self, id: u64, cx: &mut Context<Self>) {
        if let Some(actor) = self.watched.get(&id) {
            let (address, was) = (actor.address().clone(), cx.unwatch(actor));
            self.note(Entry::Unwatched { watcher: self.id, address, was });
        }
    }

    #[handler]
    fn hello(&mut self, msg: Hello) {
        self.watchers.insert(msg.id, msg.actor);
    }

    #[handler]
    async fn speak(&mut self, msg: Speak, cx: &mut Context<Self>) {
        let from = self.id;
        for (to, watcher) in &self.watchers {
            for _ in 0..msg.words {
                let number = self.log.number();
                let word = Word { from, number, bytes: vec![1; msg.bytes] };
                if watcher.tell(word).timeout(PATIENCE).await.is_ok() {
                    self.note(Entry::Said { from, to: *to, number });
                }
            }
        }
        match msg.then {
            Then::Nothing => {}
            // Panics without a message on the terminal.
            Then::Panic => std::panic::resume_unwind(Box::new("boom")),
            Then::Stop => cx.stop(),
            Then::Drain => cx.drain(),
        }
    }

    #[handler]
    fn word(&mut self, msg: View<Word>) {
        let (from, number) = (msg.from.to_native(), msg.number.to_native());
        assert!(msg.bytes.iter().all(|byte| *byte == 1));
        self.note(Entry::Heard { from, by: self.id, number });
    }

    #[handler]
    fn down(&mut self, msg: Down) {
        self.note(Entry::Told { watcher: self.id, address: msg.actor, exit: msg.exit });
    }
}
