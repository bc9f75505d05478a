//! A model of a tree of supervisors, by OTP's rules and by the differences from them that
//! `docs/SEMANTICS.md` ("Supervision", "Not promised") and decision 50 state. Written from those
//! texts, and not from the code: one thread, one function for each rule, nothing waits.

mod rules;

use ringpost::ActorExit;

use super::plan::{Order, Recipe, Step, Type, When};
use super::reached::STATES;
use crate::random::Reached;

/// An event of an actor in the diary of a tree. A supervisor has only `Made`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Its state was made.
    Made,
    Started,
    CouldNotStart,
    /// Its `on_stop` ran.
    Stopped,
    Dropped,
}

/// An event of an actor, and its time: in milliseconds since the tree began.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub actor: usize,
    pub event: Event,
    pub at: u64,
}

/// The end of an incarnation.
struct End {
    exit: ActorExit,
    /// It was stopped or drained, whatever its last handler came to.
    in_order: bool,
    /// How many failures of children in a row led to it.
    level: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Runs,
    Rests,
    Ended,
}

#[derive(Debug)]
struct State {
    life: Life,
    /// Each actor that had this name, and how it ended if it has. A restart makes no other actor.
    actors: Vec<Option<ActorExit>>,
    /// When it was restarted.
    restarts: Vec<u64>,
    bad_starts: u64,
    /// Messages in its mailbox, each of which has its handler panic. They wait while it rests.
    panics: u32,
    /// It was drained while it rested.
    is_draining: bool,
    /// It was stopped or drained while it rested, and takes messages again when it is restarted.
    refuses: bool,
}

/// The actors that are restarted after a rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    One(usize),
    /// All resting children of this actor.
    Group(usize),
}

pub struct Model<'a> {
    tree: &'a [Recipe],
    states: Vec<State>,
    /// In milliseconds.
    now: u64,
    /// Rests and when they end.
    rests: Vec<(u64, Rest)>,
    diary: Vec<Entry>,
    pub reached: Reached,
}

impl<'a> Model<'a> {
    pub fn new(tree: &'a [Recipe]) -> Self {
        let state = |recipe: &Recipe| State {
            life: Life::Ended,
            actors: Vec::new(),
            restarts: Vec::new(),
            bad_starts: recipe.bad_starts,
            panics: 0,
            is_draining: false,
            refuses: false,
        };
        let states = tree.iter().map(state).collect();
        let (rests, diary, reached) = (Vec::new(), Vec::new(), Reached::new(&STATES));
        Model { tree, states, now: 0, rests, diary, reached }
    }

    /// Starts the tree, or says why it does not start.
    pub fn start(&mut self) -> Result<(), String> {
        self.spawn(0)
    }

    /// Does what a step does, and has time pass until `until`.
    pub fn step(&mut self, step: Step, until: u64) {
        match step {
            Step::Do(order, actor) => self.order(order, actor),
            Step::HaveBadStarts(actor, count) => self.states[actor].bad_starts = count,
            Step::PanicBoth(first, second) => self.panic_both(first, second),
            Step::Wait(_) => {}
        }
        while let Some(next) = self.rests.iter().map(|(at, _)| *at).min().filter(|at| *at <= until)
        {
            self.now = next;
            let at = self.rests.iter().position(|(at, _)| *at == next).unwrap();
            self.resume(self.rests[at].1);
        }
        self.now = until;
    }

