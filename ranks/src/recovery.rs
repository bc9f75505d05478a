//! Going on after ranks have died, as the fault-tolerance chapter of MPI (ULFM) has it, and worlds
//! made of a world.

use std::sync::Arc;

use futures::future::{Either, join_all, select};
use ringpost::prelude::*;

use crate::call::Call;
use crate::collective::part_of_split;
use crate::core::Core;
use crate::error::WorldError;
use crate::member::Member;
use crate::packet::{Element, Head};
use crate::state::Standing;
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

/// # Worlds made of this one
impl World {
    /// Makes a world of the ranks that give the same color, in the order of their keys, and of
    /// their numbers here where keys are equal. Ranks that give `None` are in no new world. All
    /// ranks call it.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub async fn split(&self, color: Option<u32>, key: i64) -> Result<Option<World>, WorldError> {
        let call = Call::begin(self, Head::new("split", 0, Element::of::<[i64; 3]>(), 3));
        let name = format!("s{}", call.sequence());
        let mine = [i64::from(color.is_some()), i64::from(color.unwrap_or(0)), key];
        let all = part_of_split(&call, &mine).await;
        let all = call.end(all)?;
        // Every rank makes the second call, whatever becomes of its new world.
        let made = match color {
            None => Ok(None),
            Some(_) => {
                let is_mine = |rank: &usize| all[*rank][..2] == mine[..2];
                let mut ranks = (0..self.size()).filter(is_mine).collect::<Vec<_>>();
                ranks.sort_by_key(|rank| (all[*rank][2], *rank));
                self.derive(&name, &ranks).await.map(Some)
            }
        };
        self.barrier().await?;
        made
    }

    /// Makes a world of the same ranks, with messages and operations of its own. All ranks call it.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub async fn dup(&self) -> Result<World, WorldError> {
        let made = self.split(Some(0), self.rank() as i64).await?;
        made.ok_or(WorldError::Closed)
    }

    /// Makes a world of some ranks, this one among them, each of which makes it too. Its actors
    /// have a name that all of them know.
    async fn derive(&self, name: &str, ranks: &[usize]) -> Result<World, WorldError> {
        let label = format!("{}.{name}", self.core().label.get().map_or("", String::as_str));
        let core = Core::new(self.node(), ranks.len(), self.core().window);
        let actor = format!("ranks.{label}");
        let member = self.node().spawn(&*actor, Member::new(core.clone())).await;
        let member = member.map_err(|_| WorldError::Closed)?;
        let found = ranks.iter().map(|rank| self.find(*rank, &actor));
        let members = join_all(found).await.into_iter().collect::<Option<Vec<_>>>();
        let rank = ranks.iter().position(|rank| *rank == self.rank());
        let (Some(members), Some(rank)) = (members, rank) else {
            drop(member.request_stop());
            return Err(WorldError::Closed);
        };
        core.begin(label, rank, members);
        let world = World::new(core, member, None, false);
        world.watch_all().await?;
        Ok(world)
    }

    /// Finds the actor of a rank; of a rank that is gone, the place where it would be.
    async fn find(&self, rank: usize, actor: &str) -> Option<ActorRef<Member>> {
        let path = format!("{}/{actor}", self.node_of(rank)?);
        let found = std::pin::pin!(self.node().when_named::<Member>(&path));
        let gone = std::pin::pin!(gone(self.core(), rank));
        match select(found, gone).await {
            Either::Left((found, _)) => found.ok(),
            Either::Right(_) => self.node().named(&path).ok(),
        }
    }
}

/// Waits until a rank is gone, or this rank has left.
async fn gone(core: &Arc<Core>, rank: usize) {
    loop {
        let mut changed = std::pin::pin!(core.changed.notified());
        changed.as_mut().enable();
        if is_gone(core, rank) {
            return;
        }
        changed.await;
    }
}

/// Returns true if a rank is gone, or this rank has left.
fn is_gone(core: &Core, rank: usize) -> bool {
    let state = core.state.lock();
    state.standing(rank) != Standing::Living || state.ended() == Some(WorldError::Closed)
}
