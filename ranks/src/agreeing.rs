//! The part of a rank in an agreement; see [`agreement`](crate::agreement).

use std::sync::Arc;

use crate::agreement::Outcome;
use crate::core::Core;
use crate::error::WorldError;
use crate::packet::Note;
use crate::state::{Standing, State};

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
        if let Some(outcome) = self.agreements.outcome(number) {
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
