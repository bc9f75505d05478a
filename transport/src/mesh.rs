//! The mesh: which nodes are connected, and how their links come about and end.
//!
//! In the order a link comes about: [`accept`] and [`dial`], for peers and seeds, make connections
//! on which two nodes prove themselves; [`join`] makes one of them a link, carried by the fabric
//! that is their [`choice`]; [`session`] keeps it. All that is known of a peer is in its [`Peer`],
//! and all peers are in the [`table`]; their events go through the [`event_queue`].
//! [`tasks`] says on which thread all this runs, [`liveness`] which silence ends a link,
//! [`address_policy`] which addresses that peers name are dialled, and [`source`] how many links
//! one address may have.
//!
//! A lock is never held over an await, a waker's wake or a call of the layer above.

mod accept;
mod address_policy;
mod choice;
mod dial;
mod event_queue;
mod join;
mod liveness;
mod meter;
mod peer;
mod pinning;
mod seeds;
mod session;
mod source;
mod start;
mod table;
mod tasks;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::bootstrap::{Beat, Message};
use crate::cause::{LinkCause, NodeDownCause};
use crate::config::{Config, Encryption};
use crate::connect_error::ConnectError;
use crate::host::Host;
use crate::id::{NodeId, NodeName};
use crate::limits;
use crate::link::LinkStats;
use crate::log;
use crate::shares::Shares;
use crate::steps::step;

use table::Table;
use tasks::Tasks;

pub use address_policy::is_host_and_port;
pub(crate) use peer::Peer;
pub use peer::{PeerState, PeerStatus, PeerView, Unlinked};
pub use start::StartError;
pub(crate) use start::check;

/// All peers of a node. Dropping it closes all links, after a goodbye where other threads drive
/// them.
pub(crate) struct Mesh {
    table: Arc<Table>,
}

impl Mesh {
    /// Checks the configuration, listens, and starts reaching for the seeds.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left behind then.
    pub(crate) async fn start(
        config: Config,
        host: Arc<dyn Host>,
    ) -> Result<Arc<Mesh>, StartError> {
        check(&config)?;
        if config.encryption == Encryption::Off {
            log::info!(
                "messages are sent unencrypted to peers that do not insist: encryption is off"
            );
        }
        let tasks = Tasks::new(&config).await.map_err(StartError::Thread)?;
        let (addresses, listener) = match start::listen(&config, &tasks).await {
            Ok(listening) => listening,
            Err(error) => {
                tasks.end(Duration::ZERO).await;
                return Err(error);
            }
        };
        let (table, wants) = start::table(&config, addresses, host, tasks);
        start::report(&config, &table.identity);
        table.spawn_vital("liveness", liveness::watch(table.clone()));
        table.spawn_vital("wants", dial::serve_wants(table.clone(), wants));
        if let Some(listener) = listener {
            table.spawn_vital("listener", accept::accept(table.clone(), listener));
        }
        for seed in config.seeds {
            if table.events.seeds().add(&seed).1 {
                table.spawn_vital("seed", dial::keep(table.clone(), seed));
            }
        }
        Ok(Arc::new(Mesh { table }))
    }

    /// Returns this node.
    pub(crate) fn id(&self) -> &NodeId {
        &self.table.identity.node
    }

