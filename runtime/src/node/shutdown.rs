//! The end of a node, in order.

use std::sync::Arc;
use std::time::Duration;

use ringpost_transport::{log, shield};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::Node;
use crate::address::Address;
use crate::limits;
use crate::resident::{Ended, Halt, Resident};

/// The gauges that a node with a network sets while it runs.
const GAUGES: [&str; 3] =
    ["ringpost_nodes_linked", "ringpost_nodes_alive", "ringpost_runtime_lateness_seconds"];

impl Node {
    /// Ends the node in order: nothing is spawned any more; the other nodes are told, so that they
    /// ask nothing more of it (their asks are `NotSent` with `Leaving`); every actor handles what
    /// it accepted and stops; what is left at `deadline` is killed; then the links say goodbye.
    ///
    /// It ends [`limits::SHUTDOWN_OVERTIME`], 4 s, after the deadline at the latest: killed actors
    /// whose handlers never wait are given [`limits::KILL_TIMEOUT`]; what tells other nodes of them
    /// and then the goodbye are given what is left of the deadline, and at least
    /// [`limits::GOODBYE_TIMEOUT_MIN`] each; and links whose peers do not answer, 2 s.
    ///
    /// All actors drain at once: one that sends to another may find that it has stopped. Where the
    /// order matters, drain the actors yourself first, the senders before the receivers: routers
    /// before their pools.
    ///
    /// Gives the actors that were killed; empty when all ended by themselves. Called and awaited by
    /// an actor's own handler, it kills that actor at the deadline, and ends all the same.
    ///
    /// # Cancel safety
    /// Once polled it goes on to its end, also when the future is dropped.
    pub async fn shutdown(&self, deadline: Duration) -> Vec<Address> {
        // An error says that the runtime is gone, and all actors and links with it.
        self.begin_end(deadline).await.unwrap_or_default()
    }

    /// Ends the node in a task of its own: the caller may be an actor, which ends halfway.
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
        // Last: until now they tell other nodes how the actors ended that are linked to theirs.
        ties.iter().for_each(|tie| tie.retire(Halt::Drain));
        outlast(ties, end.max(Instant::now() + limits::GOODBYE_TIMEOUT_MIN)).await;
        if let Some(remote) = &self.core.remote {
            let left = end.saturating_duration_since(Instant::now());
            remote.shutdown(left.max(limits::GOODBYE_TIMEOUT_MIN)).await;
            // Nothing sets them any more: they would tell of the last second for ever.
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
    /// Ends the node as the loss of its process does, as far as that can be: no goodbye, no actor
    /// drains or has its `on_stop` run, and links end where they are.
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

/// Waits for actors to end; gives those that had not at `end`.
async fn outlast(residents: Vec<Arc<dyn Resident>>, end: Instant) -> Vec<Arc<dyn Resident>> {
    let mut late = Vec::new();
    for resident in residents {
        if timeout_at(end, Ended::of(resident.clone())).await.is_err() {
            late.push(resident);
        }
    }
    late
}
