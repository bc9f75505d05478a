//! The random choices: the trees, and the steps for their actors.

use std::fmt;

use ringpost::spawn::Strategy;

use crate::random::Dice;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Worker,
    Supervisor(Strategy),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Never,
    OnFailure,
    Always,
}

/// Restarts are counted within this time, in milliseconds. Steps begin at whole seconds, and rests
/// end at other times, so nothing happens at the end of a window.
pub const WINDOW: u64 = 60_500;

/// The pause of an actor that rests before it is restarted, in milliseconds.
pub const PAUSE: u64 = 10_210;

/// How one actor of a tree is made. The first is the root, and each comes after its parent.
#[derive(Clone)]
pub struct Recipe {
    pub name: String,
    pub parent: Option<usize>,
    pub is: Type,
    pub when: When,
    /// Restarts within `WINDOW`.
    pub most: u32,
    /// In milliseconds.
    pub pause: u64,
    /// The first starts of a worker that fail.
    pub bad_starts: u64,
}

impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recipe { name, parent, is, when, most, pause, bad_starts } = self;
        write!(f, "{name} {is:?} of {parent:?}: {when:?}, at most {most}, pause {pause} ms")?;
        if *bad_starts > 0 { write!(f, ", {bad_starts} bad starts") } else { Ok(()) }
    }
}

/// Something that is done to one actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A handler of a worker panics.
    Panic,
    Kill,
    Stop,
    Drain,
    /// Stopped, and killed before it has seen that.
    StopAndKill,
    /// A worker is stopped while its handler waits, and then killed.
    StopThenKill,
    /// A worker is stopped while its handler waits, and then the handler panics.
    StopThenPanic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Do(Order, usize),
    /// Handlers of two workers of one group panic at once.
    PanicBoth(usize, usize),
    /// The next starts of a worker fail.
    HaveBadStarts(usize, u64),
    /// Nothing but time passes, in seconds.
    Wait(u64),
}

/// Returns a tree of 1 to 50 actors, small ones more often than large ones.
pub fn tree(dice: &mut Dice) -> Vec<Recipe> {
    let bound = dice.one_of(&[4, 8, 8, 12, 12, 20, 50]);
    let size = 1 + dice.below(bound);
    // Some trees are made of actors that give up soon, and some have actors that rest.
    let most = dice.one_of(&[1, 2, 4]);
    let (rests, is_bad) = (dice.below(3) == 0, dice.below(20) == 0);
    let mut tree = vec![recipe(dice, 0, None, true, most)];
    for number in 1..size {
        let supervisors: Vec<usize> =
            (0..number).filter(|at| matches!(tree[*at].is, Type::Supervisor(_))).collect();
        // The youngest supervisor often has the next one: some trees are deep.
        let parent = match dice.below(3) {
            0 => supervisors[supervisors.len() - 1],
            _ => dice.one_of(&supervisors),
        };
        let is_supervisor = dice.below(4) == 0;
        let mut made = recipe(dice, number, Some(parent), is_supervisor, most);
        made.pause = if rests && dice.below(3) == 0 { PAUSE } else { 0 };
        if is_bad && !is_supervisor && dice.below(4) == 0 {
            made.bad_starts = 1;
        }
        tree.push(made);
    }
    tree
}

fn recipe(
    dice: &mut Dice,
    number: usize,
    parent: Option<usize>,
    is_supervisor: bool,
    most: usize,
) -> Recipe {
    let strategies = [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne];
    let is = if is_supervisor { Type::Supervisor(dice.one_of(&strategies)) } else { Type::Worker };
    let kind = if is_supervisor { 's' } else { 'w' };
    let whens = [When::Never, When::OnFailure, When::OnFailure, When::OnFailure, When::Always];
    let (when, most) = (dice.one_of(&whens), u32::try_from(dice.below(most)).unwrap());
    let name = format!("{kind}{number}");
    Recipe { name, parent, is, when, most, pause: 0, bad_starts: 0 }
}

/// The actors that a step may be about: the living ones.
pub struct Targets<'a> {
    pub tree: &'a [Recipe],
    pub living: Vec<usize>,
    pub resting: Vec<usize>,
}

impl Targets<'_> {
    /// Returns the next step.
    pub fn step(&self, dice: &mut Dice) -> Step {
        let roll = dice.below(20);
        if self.living.is_empty() || roll == 0 {
            return Step::Wait(dice.one_of(&[1, 5, 15, 61]) as u64);
        }
        // Actors that rest are there for a short time only.
        let rests = !self.resting.is_empty() && dice.below(4) == 0;
        let target = dice.one_of(if rests { &self.resting } else { &self.living });
        if rests {
            return Step::Do(self.order_at_rest(dice, target), target);
        }
        if self.tree[target].is != Type::Worker {
            let orders = [Order::Kill, Order::Kill, Order::Stop, Order::Drain, Order::StopAndKill];
            // A supervisor that is ended has little left to be seen: rather something else is done.
            return match dice.below(3) {
                0 if !self.resting.contains(&target) => Step::Do(dice.one_of(&orders), target),
                _ => self.step(dice),
            };
        }
        match (roll, self.neighbour(dice, target)) {
            (1..4, _) => Step::HaveBadStarts(target, 1 + dice.below(3) as u64),
            (4..6, Some(other)) => Step::PanicBoth(target, other),
            _ if self.resting.contains(&target) => self.step(dice),
            _ => Step::Do(order(dice), target),
        }
    }

    /// Returns another worker of the same group; neither of the two rests.
    fn neighbour(&self, dice: &mut Dice, worker: usize) -> Option<usize> {
        let parent = self.group(worker)?;
        let is_one = |other: &usize| {
            let Recipe { parent: its, is, .. } = &self.tree[*other];
            *other != worker && *its == Some(parent) && *is == Type::Worker
        };
        let runs = |at: &usize| !self.resting.contains(at);
        let others = self.living.iter().copied().filter(|at| is_one(at) && runs(at));
        let others: Vec<usize> = others.collect();
        (runs(&worker) && !others.is_empty()).then(|| dice.one_of(&others))
    }

    /// Returns the parent, if that restarts several of its children together.
    fn group(&self, actor: usize) -> Option<usize> {
        let parent = self.tree[actor].parent?;
        (self.tree[parent].is != Type::Supervisor(Strategy::OneForOne)).then_some(parent)
    }

    /// A supervisor of a group is not drained while it rests: while it starts to end at once, the
    /// next of the group starts, and in which order this is seen is not promised.
    fn order_at_rest(&self, dice: &mut Dice, target: usize) -> Order {
        let orders = [Order::Kill, Order::Stop, Order::StopAndKill, Order::Drain, Order::Panic];
        let order = dice.one_of(&orders);
        match (self.tree[target].is, order) {
            (Type::Supervisor(_), Order::Panic) => Order::Kill,
            (Type::Supervisor(_), Order::Drain) if self.group(target).is_some() => Order::Stop,
            _ => order,
        }
    }
}

/// Returns an order for a worker.
fn order(dice: &mut Dice) -> Order {
    let ends = [Order::Stop, Order::Drain, Order::StopAndKill];
    let late = [Order::StopThenKill, Order::StopThenPanic];
    match dice.below(10) {
        0 => dice.one_of(&ends),
        1 => dice.one_of(&late),
        2..5 => Order::Kill,
        _ => Order::Panic,
    }
}
