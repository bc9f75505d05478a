//! Seeds: addresses that are dialled for as long as the node lives.
//!
//! - **MS-12 seeds are kept**: each address to which a seed leads is dialled, with pauses, until
//!   some node proves itself there, and again whenever that run of it has no link and is not idle:
//!   by the task that reaches for the node, or, when there is none, by the seed's own. A link to a
//!   seed that leads to others only is never idle (MS-18): others find this node by it. A name is
//!   looked up again in each round, and when all is well every `SEED_LOOKUP_INTERVAL`. So a node
//!   that left, that started again elsewhere, or that had to wait for its name is found again,
//!   whether or not another node knows of it. An address that is this node's own is passed over; a
//!   seed that is no name and leads to this node is not dialled again. An answer may be a part
//!   of what the name leads to: of other addresses, those where all is well are kept, at most
//!   `SEED_ADDRESSES_MAX`, so that a node that was met is not met again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::bootstrap::Failure;
use crate::entropy::Entropy;
use crate::id::Incarnation;
use crate::limits;
use crate::mesh::connection::{DialFailure, Outcome};
use crate::mesh::peer::{Backoff, Peer, Plan, SeedKind, Target};
use crate::mesh::table::Table;
use crate::mutants::planted;

/// A seed. Owned by its [`Dialler`](super).
pub(super) struct Seed {
    table: Arc<Table>,
    address: String,
    /// Where it leads, and what was met there last.
    places: BTreeMap<String, Place>,
    /// Time of the last look-up, of a name.
    looked_up: Option<Instant>,
    is_name: bool,
    backoff: Backoff,
    /// Time since when all its nodes are linked.
    well: Option<Instant>,
}

/// What was met at an address.
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
        let (looked_up, well) = (None, None);
        Seed { table, address, places, looked_up, is_name, backoff: Backoff::default(), well }
    }

    /// Returns what to do now.
    pub(super) fn plan(&mut self, now: Instant) -> Plan {
        let is_final = !self.is_name || planted!(OwnNameEnds);
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
        let target = Target { name: self.address.clone(), told: false };
        if self.is_missing() || self.looked_up.is_some_and(lookup_due) {
            return Plan::Dial { targets: vec![target], news: false, until: None };
        }
        Plan::Wait(Some(now + limits::SEED_LOOK_INTERVAL))
    }

    fn kind(&self) -> SeedKind {
        let leads_here = self.places.values().any(|place| matches!(place, Place::Own));
        if leads_here { SeedKind::Shared } else { SeedKind::Own }
    }

    fn is_missing(&self) -> bool {
        self.places.is_empty() || self.places.values().any(Place::is_missing)
    }

    /// Records where it leads now; `None` when that was not found out. Returns what is to be
    /// dialled.
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
        }
        let missing = self.places.iter().filter(|(_, place)| place.is_missing());
        missing.map(|(address, _)| address.clone()).collect()
    }

    /// Records what a dial met. Returns why no node proved itself.
    pub(super) fn met(&mut self, address: &str, outcome: Outcome) -> Option<String> {
        let place = self.places.get_mut(address)?;
        let Some(node) = outcome.node else {
            let failure = outcome.result.err()?;
            if let DialFailure::Failed(Failure::SelfConnection) = failure {
                *place = Place::Own;
                if self.is_name {
                    tracing::debug!(seed = self.address, address, "an address of this node");
                } else {
                    tracing::info!(address, "a seed is this node itself: it is not dialled again");
                }
                return None;
            }
            return Some(failure.to_string());
        };
        let peer = self.table.peer(&node.name);
        let earlier = std::mem::replace(place, Place::Met(peer.clone(), node.incarnation));
        if let Place::Met(earlier, _) = &earlier
            && !Arc::ptr_eq(earlier, &peer)
        {
            earlier.left_seed(&self.address, address);
        }
        peer.met_at_seed(&self.address, address, self.kind());
        peer.reached_at(address);
        match outcome.result.err().filter(|failure| !failure.is_dial_race()) {
            Some(failure) if failure.is_goodbye() => peer.note(format!("{address}: {failure}")),
            Some(failure) => peer.note_answer(format!("{address}: {failure}")),
            None => {}
        }
        peer.log_failures();
        None
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
        let met = self.places.values().any(|place| matches!(place, Place::Met(..)));
        if failures.is_empty() || met {
            self.table.unmet.lock().remove(address);
        } else {
            let each = failures.iter().map(|(at, failure)| match at == address {
                true => failure.clone(),
                false => format!("{at}: {failure}"),
            });
            let failure = each.collect::<Vec<_>>().join("; ");
            if self.table.note_unmet(address, &failure) {
                tracing::info!(address, failure, "a seed is not reached: it is dialled again");
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
