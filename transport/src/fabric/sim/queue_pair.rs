//! One end of a simulated connection: its work requests, its completions, and how it ends.

use std::collections::VecDeque;
use std::io;
use std::task::Waker;

use super::super::{Completion, QueuePairConfig, SendRequest, Status, Work};
use super::completion::CompletionState;
use super::event::{Frame, NodeId, Number};
use super::link_model::Links;
use super::physics::Physics;
use crate::memory::{Owner, Slot};

/// One end of a connection.
#[derive(Debug)]
pub(super) struct QueuePair {
    pub(super) node: NodeId,
    /// The owner of the memory that its work requests may name (PV-1).
    pub(super) owner: Owner,
    pub(super) config: QueuePairConfig,
    pub(super) phase: Phase,
    /// The peer that `connect` was called for.
    pub(super) peer: Option<Peer>,
    /// The path to the peer has vanished.
    pub(super) severed: bool,
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    pub(super) done: CompletionState,
}

/// The other end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub(super) number: Number,
    pub(super) node: NodeId,
}

/// Where an end is in its life.
#[derive(Debug)]
pub(super) enum Phase {
    /// Opened.
    Fresh,
    /// `connect` was called; the future waits.
    Connecting { waker: Option<Waker> },
    /// Connected.
    Ready,
    /// `connect` fails with this.
    Refused(io::ErrorKind),
    /// The error state.
    Error,
}

/// The send queue and the frames sent from it.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Posted and not accepted by the peer, oldest first.
    pub(super) posted: VecDeque<Sent>,
    /// Accepted but unsignaled: they wait for the next signaled one (PV-4).
    pub(super) silent: Vec<Slot>,
    /// Posted and not yet polled; at most the size of the queue (PV-9).
    pub(super) held: u32,
    /// Frames posted so far.
    pub(super) count: u64,
    /// No answer reaches the sender any more.
    pub(super) deaf: bool,
    /// Posted while the node was paused: not sent yet.
    pub(super) frozen: Vec<SendRequest>,
    /// The sender waits for its time to try again to run out.
    pub(super) retrying: bool,
    pub(super) last_arrival: u64,
    pub(super) last_ack: u64,
}

/// A send that was posted.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) index: u64,
    pub(super) slot: Slot,
    pub(super) signaled: bool,
    /// When its last byte leaves. An end that fails before that takes the frame with it.
    pub(super) departs: u64,
}

/// The receive queue and what arrives for it.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) receives: VecDeque<Slot>,
    /// Posted and not yet polled: what the queue is bounded by (PV-9).
    pub(super) held: u32,
    /// Arrived and not yet accepted: behind a frame that found no receive.
    pub(super) inbox: VecDeque<Frame>,
    /// Frames accepted so far.
    pub(super) accepted: u64,
    /// Frames from this index on never left the peer.
    pub(super) cut: u64,
    /// The first of the inbox is tried again when its timer fires.
    pub(super) waits_for_timer: bool,
}

impl QueuePair {
    /// A new end.
    pub(super) fn new(node: NodeId, owner: Owner, config: QueuePairConfig) -> Self {
        QueuePair {
            node,
            owner,
            config,
            phase: Phase::Fresh,
            peer: None,
            severed: false,
            outgoing: Outgoing::default(),
            incoming: Incoming {
                receives: VecDeque::new(),
                held: 0,
                inbox: VecDeque::new(),
                accepted: 0,
                cut: u64::MAX,
                waits_for_timer: false,
            },
            done: CompletionState::default(),
        }
    }

    /// Returns true if `connect` was called here, and nothing ended it.
    pub(super) fn listens(&self) -> bool {
        matches!(self.phase, Phase::Connecting { .. } | Phase::Ready)
    }

    /// Returns true if it is in the error state.
    pub(super) fn is_error(&self) -> bool {
        matches!(self.phase, Phase::Error)
    }

    /// Returns true if anything can come from its peer.
    pub(super) fn hears(&self, links: &Links) -> bool {
        !self.severed && self.peer.is_some_and(|peer| !links.partitioned(peer.node, self.node))
    }

