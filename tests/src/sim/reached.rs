//! How often the states were reached that are hard to reach.

use std::collections::BTreeMap;

use ringpost_transport::fabric::sim::{Counters, Met};

/// How often the states of a kind of scenario were reached, by name. A scenario notes each state
/// that it may reach, even if it did not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reached(BTreeMap<String, u64>);

impl Reached {
    /// Adds to a state.
    pub fn note(&mut self, state: &str, count: u64) {
        match self.0.get_mut(state) {
            Some(known) => *known += count,
            None => drop(self.0.insert(state.to_owned(), count)),
        }
    }

    /// Adds the counts of another scenario.
    pub fn add(&mut self, other: &Reached) {
        other.0.iter().for_each(|(state, count)| self.note(state, *count));
    }

    /// The states and their counts, by name.
    pub fn rows(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(state, count)| (state.as_str(), *count))
    }

    /// Adds the faults that the rules of a world brought about.
    pub(super) fn note_met(&mut self, counters: &Counters) {
        let Counters { on_frames, on_dials, on_bytes, .. } = counters;
        for (what, met) in [("frame", on_frames), ("dial", on_dials), ("bytes", on_bytes)] {
            let Met { delayed, dropped, failed, killed, unanswered, .. } = met;
            self.note(&format!("{what} late"), *delayed);
            self.note(&format!("{what} dropped"), *dropped);
            self.note(&format!("{what} failed"), *failed);
            self.note(&format!("{what} killed"), *killed);
            self.note(&format!("{what} unanswered"), *unanswered);
        }
    }
}
