//! Which actor of this node waits for which: so that none waits in a circle of them, and the log
//! can name those that wait for long.
//!
//! - **WC-1 seen by one**: an actor notes whom it waits for before it looks whether the circle is
//!   closed. Of those that close one at the same moment, at least one sees it.
//! - **WC-2 no false circle**: a note counts only while the wait goes on: the sender has no room
//!   yet, or the ask is not begun, or is the one whose handler waits itself; the actor starts, or
//!   ends or rests when its handlers have ended. It is gone with its handler, also where another
//!   task has the send then. (Of a handler that waits for the first of several sends, each counts.)
//!   An ask that a router passed on is one of the actor that has it now, and not of the router.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use ringpost_transport::log;

use crate::busy::{InHand, Running, note_wait, running};
use crate::error::Cause;
use crate::limits;
use crate::resident::Resident;
use crate::residents::Residents;
use crate::slot::{OpenAsk, number_of};
use crate::waits::{Awaits, WaitsFor};

/// A wait of an actor of this node for another one. Owned by the send that waits; dropped, the wait
/// is over.
pub(super) struct Wait {
    waiter: Arc<dyn Resident>,
    number: u64,
}

impl Wait {
    /// Notes that the actor whose handler the caller is waits for `whom`, or is about to. Returns
    /// `None` where the caller is no handler, or one of another node, or waits for very many.
    ///
    /// # Errors
    /// [`Cause::Cycle`] when `whom` waits for that actor, by itself or through others.
    pub(super) fn begin(whom: &dyn Resident, what: Awaits) -> Result<Option<Self>, Cause> {
        let Some((running, waiter)) = waiter(|id| whom.neighbour(id)) else { return Ok(None) };
        let in_hand = running.in_hand.ask;
        // WC-1: noted first.
        let Some(wait) = Wait::note(waiter, whom.id(), what, in_hand) else { return Ok(None) };
        if whom.intake().is_closed() {
            // The send fails at once.
            return Ok(Some(wait));
        }
        match circle(&*wait.waiter, whom, in_hand) {
            None => Ok(Some(wait)),
            Some(Circle { text, .. }) => Err(Cause::Cycle(text.into())),
        }
    }

    /// Notes that the handler that the caller is waits for the start of `whom`, its first one or
    /// another. Called before that runs, so this closes no circle. Returns `None` as
    /// [`begin`](Self::begin) does.
    pub(super) fn for_start(whom: &dyn Resident, start: InHand) -> Option<Self> {
        let (running, waiter) = waiter(|id| whom.neighbour(id))?;
        Wait::note(waiter, whom.id(), Awaits::Start(start), running.in_hand.ask)
    }

    /// Notes that the actor whose handler the caller is waits for the end of `whom`. Circles that
    /// this closes are broken. Returns `None` as [`begin`](Self::begin) does.
    pub(super) fn for_end(whom: &dyn Resident) -> Option<Self> {
        let (running, waiter) = waiter(|id| whom.neighbour(id))?;
        let in_hand = running.in_hand.ask;
        // WC-1: noted first.
        let wait = Wait::note(waiter, whom.id(), Awaits::End, in_hand)?;
        wait.break_circles(whom, in_hand, || whom.is_ending());
        Some(wait)
    }

    /// Returns true if `waiter` closed a circle if it waited for `whom`, in no handler.
    #[allow(dead_code, reason = "it goes with the search for circles")]
    pub(super) fn would_close(waiter: &dyn Resident, whom: &dyn Resident) -> bool {
        circle(waiter, whom, 0).is_some()
    }

    /// Returns the error for an ask that `waiter` has and is to hand to `whom`, if that waits for
    /// the answer, by itself or through others.
    #[allow(dead_code, reason = "it goes with the search for circles")]
    pub(super) fn refusal_of(
        ask: &Arc<dyn OpenAsk>,
        waiter: &dyn Resident,
        whom: &dyn Resident,
    ) -> Option<Cause> {
        let number = number_of(ask);
        let circle = circle_by(waiter, whom, |step, _| step.open_ask() == Some(number))?;
        Some(Cause::Cycle(circle.text.into()))
    }

    /// Returns true if `whom` waits, by itself or through others, for the answer to an ask that
    /// `router` has, begun or not, and no other actor.
    #[allow(dead_code, reason = "it goes with the search for circles")]
    pub(super) fn is_for_any(router: &dyn Resident, whom: &dyn Resident) -> bool {
        circle_by(router, whom, |step, _| step.open_ask().is_some()).is_some()
    }

