//! A model of the turn under loom: its real code, run by an actor's task and two askers in every
//! order.

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering;

use loom::model::Builder;
use loom::sync::atomic::{AtomicU64, AtomicUsize};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{TurnLock, Word};

word!(AtomicUsize);

const SEAT: usize = 8;
const ASKERS: u64 = 2;

/// An actor whose life counts the messages in its mailbox.
struct Actor {
    turn: TurnLock<AtomicUsize>,
    /// The number of waiting messages.
    mail: AtomicU64,
    /// The number of handled messages, and whether the life waits for one. Used in a turn only.
    handled: Mutex<(u64, bool)>,
    /// Wake-ups of the task since it was polled last.
    woken: AtomicU64,
}

impl Actor {
    fn live(&self) {
        let mail = self.mail.swap(0, Ordering::AcqRel);
        let mut handled = self.handled.try_lock().expect("nobody else has the turn");
        *handled = (handled.0 + mail, true);
    }

    /// Asks in place, as [`TurnLock::visit`] allows. Returns false if the asker must use the
    /// mailbox instead.
    fn answer(&self) -> bool {
        let Some(seat) = self.turn.take() else { return false };
        let mut handled = self.handled.try_lock().expect("nobody else has the turn");
        let is_answered = handled.1 && self.mail.load(Ordering::Acquire) == 0;
        handled.0 += u64::from(is_answered);
        drop(handled);
        if self.turn.give_back(seat) {
            self.woken.fetch_add(1, Ordering::AcqRel);
        }
        is_answered
    }

    /// Asks in place if that is wanted and possible; otherwise sends to the mailbox, like
    /// [`TurnLock::run`].
    fn ask(&self, in_place: bool) {
        if in_place && self.answer() {
            return;
        }
        self.mail.fetch_add(1, Ordering::AcqRel);
        let Some(seat) = self.turn.take() else {
            self.woken.fetch_add(1, Ordering::AcqRel);
            return;
        };
        self.live();
        if self.turn.give_back(seat) {
            self.woken.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Polls the task if it was woken, as a runtime does.
    fn poll(&self) {
        if self.woken.swap(0, Ordering::AcqRel) > 0 && self.turn.take_or_want(SEAT) {
            self.live();
            assert!(!self.turn.give_back(SEAT), "only the task wants it");
        }
    }
}

/// TN-1, and no wake-up is lost. One asker sends to the mailbox; the other one asks in place if it
/// can.
#[test]
fn model_of_turns_handles_each_message() {
    let mut model = Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let actor = Arc::new(Actor {
            turn: TurnLock { word: AtomicUsize::new(0), resting: UnsafeCell::new(None) },
            mail: AtomicU64::new(0),
            handled: Mutex::new((0, false)),
            woken: AtomicU64::new(1),
        });
        // The first poll comes before all messages.
        actor.poll();
        let ask = |asker| {
            let actor = actor.clone();
            thread::spawn(move || actor.ask(asker > 0))
        };
        let askers: Vec<_> = (0..ASKERS).map(ask).collect();
        actor.poll();
        for asker in askers {
            asker.join().unwrap();
        }
        while actor.woken.load(Ordering::Acquire) > 0 {
            actor.poll();
        }
        assert_eq!(actor.handled.lock().unwrap().0, ASKERS);
        assert!(actor.turn.close() && actor.turn.take().is_none());
    });
}
