//! Memory of another node that is handed over to that node.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;
use parking_lot::Mutex;

use super::offered::{PeerRegion, Tenant, give_back};
use super::{Region, RemoteRegion};
use crate::actor::{Accepts, ActorRef};
use crate::error::{AskCause, Cause, HandOverCause, HandOverError, RegionError};
use crate::message;
use crate::message::Message;
use crate::node::Node;
use crate::schema::Schema;

/// A [`PeerRegion`] on its way to an actor of the memory's node, as a field of a message:
/// [`PeerRegion::hand_over`] creates it, and [`take`](Self::take) turns it into a [`Region`] there.
#[message(name = "ringpost::HandedRegion")]
pub struct HandedRegion<T: Schema> {
    shared: RemoteRegion<u64>,
    tenant: ActorRef<Tenant>,
    elements: RemoteRegion<T>,
}

impl<T: Pod + Schema> PeerRegion<T> {
    /// Asks an actor of the memory's node to take the memory, and returns the actor's answer.
    /// `message` builds the message with the memory, and the handler [takes](HandedRegion::take)
    /// the memory out of it. From then on this node has no access to the memory, and the memory
    /// does not count in the node's [offer](Node::offer_memory) any more. All earlier writes are
    /// visible, if writers are [flushed](crate::region::RegionWriter::flush).
    ///
    /// Its time-out is the one of an [`Ask`](crate::send::Ask) of this node. Memory that the
    /// handler did not take returns to its node.
    ///
    /// # Errors
    /// [`HandOverError`] with the `PeerRegion`, which is [revoked](RegionError::Revoked) if the
    /// handler has taken the memory.
    ///
    /// # Cancel safety
    /// If the future is dropped, either the actor gets the memory or it returns to its node.
    pub async fn hand_over<A, M>(
        self,
        actor: &ActorRef<A>,
        message: impl FnOnce(HandedRegion<T>) -> M,
    ) -> Result<A::Reply, HandOverError<Self>>
    where
        A: Accepts<M>,
        M: Message,
    {
        let (memory, actor_at) = (self.remote().node(), actor.address().node());
        if memory != actor_at {
            let cause = HandOverCause::OtherNode { actor: actor_at.into(), memory: memory.into() };
            return Err(HandOverError { region: self, cause });
        }
        let (shared, tenant) = self.handed();
        let handed = HandedRegion { shared, tenant, elements: self.remote().clone() };
        match actor.ask(message(handed)).await {
            Ok(answer) => Ok(answer),
            Err(error) => {
                Err(HandOverError { region: self, cause: HandOverCause::NoAnswer(error) })
            }
        }
    }
}

impl<T: Pod + Schema> HandedRegion<T> {
    /// Turns the memory into a region of this node with its elements. Waits until nothing else
    /// accesses the memory, like [`Region::revoke`].
    ///
    /// # Errors
    /// [`RegionError::Revoked`] if it was taken before, its giver has dropped it or is down, or it
    /// does not belong to this node. [`RegionError::Shutdown`] if this node is shutting down.
    ///
    /// # Cancel safety
    /// If the future is dropped, the memory may be freed.
    pub async fn take(self, node: &Node) -> Result<Region<T>, RegionError> {
        let len = self.elements.len();
        let memory = self.shared.memory().and_then(|memory| memory.words());
        let memory = memory.filter(|it| len <= it.bytes() / size_of::<T>());
        let memory = memory.ok_or(RegionError::Revoked)?;
        match give_back(node, self.shared, self.tenant).await {
            Ok(true) => {
                let (node, shares) = (node.clone(), Arc::<Mutex<_>>::default());
                Ok(Region { node, memory, len, shares, _elements: PhantomData })
            }
            Err(error) if matches!(error.cause, AskCause::NotSent(Cause::Shutdown)) => {
                Err(RegionError::Shutdown)
            }
            _ => Err(RegionError::Revoked),
        }
    }
}

impl<T: Schema> fmt::Debug for HandedRegion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handed{:?}", self.elements)
    }
}