    /// Returns true if frames from there can come in, at once or after `connect`.
    pub(super) fn takes(&self, from: Peer, links: &Links) -> bool {
        match &self.phase {
            Phase::Fresh => !links.partitioned(from.node, self.node),
            Phase::Connecting { .. } | Phase::Ready => {
                self.peer.is_some_and(|peer| peer.number == from.number) && self.hears(links)
            }
            Phase::Refused(_) | Phase::Error => false,
        }
    }

    /// Completes all sends before this index (PV-3, PV-4).
    pub(super) fn acknowledge(&mut self, physics: &mut Physics, before: u64) {
        let Outgoing { posted, silent, .. } = &mut self.outgoing;
        while let Some(sent) = posted.pop_front_if(|sent| sent.index < before) {
            silent.push(sent.slot);
            if sent.signaled {
                for slot in silent.drain(..) {
                    self.done.push(physics, Work::Send, slot, Status::Success, false);
                }
            }
        }
    }

    /// Moves to the error state and completes everything (PV-4, PV-7); `cause` is what the first
    /// error is of. The order between the two queues is up to the seed. Says from which index on
    /// frames never left.
    pub(super) fn fail(&mut self, physics: &mut Physics, cause: Cause) -> u64 {
        if let Phase::Connecting { waker } = std::mem::replace(&mut self.phase, Phase::Error) {
            physics.wake(waker);
        }
        let Outgoing { posted, silent, count, .. } = &mut self.outgoing;
        let cut = posted.iter().find(|sent| sent.departs > physics.now).map(|sent| sent.index);
        let cut = cut.unwrap_or(*count);
        let mut sends: VecDeque<_> = silent.drain(..).map(|slot| (slot, Status::Success)).collect();
        sends.extend(posted.drain(..).map(|sent| match cause {
            Cause::Send(index, status) if index == sent.index => (sent.slot, status),
            _ => (sent.slot, Status::Flushed),
        }));
        let mut receives: VecDeque<_> =
            self.incoming.receives.drain(..).map(|slot| (slot, Status::Flushed)).collect();
        if let (Cause::Recv(status), Some(first)) = (cause, receives.front_mut()) {
            first.1 = status;
        }
        self.incoming.inbox.clear();
        while !sends.is_empty() || !receives.is_empty() {
            let sends_turn = receives.is_empty() || (!sends.is_empty() && physics.one_in(2));
            let (from, work) = if sends_turn {
                (&mut sends, Work::Send)
            } else {
                (&mut receives, Work::Recv { bytes: physics.chance.u32(..) })
            };
            if let Some((slot, status)) = from.pop_front() {
                self.done.push(physics, work, slot, status, false);
            }
        }
        cut
    }

    /// Completes a send that was posted in the error state (PV-7).
    pub(super) fn flush_send(&mut self, physics: &mut Physics, slot: Slot) {
        self.done.push(physics, Work::Send, slot, Status::Flushed, false);
    }

    /// Posts a receive, which the error state flushes (PV-7).
    pub(super) fn post_recv(&mut self, physics: &mut Physics, slot: Slot) {
        self.incoming.held += 1;
        if self.is_error() {
            self.done.push(physics, Work::Recv { bytes: 0 }, slot, Status::Flushed, false);
        } else {
            self.incoming.receives.push_back(slot);
        }
    }

    /// Takes some completions; they no longer count against their queues (PV-9).
    pub(super) fn poll(
        &mut self,
        physics: &mut Physics,
        out: &mut Vec<Completion>,
        max: usize,
    ) -> usize {
        let before = out.len();
        self.done.poll(physics, out, max);
        for completion in &out[before..] {
            match completion.work {
                Work::Send => self.outgoing.held -= 1,
                Work::Recv { .. } => self.incoming.held -= 1,
            }
        }
        out.len() - before
    }
}

/// The origin of the first error of a queue pair.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cause {
    /// The send of this index.
    Send(u64, Status),
    /// The oldest receive.
    Recv(Status),
    /// None of its work requests.
    Outside,
}