    /// Notes that an actor waits for its child to end or to rest, in a handler or between two
    /// incarnations. Circles that this closes are broken. Returns `None` if it waits for very many.
    pub(super) fn for_child(
        parent: &dyn Resident,
        child: &dyn Resident,
        what: Awaits,
    ) -> Option<Self> {
        let running = running().filter(|running| running.token == parent.token());
        let in_hand = running.map_or(0, |running| running.in_hand.ask);
        let rests = matches!(what, Awaits::Rest);
        // WC-1: noted first.
        let parent = child.neighbour(parent.id())?;
        let wait = Wait::note_up_to(limits::CHILD_WAITS_MAX, parent, child.id(), what, in_hand)?;
        let lasts = || if rests { child.is_to_rest() } else { child.is_ending() };
        wait.break_circles(child, in_hand, lasts);
        Some(wait)
    }

    /// Notes that an actor rests until its supervisor has it begin anew. Circles that this closes
    /// are broken.
    pub(super) fn for_resume(child: &dyn Resident, supervisor: &dyn Resident) -> Option<Self> {
        // WC-1: noted first.
        let waiter = supervisor.neighbour(child.id())?;
        let wait = Wait::note(waiter, supervisor.id(), Awaits::Resume, 0)?;
        wait.break_circles(supervisor, 0, || child.rests_on());
        Some(wait)
    }

    /// Breaks the circles that a wait which nothing can refuse has closed, while it `lasts`: of
    /// each, the last send on the way from `whom` to the waiter is told.
    fn break_circles(&self, whom: &dyn Resident, in_hand: usize, lasts: impl Fn() -> bool) {
        // One that waits for several asks closes a circle by each; what was refused closes none.
        while lasts()
            && let Some(Circle { text, send }) = circle(&*self.waiter, whom, in_hand)
        {
            log::warn!(circle = text, "an actor waits for the end of one that waits for it");
            let Some(send) = send else { break };
            send.refuse(whom, text.into());
        }
    }

    /// Notes that the actor whose handler the caller is waits for one of another node. Returns
    /// `None` as [`begin`](Self::begin) does.
    pub(super) fn elsewhere(residents: &Residents, what: Awaits) -> Option<Self> {
        let (running, waiter) = waiter(|id| residents.by_id(id))?;
        Wait::note(waiter, ELSEWHERE, what, running.in_hand.ask)
    }

    fn note(waiter: Arc<dyn Resident>, whom: u64, what: Awaits, in_hand: usize) -> Option<Self> {
        Wait::note_up_to(limits::WAITS_MAX, waiter, whom, what, in_hand)
    }

    fn note_up_to(
        most: usize,
        waiter: Arc<dyn Resident>,
        whom: u64,
        what: Awaits,
        in_hand: usize,
    ) -> Option<Self> {
        let number = {
            let mut waits = waiter.waits().lock();
            let waits = waits.get_or_insert_default();
            if waits.actors.len() >= most {
                return None;
            }
            if waits.actors.is_empty() {
                // Most handlers wait for one at a time.
                waits.actors.reserve_exact(1);
            }
            note_wait();
            waits.noted += 1;
            waits.actors.push(WaitsFor { number: waits.noted, whom, what, in_hand });
            waits.noted
        };
        Some(Wait { waiter, number })
    }

    /// Notes what is waited for.
    ///
    /// # Errors
    /// [`Cause::Cycle`] when the send was refused meanwhile, to break a circle. The ask that was
    /// sent all the same is refused then, and that is no error.
    pub(super) fn set(&self, what: Awaits) -> Result<(), Cause> {
        let mut waits = self.waiter.waits().lock();
        let mut notes = waits.iter_mut().flat_map(|waits| &mut waits.actors);
        let note = notes.find(|note| note.number == self.number);
        let refused = match note {
            Some(WaitsFor { what: Awaits::Refused(text), .. }) => text.clone(),
            note => {
                let old = note.map(|note| mem::replace(&mut note.what, what));
                drop(waits);
                drop(old);
                return Ok(());
            }
        };
        drop(waits);
        match what {
            Awaits::Answer(ask) => {
                ask.refuse(Cause::Cycle(refused));
                Ok(())
            }
            _ => Err(Cause::Cycle(refused)),
        }
    }

    /// Notes that the answer to `ask` is waited for, which is about to be put into a mailbox. (Not
    /// where the send was refused.)
    pub(super) fn note_answer(&self, ask: &Arc<dyn OpenAsk>) {
        let mut waits = self.waiter.waits().lock();
        let mut notes = waits.iter_mut().flat_map(|waits| &mut waits.actors);
        if let Some(note) = notes.find(|note| note.number == self.number)
            && !matches!(note.what, Awaits::Refused(_))
        {
            note.what = Awaits::Answer(ask.clone());
        }
    }

