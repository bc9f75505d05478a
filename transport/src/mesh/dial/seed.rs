//! Seeds: addresses that are dialled for as long as the node lives.
//!
//! Each address of a seed is dialled, with pauses, until a node proves itself there, and again
//! whenever that run of the node has no link and is not idle, or is idle and could not be linked to
//! be asked (MS-15). The task that reaches for the node dials it, or the seed's own task if there
//! is none. A link to a seed that leads to others only is never idle (MS-18): others find this node
//! by it.
//!
//! A name is looked up again in each round, and every `SEED_LOOKUP_INTERVAL` when all is well. So a
//! node that left, that started again elsewhere, or that had to wait for its name is found again,
//! whether or not another node knows of it. An address of this node itself is skipped; a seed that
//! is an address, not a name, and leads to this node is not dialled again, unless another node was
//! met there before. A look-up may return only some of the addresses of a name, so at most
//! `SEED_ADDRESSES_MAX` other addresses are kept whose nodes are linked or idle: these nodes are
//! not met again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::bootstrap::{Failure, Rejection};
use crate::connect_error::{ConnectCause, ConnectError};
use crate::entropy::Entropy;
use crate::id::{Incarnation, NodeName};
use crate::limits;
use crate::log;
use crate::mesh::peer::{Backoff, Peer, Plan, SeedKind, Target};
use crate::mesh::seeds::Met;
use crate::mesh::table::Table;
use crate::mutants::planted;

use super::attempt::{DialFailure, Outcome};

/// A seed. Owned by its [`Dialler`](super).
pub(super) struct Seed {
    table: Arc<Table>,
    address: String,
    /// The addresses to which it leads, each with the node that was met there last.
    places: BTreeMap<String, Place>,
    /// Time of the last look-up of a name; else of the last dial if that met this node itself.
    looked_up: Option<Instant>,
    /// Another node was met there.
    led_elsewhere: bool,
    is_name: bool,
    backoff: Backoff,
    /// Time since when all its nodes are linked.
    well: Option<Instant>,
    /// The failure of this round that says most.
    failure: Option<SeedFailure>,
    wake: Arc<Notify>,
    /// The round was asked for: nodes without a link are dialled, also idle and disconnected ones.
    is_asked: bool,
}

/// The failure of a dial of a seed.
struct SeedFailure {
    /// The node that answered, when it proved itself.
    by: Option<NodeName>,
    cause: ConnectCause,
    text: String,
}

/// The node that was met at an address.
enum Place {
    /// No node yet.
    Unmet,
    /// This node itself.
    Own,
    /// This run of a node.
    Met(Arc<Peer>, Incarnation),
}

impl Seed {
    pub(super) fn new(table: Arc<Table>, address: String) -> Self {
        let is_name = table.network.wire.resolve(&address, false).is_some();
        let places =
            if is_name { BTreeMap::new() } else { [(address.clone(), Place::Unmet)].into() };
        let (looked_up, led_elsewhere, well) = (None, false, None);
        let (backoff, failure) = (Backoff::default(), None);
        let wake = table.events.seeds().wake(&address);
        Seed {
            table,
            address,
            places,
            looked_up,
            led_elsewhere,
            is_name,
            backoff,
            well,
            failure,
            wake,
            is_asked: false,
        }
    }

    /// Waits until a round is asked for, or the seed was taken out.
    pub(super) async fn changed(&self) {
        self.wake.notified().await;
    }

