//! The queue pairs of a link that is not connected yet, one for each port, until one is chosen.

use std::sync::Arc;

use tokio::time::Instant;

use super::offer::{self, Address, Offer, Way};
use super::queue_pair::{Path, Port, QueuePair, Tuning};
use super::rail::{LocalAddress, Rail, ranked, report_left_out};
use crate::fabric::{FabricError, Side};
use crate::limits::{VERBS_ADDRESSES_MAX, WAYS_AVOIDED_MAX};
use crate::log;
use crate::log_limiter::LogLimiter;

/// The settings that the fabric gives a queue pair before it is connected.
pub(super) struct Settings {
    /// Number of the first packet that it will send.
    pub(super) first_packet: u32,
    pub(super) tuning: Tuning,
    /// Which rail is offered first.
    pub(super) turn: usize,
    pub(super) log: Arc<LogLimiter>,
}

/// Queue pairs that are not connected, one for each port that is offered. The offers choose one.
pub(super) struct Ends {
    offer: Offer,
    ends: Vec<End>,
    /// Of each address in the offer, which end it is of, and its place in the table of that port.
    places: Vec<(usize, u8)>,
    side: Side,
    settings: Settings,
}

/// One port's queue pair.
struct End {
    queue_pair: QueuePair,
    port: Port,
    rail: usize,
}

impl Ends {
    /// Makes a queue pair by `make` on each port of which an address is offered. A port that
    /// refuses is left out.
    ///
    /// # Errors
    /// [`FabricError`]: there is no port, or the last one refused as all others.
    pub(super) fn new(
        rails: &[Rail],
        side: Side,
        mut avoid: Vec<u32>,
        settings: Settings,
        make: impl Fn(&Rail) -> Result<QueuePair, FabricError>,
    ) -> Result<Self, FabricError> {
        let bootstrap = offer::bootstrap(&side);
        let (dialled, local) = bootstrap.map_or(([0; 16], None), |(to, from)| (to, Some(from)));
        let addresses: Vec<_> = rails.iter().map(|rail| &rail.addresses[..]).collect();
        let ranked = ranked(&addresses, settings.turn, local, VERBS_ADDRESSES_MAX);
        avoid.truncate(WAYS_AVOIDED_MAX);
        let offer = Offer { dialled, addresses: Vec::new(), avoid };
        let (ends, places) = (Vec::new(), Vec::new());
        let mut ends = Ends { offer, ends, places, side, settings };
        let mut refused = vec![false; rails.len()];
        let mut last = FabricError::Offer("there is no port that could be used");
        for (at, address) in ranked {
            if refused[at] || ends.places.len() == VERBS_ADDRESSES_MAX {
                continue;
            }
            let make = || make(&rails[at]);
            if let Err(error) = ends.add(&rails[at], at, address, local, make) {
                report_left_out(&ends.settings.log, &rails[at].name(), &error);
                (refused[at], last) = (true, error);
            }
        }
        if ends.ends.is_empty() { Err(last) } else { Ok(ends) }
    }

    fn add(
        &mut self,
        rail: &Rail,
        at: usize,
        address: LocalAddress,
        local: Option<[u8; 16]>,
        make: impl FnOnce() -> Result<QueuePair, FabricError>,
    ) -> Result<(), FabricError> {
        let end = match self.ends.iter().position(|end| end.rail == at) {
            Some(end) => end,
            None => {
                self.ends.push(End { queue_pair: make()?, port: rail.port, rail: at });
                self.ends.len() - 1
            }
        };
        self.places.push((end, address.index));
        self.offer.addresses.push(Address {
            kind: address.kind,
            gid: address.gid,
            lid: rail.attributes.lid,
            prefix: address.prefix,
            mtu: rail.attributes.mtu,
            on_the_way: Some(address.gid) == local,
            rail: at.min(usize::from(u8::MAX)) as u8,
            pkey: rail.port.partition.key,
            queue_pair: self.ends[end].queue_pair.number(),
            first_packet: self.settings.first_packet,
        });
        Ok(())
    }

    pub(super) fn offer(&self) -> &Offer {
        &self.offer
    }

    pub(super) fn queue_pairs(&self) -> impl Iterator<Item = &QueuePair> {
        self.ends.iter().map(|end| &end.queue_pair)
    }

    pub(super) fn log(&self) -> &Arc<LogLimiter> {
        &self.settings.log
    }

    /// Returns the ways to the peer, best first, each with its number.
    fn numbered_ways(&self, peer: &Offer) -> Vec<(Way, u32)> {
        let (dialler, acceptor) = match self.side {
            Side::Dialer { .. } => (&self.offer, peer),
            Side::Acceptor => (peer, &self.offer),
        };
        let ways = offer::ways(dialler, acceptor).into_iter();
        ways.map(|way| (way, way.number(dialler, acceptor))).collect()
    }

    /// Returns the numbers of the ways to the peer, best first.
    pub(super) fn ways(&self, peer: &Offer) -> Vec<u32> {
        self.numbered_ways(peer).into_iter().map(|(_, number)| number).collect()
    }

    /// Chooses the queue pair of the way at this place, with its path; the others are given back.
    ///
    /// # Errors
    /// [`FabricError::Offer`] when there is no such way.
    pub(super) fn choose(
        mut self,
        peer: &Offer,
        way: usize,
    ) -> Result<(QueuePair, Path), FabricError> {
        let unreachable = FabricError::Offer("none of its addresses can be reached from here");
        let ways = self.numbered_ways(peer);
        let Some(&(way, _)) = ways.get(way) else { return Err(unreachable) };
        let (ours, theirs) = match self.side {
            Side::Dialer { .. } => (way.dialler, way.acceptor),
            Side::Acceptor => (way.acceptor, way.dialler),
        };
        let (own, peer) = (self.offer.addresses[ours], peer.addresses[theirs]);
        let (end, gid_index) = self.places[ours];
        let End { queue_pair, port, .. } = self.ends.swap_remove(end);
        let path = Path {
            peer_number: peer.queue_pair,
            peer_first_packet: peer.first_packet,
            first_packet: own.first_packet,
            mtu: way.mtu,
            port: port.number,
            gid_index,
            peer_gid: peer.gid,
            peer_lid: peer.lid,
            reads: None,
            tuning: self.settings.tuning,
        };
        Ok((queue_pair, path))
    }
}

/// Logs that a queue pair is connected, and how.
pub(super) fn report_connected(log: &LogLimiter, queue_pair: &QueuePair, path: &Path) {
    if let Some(suppressed) = log.admit("connected", Instant::now()) {
        let (device, port) = (queue_pair.domain().device.name(), path.port);
        let (mtu, gid) = (128u32 << path.mtu, path.gid_index);
        let one_sided = path.reads.is_some();
        log::info!(device, port, suppressed, mtu, gid, one_sided, "a queue pair is connected");
    }
}