    /// Looks again, now that `ask` was sent to `whom` and noted: a look of another actor did not
    /// count it, if the mailbox was closed between the two.
    pub(super) fn look_again(&self, whom: &dyn Resident, ask: &Arc<dyn OpenAsk>) {
        let in_hand = running().map_or(0, |running| running.in_hand.ask);
        if whom.intake().is_closed()
            && let Some(Circle { text, .. }) = circle(&*self.waiter, whom, in_hand)
        {
            ask.refuse(Cause::Cycle(text.into()));
        }
    }
}

/// Returns the circle that the wait of `waiter` for `whom` closes. `in_hand` is the ask that it
/// handles.
fn circle(waiter: &dyn Resident, whom: &dyn Resident, in_hand: usize) -> Option<Circle> {
    circle_by(waiter, whom, |step, waiter| step.lasts(waiter, in_hand))
}

/// As [`circle`], where the last step, to the waiter itself, is one that `closes` it.
fn circle_by(
    waiter: &dyn Resident,
    whom: &dyn Resident,
    closes: impl Fn(&Step, &dyn Resident) -> bool,
) -> Option<Circle> {
    // Mostly it waits for none: then nothing is written down.
    let mut next: VecDeque<(usize, Step)> = steps(whom).map(|step| (0, step)).collect();
    if next.is_empty() {
        return None;
    }
    // Actors that are waited for, each with the place of one that waits for it, and its send.
    let mut reached = vec![(whom.shown().to_string(), whom.id(), 0, None)];
    while let Some((from, step)) = next.pop_front() {
        let Some(actor) = whom.neighbour(step.whom) else { continue };
        // Not by its number: it may be of another node of this process.
        let is_closed = actor.token() == waiter.token();
        let lasts = match is_closed {
            true => closes(&step, &*actor),
            false => step.lasts(&*actor, actor_in_hand(&*actor)),
        };
        if !lasts {
            continue;
        }
        if is_closed {
            let mut others = format!("{}, which waits for ", reached[from].0);
            let (mut place, mut send) = (from, step.send);
            while place != 0 {
                send = send.or(reached[place].3.take());
                place = reached[place].2;
                others.insert_str(0, &format!("{}, which waits for ", reached[place].0));
            }
            let first = actor.shown();
            let text = format!("{first} waits for {others}{first}");
            return Some(Circle { text, send });
        }
        let is_new = reached.iter().all(|(_, id, ..)| *id != step.whom);
        if !is_new || reached.len() >= limits::CIRCLE_MAX {
            continue;
        }
        let places = next.len();
        next.extend(steps(&*actor).map(|step| (reached.len(), step)));
        // One that waits for none takes no place of those that do.
        if next.len() > places {
            reached.push((actor.shown().to_string(), step.whom, from, step.send));
        }
    }
    None
}

/// Actors that would wait for each other.
struct Circle {
    /// Their names.
    text: String,
    /// The last send on the way from the second one to the first, if there is one.
    send: Option<WaitingSend>,
}

/// A send of a handler that waits, as it was found.
struct WaitingSend {
    waiter: u64,
    number: u64,
    ask: Option<Arc<dyn OpenAsk>>,
}

impl WaitingSend {
    /// Has the sender told that it would wait in a circle. `near` is an actor of its node.
    fn refuse(self, near: &dyn Resident, text: Arc<str>) {
        if let Some(ask) = self.ask {
            return ask.refuse(Cause::Cycle(text));
        }
        let Some(waiter) = near.neighbour(self.waiter) else { return };
        let mut waits = waiter.waits().lock();
        let mut notes = waits.iter_mut().flat_map(|waits| &mut waits.actors);
        let Some(note) = notes.find(|note| note.number == self.number) else { return };
        let refused = Awaits::Refused(text.clone());
        let (old, whom) = match &note.what {
            Awaits::Nothing | Awaits::Room(_) => (mem::replace(&mut note.what, refused), note.whom),
            // It was sent since it was found.
            Awaits::Answer(ask) => (Awaits::Answer(ask.clone()), note.whom),
            _ => return,
        };
        drop(waits);
        match old {
            Awaits::Answer(ask) => ask.refuse(Cause::Cycle(text)),
            Awaits::Room(turn) => {
                let whom = near.neighbour(whom);
                whom.into_iter().for_each(|whom| whom.intake().call(turn));
            }
            // It is about to note for what it waits.
            _ => {}
        }
    }
}

