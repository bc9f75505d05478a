//! A peer for tests of the layers above it.

use std::sync::Arc;
use std::time::Duration;

use super::connection_state::{ConnectionState, Owner};
use super::{EventQueue, Peer};
use crate::host::Host;
use crate::id::{Incarnation, NodeName};
use crate::limits::DOWN_AFTER;
use crate::link::LinkHandle;

impl Peer {
    /// Returns a peer that no task reaches for.
    pub(crate) fn stand_in(name: &str, host: Arc<dyn Host>) -> Arc<Self> {
        let (events, _) = EventQueue::new(host, DOWN_AFTER, false);
        Arc::new(Peer::new(NodeName::new(name).expect("a good name"), events))
    }

    /// Gives it this link, or none.
    pub(crate) fn set_link(&self, link: Option<Arc<LinkHandle>>) {
        let (commands, _) = tokio::sync::mpsc::unbounded_channel();
        let (incarnation, asked) = (Incarnation(1), Duration::ZERO);
        let owner = Owner { incarnation, asked, host: None, commands };
        let linked = |link: &Arc<LinkHandle>| ConnectionState::Linked(owner, link.clone());
        self.state.lock().connection = link.as_ref().map_or(ConnectionState::None, linked);
        self.link.store(link);
    }
}