    /// Returns what to do now.
    pub(super) fn plan(&mut self, now: Instant) -> Plan {
        let target = Target { name: self.address.clone(), told: false };
        match self.table.events.seeds().take_asked(&self.address, &self.wake) {
            None => return Plan::Stop,
            Some(true) => {
                self.is_asked = true;
                return Plan::Dial { targets: vec![target], news: true, until: None };
            }
            Some(false) => {}
        }
        let is_final = self.is_own_final() || planted!(OwnNameEnds);
        if is_final && self.places.values().any(|place| matches!(place, Place::Own)) {
            return Plan::Stop;
        }
        if self.places.is_empty() || !self.places.values().all(Place::is_well) {
            self.well = None;
        } else if *self.well.get_or_insert(now) + limits::LINK_SETTLED <= now {
            self.backoff = Backoff::default();
        }
        // A node that is alone with its own address waits for the others to be published.
        let often = self.table.is_alone();
        let every = if often { limits::WANTED_BACKOFF_MAX } else { limits::SEED_LOOKUP_INTERVAL };
        let lookup_due = |at: Instant| now >= at + every;
        let is_due = self.looked_up.is_some_and(lookup_due);
        if is_due && often && !self.is_name {
            // It is this node's own; behind a load balancer the next dial may reach another node.
            self.looked_up = None;
            self.places.values_mut().for_each(|place| *place = Place::Unmet);
        }
        if self.is_missing() || (is_due && self.is_name) {
            return Plan::Dial { targets: vec![target], news: false, until: None };
        }
        Plan::Wait(Some(now + limits::SEED_LOOK_INTERVAL))
    }

    /// Returns true if it is not dialled again where it leads to this node itself.
    fn is_own_final(&self) -> bool {
        !self.is_name && !self.led_elsewhere
    }

    fn kind(&self) -> SeedKind {
        let leads_here = self.places.values().any(|place| matches!(place, Place::Own));
        if leads_here { SeedKind::Shared } else { SeedKind::Own }
    }

    fn is_missing(&self) -> bool {
        self.places.is_empty() || self.places.values().any(Place::is_missing)
    }

    /// Records where it leads now; `None` if the look-up failed. Returns the addresses to dial.
    pub(super) fn found(&mut self, found: Option<Vec<String>>) -> Vec<String> {
        self.looked_up = Some(Instant::now());
        if let Some(found) = found {
            // An answer may be a part of what there is.
            let mut kept = 0;
            let gone = self.places.extract_if(.., |address, place| {
                let is_kept = place.is_well()
                    && kept < limits::SEED_ADDRESSES_MAX
                    && !planted!(ForgottenSeed);
                kept += usize::from(is_kept);
                !is_kept && !found.contains(address)
            });
            for (address, place) in gone {
                place.leave(&self.address, &address);
            }
            // Behind a load balancer the next dial of this address may reach another node.
            if self.table.is_alone() {
                let own = self.places.values_mut().filter(|place| matches!(place, Place::Own));
                own.for_each(|place| *place = Place::Unmet);
            }
            for address in found {
                self.places.entry(address).or_insert(Place::Unmet);
            }
        } else {
            self.note_failure(None, ConnectCause::Unreachable, String::new());
        }
        let is_asked = std::mem::take(&mut self.is_asked);
        let is_due = |place: &Place| place.is_missing() || is_asked && place.is_unlinked();
        let missing = self.places.iter().filter(|(_, place)| is_due(place));
        missing.map(|(address, _)| address.clone()).collect()
    }

