//! Going on after ranks have died, as the fault-tolerance chapter of MPI (ULFM) has it.

use std::sync::Arc;

use crate::agreement::Outcome;
use crate::core::Core;
use crate::error::WorldError;
use crate::packet::Note;
use crate::state::{Standing, State};
use crate::world::World;

/// # After a rank has died
impl World {
    /// Returns the ranks that have died, as far as this rank knows. From now on receives from any
    /// source wait for the living ranks, until the next rank dies: `MPI_Comm_failure_ack`.
    pub fn acknowledge(&self) -> Vec<usize> {
        self.core().state.lock().acknowledge()
    }

    /// Ends this world on all ranks: every operation under way, and every later operation except
    /// [`agree`](Self::agree) and [`shrink`](Self::shrink), fails with
    /// [`Revoked`](WorldError::Revoked). Any rank may call it, such as a rank that stops a
    /// computation because another rank has died.
    pub fn revoke(&self) {
        self.core().revoke();
    }

    /// Returns true if all living ranks gave `true`, the same on all of them, whichever ranks die
    /// meanwhile. All living ranks call it. It works on a world that was revoked, too.
    ///
    /// The living rank of the lowest number collects the flags; when it dies the next one does. A
    /// rank passes the outcome on to all others before it returns.
    ///
    /// # Errors
    /// [`Closed`](WorldError::Closed), and [`Died`](WorldError::Died) with the number of this rank
    /// where the others took it for dead.
    ///
    /// # Cancel safety
    /// Dropped before its end, this rank may not have voted: the others wait for it until it has
    /// left the world.
    pub async fn agree(&self, flag: bool) -> Result<bool, WorldError> {
        Ok(self.core().agree(flag).await?.flag)
    }

    /// Makes a world of the living ranks, in their order. All living ranks call it. It works on a
    /// revoked world, too, and does not change this world.
    ///
    /// The ranks that are left out are agreed upon as in [`agree`](Self::agree).
    ///
    /// # Errors
    /// As [`agree`](Self::agree).
    ///
    /// # Cancel safety
    /// As [`agree`](Self::agree).
    pub async fn shrink(&self) -> Result<World, WorldError> {
        let mut world = self.clone();
        loop {
            let outcome = world.core().agree(true).await?;
            let gone = |rank: &usize| outcome.gone.contains(&(*rank as u32));
            let living = (0..world.size()).filter(|rank| !gone(rank)).collect::<Vec<_>>();
            if !living.contains(&world.rank()) {
                return Err(WorldError::Died { rank: world.rank() });
            }
            let name = format!("a{}", world.core().state.lock().agreements.begun());
            let smaller = world.derive(&name, &living).await?;
            let all_live = smaller.core().state.lock().gone().is_empty();
            // A rank that died meanwhile is left out by another round.
            if smaller.agree(all_live).await? {
                return Ok(smaller);
            }
            world = smaller;
        }
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
