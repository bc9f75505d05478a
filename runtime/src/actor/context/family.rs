//! The children of an actor, which end with it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use ringpost_transport::log;
use tokio::time::timeout;

use crate::limits;
use crate::resident::{ExitFuture, Halt, LocalActor};

/// The children of an actor, in the order in which they were begun. Owned by its context.
#[derive(Default)]
pub(crate) struct Children {
    children: Vec<ChildHandle>,
    /// Set for the children of a supervisor: they end one after the other, the youngest first.
    is_ordered: bool,
    /// The number of children from which on an addition first removes the children that have ended.
    look_at: usize,
}

#[derive(Clone)]
pub(crate) struct ChildHandle {
    pub(crate) actor: Arc<dyn LocalActor>,
    pub(crate) stop_within: Duration,
}

impl Children {
    pub(crate) fn add(&mut self, child: ChildHandle) {
        if self.children.len() >= self.look_at {
            self.children.retain(|child| !child.actor.has_ended());
            self.look_at = (2 * self.children.len()).max(16);
        }
        self.children.push(child);
    }

    /// Adds a child to end before the children that were added earlier.
    pub(crate) fn add_in_order(&mut self, child: ChildHandle) {
        self.is_ordered = true;
        self.add(child);
    }

    /// Returns the child with this token, if it has not ended.
    pub(crate) fn find(&self, token: usize) -> Option<ChildHandle> {
        let is_it = |child: &&ChildHandle| child.actor.token() == token && !child.actor.has_ended();
        self.children.iter().find(is_it).cloned()
    }

    /// Waits until the current children have ended. The caller has already told them to end.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let children = self.children.clone();
        async move { each(&children, |child| ExitFuture::of(child.actor.clone()).map(drop)).await }
    }

    /// Ends all children: at once, or one after the other, the youngest first. A child that does
    /// not stop in time is killed, and so are all children if `parent` is killed. If the node shuts
    /// down, the children are drained instead, within the deadline of the shutdown.
    ///
    /// A child is not removed until it has ended, even if this future is dropped.
    pub(crate) async fn end(&mut self, parent: &dyn LocalActor, is_shutdown: bool) {
        if !self.is_ordered {
            let leave = each(&self.children, |child| child.leave(is_shutdown));
            if unless_killed(parent, leave).await.is_none() {
                each(&self.children, ChildHandle::kill).await;
            }
            return self.children.clear();
        }
        while let Some(child) = self.children.last() {
            if !child.actor.has_ended()
                && unless_killed(parent, child.leave(is_shutdown)).await.is_none()
            {
                self.kill_in_order().await;
                return self.children.clear();
            }
            self.children.pop();
        }
    }

    /// Kills the children one after the other, the youngest first; after [`limits::KILL_TIMEOUT`]
    /// kills the remaining ones at once. This takes at most twice that time, even if no handler
    /// ever waits.
    async fn kill_in_order(&self) {
        let in_order = async {
            for child in self.children.iter().rev() {
                child.actor.retire(Halt::Kill);
                ExitFuture::of(child.actor.clone()).await;
            }
        };
        if timeout(limits::KILL_TIMEOUT, in_order).await.is_err() {
            each(&self.children, ChildHandle::kill).await;
        }
    }

    /// Kills all children without waiting for them.
    pub(crate) fn abandon(&mut self) {
        for child in self.children.drain(..) {
            child.actor.retire(Halt::Kill);
        }
    }
}

impl ChildHandle {
    /// Stops the child, and kills it if it does not stop in time. While the node shuts down, the
    /// child is drained instead, and the node kills it.
    pub(crate) async fn leave(&self, is_shutdown: bool) {
        let ended = ExitFuture::of(self.actor.clone());
        self.actor.retire(if is_shutdown { Halt::Drain } else { Halt::Stop });
        if is_shutdown {
            ended.await;
            return;
        }
        if timeout(self.stop_within, ended).await.is_err() {
            self.kill().await;
        }
    }

    /// Kills the child, and waits for its end for at most [`limits::KILL_TIMEOUT`].
    async fn kill(&self) {
        self.actor.retire(Halt::Kill);
        let ended = ExitFuture::of(self.actor.clone());
        if timeout(limits::KILL_TIMEOUT, ended).await.is_err() {
            let actor = self.actor.address();
            log::warn!(%actor, "a killed actor still runs: its handler never waits");
        }
    }
}

/// Calls `end` for each child that has not ended, and waits for all these futures at once.
async fn each<'a, F: Future<Output = ()>>(
    children: &'a [ChildHandle],
    end: impl Fn(&'a ChildHandle) -> F,
) {
    let living = children.iter().rev().filter(|child| !child.actor.has_ended());
    let mut ends: FuturesUnordered<F> = living.map(end).collect();
    while ends.next().await.is_some() {}
}

/// Waits for `future`. Returns `None` if `parent` is killed first.
async fn unless_killed<T>(parent: &dyn LocalActor, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    // An order to the parent wakes its task, and that task polls this future.
    let look = poll_fn(|cx| match parent.ends().is_killed() {
        true => Poll::Ready(None),
        false => future.as_mut().poll(cx).map(Some),
    });
    look.await
}
