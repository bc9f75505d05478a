//! The actor of the driver where nodes report for work.

use ringpost::prelude::*;
use tokio::sync::mpsc;

use crate::mapper::Mapper;
use crate::reducer::Reducer;
use crate::steward::Steward;

/// The driver's node name.
pub(crate) const DRIVER: &str = "driver";

/// Where nodes look it up.
pub(crate) const DESK: &str = "driver/desk";

/// A node that is ready, with references to its actors: whoever gets them can send to them.
#[message]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) mapper: ActorRef<Mapper>,
    pub(crate) reducer: ActorRef<Reducer>,
    pub(crate) steward: ActorRef<Steward>,
}

/// Hands members to the driver.
#[actor]
pub(crate) struct Desk {
    pub(crate) members: mpsc::UnboundedSender<Member>,
}

#[handlers]
impl Desk {
    /// Reports a node. A surplus node has nothing to do, and ends with the driver.
    #[handler]
    pub(crate) fn join(&mut self, msg: Member) {
        drop(self.members.send(msg));
    }
}
