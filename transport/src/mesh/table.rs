//! A node's peers, and what its tasks share.
//!
//! - **MS-9 forgotten**: a node remembers `PEERS_KNOWN_MAX` names. Beyond that, a new name makes it
//!   forget the least recently used peers (idle ones last) that have no link, are not missed, not
//!   wanted, at no seed, have nothing waiting in mailboxes, and that no task holds: a task that
//!   holds a peer never finds another of its name. If too many are held, the node looks again when
//!   there are an eighth more, so that a message full of names costs a few looks for each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::bootstrap::{Identity, Times};
use crate::cause::{LinkCause, NodeDownCause};
use crate::config::{Encryption, Network};
use crate::fabric::Fabric;
use crate::host::PeerEvent;
use crate::id::NodeName;
use crate::limits;
use crate::log;
use crate::log_limiter::LogLimiter;
use crate::memory::Budget;
use crate::mutants::planted;
use crate::profile::Profile;
use crate::reach::LendingRoom;
use crate::shares::Shares;
use crate::shield;

use super::address_policy::AddressPolicy;
use super::event_queue::EventQueue;
use super::peer::{Peer, Search};
use super::seeds::Met;
use super::source::Sources;
use super::tasks::Tasks;

/// A node's peers, and what its tasks share.
pub(super) struct Table {
    /// The node's introduction to its peers; the fabrics are named for each connection.
    pub(super) identity: Identity,
    pub(super) profile: Profile,
    /// How long its last handle blocks its thread, when it is dropped without a shutdown.
    pub(super) linger: Duration,
    pub(super) network: Network,
    pub(super) encryption: Encryption,
    /// True if there is a secret. Without one only loopback is dialled.
    pub(super) secret: bool,
    pub(super) address_policy: AddressPolicy,
    pub(super) events: Arc<EventQueue>,
    /// The memory that its links share when their rings grow.
    pub(super) budget: Arc<Budget>,
    /// The bytes that its links lend and land together.
    pub(super) lending_room: LendingRoom,
    pub(super) tasks: Tasks,
    /// Memory that its peers may reach.
    pub(super) shares: Arc<Shares>,
    /// Permits to dial addresses that peers have told. A `Low` dial takes one of each semaphore, a
    /// `Missed` dial one of each of the last two, and a `Wanted` dial one of the last.
    pub(super) told_dials: [Arc<Semaphore>; 3],
    pub(super) peers: Mutex<Peers>,
    /// The links that other nodes dialled.
    pub(super) sources: Arc<Sources>,
    /// Nodes that proved themselves and got no link, or not the best one.
    pub(super) peer_warnings: LogLimiter,
}

/// The peers that are remembered.
#[derive(Default)]
pub(super) struct Peers {
    by_name: BTreeMap<NodeName, Known>,
    uses: u64,
    /// Number of names at which it looks for some to forget.
    full_at: usize,
    /// Names that were looked at so far.
    #[cfg(test)]
    pub(super) looks: usize,
}

struct Known {
    peer: Arc<Peer>,
    /// Number of its last use, counted over all peers.
    used: u64,
}

impl Peers {
    fn get(&self, name: &NodeName) -> Option<Arc<Peer>> {
        self.by_name.get(name).map(|known| known.peer.clone())
    }

    fn get_used(&mut self, name: &NodeName) -> Option<Arc<Peer>> {
        self.uses += 1;
        let known = self.by_name.get_mut(name)?;
        known.used = self.uses;
        Some(known.peer.clone())
    }

    fn insert(&mut self, peer: Arc<Peer>) {
        self.by_name.insert(peer.name().clone(), Known { peer, used: self.uses });
    }

    /// Makes room for one more, if need be and as far as may be (MS-9).
    fn forget(&mut self) -> Vec<Arc<Peer>> {
        let count = self.by_name.len();
        if count < self.full_at.max(limits::PEERS_KNOWN_MAX) {
            return Vec::new();
        }
        #[cfg(test)]
        (self.looks += count);
        // A peer is handed out here only, under the lock of the table.
        let idle =
            |known: &&Known| Arc::strong_count(&known.peer) == 1 && known.peer.is_forgettable();
        let mut idle: Vec<&Known> = self.by_name.values().filter(idle).collect();
        idle.sort_by_key(|known| (known.peer.rests(), known.used));
        idle.truncate(count + 1 - limits::PEERS_KNOWN_MAX);
        let names: Vec<NodeName> = idle.iter().map(|known| known.peer.name().clone()).collect();
        let left = count - names.len();
        self.full_at = if left < limits::PEERS_KNOWN_MAX { 0 } else { left + left / 8 };
        names.iter().filter_map(|name| self.by_name.remove(name)).map(|known| known.peer).collect()
    }
}

