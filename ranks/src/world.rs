//! A world: the ranks of a job, as one of them sees them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ringpost::prelude::*;

use crate::core::Core;
use crate::error::WorldError;
use crate::lobby::Lobby;
use crate::member::{Member, Watch};

/// How long a node that was made for a world has to end in order.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// The ranks of a job, 0 to `size() - 1`, as one of them sees them. Clones are the same rank. It
/// leaves the world by [`leave`](World::leave), or when the last clone is dropped.
///
/// A rank is dead to the others when its actor or node is gone, or when messages of it were lost
/// with a link, which is found out as soon as the link is made again. Such a rank gets
/// [`Died`](crate::WorldError::Died) with its own number, and may join a new world. A link that is
/// lost and loses nothing is no death.
#[derive(Clone)]
pub struct World {
    handle: Arc<Handle>,
}

/// The parts that end with the last clone of a world.
struct Handle {
    core: Arc<Core>,
    member: ActorRef<Member>,
    lobby: Option<ActorRef<Lobby>>,
    /// The node was made for this world, and ends with it.
    owns_node: bool,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.core.state.lock().has_panicked |= std::thread::panicking();
        self.core.close();
        drop(self.member.request_stop());
        if let Some(lobby) = &self.lobby {
            drop(lobby.request_stop());
        }
    }
}

impl World {
    pub(crate) fn new(
        core: Arc<Core>,
        member: ActorRef<Member>,
        lobby: Option<ActorRef<Lobby>>,
        owns_node: bool,
    ) -> Self {
        World { handle: Arc::new(Handle { core, member, lobby, owns_node }) }
    }

    /// Tells the member to watch the other ranks, and does not wait until it has. An ask would fail
    /// in a process that does not run for 5 s, and the new world with it.
    pub(crate) async fn watch_all(&self) -> Result<(), WorldError> {
        for rank in 0..self.size() {
            self.handle.member.tell(Watch { rank }).await.map_err(|_| WorldError::Closed)?;
        }
        Ok(())
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }

    /// Returns the number of this rank.
    pub fn rank(&self) -> usize {
        self.core().mesh().rank
    }

    /// Returns the number of ranks, including ranks that have died or left.
    pub fn size(&self) -> usize {
        self.core().size
    }

    /// Returns the node of this rank.
    pub fn node(&self) -> &Node {
        &self.core().node
    }

    /// Returns the name of the node of a rank; `None` if there is no such rank.
    pub fn node_of(&self, rank: usize) -> Option<&str> {
        self.core().mesh().routes.get(rank).map(|route| route.packets.address().node())
    }

    /// Leaves the world, also for other clones: sent messages go out, and the other ranks are told.
    /// A node that was made for this world (by [`hosts`](crate::WorldBuilder::hosts) or
    /// [`World::from_env`]) shuts
    /// down. End `main` with it.
    pub async fn leave(self) {
        self.core().close();
        drop(self.handle.member.stop().await);
        self.handle.member.wait_stopped().await;
        if let Some(lobby) = &self.handle.lobby {
            // The name of the world is free from then on.
            drop(lobby.stop().await);
            lobby.wait_stopped().await;
        }
        if self.handle.owns_node {
            self.node().shutdown(LEAVE_WITHIN).await;
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = self.core().label.get().map_or("", String::as_str);
        write!(f, "World({label}, rank {} of {})", self.rank(), self.size())
    }
}
