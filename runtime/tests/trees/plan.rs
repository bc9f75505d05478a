//! What is random: the trees, and what is done to their actors.

use std::fmt;

use ringpost::Strategy;

/// Numbers by a seed (splitmix64).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// Returns one of `all`, which has some.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

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
    /// The next starts of a worker fail.
    HaveBadStarts(usize, u64),
    /// Nothing but time passes: so many seconds.
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

/// Returns what is done next, to one of the actors that may be a target; workers are given bad
/// starts whether they live or not.
pub fn step(dice: &mut Dice, tree: &[Recipe], targets: &[usize]) -> Step {
    let roll = dice.below(20);
    if targets.is_empty() || roll == 0 {
        return Step::Wait(dice.one_of(&[1, 5, 15, 61]) as u64);
    }
    let target = dice.one_of(targets);
    if tree[target].is != Type::Worker {
        let orders = [Order::Kill, Order::Kill, Order::Stop, Order::Drain, Order::StopAndKill];
        // A supervisor that is ended has little left to be seen: its child is rather the target.
        return match dice.below(3) {
            0 => Step::Do(dice.one_of(&orders), target),
            _ => step(dice, tree, targets),
        };
    }
    if roll < 4 {
        return Step::HaveBadStarts(target, 1 + dice.below(3) as u64);
    }
    let ends = [Order::Stop, Order::Drain, Order::StopAndKill];
    let late = [Order::StopThenKill, Order::StopThenPanic];
    let order = match dice.below(10) {
        0 => dice.one_of(&ends),
        1 => dice.one_of(&late),
        2..5 => Order::Kill,
        _ => Order::Panic,
    };
    Step::Do(order, target)
}