/// The right to dial an address that a peer has told.
pub(super) struct DialPermit {
    _of_each: Vec<OwnedSemaphorePermit>,
}

/// How urgent the dial of an address is that a peer has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// The node is down, or only to be asked for others.
    Low,
    /// The node is missed, and not down.
    Missed,
    /// A sender wants the node.
    Wanted,
}

/// Returns the permits of a node that has none in use.
pub(super) fn dial_permits() -> [Arc<Semaphore>; 3] {
    let all = limits::TOLD_DIALS_MAX;
    [all / 2, all * 3 / 4, all].map(|permits| Arc::new(Semaphore::new(permits)))
}

impl Table {
    /// Returns what this node shows of itself on a connection on which it would use these fabrics.
    pub(super) fn identity_naming(&self, fabrics: &[Arc<dyn Fabric>]) -> Identity {
        let fabrics = fabrics.iter().map(|fabric| fabric.name().into()).collect();
        Identity { fabrics, ..self.identity.clone() }
    }

    /// Returns the time between two heartbeats on a link: the slower side's.
    pub(super) fn heartbeat_interval(&self, peer: Times) -> Duration {
        let slower = self.identity.times.heartbeat.max(peer.heartbeat);
        self.network.wire.heartbeat_interval().unwrap_or(slower)
    }

    /// Waits for the right to dial an address that a peer has told. A quarter of the permits is
    /// only for nodes that a sender wants, another quarter only for these and missed nodes: many
    /// lost nodes keep no sender waiting.
    pub(super) fn dial_permit(&self, urgency: Urgency) -> impl Future<Output = DialPermit> + use<> {
        let each = self.told_dials[urgency as usize..].to_vec();
        async move {
            let mut of_each = Vec::with_capacity(each.len());
            for permits in each {
                // It is never closed.
                of_each.extend(permits.acquire_owned().await.ok());
            }
            DialPermit { _of_each: of_each }
        }
    }

    /// Returns the peer of this name; made when it was never heard of, or forgotten.
    pub(super) fn peer(&self, name: &NodeName) -> Arc<Peer> {
        let mut peers = self.peers.lock();
        if let Some(peer) = peers.get_used(name) {
            return peer;
        }
        let forgotten = peers.forget();
        let peer = Arc::new(Peer::new(name.clone(), self.events.clone()));
        peers.insert(peer.clone());
        drop(peers);
        drop(forgotten);
        peer
    }

    /// Returns what `look` finds at the peers, by name. It looks under the lock of the table: peers
    /// that were handed out would all be held for that moment, and none forgotten (MS-9).
    pub(super) fn each<T>(&self, mut look: impl FnMut(&Arc<Peer>) -> Option<T>) -> Vec<T> {
        self.peers.lock().by_name.values().filter_map(|known| look(&known.peer)).collect()
    }

    /// Lets no new link come about. Senders are told `cause`.
    pub(super) fn close(&self, cause: NodeDownCause) {
        self.events.close(cause);
        for peer in self.each(|peer| Some(peer.clone())) {
            peer.close();
        }
    }

    /// Closes all links at once, without a goodbye, and lets no new one come about.
    pub(super) fn abort(&self, cause: &LinkCause) {
        self.close(match cause {
            LinkCause::Failed => NodeDownCause::Failed,
            _ => NodeDownCause::Shutdown,
        });
        for (_, link) in self.each(|peer| peer.linked()) {
            link.close(cause.clone());
        }
    }

    /// Asks linked peers where `name` can be dialled: all that it may (MS-15).
    pub(super) fn ask_linked_for(&self, name: &NodeName, search: Search) {
        let mut linked = self.each(|peer| peer.linked().map(|_| peer.clone()));
        if search != Search::Sender {
            self.identity.entropy.draw(&mut linked, limits::LINKED_ASKED_MAX);
        }
        for peer in linked {
            peer.ask(name);
        }
    }

