//! The random choices: the deeds of an actor with its timers, and the orders to it.

use std::fmt;
use std::sync::Arc;

use crate::random::Dice;

/// The deeds of handlers, one after the other. Times are in milliseconds.
#[derive(Clone, PartialEq)]
pub enum Deed {
    /// Sets a timer, whose handler does the rest.
    After(u64, u64, Deeds),
    Every(u64, u64, Deeds),
    WhenIdle(u64, Deeds),
    /// Sets this many timers that are due at once, with keys of their own.
    Many(u64, u64),
    Cancel(u64),
    CancelIdle,
    /// Time passes while the handler runs.
    Wait(u64),
    Panic,
}

/// Shared: a timer that repeats clones its message.
pub type Deeds = Arc<[Deed]>;

impl fmt::Debug for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deed::After(key, ms, then) => write!(f, "{key} after {ms} {then:?}"),
            Deed::Every(key, ms, then) => write!(f, "{key} every {ms} {then:?}"),
            Deed::WhenIdle(ms, then) => write!(f, "when idle for {ms} {then:?}"),
            Deed::Many(count, ms) => write!(f, "{count} after {ms}"),
            Deed::Cancel(key) => write!(f, "cancel {key}"),
            Deed::CancelIdle => f.write_str("cancel idle"),
            Deed::Wait(ms) => write!(f, "wait {ms}"),
            Deed::Panic => f.write_str("panic"),
        }
    }
}

/// An order to the actor.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    Tell(Deeds),
    Kill,
    Stop,
    Drain,
}

/// The plan of one seed.
#[derive(Debug)]
pub struct Plan {
    /// The actor is restarted even after a stop.
    pub is_always: bool,
    /// How long it rests.
    pub pause: u64,
    /// The deeds of each incarnation at its start.
    pub start: Deeds,
    /// Orders, each with the milliseconds before it.
    pub steps: Vec<(u64, Order)>,
}

/// Few keys, so that timers are often in each other's place.
const KEYS: usize = 5;
/// More than an actor takes ahead of its mailbox in a row.
pub const MANY: u64 = 40;

pub fn plan(dice: &mut Dice) -> Plan {
    let is_always = dice.below(3) == 0;
    let pause = dice.one_of(&[0, 3, 20]);
    let count = dice.below(3);
    let start: Vec<Deed> = (0..count).map(|_| deed(dice, 1)).collect();
    let start = start.into_iter().filter(|deed| *deed != Deed::Panic).collect();
    let mut steps: Vec<_> = (0..4 + dice.below(36)).map(|_| step(dice, is_always)).collect();
    let last = [Order::Stop, Order::Drain, Order::Kill][dice.below(3)].clone();
    steps.push((time(dice, 30), last));
    Plan { is_always, pause, start, steps }
}

fn step(dice: &mut Dice, is_always: bool) -> (u64, Order) {
    let wait = match dice.below(10) {
        0..3 => 0,
        3 => time(dice, 200),
        _ => time(dice, 15),
    };
    let order = match dice.below(24) {
        0 => Order::Kill,
        1 if is_always => Order::Stop,
        2 if is_always => Order::Drain,
        _ => {
            let count = dice.below(4);
            Order::Tell((0..count).map(|_| deed(dice, 2)).collect())
        }
    };
    (wait, order)
}

/// Returns a deed whose timers set timers in turn, to a limited depth. These never fire at once: a
/// timer could set itself again for ever while no time passes.
fn deed(dice: &mut Dice, depth: usize) -> Deed {
    let key = dice.below(KEYS) as u64;
    match dice.below(30) {
        0..10 => {
            let after = if depth == 2 { dice.below(20) as u64 } else { time(dice, 20) };
            Deed::After(key, after, then(dice, depth))
        }
        10..15 => Deed::Every(key, time(dice, 12), then(dice, depth)),
        15..17 => Deed::WhenIdle(time(dice, 12), then(dice, depth)),
        17..23 => Deed::Cancel(key),
        23 => Deed::CancelIdle,
        24 => Deed::Many(MANY, time(dice, 12)),
        25 if dice.below(2) == 0 => Deed::Panic,
        _ => Deed::Wait(time(dice, 25)),
    }
}

fn then(dice: &mut Dice, depth: usize) -> Deeds {
    let count = if depth == 0 { 0 } else { dice.below(3).saturating_sub(depth % 2) };
    (0..count).map(|_| deed(dice, depth - 1)).collect()
}

fn time(dice: &mut Dice, most: usize) -> u64 {
    1 + dice.below(most) as u64
}