    /// Records what a dial met. Returns why no node proved itself.
    pub(super) fn met(&mut self, address: &str, outcome: Outcome) -> Option<String> {
        let is_own_final = self.is_own_final();
        let place = self.places.get_mut(address)?;
        let Some(node) = outcome.node else {
            let failure = outcome.result.err()?;
            if let DialFailure::Failed(Failure::SelfConnection) = failure {
                std::mem::replace(place, Place::Own).leave(&self.address, address);
                if !self.is_name {
                    self.looked_up = Some(Instant::now());
                }
                if is_own_final {
                    log::info!(address, "a seed is this node itself: it is not dialled again");
                } else {
                    log::debug!(seed = self.address, address, "an address of this node");
                }
                return None;
            }
            self.note_failure(None, failure.cause(), failure.to_string());
            return Some(failure.to_string());
        };
        self.led_elsewhere = true;
        if !self.is_name {
            self.looked_up = None;
        }
        if let Err(DialFailure::Failed(failure)) = &outcome.result
            && matches!(failure, Failure::Rejected(Rejection::DuplicateNodeName))
        {
            // Another node uses the name of a known peer: forget which node was met here before.
            std::mem::replace(place, Place::Unmet).leave(&self.address, address);
            let failure = failure.to_string();
            self.note_failure(None, ConnectCause::PeerNameTaken, failure.clone());
            return Some(failure);
        }
        let peer = self.table.peer(&node.name);
        let earlier = std::mem::replace(place, Place::Met(peer.clone(), node.incarnation));
        if let Place::Met(earlier, _) = &earlier
            && !Arc::ptr_eq(earlier, &peer)
        {
            earlier.left_seed(&self.address, address);
        }
        peer.met_at_seed(&self.address, address, self.kind());
        peer.reached_at(address);
        let Some(failure) = outcome.result.err().filter(|failure| !failure.is_dial_race()) else {
            self.table.note_met(&self.address, Met::Node(node));
            peer.log_failures();
            return None;
        };
        let (cause, text) = (failure.cause(), format!("{address}: {failure}"));
        if failure.is_goodbye() {
            peer.note(text)
        } else {
            peer.note_answer(text)
        }
        if cause != ConnectCause::NameTaken {
            peer.log_failures();
        }
        self.note_failure(Some(node.name), cause, failure.to_string());
        None
    }

    /// Records a failure of this round. That the name of this node is taken is told at once.
    fn note_failure(&mut self, by: Option<NodeName>, cause: ConnectCause, text: String) {
        let is_told = |failure: &SeedFailure| failure.by.is_some() || !failure.cause.is_retryable();
        let failure = SeedFailure { by, cause, text };
        if cause == ConnectCause::NameTaken {
            let (by, error) = (failure.by.clone(), self.error(cause, &failure.text));
            self.table.note_met(&self.address, Met::Failed { by, error });
        }
        if !self.failure.as_ref().is_some_and(is_told) || !cause.is_retryable() {
            self.failure = Some(failure);
        }
    }

    fn error(&self, cause: ConnectCause, text: &str) -> ConnectError {
        ConnectError::new(&self.address, cause, text)
    }

    /// Draws the conclusions of a round.
    pub(super) fn end_round(&mut self, failures: &BTreeMap<String, String>) {
        let address = &self.address;
        let kind = self.kind();
        for (at, place) in &self.places {
            if let Place::Met(peer, _) = place {
                peer.met_at_seed(address, at, kind);
            }
        }
        let failure = self.failure.take();
        let mut places = self.places.values();
        if !self.places.is_empty() && places.all(|place| matches!(place, Place::Own)) {
            let error = self.error(ConnectCause::Itself, "it is this node itself");
            self.table.note_met(address, Met::Failed { by: None, error });
        } else if let Some(SeedFailure { by, cause, text }) = failure
            && !self.places.values().any(Place::is_well)
        {
            let each = failures.iter().map(|(at, failure)| match at == address {
                true => failure.clone(),
                false => format!("{at}: {failure}"),
            });
            let text = if by.is_some() { text } else { each.collect::<Vec<_>>().join("; ") };
            let is_met = by.is_some();
            let error = self.error(cause, &text);
            let is_news = self.table.note_met(address, Met::Failed { by, error });
            if is_news && !is_met && !cause.is_refusal() {
                log::info!(address, failure = text, "a seed is not reached: it is dialled again");
            }
        }
    }

    /// Returns the pause before the next round, a short one if there is `haste`. There is none
    /// while nothing is missing: then the [plan](Self::plan) has no round.
    pub(super) fn pause(&mut self, entropy: &Entropy, haste: bool) -> Duration {
        if self.is_missing() { self.backoff.pause(entropy, haste) } else { Duration::ZERO }
    }
}

impl Place {
    /// Returns true if it has to be dialled now.
    fn is_missing(&self) -> bool {
        match self {
            Place::Unmet => true,
            Place::Own => false,
            Place::Met(peer, run) => peer.is_missing(*run),
        }
    }

