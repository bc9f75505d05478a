//! All queue pairs of a world: opening, connecting, posting.

use std::collections::BTreeMap;
use std::io;
use std::task::{Context, Poll};

use super::super::{PostError, QueuePairConfig, SendRequest};
use super::event::{Event, NodeId, Number};
use super::physics::{IdleWakes, Physics};
use super::queue_pair::{Peer, Phase, QueuePair};
use crate::limits::SLOT_BYTES_MAX;
use crate::memory::{Owner, Slot};

/// Longest frame, in bytes.
pub(super) const FRAME_BYTES_MAX: u32 = SLOT_BYTES_MAX;

/// All queue pairs of a world.
#[derive(Debug, Default)]
pub(super) struct QueuePairs {
    /// The queue pairs whose end is still held.
    pub(super) all: BTreeMap<Number, QueuePair>,
    /// The node of every queue pair there ever was; its index is the number.
    nodes: Vec<NodeId>,
}

impl QueuePairs {
    /// Returns a new queue pair of a node.
    pub(super) fn open(&mut self, node: NodeId, owner: Owner, config: QueuePairConfig) -> Number {
        let number = self.nodes.len();
        self.nodes.push(node);
        self.all.insert(number, QueuePair::new(node, owner, config));
        number
    }

    /// Returns a queue pair that is still held.
    pub(super) fn get(&mut self, number: Number) -> Option<&mut QueuePair> {
        self.all.get_mut(&number)
    }

    /// Returns a queue pair that ever was, as somebody's peer.
    pub(super) fn peer(&self, number: Number) -> Option<Peer> {
        self.nodes.get(number).map(|&node| Peer { number, node })
    }

    /// The ends on both nodes of the connections between them; with one node, its ends.
    pub(super) fn between(&self, a: NodeId, b: Option<NodeId>) -> Vec<Number> {
        let meant = |qp: &QueuePair| match (b, qp.peer) {
            (None, _) => qp.node == a,
            (Some(_), None) => false,
            (Some(b), Some(peer)) => [(a, b), (b, a)].contains(&(qp.node, peer.node)),
        };
        self.all.iter().filter(|(_, qp)| meant(qp)).map(|(number, _)| *number).collect()
    }

    /// Returns how many queue pairs of `node` are connected to `peer` and run.
    pub(super) fn connected(&self, node: NodeId, peer: NodeId) -> usize {
        let meant = |qp: &&QueuePair| {
            let there = qp.peer.is_some_and(|other| other.node == peer);
            qp.node == node && there && matches!(qp.phase, Phase::Ready)
        };
        self.all.values().filter(meant).count()
    }

    /// `connect` was called. It mostly ends once both ends have named each other, or one is gone;
    /// but it may end before, for it promises nothing about the peer.
    pub(super) fn connect(&mut self, physics: &mut Physics, number: Number, peer: Peer) {
        let other = self.all.get(&peer.number).map(|other| {
            let named = other.peer.map(|peer| peer.number);
            (named == Some(number) && other.listens(), matches!(other.phase, Phase::Fresh))
        });
        let Some(own) = self.all.get_mut(&number) else { return };
        own.peer = Some(peer);
        own.incoming.inbox.retain(|frame| frame.from == peer.number);
        if own.is_error() {
            own.phase = Phase::Refused(io::ErrorKind::ConnectionReset);
            return;
        }
        own.phase = Phase::Connecting { waker: None };
        let here = own.node;
        let at = physics.after_latency(peer.node, here);
        match other {
            Some((true, _)) => {
                physics.at(at, Event::Connected { number });
                let at = physics.after_latency(here, peer.node);
                physics.at(at, Event::Connected { number: peer.number });
            }
            _ if physics.one_in(4) => physics.at(at, Event::Connected { number }),
            Some((_, true)) => {}
            _ => physics.at(at, Event::Refused { number }),
        }
        self.deliver(physics, number);
    }

