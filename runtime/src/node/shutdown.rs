//! The orderly end of a node.

use std::sync::Arc;
use std::time::Duration;

use ringpost_transport::{log, shield};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::Node;
use crate::address::Address;
use crate::limits;
use crate::resident::{ExitFuture, Halt, LocalActor};

/// The gauges that a node with a network sets while it runs.
const GAUGES: [&str; 3] =
    ["ringpost_nodes_linked", "ringpost_nodes_alive", "ringpost_runtime_lateness_seconds"];

impl Node {
    /// Ends the node in order. It spawns no more actors, and tells the other nodes to send it no
    /// more asks (theirs fail as `NotSent` with `Leaving`). Every actor handles the messages it has
    /// accepted, and stops. Actors still running at `deadline` are killed. Then the links say
    /// goodbye.
    ///
    /// It ends [`limits::SHUTDOWN_OVERTIME`], 4 s, after the deadline at the latest: killed actors
    /// whose handlers never wait get [`limits::KILL_TIMEOUT`]; telling other nodes about ended
    /// actors, and then the goodbye, each get the rest of the deadline and at least
    /// [`limits::GOODBYE_TIMEOUT_MIN`]; links whose peers do not answer get 2 s. If a handler never
    /// ends, actors of other nodes that watch its actor, or are linked to it, are told that it was
    /// killed.
    ///
    /// All actors drain at the same time: an actor that sends to another may find it stopped. If
    /// the order matters, drain the actors yourself first, senders before receivers: routers before
    /// their pools.
    ///
    /// Returns the actors that were killed, none if all ended on their own. An actor's own handler
    /// that awaits this is killed at the deadline, but the shutdown still completes.
    ///
    /// # Cancel safety
    /// Once polled, the shutdown completes even if the future is dropped.
    pub async fn shutdown(&self, deadline: Duration) -> Vec<Address> {
        // An error means that the runtime has ended, and all actors and links with it.
        self.begin_end(deadline).await.unwrap_or_default()
    }

    /// Ends the node in a separate task, because the caller may be an actor that ends meanwhile.
    fn begin_end(&self, deadline: Duration) -> JoinHandle<Vec<Address>> {
        let node = self.clone();
        self.core.runtime.spawn(async move { node.end(deadline).await })
    }

    async fn end(&self, deadline: Duration) -> Vec<Address> {
        let begun = Instant::now();
        let end = begun + deadline.min(limits::ASK_TIMEOUT_MAX);
        let is_first = !self.core.residents.is_closed();
        self.core.residents.close();
        if let Some(remote) = &self.core.remote {
            remote.leave();
        }
        let all = self.core.residents.all().into_iter();
        let (ties, actors): (Vec<_>, Vec<_>) = all.partition(|resident| resident.is_tie());
        if is_first {
            let (node, actors) = (self.name(), actors.len());
            log::info!(node, actors, ?deadline, "this node shuts down");
        }
        actors.iter().for_each(|actor| actor.retire(Halt::Drain));
        let late = outlast(actors, end).await;
        late.iter().for_each(|resident| resident.retire(Halt::Kill));
        let killed: Vec<_> = late.iter().map(|resident| resident.address().clone()).collect();
        for stuck in outlast(late, Instant::now() + limits::KILL_TIMEOUT).await {
            let actor = stuck.address();
            log::warn!(%actor, "a killed actor still runs: its handler never waits");
            stuck.leave_killed();
        }
        // These actors of the runtime end last, because until now they tell other nodes how actors
        // with links to those nodes ended.
        ties.iter().for_each(|tie| tie.retire(Halt::Drain));
        outlast(ties, end.max(Instant::now() + limits::GOODBYE_TIMEOUT_MIN)).await;
        if let Some(remote) = &self.core.remote {
            let left = end.saturating_duration_since(Instant::now());
            remote.shutdown(left.max(limits::GOODBYE_TIMEOUT_MIN)).await;
            // Reset, because nothing updates them any more: they would show the last second
            // forever.
            for gauge in GAUGES {
                shield::run(|| metrics::gauge!(gauge).set(0.0));
            }
        }
        if is_first {
            let (node, killed) = (self.name(), killed.len());
            log::info!(node, killed, lasted = ?begun.elapsed(), "this node has shut down");
        }
        killed
    }
}

#[cfg(feature = "test-kit")]
impl Node {
    /// Ends the node as similarly as possible to the loss of its process: no goodbye, no actor
    /// drains or runs its `on_stop`, and links just end.
    pub(crate) async fn crash(&self) {
        self.core.residents.close();
        if let Some(remote) = &self.core.remote {
            remote.abort();
        }
        let actors = self.core.residents.all();
        actors.iter().for_each(|actor| actor.retire(Halt::Kill));
        outlast(actors, Instant::now() + limits::KILL_TIMEOUT).await;
    }
}

/// Waits for actors to end; returns the actors that still run at `end`.
async fn outlast(residents: Vec<Arc<dyn LocalActor>>, end: Instant) -> Vec<Arc<dyn LocalActor>> {
    let mut late = Vec::new();
    for resident in residents {
        if timeout_at(end, ExitFuture::of(resident.clone())).await.is_err() {
            late.push(resident);
        }
    }
    late
}
