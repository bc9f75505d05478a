//! Queue pairs that are not connected yet.

use std::io;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::connected::Connected;
use super::memory;
use super::offer::{self, Address, Offer, Way};
use super::queue_pair::{Path, Port, QueuePair, Tuning};
use super::rail::{LocalAddress, Rail, ranked, report_left_out};
use crate::fabric::{self, FabricError, Opening, PostError, QueuePairConfig, Side};
use crate::limits::{VERBS_ADDRESSES_MAX, WAYS_AVOIDED_MAX};
use crate::log_limiter::LogLimiter;
use crate::memory::Slot;

/// What the fabric gives a queue pair that is to be connected.
pub(super) struct Settings {
    /// Number of the first packet that it will send.
    pub(super) first_packet: u32,
    pub(super) tuning: Tuning,
    /// Which rail is offered first.
    pub(super) turn: usize,
    pub(super) log: Arc<LogLimiter>,
}

/// Queue pairs that are not connected, one for each port that is offered. The offers choose one;
/// the receives wait here for it, and are posted before it can be reached (PV-11).
pub(super) struct VerbsOpening {
    offer: Offer,
    ends: Vec<End>,
    /// Of each address in the offer, which end it is of, and its place in the table of that port.
    places: Vec<(usize, u8)>,
    recvs: Vec<Slot>,
    config: QueuePairConfig,
    settings: Settings,
}

/// One port's queue pair.
struct End {
    queue_pair: QueuePair,
    port: Port,
    rail: usize,
}

impl VerbsOpening {
    /// Makes a queue pair on each port of which an address is offered. A port that refuses is left
    /// out.
    ///
    /// # Errors
    /// [`FabricError`]: there is no port, or the last one refused as all others.
    pub(super) fn new(
        rails: &[Rail],
        config: QueuePairConfig,
        settings: Settings,
    ) -> Result<Self, FabricError> {
        let bootstrap = offer::bootstrap(&config.side);
        let (dialled, local) = bootstrap.map_or(([0; 16], None), |(to, from)| (to, Some(from)));
        let addresses: Vec<_> = rails.iter().map(|rail| &rail.addresses[..]).collect();
        let ranked = ranked(&addresses, settings.turn, local);
        let mut avoid = config.avoid.clone();
        avoid.truncate(WAYS_AVOIDED_MAX);
        let mut opening = VerbsOpening {
            offer: Offer { dialled, addresses: Vec::new(), avoid },
            ends: Vec::new(),
            places: Vec::new(),
            recvs: Vec::with_capacity(config.recv_queue as usize),
            config,
            settings,
        };
        let mut refused = vec![false; rails.len()];
        let mut last = FabricError::Offer("there is no port that could be used");
        for (at, address) in ranked {
            if refused[at] || opening.places.len() == VERBS_ADDRESSES_MAX {
                continue;
            }
            if let Err(error) = opening.add(&rails[at], at, address, local) {
                report_left_out(&opening.settings.log, &rails[at].name(), &error);
                (refused[at], last) = (true, error);
            }
        }
        if opening.ends.is_empty() { Err(last) } else { Ok(opening) }
    }

    fn add(
        &mut self,
        rail: &Rail,
        at: usize,
        address: LocalAddress,
        local: Option<[u8; 16]>,
    ) -> Result<(), FabricError> {
        let end = match self.ends.iter().position(|end| end.rail == at) {
            Some(end) => end,
            None => {
                let queue_pair = QueuePair::new(rail.domain.clone(), rail.port, &self.config)?;
                self.ends.push(End { queue_pair, port: rail.port, rail: at });
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

    /// Returns true if whichever of the queue pairs is chosen can use this memory (PV-1).
    fn reaches(&self, slot: &Slot) -> bool {
        self.ends.iter().all(|end| memory::is_of(end.queue_pair.domain(), slot))
    }

    /// Returns the ways to the peer, best first, each with its number.
    fn numbered_ways(&self, peer: &Offer) -> Vec<(Way, u32)> {
        let (dialler, acceptor) = match self.config.side {
            Side::Dialer { .. } => (&self.offer, peer),
            Side::Acceptor => (peer, &self.offer),
        };
        let ways = offer::ways(dialler, acceptor).into_iter();
        ways.map(|way| (way, way.number(dialler, acceptor))).collect()
    }

    fn connect(mut self, peer: &[u8], way: usize) -> Result<Connected, FabricError> {
        let peer = Offer::decode(peer)?;
        let unreachable = FabricError::Offer("none of its addresses can be reached from here");
        let ways = self.numbered_ways(&peer);
        let Some(&(way, _)) = ways.get(way) else { return Err(unreachable) };
        let (ours, theirs) = match self.config.side {
            Side::Dialer { .. } => (way.dialler, way.acceptor),
            Side::Acceptor => (way.acceptor, way.dialler),
        };
        let (own, peer) = (self.offer.addresses[ours], peer.addresses[theirs]);
        let (end, gid_index) = self.places[ours];
        // The others are given back here.
        let End { mut queue_pair, port, .. } = self.ends.swap_remove(end);
        self.ends.clear();
        let posted = self.recvs.len() as u32;
        for slot in &self.recvs {
            // With several devices this is where the memory is registered, and may be too much.
            memory::local_key(queue_pair.domain(), slot)?;
        }
        while !self.recvs.is_empty() {
            let count = self.recvs.len();
            queue_pair
                .post_recvs(&mut self.recvs, count)
                .map_err(|error| FabricError::Connect(io::Error::other(error)))?;
        }
        let path = Path {
            peer_number: peer.queue_pair,
            peer_first_packet: peer.first_packet,
            first_packet: own.first_packet,
            mtu: way.mtu,
            port: port.number,
            gid_index,
            peer_gid: peer.gid,
            peer_lid: peer.lid,
            tuning: self.settings.tuning,
        };
        queue_pair.connect(&path)?;
        let log = self.settings.log;
        if let Some(suppressed) = log.admit("connected", Instant::now()) {
            let (device, port) = (queue_pair.domain().device.name(), port.number);
            let (mtu, gid) = (128u32 << way.mtu, gid_index);
            tracing::info!(device, port, suppressed, mtu, gid, "a queue pair is connected");
        }
        Connected::new(queue_pair, &self.config, posted, log).map_err(FabricError::Connect)
    }
}

impl Opening for VerbsOpening {
    fn offer(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.offer.encode())
    }

    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        let room = self.config.recv_queue as usize - self.recvs.len();
        let own = slots.iter().take_while(|slot| self.reaches(slot)).count();
        self.recvs.extend(slots.drain(..own.min(room)));
        if slots.is_empty() {
            Ok(())
        } else if own < room {
            Err(PostError::Foreign)
        } else {
            Err(PostError::Full)
        }
    }

    fn ways(&self, peer: &[u8]) -> Vec<u32> {
        let Ok(peer) = Offer::decode(peer) else { return Vec::new() };
        self.numbered_ways(&peer).into_iter().map(|(_, number)| number).collect()
    }

    fn connect(
        self: Box<Self>,
        peer: Zeroizing<Vec<u8>>,
        way: usize,
    ) -> BoxFuture<'static, Result<Box<dyn fabric::QueuePair>, FabricError>> {
        // Registering memory takes its time, and resolving the peer's address up to a second, in
        // which the task's thread would stand still.
        let connecting = tokio::task::spawn_blocking(move || Self::connect(*self, &peer, way));
        async {
            let connected =
                connecting.await.map_err(|lost| FabricError::Connect(io::Error::other(lost)))??;
            Ok(Box::new(connected) as Box<dyn fabric::QueuePair>)
        }
        .boxed()
    }
}
