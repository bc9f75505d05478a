//! The right to be a peer's one connection (MS-1).

use std::sync::Arc;
use std::task::Waker;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::bootstrap::Hello;
use crate::cause::{LinkCause, NodeDownCause};
use crate::host::PeerEvent;
use crate::id::NodeId;
use crate::limits;
use crate::link::LinkHandle;
use crate::mutants::planted;
use crate::steps::step;

use super::connection_state::{Command, ConnectionState, Owner};
use super::gone::host_of;
use super::link_questions::LinkQuestions;
use super::{NOT_DIALLED, Peer, Presence};

/// The right to be a peer's one connection. Dropping it gives it up.
pub(in crate::mesh) struct ConnectionGuard {
    peer: Arc<Peer>,
    node: NodeId,
    /// Dropped last: a task that waits for its end finds the peer without a connection.
    commands: mpsc::UnboundedReceiver<Command>,
    given_up: bool,
}

/// The cause for which there is no guard.
pub(in crate::mesh) enum Unavailable {
    /// This node is shutting down.
    Closing,
    /// Another connection has it.
    Taken(ConnectionState),
}

impl ConnectionGuard {
    /// Takes the right for a connection of `peer` on which `hello` was said from the address
    /// `from`. When an earlier run of the node was linked, it is reported down now.
    pub(in crate::mesh) fn new(
        peer: &Arc<Peer>,
        hello: &Hello,
        from: &str,
    ) -> Result<Self, Unavailable> {
        let mut state = peer.state.lock();
        if peer.events.is_closing() {
            return Err(Unavailable::Closing);
        }
        if !matches!(state.connection, ConnectionState::None) && !planted!(SharedConnection) {
            return Err(Unavailable::Taken(state.connection.clone()));
        }
        let (sender, commands) = mpsc::unbounded_channel();
        let incarnation = hello.node.incarnation;
        let asked = hello.times.down_after.min(limits::DOWN_AFTER_TOLD_MAX);
        state.connection = ConnectionState::Joining(Owner {
            incarnation,
            asked,
            // A run that does not listen refuses connections while it lives.
            host: host_of(from).filter(|_| !hello.addresses.is_empty()),
            commands: sender,
        });
        state.reach.addresses.say(&hello.addresses, from);
        let earlier = state.presence.up().filter(|run| run.incarnation != incarnation).cloned();
        if let Some(earlier) = earlier {
            // Senders wait for the link of the new run, which has its whole time to come up.
            state.presence = Presence::Unknown;
            state.reach.wanted = state.reach.wanted.map(|_| peer.events.now());
            // If this connection comes to nothing, the new run is still dialled.
            state.relink(peer);
            if !planted!(StaleRun) {
                state.report_down(peer, earlier, NodeDownCause::Restarted);
            }
        }
        drop(state);
        peer.events.tell();
        Ok(ConnectionGuard {
            peer: peer.clone(),
            node: hello.node.clone(),
            commands,
            given_up: false,
        })
    }

    /// Returns the peer it is about.
    pub(in crate::mesh) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns the next command to the task that owns the connection.
    ///
    /// # Cancel safety
    /// No command is lost when the future is dropped.
    pub(in crate::mesh) async fn command(&mut self) -> Command {
        match self.commands.recv().await {
            Some(command) => command,
            // The connection's state holds a sender for as long as this guard is not given up.
            None => std::future::pending().await,
        }
    }

    /// Waits until the connection is not wanted any more. Nothing else is listened to meanwhile.
    pub(in crate::mesh) async fn abandoned(&mut self) {
        while !matches!(self.command().await, Command::Abandon) {}
    }

    /// Gives a link that stands to all senders that waited. Returns false when the node is shutting
    /// down.
    pub(in crate::mesh) fn link_up(&self, link: Arc<LinkHandle>) -> bool {
        let fabric = link.fabric();
        let (wakers, questions) = {
            let mut state = self.peer.state.lock();
            let ConnectionState::Joining(owner) = &state.connection else { return false };
            if self.peer.events.is_closing() {
                return false;
            }
            self.peer.link.store(Some(link.clone()));
            state.connection = ConnectionState::Linked(owner.clone(), link);
            (state.heard, state.linked) = (Some(self.peer.events.now()), Some(Instant::now()));
            state.presence = Presence::Up(self.node.clone());
            state.reach.doubted = None;
            state.link_questions = LinkQuestions::default();
            (state.reach.wanted, state.reach.relink, state.patience) = (None, None, None);
            // The next failure is news again.
            (state.reach.last, state.reach.logged) = (NOT_DIALLED.into(), NOT_DIALLED.into());
            state.push(&self.peer, PeerEvent::LinkUp { peer: self.node.clone(), fabric });
            (state.waiters.take(), std::mem::take(&mut state.reach.questions))
        };
        for name in questions.into_keys() {
            self.peer.ask(&name);
        }
        self.peer.events.seeds().linked(&self.node);
        self.peer.events.tell();
        self.peer.events.linked().send_modify(|linked| *linked += 1);
        wakers.into_iter().for_each(Waker::wake);
        self.peer.reach(false);
        step!(LinkUp);
        true
    }

    /// Gives the right up, because the link ended.
    pub(in crate::mesh) fn link_down(mut self, cause: &LinkCause) {
        self.give_up(cause);
    }

    fn give_up(&mut self, cause: &LinkCause) {
        self.given_up = true;
        let (linked, (start, wakers)) = {
            let mut state = self.peer.state.lock();
            if let ConnectionState::Linked(..) = state.connection {
                (1, state.ended(&self.node, cause, &self.peer))
            } else {
                state.connection = ConnectionState::None;
                // Now, because another connection may come before the dialler plans again (MS-4).
                let wakers = state.expire(&self.peer, self.peer.events.now());
                let start = state.is_wanted() && !self.peer.events.is_closing();
                (0, (start && state.reach.start(), wakers))
            }
        };
        self.peer.events.tell();
        if linked > 0 {
            self.peer.events.linked().send_modify(|count| *count -= linked);
        }
        wakers.into_iter().for_each(Waker::wake);
        self.peer.reach(start);
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if !self.given_up {
            self.give_up(&LinkCause::of_drop());
        }
    }
}