    /// Polls for the end of `connect`.
    pub(super) fn poll_connected(
        &mut self,
        number: Number,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), io::ErrorKind>> {
        match self.all.get_mut(&number).map(|qp| &mut qp.phase) {
            Some(Phase::Connecting { waker }) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(Phase::Ready) => Poll::Ready(Ok(())),
            Some(Phase::Refused(kind)) => Poll::Ready(Err(*kind)),
            Some(Phase::Fresh | Phase::Error) | None => {
                Poll::Ready(Err(io::ErrorKind::ConnectionReset))
            }
        }
    }

    /// `connect` ends.
    pub(super) fn settle(&mut self, physics: &mut Physics, number: Number, to: Phase) {
        let Some(qp) = self.all.get_mut(&number) else { return };
        if let Phase::Connecting { waker } = &mut qp.phase {
            physics.wake(waker.take());
            physics.log(format_args!("qp {number} is {to:?}"));
            qp.phase = to;
        }
    }

    /// Wakes the owners that wait for a completion, where there is none (PV-8). Returns true if
    /// there are such.
    pub(super) fn wake_idle(&mut self, physics: &mut Physics) -> bool {
        let mut woken = false;
        for qp in self.all.values_mut().filter(|qp| matches!(qp.phase, Phase::Ready)) {
            if !physics.paused.contains(&qp.node) {
                woken |= qp.done.wake_idle(physics);
            }
        }
        woken
    }

    /// Posts the front of `batch` (PV-9).
    pub(super) fn post_send(
        &mut self,
        physics: &mut Physics,
        number: Number,
        batch: &mut Vec<SendRequest>,
    ) -> Result<(), PostError> {
        let Some(qp) = self.all.get_mut(&number) else { return Ok(()) };
        let paused = physics.paused.contains(&qp.node);
        let waiting = qp.outgoing.held + qp.outgoing.frozen.len() as u32;
        let room = qp.config.send_queue.saturating_sub(waiting) as usize;
        let refusal = batch.iter().take(room).enumerate().find_map(|(place, request)| {
            let bytes = request.bytes as usize;
            if request.tail.is_some() {
                Some((place, PostError::Tail))
            } else if bytes > request.slot.len() || bytes > FRAME_BYTES_MAX as usize {
                Some((place, PostError::TooLong))
            } else if request.inline && bytes > qp.config.inline_bytes as usize {
                Some((place, PostError::InlineTooLong))
            } else if !request.slot.region().is_of(qp.owner) {
                Some((place, PostError::Foreign))
            } else {
                None
            }
        });
        let (taken, result) = match refusal {
            Some((place, error)) => (place, Err(error)),
            None if batch.len() > room => (room, Err(PostError::Full)),
            None => (batch.len(), Ok(())),
        };
        if paused {
            qp.outgoing.frozen.extend(batch.drain(..taken));
            return result;
        }
        if physics.idle_wakes == IdleWakes::Running {
            physics.log(format_args!("qp {number} posts {taken} frames for no reason to wake"));
            physics.counters.overdue += taken as u64;
        }
        for request in batch.drain(..taken) {
            self.send(physics, number, request);
        }
        result
    }

    /// The software of a node goes on: it sends its pending posts and looks at its completions.
    pub(super) fn resume(&mut self, physics: &mut Physics, node: NodeId) {
        for number in self.between(node, None) {
            let Some(qp) = self.all.get_mut(&number) else { continue };
            qp.done.resume(physics);
            for request in std::mem::take(&mut qp.outgoing.frozen) {
                self.send(physics, number, request);
            }
        }
    }

    /// Posts the front of `slots` (PV-9).
    pub(super) fn post_recv(
        &mut self,
        physics: &mut Physics,
        number: Number,
        slots: &mut Vec<Slot>,
    ) -> Result<(), PostError> {
        let Some(qp) = self.all.get_mut(&number) else { return Ok(()) };
        let room = qp.config.recv_queue.saturating_sub(qp.incoming.held) as usize;
        let owner = qp.owner;
        let own = slots.iter().take_while(|slot| slot.region().is_of(owner)).count();
        for slot in slots.drain(..own.min(room)) {
            qp.post_recv(physics, slot);
        }
        if slots.is_empty() {
            Ok(())
        } else if own < room {
            Err(PostError::Foreign)
        } else {
            Err(PostError::Full)
        }
    }
}
