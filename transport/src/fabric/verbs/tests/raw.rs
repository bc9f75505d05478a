//! Queue pairs below the fabric, without an owner that counts or waits.

use std::sync::Arc;

use crate::fabric::verbs::completions::Ended;
use crate::fabric::verbs::device::Reads;
use crate::fabric::verbs::queue_pair::{Path, QueuePair};
use crate::fabric::verbs::rail::Rail;
use crate::fabric::verbs::{VerbsConfig, VerbsFabric};
use crate::fabric::{Fabric, QueuePairConfig, Side};
use crate::memory::Region;

/// Two queue pairs of one port that are connected with each other.
pub(super) struct RawPair {
    pub(super) queue_pairs: [QueuePair; 2],
    /// 64 slots of 64 bytes.
    pub(super) memory: Region,
}

impl RawPair {
    /// Each with a send and a receive queue; packets are counted from `first_packet`.
    pub(super) fn new(
        fabric: &Arc<VerbsFabric>,
        a: [u32; 2],
        b: [u32; 2],
        first_packet: u32,
    ) -> Self {
        let rail = &fabric.rails.now()[0];
        let queue_pairs = [a, b].map(|[send_queue, recv_queue]| {
            let config = config(send_queue, recv_queue);
            QueuePair::new(rail.domain.clone(), rail.port, &config).unwrap()
        });
        let queue_pairs = connected(queue_pairs, rail, first_packet, None);
        RawPair { queue_pairs, memory: fabric.alloc(4096).unwrap() }
    }

    /// Connects two queue pairs for one-sided access, with up to `reads` under way.
    pub(super) fn one_sided(rail: &Rail, reads: Reads) -> [QueuePair; 2] {
        let device = || rail.domain.device.clone();
        let make = |_| QueuePair::one_sided(device(), rail.port, &config(1, 1)).unwrap();
        connected([(), ()].map(make), rail, 0, Some(reads))
    }

    /// The path from a port to a queue pair of the same one.
    pub(super) fn path(rail: &Rail, peer_number: u32) -> Path {
        Path {
            peer_number,
            peer_first_packet: 0,
            first_packet: 0,
            mtu: rail.attributes.mtu,
            port: rail.port.number,
            gid_index: rail.addresses[0].index,
            peer_gid: rail.addresses[0].gid,
            peer_lid: rail.attributes.lid,
            reads: None,
            tuning: VerbsConfig::default().tuning(0),
        }
    }

    /// Polls until `count` work requests have completed.
    pub(super) async fn completed(queue_pair: &mut QueuePair, count: usize) -> Vec<Ended> {
        let mut ended = Vec::new();
        while ended.len() < count {
            queue_pair.completions.poll(&mut ended).unwrap();
            tokio::task::yield_now().await;
        }
        ended
    }
}

fn config(send_queue: u32, recv_queue: u32) -> QueuePairConfig {
    QueuePairConfig {
        send_queue,
        recv_queue,
        inline_bytes: 0,
        rnr_retry: 0,
        side: Side::Acceptor,
        binding: Vec::new(),
        avoid: Vec::new(),
    }
}

/// Connects two queue pairs of a port with each other.
fn connected(
    mut queue_pairs: [QueuePair; 2],
    rail: &Rail,
    first_packet: u32,
    reads: Option<Reads>,
) -> [QueuePair; 2] {
    let numbers = queue_pairs.each_ref().map(QueuePair::number);
    for (queue_pair, peer_number) in queue_pairs.iter_mut().zip([numbers[1], numbers[0]]) {
        let path = Path {
            peer_first_packet: first_packet,
            first_packet,
            reads,
            ..RawPair::path(rail, peer_number)
        };
        queue_pair.connect(&path).unwrap();
    }
    queue_pairs
}