    /// Takes the entries since the last time.
    pub fn take_diary(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.diary)
    }

    /// Returns the actors that had a name, in order, with how each ended that has.
    pub fn actors(&self, name: usize) -> &[Option<ActorExit>] {
        &self.states[name].actors
    }

    /// Returns the actors that have not ended.
    pub fn living(&self) -> Vec<usize> {
        (0..self.tree.len()).filter(|at| self.states[*at].life != Life::Ended).collect()
    }

    /// Returns true if an actor waits to be restarted.
    pub fn rests(&self, actor: usize) -> bool {
        self.states[actor].life == Life::Rests
    }

    fn note(&mut self, actor: usize, event: Event) {
        self.diary.push(Entry { actor, event, at: self.now });
    }

    fn is_supervisor(&self, actor: usize) -> bool {
        self.tree[actor].is != Type::Worker
    }

    fn children(&self, actor: usize) -> Vec<usize> {
        (0..self.tree.len()).filter(|at| self.tree[*at].parent == Some(actor)).collect()
    }

    /// A new actor starts. If that fails it has ended.
    fn spawn(&mut self, actor: usize) -> Result<(), String> {
        self.states[actor].actors.push(None);
        self.states[actor].restarts.clear();
        self.states[actor].panics = 0;
        self.states[actor].is_draining = false;
        let started = self.begin(actor);
        if let Err(why) = &started {
            self.reached.note("a first start failed");
            self.end(actor, ActorExit::Failed(why.as_str().into()));
        }
        started
    }

    /// Starts an incarnation: a supervisor's children in order. If one does not start, the children
    /// before it are stopped, and the supervisor does not start.
    fn begin(&mut self, actor: usize) -> Result<(), String> {
        self.note(actor, Event::Made);
        self.states[actor].refuses = false;
        if !self.is_supervisor(actor) {
            if self.states[actor].bad_starts > 0 {
                self.states[actor].bad_starts -= 1;
                self.note(actor, Event::CouldNotStart);
                self.note(actor, Event::Dropped);
                return Err("no luck".to_owned());
            }
            self.note(actor, Event::Started);
        }
        for child in self.children(actor) {
            if let Err(why) = self.spawn(child) {
                self.end_children(actor, &ActorExit::Stopped);
                let name = &self.tree[child].name;
                let why = format!("the actor could not start: {why}");
                return Err(format!("its child alpha/{name} did not start: {why}"));
            }
        }
        self.states[actor].life = Life::Runs;
        Ok(())
    }

    /// Ends an actor permanently.
    fn end(&mut self, actor: usize, exit: ActorExit) {
        let state = &mut self.states[actor];
        state.life = Life::Ended;
        *state.actors.last_mut().unwrap() = Some(exit);
        self.rests.retain(|(_, rest)| *rest != Rest::One(actor));
    }

    /// The children of an actor end, the youngest first. `how` is `Stopped` or `Killed`.
    fn end_children(&mut self, actor: usize, how: &ActorExit) {
        for child in self.children(actor).into_iter().rev() {
            match self.states[child].life {
                Life::Ended => {}
                Life::Rests => {
                    self.reached.note("a supervisor ended while a child rested");
                    if *how == ActorExit::Killed {
                        self.reached.note("a supervisor was killed while a child rested");
                    }
                    self.end(child, ActorExit::Stopped);
                }
                Life::Runs => {
                    self.halt(child, how);
                    self.end(child, how.clone());
                }
            }
        }
        self.rests.retain(|(_, rest)| *rest != Rest::Group(actor));
    }

    /// An incarnation is stopped or killed from outside, after its children.
    fn halt(&mut self, actor: usize, how: &ActorExit) {
        if self.is_supervisor(actor) {
            if *how == ActorExit::Killed {
                self.reached.note("a supervisor was killed");
            }
            return self.end_children(actor, how);
        }
        if *how == ActorExit::Stopped {
            self.note(actor, Event::Stopped);
        }
        self.note(actor, Event::Dropped);
    }

    /// Something is done to an actor from outside of the tree.
    fn order(&mut self, order: Order, actor: usize) {
        if self.states[actor].life == Life::Rests {
            return self.order_at_rest(order, actor);
        }
        let panicked = || ActorExit::Panicked("boom".into());
        let (exit, in_order) = match order {
            Order::Panic => (panicked(), false),
            Order::Kill => (ActorExit::Killed, false),
            Order::Stop | Order::Drain => (ActorExit::Stopped, true),
            Order::StopAndKill | Order::StopThenKill => (ActorExit::Killed, true),
            Order::StopThenPanic => (panicked(), true),
        };
        self.halt(actor, &exit);
        if in_order && exit != ActorExit::Stopped && self.tree[actor].when == When::OnFailure {
            self.reached.note("a failure after a stop was no failure");
        }
        self.ended(actor, End { exit, in_order, level: 0 });
    }

    /// Orders something of an actor that rests; its messages wait. A kill ends it. A stop ends it
    /// at once, too, and a drain when the waiting messages are handled, unless it is restarted
    /// after those.
    fn order_at_rest(&mut self, order: Order, actor: usize) {
        let is_revived = self.tree[actor].when == When::Always;
        match order {
            Order::Kill | Order::StopAndKill => {
                self.reached.note("a kill ended an actor that rested");
                self.end(actor, ActorExit::Killed);
            }
            Order::Panic if self.states[actor].refuses => {}
            Order::Panic => self.states[actor].panics += 1,
            _ if is_revived => {
                self.reached.note("a stop of an actor that rested was forgotten");
                self.states[actor].refuses = true;
            }
            Order::Drain => {
                (self.states[actor].is_draining, self.states[actor].refuses) = (true, true);
            }
            _ => {
                self.reached.note("a stop ended an actor that rested");
                self.end(actor, ActorExit::Stopped);
            }
        }
    }

    /// Handles the waiting messages of an actor that was restarted after a rest.
    fn catch_up(&mut self, actor: usize) {
        let in_order = self.states[actor].is_draining;
        if in_order {
            self.reached.note("an actor that was drained while it rested ended after a start");
        }
        if self.states[actor].panics > 0 {
            self.reached.note("an actor handled what came while it rested");
            self.states[actor].panics -= 1;
            let exit = ActorExit::Panicked("boom".into());
            self.halt(actor, &exit);
            self.ended(actor, End { exit, in_order, level: 0 });
        } else if in_order {
            self.halt(actor, &ActorExit::Stopped);
            self.ended(actor, End { exit: ActorExit::Stopped, in_order, level: 0 });
        }
    }
}
