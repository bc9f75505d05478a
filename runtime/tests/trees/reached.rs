//! How often the states were reached that are hard to reach.

use std::collections::BTreeMap;
use std::fmt;

/// How often each state was reached, by name.
#[derive(Debug)]
pub struct Reached(BTreeMap<&'static str, u64>);

/// Each of them has to be reached by a run of all seeds.
const STATES: [&str; 26] = [
    "a child failed while others of its group rested",
    "a failure after a stop was no failure",
    "a first start failed",
    "a group restart ended what is never restarted",
    "a group restart left alone what had ended in order",
    "a kill of an actor that rested did nothing",
    "a restart was allowed because others were long ago",
    "a restarted supervisor could not start",
    "a restarted worker could not start",
    "a stop ended an actor that rested",
    "a stop of an actor that rested was forgotten",
    "a supervisor ended while a child rested",
    "a supervisor was killed",
    "a supervisor was killed while a child rested",
    "a supervisor was restarted after an escalation",
    "a supervisor was restarted with its group",
    "an actor handled what came while it rested",
    "an actor rested",
    "an actor that was drained while it rested ended after a start",
    "an escalation",
    "an escalation through three levels or more",
    "an escalation through two levels",
    "in a group restart a start failed",
    "the root failed too often",
    "two of a group failed at once",
    "what was stopped was restarted",
];

impl Reached {
    pub fn new() -> Self {
        Reached(STATES.iter().map(|state| (*state, 0)).collect())
    }

    pub fn note(&mut self, state: &'static str) {
        *self.0.get_mut(state).unwrap_or_else(|| panic!("an unlisted state: {state}")) += 1;
    }

    /// Adds those of another tree.
    pub fn add(&mut self, other: &Reached) {
        other.0.iter().for_each(|(state, count)| *self.0.get_mut(state).unwrap() += count);
    }

    /// Returns the states that were not reached.
    pub fn missing(&self) -> Vec<&'static str> {
        self.0.iter().filter(|(_, count)| **count == 0).map(|(state, _)| *state).collect()
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(state, count)| writeln!(f, "{count:8}  {state}"))
    }
}