    /// Returns the addresses it tells its peers.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.table.identity.addresses.clone()
    }

    /// Waits until `count` other nodes are linked, or were until neither side used the link. When
    /// the node closes before, it waits forever.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn ready(&self, count: usize) {
        let mut linked = self.table.events.linked().subscribe();
        loop {
            // The count of links only says when to look.
            linked.mark_unchanged();
            let met = self.table.each(|peer| peer.is_ready().then_some(())).len();
            if met >= count || linked.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until another live node is found to have the name of this one.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn refused(&self) -> ConnectError {
        loop {
            let version = self.table.events.version();
            if let Some(error) = self.refusal() {
                return error;
            }
            if !self.table.events.changed(version).await {
                return std::future::pending().await;
            }
        }
    }

    /// Returns the refusal of a seed at which another live node has the name of this one.
    pub(crate) fn refusal(&self) -> Option<ConnectError> {
        self.table.events.seeds().refusal().map(|(_, error)| error)
    }

    /// Connects this node to the one at `address`.
    ///
    /// # Errors
    /// [`ConnectError`]: at once where trying again cannot help, otherwise the last failure.
    ///
    /// # Cancel safety
    /// When the future is dropped the address is no seed, unless it was one before.
    pub(crate) async fn connect(
        &self,
        address: &str,
        within: Duration,
    ) -> Result<NodeId, ConnectError> {
        dial::connect(&self.table, address, within).await
    }

    /// Says goodbye to a peer. Returns false when it was not linked.
    pub(crate) async fn disconnect(&self, name: &NodeName) -> bool {
        self.table.peer(name).disconnect(limits::DISCONNECT_TIMEOUT).await
    }

    /// Returns the nodes that are linked now, by name.
    pub(crate) fn linked(&self) -> Vec<NodeId> {
        self.table.each(|peer| Some(peer.linked()?.0))
    }

    /// Returns what the links to each peer have carried, links that ended included, by name. Peers
    /// that were never linked, or were forgotten since (MS-9), are left out.
    pub(crate) fn stats(&self) -> Vec<(NodeName, LinkStats)> {
        let stats = |peer: &Arc<Peer>| Some((peer.name().clone(), peer.stats()?));
        self.table.each(stats)
    }

    /// Returns what each peer looks like now, by name.
    pub(crate) fn view(&self) -> Vec<PeerView> {
        self.table.each(|peer| peer.view())
    }

    /// Returns the state of each peer that is linked or was, by name.
    pub(crate) fn states(&self) -> Vec<PeerState> {
        self.table.each(|peer| peer.told())
    }

    /// Returns the version of these states, which another event makes another.
    pub(crate) fn version(&self) -> u64 {
        self.table.events.version()
    }

    /// Waits until the version of the states is another than `seen`. Returns false when it is not,
    /// and the node is closing.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) fn changed(&self, seen: u64) -> impl Future<Output = bool> + Send + use<> {
        let events = self.table.events.clone();
        async move { events.changed(seen).await }
    }

    /// Tells all peers that this node is leaving: they ask nothing more of it. Links go on.
    pub(crate) fn leave(&self) {
        self.table.events.leave();
        for peer in self.table.each(|peer| peer.linked().map(|_| peer.clone())) {
            peer.send(Message::Heartbeat(Beat::Leaving));
        }
    }

    /// Returns true if the node has closed: no link comes about any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.table.events.is_closing()
    }

    /// Returns the bytes by which the rings of all links have grown.
    pub(crate) fn ring_growth_bytes(&self) -> u64 {
        self.table.budget.taken()
    }

    /// Returns the memory that peers may reach.
    pub(crate) fn shares(&self) -> &Arc<Shares> {
        &self.table.shares
    }

    /// Returns the peer of this name; made when it was never heard of.
    pub(crate) fn peer(&self, name: &NodeName) -> Arc<Peer> {
        self.table.peer(name)
    }

    /// Takes this node off the network: allows no new links, says goodbye on every link, waits for
    /// the links to end until `deadline`, closes the remaining ones, and ends all tasks.
    pub(crate) async fn shutdown(&self, deadline: Duration) {
        say_goodbye(&self.table, deadline).await;
        self.abort(LinkCause::Shutdown);
        self.table.tasks.end(2 * limits::DRAIN_TIMEOUT).await;
    }

    /// Closes all links at once, without a goodbye, and lets no new one come about.
    pub(crate) fn abort(&self, cause: LinkCause) {
        self.table.abort(&cause);
    }
}

/// Lets no new link come about, says goodbye on every link, and waits for their ends until
/// `deadline`.
async fn say_goodbye(table: &Table, deadline: Duration) {
    table.close(NodeDownCause::Shutdown);
    step!(Leaving);
    for (_, link) in table.each(|peer| peer.linked()) {
        link.goodbye();
    }
    // The count only says when to look: a link that is just coming up is not counted yet.
    let mut linked = table.events.linked().subscribe();
    let none = |_: &usize| table.each(|peer| peer.linked()).is_empty();
    let _ = timeout(deadline, linked.wait_for(none)).await;
}

impl Drop for Mesh {
    /// Lingers where other threads drive the links: a program whose `main` returns would drop what
    /// it has just told.
    fn drop(&mut self) {
        let (table, linger) = (self.table.clone(), self.table.linger);
        if !linger.is_zero() && !self.is_closed() && !self.linked().is_empty() {
            self.table.tasks.linger(linger, async move { say_goodbye(&table, linger).await });
        }
        self.abort(LinkCause::Shutdown);
    }
}
