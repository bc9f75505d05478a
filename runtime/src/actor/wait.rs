//! Which actor of this node waits for which: so that none waits in a circle of them, and the log
//! can name those that wait for long.
//!
//! - **WC-1 seen by one**: an actor notes whom it waits for before it looks whether the circle is
//!   closed. Of those that close one at the same moment, at least one sees it.
//! - **WC-2 no false circle**: a note counts only while the wait goes on: the sender has no room
//!   yet, or the ask is not begun, or is the one whose handler waits itself. (Of several waits of
//!   one handler at once the last is noted.)

use std::sync::Arc;

use crate::busy::{Running, running};
use crate::error::Cause;
use crate::limits;
use crate::resident::{Awaits, Resident, Residents, WaitsFor};
use crate::slot::{OpenAsk, number_of};

/// A wait of an actor of this node for another one. Owned by the send that waits; dropped, the wait
/// is over.
pub(super) struct Wait {
    waiter: Arc<dyn Resident>,
    whom: u64,
}

impl Wait {
    /// Notes that the actor whose handler the caller is waits for `whom`, or is about to. Returns
    /// `None` where the caller is no handler, or one of another node.
    ///
    /// # Errors
    /// [`Cause::Cycle`] when `whom` waits for that actor, by itself or through others.
    pub(super) fn begin(whom: &dyn Resident, what: Awaits) -> Result<Option<Self>, Cause> {
        let Some((running, waiter)) = waiter(whom.residents()) else { return Ok(None) };
        // WC-1: noted first.
        let wait = Wait { whom: whom.id(), waiter };
        let note = WaitsFor { whom: wait.whom, what, in_hand: running.in_hand.ask };
        note_down(&*wait.waiter, note);
        match wait.circle(whom, running.in_hand.ask) {
            None => Ok(Some(wait)),
            Some(circle) => Err(Cause::Cycle(circle.into())),
        }
    }

    /// Notes that the actor whose handler the caller is waits for one of another node. Returns
    /// `None` where the caller is no handler of an actor of `residents`.
    pub(super) fn elsewhere(residents: &Residents, what: Awaits) -> Option<Self> {
        let (running, waiter) = waiter(residents)?;
        // A wait on this node, which may close a circle, stays noted.
        if noted(&*waiter).is_some_and(|whom| whom != ELSEWHERE) {
            return None;
        }
        let note = WaitsFor { whom: ELSEWHERE, what, in_hand: running.in_hand.ask };
        note_down(&*waiter, note);
        Some(Wait { waiter, whom: ELSEWHERE })
    }

    /// Notes what is waited for.
    pub(super) fn set(&self, what: Awaits) {
        let mut waits = self.waiter.waits().lock();
        if let Some(note) = waits.as_mut().and_then(|waits| waits.actor.as_mut())
            && note.whom == self.whom
        {
            note.what = what;
        }
    }

    /// Returns the names of a closed circle. `in_hand` is the ask that the waiter handles.
    fn circle(&self, whom: &dyn Resident, in_hand: usize) -> Option<String> {
        // Mostly it waits for none: then nothing is written down.
        let mut next = step(whom)?;
        let mut circle = vec![whom.address().clone()];
        for _ in 0..limits::CIRCLE_MAX {
            let actor = whom.residents().by_id(next.whom)?;
            let is_closed = next.whom == self.waiter.id();
            let handled = if is_closed { in_hand } else { actor_in_hand(&*actor) };
            if !next.lasts(&*actor, handled) {
                return None;
            }
            if is_closed {
                let others: String =
                    circle.iter().map(|actor| format!("{actor}, which waits for ")).collect();
                let first = actor.address();
                return Some(format!("{first} waits for {others}{first}"));
            }
            circle.push(actor.address().clone());
            next = step(&*actor)?;
        }
        None
    }
}

/// The number of no actor of this node.
const ELSEWHERE: u64 = 0;

/// Returns the actor of this node whose handler the caller is.
fn waiter(residents: &Residents) -> Option<(Running, Arc<dyn Resident>)> {
    let running = running()?;
    let waiter = residents.by_id(running.id).filter(|waiter| waiter.token() == running.token)?;
    Some((running, waiter))
}

fn note_down(waiter: &dyn Resident, note: WaitsFor) {
    let old = waiter.waits().lock().get_or_insert_default().actor.replace(note);
    drop(old);
}

/// Returns for whom an actor waits, by its note.
fn noted(actor: &dyn Resident) -> Option<u64> {
    actor.waits().lock().as_ref()?.actor.as_ref().map(|note| note.whom)
}

/// A note, as it was found.
struct Step {
    whom: u64,
    ask: Option<Arc<dyn OpenAsk>>,
    turn: Option<u64>,
}

fn step(actor: &dyn Resident) -> Option<Step> {
    let waits = actor.waits().lock();
    let WaitsFor { whom, what, .. } = waits.as_ref()?.actor.as_ref()?;
    let (ask, turn) = match what {
        Awaits::Nothing => (None, None),
        Awaits::Room(turn) => (None, Some(*turn)),
        Awaits::Answer(ask) => (Some(ask.clone()), None),
        // No circle over several nodes is found.
        Awaits::RoomElsewhere(_) | Awaits::AnswerElsewhere(_) => return None,
    };
    Some(Step { whom: *whom, ask, turn })
}

fn actor_in_hand(actor: &dyn Resident) -> usize {
    let waits = actor.waits().lock();
    waits.as_ref().and_then(|waits| waits.actor.as_ref()).map_or(0, |note| note.in_hand)
}

impl Step {
    /// Returns true if the wait for `whom`, which handles the ask `in_hand`, goes on (WC-2).
    fn lasts(&self, whom: &dyn Resident, in_hand: usize) -> bool {
        match (&self.ask, self.turn) {
            (Some(ask), _) => match ask.is_open() {
                (true, begun) => !begun || in_hand == number_of(ask),
                (false, _) => false,
            },
            (None, Some(turn)) => whom.intake().lacks_room(turn),
            (None, None) => true,
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waits = self.waiter.waits().lock();
        let note = waits.as_mut().map(|waits| &mut waits.actor);
        let old = note.and_then(|note| note.take_if(|note| note.whom == self.whom));
        drop(waits);
        drop(old);
    }
}
