//! Agreements of the living ranks, whichever ranks die meanwhile.
//!
//! Each rank sends its vote to the living rank of the lowest number, the coordinator, which decides
//! when it has the votes of all living ranks. A rank that learns the outcome tells it to all other
//! ranks before it returns. So every outcome that a rank has returned is known everywhere, even if
//! that rank died afterwards.
//! When the coordinator dies, all vote again, to the next one; a rank that knows the outcome
//! answers with it.

use crate::limits::AGREEMENTS_KEPT;
use crate::packet::Note;
use std::collections::{BTreeMap, BTreeSet};

/// The outcome of an agreement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// All flags were set.
    pub(crate) flag: bool,
    /// The ranks that any voter knew to be gone.
    pub(crate) gone: Vec<u32>,
}

/// The votes for one agreement, by rank.
type Votes = BTreeMap<usize, Outcome>;

/// The agreements of a world, by number. Owned by the state of a rank.
#[derive(Default)]
pub(crate) struct Agreements {
    next: u64,
    votes: BTreeMap<u64, Votes>,
    pub(crate) decided: BTreeMap<u64, Outcome>,
}

impl Agreements {
    /// Numbers the next agreement of this rank.
    pub(crate) fn begin(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns how many agreements this rank has begun.
    pub(crate) fn begun(&self) -> u64 {
        self.next
    }

    /// Takes a vote in, and returns the outcome if that is known.
    pub(crate) fn vote(
        &mut self,
        from: usize,
        number: u64,
        flag: bool,
        gone: Vec<u32>,
    ) -> Option<Note> {
        if let Some(outcome) = self.decided.get(&number) {
            return Some(outcome.note(number));
        }
        if number <= self.next + AGREEMENTS_KEPT as u64 {
            self.votes.entry(number).or_default().insert(from, Outcome { flag, gone });
        }
        None
    }

    /// Takes an outcome in; the first one stays.
    pub(crate) fn decide(&mut self, number: u64, flag: bool, gone: Vec<u32>) {
        self.votes.remove(&number);
        self.decided.entry(number).or_insert(Outcome { flag, gone });
        while self.decided.len() > AGREEMENTS_KEPT {
            self.decided.pop_first();
        }
    }

    /// Returns the outcome, if the votes of all these ranks are there.
    pub(crate) fn count(&self, number: u64, voters: &[usize]) -> Option<Outcome> {
        let votes = self.votes.get(&number)?;
        if !voters.iter().all(|rank| votes.contains_key(rank)) {
            return None;
        }
        let gone: BTreeSet<u32> = votes.values().flat_map(|vote| vote.gone.clone()).collect();
        let flag = votes.values().all(|vote| vote.flag);
        Some(Outcome { flag, gone: gone.into_iter().collect() })
    }
}

impl Outcome {
    pub(crate) fn note(&self, number: u64) -> Note {
        Note::Decided { number, flag: self.flag, died: self.gone.clone() }
    }
}
