//! Worlds made of the ranks of a world.

use std::sync::Arc;

use futures::future::{Either, join_all, select};
use ringpost::prelude::*;

use crate::call::Call;
use crate::collective::{meet, part_of_split};
use crate::core::Core;
use crate::error::WorldError;
use crate::member::Member;
use crate::packet::{Element, Head};
use crate::state::Standing;
use crate::world::World;

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
    pub fn split(
        &self,
        color: Option<u32>,
        key: i64,
    ) -> impl Future<Output = Result<Option<World>, WorldError>> + Send + use<> {
        let call = Call::begin(self, Head::new("split", 0, Element::of::<[i64; 3]>(), 3));
        let world = self.clone();
        async move {
            let made = world.part(&call, color, key).await;
            call.end(made)?
        }
    }

    /// Makes a world of the same ranks, with messages and operations of its own. All ranks call it.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn dup(&self) -> impl Future<Output = Result<World, WorldError>> + Send + use<> {
        let split = self.split(Some(0), self.rank() as i64);
        async move { split.await?.ok_or(WorldError::Closed) }
    }

    /// Makes the world of this rank's color. Returns when all ranks have made theirs, or failed to.
    async fn part(
        &self,
        call: &Call,
        color: Option<u32>,
        key: i64,
    ) -> Result<Result<Option<World>, WorldError>, WorldError> {
        let mine = [i64::from(color.is_some()), i64::from(color.unwrap_or(0)), key];
        let all = part_of_split(call, &mine).await?;
        let mut made = Ok(None);
        if color.is_some() {
            let is_mine = |rank: &usize| all[*rank][..2] == mine[..2];
            let mut ranks = (0..self.size()).filter(is_mine).collect::<Vec<_>>();
            ranks.sort_by_key(|rank| (all[*rank][2], *rank));
            let name = format!("s{}", call.sequence());
            let derived = std::pin::pin!(self.derive(&name, &ranks));
            // A rank that gave up is not found.
            made = match select(derived, std::pin::pin!(call.failed())).await {
                Either::Left((derived, _)) => derived.map(Some),
                Either::Right((error, _)) => return Err(error),
            };
        }
        meet(call).await?;
        Ok(made)
    }

    /// Makes a world of some ranks, this one among them, each of which makes it too. Its actors
    /// have a name that all of them know.
    pub(crate) async fn derive(&self, name: &str, ranks: &[usize]) -> Result<World, WorldError> {
        let label = format!("{}.{name}", self.core().label.get().map_or("", String::as_str));
        // A rank gives the same key here and there: each pair of ranks knows its own.
        let keys = ranks.iter().map(|rank| self.core().keys[*rank]).collect();
        let core = Core::new(self.node(), keys, self.core().window);
        let actor = format!("ranks.{label}");
        let member = self.node().spawn(&*actor, Member::new(core.clone())).await;
        let member = member.map_err(|_| WorldError::Closed)?;
        // Dropped from here on, it ends the actor.
        let world = World::new(core.clone(), member, None, false);
        let found = ranks.iter().map(|rank| self.find(*rank, &actor));
        let members = join_all(found).await.into_iter().collect::<Option<Vec<_>>>();
        let rank = ranks.iter().position(|rank| *rank == self.rank());
        let (Some(members), Some(rank)) = (members, rank) else {
            return Err(WorldError::Closed);
        };
        let told = ranks.iter().map(|rank| self.core().mesh().routes[*rank].key.clone());
        core.begin(label, rank, &members, told);
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

/// Waits until a rank is gone, or this rank has left or is dead to the others.
async fn gone(core: &Arc<Core>, rank: usize) {
    loop {
        let mut changed = std::pin::pin!(core.changed.notified());
        changed.as_mut().enable();
        {
            let state = core.state.lock();
            let has_ended = state.ended().is_some_and(|error| error != WorldError::Revoked);
            if has_ended || state.standing(rank) != Standing::Living {
                return;
            }
        }
        changed.await;
    }
}
