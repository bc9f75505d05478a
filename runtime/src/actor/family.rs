//! The children of an actor: they end with it, the youngest first.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;

use crate::limits;
use crate::mutants::planted;
use crate::resident::{Ended, Halt, Resident};

/// The children of an actor, in the order in which they were begun. Owned by its context.
#[derive(Default)]
pub(super) struct Family {
    children: Vec<Member>,
    /// How many there may be before those that have ended are looked for.
    look_at: usize,
}

#[derive(Clone)]
pub(super) struct Member {
    pub(super) actor: Arc<dyn Resident>,
    pub(super) stop_within: Duration,
}

impl Family {
    pub(super) fn add(&mut self, child: Member) {
        if self.children.len() >= self.look_at {
            self.children.retain(|child| !child.actor.has_ended());
            self.look_at = (2 * self.children.len()).max(16);
        }
        self.children.push(child);
    }

    /// Ends all children, the youngest first, each when the one after it has ended; one that does
    /// not stop in time is killed. When `parent` is killed, so are they. Of a node that shuts down
    /// they are drained, and its deadline is theirs.
    ///
    /// A child is of the family until it has ended, whatever becomes of this future.
    pub(super) async fn end(&mut self, parent: &dyn Resident, is_shutdown: bool) {
        if planted!(OldestFirst) {
            self.children.reverse();
        }
        while let Some(child) = self.children.last().cloned() {
            if is_shutdown && !parent.is_killed() {
                child.actor.retire(Halt::Drain);
                child.ended(parent).await;
            }
            if !child.actor.has_ended() {
                child.end(parent).await;
            }
            self.children.pop();
        }
    }

    /// Kills all children, and waits for none.
    pub(super) fn abandon(&mut self) {
        for child in self.children.drain(..) {
            child.actor.retire(Halt::Kill);
        }
    }
}

impl Member {
    /// Stops the actor, or kills it if it does not stop in time or `parent` is killed.
    pub(super) async fn end(&self, parent: &dyn Resident) {
        self.actor.retire(Halt::Stop);
        if timeout(self.stop_within, self.ended(parent)).await == Ok(true) {
            return;
        }
        self.actor.retire(Halt::Kill);
        let ended = Ended::of(self.actor.clone());
        if timeout(limits::KILL_TIMEOUT, ended).await.is_err() {
            let actor = self.actor.address();
            tracing::warn!(%actor, "a killed actor still runs: its handler never waits");
        }
    }

    /// Waits until the actor has ended; false when `parent` is killed first.
    async fn ended(&self, parent: &dyn Resident) -> bool {
        let mut ended = Ended::of(self.actor.clone());
        // An order to the parent wakes its task, which is the one that waits here.
        let look = poll_fn(|cx| match Pin::new(&mut ended).poll(cx) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if parent.is_killed() => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        });
        look.await
    }
}