    /// Returns true if a node was met there that is not linked.
    fn is_unlinked(&self) -> bool {
        matches!(self, Place::Met(peer, _) if peer.linked().is_none())
    }

    /// Returns true if the address is this node's own, or the run met there is linked or idle.
    fn is_well(&self) -> bool {
        match self {
            Place::Unmet => false,
            Place::Own => true,
            Place::Met(peer, run) => peer.is_met(*run),
        }
    }

    /// Tells the peer that was met there that the seed does not lead to it any more.
    fn leave(self, seed: &str, address: &str) {
        if let Place::Met(peer, _) = self {
            peer.left_seed(seed, address);
        }
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use tracing::Level;

    use super::*;
    use crate::fabric::sim;
    use crate::id::NodeId;
    use crate::mesh::Mesh;
    use crate::mesh::tests::sim_mesh;
    use crate::recorder::Recorder;

    fn added(mesh: &Mesh, address: &str) -> Seed {
        mesh.table.events.seeds().add(address);
        Seed::new(mesh.table.clone(), address.into())
    }

    /// As behind a load balancer, or after a machine was given another's address.
    #[test]
    fn a_node_is_not_of_a_seed_that_became_this_node_itself() {
        sim::run(1, |world| async move {
            world.set_name("name:7700", &["place:7700"]);
            let mesh = sim_mesh(&world, "alpha").await;
            for address in ["name:7700", "place:7700"] {
                let mut seed = added(&mesh, address);
                if seed.is_name {
                    seed.found(Some(vec!["place:7700".into()]));
                }
                let name = NodeName::new("beta").expect("a name");
                let node = NodeId { name: name.clone(), incarnation: Incarnation(1) };
                let met = Outcome { node: Some(node), result: Err(DialFailure::NoAnswer) };
                seed.met("place:7700", met);
                let peer = mesh.peer(&name);
                assert!(peer.is_kept() && !peer.is_forgettable(), "{address}");
                let failure = DialFailure::Failed(Failure::SelfConnection);
                seed.met("place:7700", Outcome { node: None, result: Err(failure) });
                assert!(!peer.is_kept() && peer.is_forgettable(), "{address}");
                // As it was another node's, it may be again.
                assert!(!matches!(seed.plan(Instant::now()), Plan::Stop), "{address}");
                let later = Instant::now() + limits::WANTED_BACKOFF_MAX;
                assert!(matches!(seed.plan(later), Plan::Dial { .. }), "{address}");
            }
        });
    }

    #[test]
    fn an_address_that_is_only_ever_this_node_itself_is_not_dialled_again() {
        let log = Recorder::new(Level::INFO);
        let _guard = tracing::subscriber::set_default(log.clone());
        sim::run(1, |world| async move {
            let mesh = sim_mesh(&world, "alpha").await;
            let mut seed = added(&mesh, "place:7700");
            let failure = || DialFailure::Failed(Failure::SelfConnection);
            seed.met("place:7700", Outcome { node: None, result: Err(failure()) });
            assert!(matches!(seed.plan(Instant::now()), Plan::Stop));
            // Not one where another node was met, though that has the name of a peer.
            let mut seed = added(&mesh, "place:7700");
            let name = NodeName::new("beta").unwrap();
            let node = Some(NodeId { name, incarnation: Incarnation(7) });
            let duplicate = Failure::Rejected(Rejection::DuplicateNodeName);
            seed.met("place:7700", Outcome { node, result: Err(duplicate.into()) });
            seed.met("place:7700", Outcome { node: None, result: Err(failure()) });
            assert!(!matches!(seed.plan(Instant::now()), Plan::Stop));
        });
        let lines = log.take();
        let says = |line: &&String| line.contains("a seed is this node itself");
        assert_eq!(lines.iter().filter(says).count(), 1, "{lines:?}");
    }
}