    /// Links some idle peers to ask them where `name` can be dialled. At most `IDLE_ASKED_MAX`
    /// peers are tried for that at once (MS-15).
    pub(super) fn ask_idle_for(&self, name: &NodeName) {
        let (mut tried, now) = (0, self.events.now());
        let mut idle = self.each(|peer| {
            let is_tried = peer.is_to_be_asked(name);
            tried += usize::from(is_tried);
            (!is_tried && peer.name() != name && peer.may_be_asked(now)).then(|| peer.clone())
        });
        // Peers that could not be linked the last time come last.
        let count = idle.len();
        self.identity.entropy.draw(&mut idle, count);
        idle.sort_by_cached_key(|peer| !peer.rests());
        idle.truncate(limits::IDLE_ASKED_MAX.saturating_sub(tried));
        for peer in idle {
            if planted!(AskedIsWanted) {
                peer.want_link();
            }
            peer.ask_linked(name);
        }
    }

    /// Returns what this node knows about where `name` can be dialled; none when it does not.
    pub(super) fn addresses_of(&self, name: &NodeName) -> Vec<String> {
        if *name == self.identity.node.name {
            return self.identity.addresses.clone();
        }
        let peer = self.peers.lock().get(name);
        peer.map(|peer| peer.addresses()).unwrap_or_default()
    }

    /// Records where `name` can be dialled, as a peer at `teller` says. Used only for peers that
    /// this node remembers.
    pub(super) fn learn(&self, name: &NodeName, addresses: &[String], teller: &str) {
        let peer = self.peers.lock().get(name);
        if let Some(peer) = peer.filter(|_| !addresses.is_empty()) {
            peer.learn(addresses, teller);
        }
    }

    /// Returns true if this node has no link at all, and no peer that is only idle (MS-18).
    pub(super) fn is_alone(&self) -> bool {
        let linked = *self.events.linked().borrow() > 0;
        !linked && !self.peers.lock().by_name.values().any(|known| known.peer.rests())
    }

    /// Starts a task without which the node is of no use: when it panics, the node closes.
    pub(super) fn spawn_vital(
        self: &Arc<Self>,
        what: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let table = self.clone();
        self.tasks.spawn(async move {
            if shield::caught(task).await.is_err() {
                table.abort(&LinkCause::Failed);
                log::error!(
                    task = what,
                    "a task of the node panicked, and the node closes: please report it"
                );
            }
        });
    }

    /// Returns which of these addresses of the node `of`, told by a peer at `from`, may be dialled
    /// (MS-16).
    pub(super) fn allowed(
        &self,
        mut addresses: Vec<String>,
        of: &NodeName,
        from: &str,
    ) -> Vec<String> {
        addresses.retain(|address| match self.address_policy.check(address, from) {
            Ok(()) => true,
            Err(why) => {
                if let Some(suppressed) = self.peer_warnings.admit("address", Instant::now()) {
                    log::warn!(
                        node = %of,
                        from,
                        address,
                        %why,
                        suppressed,
                        "an address that a peer names is not dialled"
                    );
                }
                false
            }
        });
        addresses
    }

    /// Records what a seed met. Returns true if that is news. Where it is a refusal that stays,
    /// that is told, and waits that it makes vain fail.
    pub(super) fn note_met(&self, address: &str, met: Met) -> bool {
        let error = match &met {
            Met::Failed { error, .. } if error.cause.is_refusal() => Some(error.clone()),
            Met::Failed { .. } | Met::Node(_) => None,
        };
        let is_news = self.events.seeds().note(address, met);
        match error.filter(|_| is_news) {
            Some(error) => {
                self.events.push(PeerEvent::Refused { error });
                for peer in self.each(|peer| Some(peer.clone())) {
                    peer.fail_refused();
                }
            }
            // For tasks that wait to be connected.
            None => self.events.bump(),
        }
        self.events.tell();
        is_news
    }

    /// Returns why no address of a peer is known, and what can be done: seeds that fail are the
    /// likely cause.
    pub(super) fn why_unknown(&self) -> String {
        let unmet = self.events.seeds().unmet();
        if unmet.is_empty() {
            return "no address is known: add it to the seeds".into();
        }
        format!("no address is known; seeds not reached: {}", unmet.join("; "))
    }
}