/// The number of no actor of this node.
const ELSEWHERE: u64 = 0;

/// Returns the actor of this node whose handler the caller is.
fn waiter(
    by_id: impl FnOnce(u64) -> Option<Arc<dyn Resident>>,
) -> Option<(Running, Arc<dyn Resident>)> {
    let running = running()?;
    let waiter = by_id(running.id).filter(|waiter| waiter.token() == running.token)?;
    Some((running, waiter))
}

/// A note, as it was found.
struct Step {
    whom: u64,
    /// The send that waits, if one does.
    send: Option<WaitingSend>,
    lasts: Lasts,
}

/// How long a wait goes on.
enum Lasts {
    /// Until the handler is done with it, or the ask is.
    Noted,
    /// Until there is room with this turn.
    Room(u64),
    /// While the actor is in this start.
    Start(InHand),
    End,
    Rest,
}

/// Returns the waits of an actor for others of this node.
fn steps(actor: &dyn Resident) -> impl Iterator<Item = Step> + use<> {
    let waits = actor.waits().lock();
    let step = |WaitsFor { number, whom, what, .. }: &WaitsFor| {
        let send = |ask| Some(WaitingSend { waiter: actor.id(), number: *number, ask });
        let (send, lasts) = match what {
            Awaits::Nothing => (send(None), Lasts::Noted),
            Awaits::Room(turn) => (send(None), Lasts::Room(*turn)),
            Awaits::Answer(ask) => (send(Some(ask.clone())), Lasts::Noted),
            Awaits::Start(start) => (None, Lasts::Start(*start)),
            Awaits::End => (None, Lasts::End),
            Awaits::Rest => (None, Lasts::Rest),
            Awaits::Resume if actor.rests_on() => (None, Lasts::Noted),
            // It ends, or rests again, at once.
            Awaits::Resume => return None,
            // The sender is about to be told.
            Awaits::Refused(_) => return None,
            // No circle over several nodes is found.
            Awaits::RoomElsewhere(..) | Awaits::AnswerElsewhere(..) => return None,
        };
        Some(Step { whom: *whom, send, lasts })
    };
    let steps: Vec<Step> = waits.iter().flat_map(|waits| &waits.actors).filter_map(step).collect();
    steps.into_iter().map(Step::passed_on)
}

fn actor_in_hand(actor: &dyn Resident) -> usize {
    let waits = actor.waits().lock();
    // The last one is of the handler that runs now, if any is.
    let last = waits.as_ref().and_then(|waits| waits.actors.iter().max_by_key(|note| note.number));
    last.map_or(0, |note| note.in_hand)
}

impl Step {
    /// Follows an ask that routers passed on to the actor that has it now.
    fn passed_on(mut self) -> Self {
        while let Some(WaitingSend { ask: Some(ask), .. }) = &mut self.send
            && let Some((whom, passed)) = ask.passed_on()
        {
            (self.whom, *ask) = (whom, passed);
        }
        self
    }

    /// Returns the number of the ask for whose answer it waits, if there may be one.
    #[allow(dead_code, reason = "it goes with the search for circles")]
    fn open_ask(&self) -> Option<usize> {
        let ask = self.send.as_ref()?.ask.as_ref()?;
        ask.is_open().0.then(|| number_of(ask))
    }

    /// Returns true if the wait for `whom`, which handles the ask `in_hand`, goes on (WC-2).
    fn lasts(&self, whom: &dyn Resident, in_hand: usize) -> bool {
        match (&self.send, &self.lasts) {
            (Some(WaitingSend { ask: Some(ask), .. }), _) => match ask.is_open() {
                (true, begun) => !begun || in_hand == number_of(ask),
                (false, _) => false,
            },
            (_, Lasts::Room(turn)) => whom.intake().lacks_room(*turn),
            (_, Lasts::Start(start)) => in_hand == start.ask,
            (_, Lasts::End) => whom.is_ending(),
            (_, Lasts::Rest) => whom.is_to_rest(),
            // A send to a closed mailbox is about to fail.
            (Some(_), Lasts::Noted) => !whom.intake().is_closed(),
            (None, Lasts::Noted) => true,
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waits = self.waiter.waits().lock();
        let old = waits.as_mut().and_then(|waits| {
            let place = waits.actors.iter().position(|note| note.number == self.number)?;
            Some(waits.actors.swap_remove(place))
        });
        drop(waits);
        drop(old);
    }
}
