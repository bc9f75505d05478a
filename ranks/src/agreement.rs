//! Agreements of the living ranks, whichever ranks die meanwhile.
//!
//! Each rank sends its vote to the living rank of the lowest number, the coordinator, which decides
//! when it has the votes of all living ranks. A rank that learns the outcome tells it to all other
//! ranks before it returns. So every outcome that a rank has returned is known everywhere, even if
//! that rank died afterwards.
//! When the coordinator dies, all vote again, to the next one; a rank that knows the outcome
//! answers with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::core::Core;
use crate::error::WorldError;
use crate::limits::AGREEMENTS_KEPT;
use crate::packet::Note;
use crate::state::{Standing, State};

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
    decided: BTreeMap<u64, Outcome>,
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
    fn count(&self, number: u64, voters: &[usize]) -> Option<Outcome> {
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
    fn note(&self, number: u64) -> Note {
        Note::Decided { number, flag: self.flag, died: self.gone.clone() }
    }
}

/// The next step of a rank in an agreement.
enum Next {
    Return(Outcome),
    Vote { coordinator: usize, vote: Outcome },
    Wait,
}

impl Core {
    /// Agrees with all living ranks.
    pub(crate) async fn agree(self: &Arc<Self>, flag: bool) -> Result<Outcome, WorldError> {
        let number = self.state.lock().agreements.begin();
        let mut asked = None;
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let next = self.state.lock().next(self.mesh().rank, number, flag, asked)?;
            match next {
                Next::Return(outcome) => {
                    self.tell_all(&outcome.note(number)).await;
                    return Ok(outcome);
                }
                Next::Vote { coordinator, vote: Outcome { flag, gone } } => {
                    asked = Some(coordinator);
                    self.tell(coordinator, Note::Vote { number, flag, died: gone }).await;
                }
                Next::Wait => changed.await,
            }
        }
    }
}

impl State {
    fn next(
        &mut self,
        me: usize,
        number: u64,
        flag: bool,
        asked: Option<usize>,
    ) -> Result<Next, WorldError> {
        if let Some(outcome) = self.agreements.decided.get(&number) {
            return Ok(Next::Return(outcome.clone()));
        }
        if self.ended() == Some(WorldError::Closed) {
            return Err(WorldError::Closed);
        }
        if self.standing(me) != Standing::Living {
            return Err(WorldError::Died { rank: me });
        }
        let gone: Vec<usize> = self.gone();
        let living: Vec<usize> = (0..self.size()).filter(|rank| !gone.contains(rank)).collect();
        let coordinator = living.first().copied().unwrap_or(me);
        let gone = gone.into_iter().map(|rank| rank as u32).collect();
        if coordinator != me {
            let vote = Outcome { flag, gone };
            return Ok(match asked {
                Some(asked) if asked == coordinator => Next::Wait,
                _ => Next::Vote { coordinator, vote },
            });
        }
        drop(self.agreements.vote(me, number, flag, gone));
        let Some(outcome) = self.agreements.count(number, &living) else { return Ok(Next::Wait) };
        self.agreements.decide(number, outcome.flag, outcome.gone.clone());
        Ok(Next::Return(outcome))
    }
}
