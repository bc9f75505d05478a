//! All queue pairs of a world, and the frames between them.

use std::collections::BTreeMap;
use std::io;
use std::task::{Context, Poll};

use super::super::{PostError, QueuePairConfig, SendRequest, Status, Work};
use super::event::{Event, Frame, NodeId, Number};
use super::link_model::nanos;
use super::physics::Physics;
use super::queue_pair::{Cause, Phase, QueuePair, Sent};
use super::rule::Verdict;
use crate::memory::Slot;

/// How long a frame that found no receive waits before it is tried again (the verbs encoding 12).
const RNR_TIMER_NS: u64 = 640_000;

/// Longest frame, in bytes.
pub(super) const FRAME_BYTES_MAX: u32 = 8 * 1024 * 1024;

/// All queue pairs of a world.
#[derive(Debug, Default)]
pub(super) struct QueuePairs {
    all: BTreeMap<Number, QueuePair>,
    opened: Number,
}

impl QueuePairs {
    /// A new queue pair of a node.
    pub(super) fn open(&mut self, node: NodeId, config: QueuePairConfig) -> Number {
        self.opened += 1;
        self.all.insert(self.opened, QueuePair::new(node, config));
        self.opened
    }

    /// A queue pair that some half of it is still held of.
    pub(super) fn get(&mut self, number: Number) -> Option<&mut QueuePair> {
        self.all.get_mut(&number)
    }

    /// Whether a queue pair of this number was ever opened.
    pub(super) fn ever_opened(&self, number: Number) -> bool {
        (1..=self.opened).contains(&number)
    }

    /// Both ends of the connections between two nodes (or of one node to any).
    pub(super) fn between(&self, a: NodeId, b: Option<NodeId>) -> Vec<Number> {
        let node_of = |number: &Number| self.all.get(number).map(|qp| qp.node);
        let meant = |qp: &QueuePair| {
            let ends = (Some(qp.node), qp.peer.as_ref().and_then(node_of));
            match b {
                None => ends.0 == Some(a),
                Some(b) => ends == (Some(a), Some(b)) || ends == (Some(b), Some(a)),
            }
        };
        self.all.iter().filter(|(_, qp)| meant(qp)).map(|(number, _)| *number).collect()
    }

    /// `connect` was called. The two are connected once both have named each other.
    pub(super) fn connect(&mut self, physics: &mut Physics, number: Number, peer: Number) {
        let Some(own) = self.all.get_mut(&number) else { return };
        if own.is_error() {
            own.phase = Phase::Refused(io::ErrorKind::ConnectionReset);
            return;
        }
        own.phase = Phase::Connecting { waker: None };
        own.peer = Some(peer);
        let here = own.node;
        match self.all.get(&peer) {
            Some(other) if other.listens() && other.peer == Some(number) => {
                let there = other.node;
                for (end, from, to) in [(number, there, here), (peer, here, there)] {
                    let at = physics.after_latency(from, to);
                    physics.at(at, Event::Connected { number: end });
                }
            }
            Some(other) if matches!(other.phase, Phase::Fresh) => {}
            other => {
                let there = other.map_or(here, |other| other.node);
                let at = physics.after_latency(there, here);
                physics.at(at, Event::Refused { number });
            }
        }
    }

    /// Whether `connect` is over.
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
            physics.log(format_args!("qp {number} {to:?}"));
            qp.phase = to;
        }
    }

    /// Posts the front of `batch`.
    pub(super) fn post_send(
        &mut self,
        physics: &mut Physics,
        number: Number,
        batch: &mut Vec<SendRequest>,
    ) -> Result<(), PostError> {
        let Some(qp) = self.all.get_mut(&number) else { return Ok(()) };
        let room = qp.config.send_queue.saturating_sub(qp.outgoing.held) as usize;
        let inline_max = qp.config.inline_bytes;
        let refused = |request: &SendRequest| {
            if request.bytes as usize > request.slot.len() || request.bytes > FRAME_BYTES_MAX {
                Some(PostError::TooLong)
            } else if request.inline && request.bytes > inline_max {
                Some(PostError::InlineTooLong)
            } else {
                None
            }
        };
        let mut taken = 0;
        let mut result = Ok(());
        for request in batch.iter() {
            let refusal = if taken == room { Some(PostError::Full) } else { refused(request) };
            if let Some(refusal) = refusal {
                result = Err(refusal);
                break;
            }
            taken += 1;
        }
        for request in batch.drain(..taken) {
            self.send(physics, number, request);
        }
        result
    }

    /// Posts the front of `slots`.
    pub(super) fn post_recv(
        &mut self,
        physics: &mut Physics,
        number: Number,
        slots: &mut Vec<Slot>,
    ) -> Result<(), PostError> {
        let Some(qp) = self.all.get_mut(&number) else { return Ok(()) };
        let room = (qp.config.recv_queue as usize).saturating_sub(qp.incoming.receives.len());
        let taken = slots.len().min(room);
        for slot in slots.drain(..taken) {
            if qp.is_error() {
                qp.flush_recv(physics, slot);
            } else {
                qp.incoming.receives.push_back(slot);
            }
        }
        if slots.is_empty() { Ok(()) } else { Err(PostError::Full) }
    }

    /// One frame leaves, if the faults let it.
    fn send(&mut self, physics: &mut Physics, number: Number, request: SendRequest) {
        let Some(peer) = self.all.get(&number).and_then(|qp| qp.peer) else { return };
        let there = self.all.get(&peer).map(|qp| qp.node);
        let Some(qp) = self.all.get_mut(&number) else { return };
        qp.outgoing.held += 1;
        if qp.is_error() {
            return qp.flush_send(physics, request);
        }
        let (here, there) = (qp.node, there.unwrap_or(qp.node));
        let index = qp.outgoing.count;
        qp.outgoing.count += 1;
        let bytes = request.slot[..request.bytes as usize].into();
        let passage = physics.pass((here, there), request.bytes as usize);
        physics.counters.frames += 1;
        physics.counters.frame_bytes += u64::from(request.bytes);
        physics.log(format_args!("qp {number} send {index} of {}", request.bytes));
        let mut frame = Frame {
            from: number,
            to: peer,
            index,
            bytes,
            solicited: request.solicited,
            rnr_tries: qp.config.rnr_retry,
            fails: None,
        };
        let mut arrives = passage.arrives.max(qp.outgoing.last_arrival);
        let (slot, signaled) = (request.slot, request.signaled);
        qp.outgoing.posted.push_back(Sent { index, slot, signaled, departs: passage.departs });
        let verdict = physics.judge(here, there, index);
        if verdict != Verdict::Pass {
            physics.log(format_args!("qp {number} send {index} meets {verdict:?}"));
        }
        match verdict {
            Verdict::Pass => {}
            Verdict::Delay(delay) => {
                physics.counters.delayed += 1;
                arrives += nanos(delay);
            }
            Verdict::Drop => {
                physics.counters.dropped += 1;
                return self.lose(physics, number);
            }
            Verdict::Fail(status) => {
                physics.counters.failed += 1;
                if physics.one_in(2) {
                    return self.answer(physics, number, index, Some(status));
                }
                frame.fails = Some(status);
            }
            Verdict::Kill => {
                self.sever(physics, number);
                return self.lose(physics, number);
            }
        }
        qp.outgoing.last_arrival = arrives;
        physics.at(arrives, Event::Arrive(frame));
    }

    /// A frame reaches the other end, if that is there and no frame before it is missing.
    pub(super) fn arrive(&mut self, physics: &mut Physics, frame: Frame) {
        let from = self.all.get(&frame.from).map(|qp| qp.node);
        let Some(qp) = self.all.get_mut(&frame.to) else { return self.lose(physics, frame.from) };
        let cut = from.is_some_and(|from| physics.links.partitioned(from, qp.node));
        if cut || qp.severed || !qp.listens() {
            return self.lose(physics, frame.from);
        }
        let next = qp.incoming.accepted + qp.incoming.inbox.len() as u64;
        if frame.index == next && frame.index < qp.incoming.cut {
            let to = frame.to;
            qp.incoming.inbox.push_back(frame);
            self.deliver(physics, to);
        }
    }

    /// Frames meet receives (PV-3), or do not (PV-5), or do not fit (PV-6).
    fn deliver(&mut self, physics: &mut Physics, number: Number) {
        let Some(mut qp) = self.all.get_mut(&number) else { return };
        while !qp.incoming.waits_for_timer
            && let Some(mut frame) = qp.incoming.inbox.pop_front()
        {
            let Some(mut slot) = qp.incoming.receives.pop_front() else {
                physics.counters.rnr += 1;
                physics.log(format_args!("qp {number} has no receive for {}", frame.index));
                if frame.rnr_tries == 0 {
                    qp.incoming.inbox.clear();
                    let status = Some(Status::RnrRetryExceeded);
                    return self.answer(physics, frame.from, frame.index, status);
                }
                frame.rnr_tries -= 1;
                qp.incoming.inbox.push_front(frame);
                qp.incoming.waits_for_timer = true;
                physics.at(physics.now + RNR_TIMER_NS, Event::RnrTimer { number });
                return;
            };
            let (from, index) = (frame.from, frame.index);
            if frame.bytes.len() > slot.len() {
                qp.incoming.receives.push_front(slot);
                self.fail(physics, number, Cause::Recv(Status::LocalLength));
                return self.answer(physics, from, index, Some(Status::RemoteInvalidRequest));
            }
            if qp.done.is_full() {
                qp.incoming.receives.push_front(slot);
                self.fail(physics, number, Cause::Recv(Status::Fatal));
                return self.lose(physics, from);
            }
            slot[..frame.bytes.len()].copy_from_slice(&frame.bytes);
            qp.incoming.accepted += 1;
            let work = Work::Recv { bytes: frame.bytes.len() as u32 };
            physics.log(format_args!("qp {number} receives {index} of {}", frame.bytes.len()));
            qp.done.push(physics, work, slot, Status::Success, frame.solicited);
            self.answer(physics, from, index, frame.fails);
            let Some(again) = self.all.get_mut(&number) else { return };
            qp = again;
        }
    }

    /// A frame that found no receive is tried again.
    pub(super) fn rnr_timer(&mut self, physics: &mut Physics, number: Number) {
        let Some(qp) = self.all.get_mut(&number) else { return };
        qp.incoming.waits_for_timer = false;
        self.deliver(physics, number);
    }

    /// The peer's queue pair answers a frame: accepted, or not for this reason.
    fn answer(&mut self, physics: &mut Physics, to: Number, index: u64, error: Option<Status>) {
        let Some(peer) = self.all.get(&to).and_then(|qp| qp.peer) else { return };
        let from = self.all.get(&peer).map(|qp| qp.node);
        let Some(qp) = self.all.get_mut(&to) else { return };
        let at = physics.after_ack(from.unwrap_or(qp.node), qp.node).max(qp.outgoing.last_ack);
        qp.outgoing.last_ack = at;
        physics.at(
            at,
            match error {
                None => Event::Ack { number: to, index },
                Some(status) => Event::Nak { number: to, index, status },
            },
        );
    }

    /// An answer reaches the sender.
    pub(super) fn answered(
        &mut self,
        physics: &mut Physics,
        number: Number,
        index: u64,
        error: Option<Status>,
    ) {
        let there = self.all.get(&number).and_then(|qp| self.all.get(&qp.peer?)).map(|qp| qp.node);
        let Some(qp) = self.all.get_mut(&number).filter(|qp| !qp.is_error()) else { return };
        if qp.severed || there.is_some_and(|there| physics.links.partitioned(there, qp.node)) {
            return self.lose(physics, number);
        }
        let accepted = if error.is_some() { index.checked_sub(1) } else { Some(index) };
        let overrun = accepted.and_then(|index| qp.acknowledge(physics, index));
        if let Some(index) = overrun {
            self.fail(physics, number, Cause::Send(index, Status::Fatal));
        } else if let Some(status) = error {
            self.fail(physics, number, Cause::Send(index, status));
        }
    }

    /// Something of this sender was lost: it tries until its time is out.
    fn lose(&mut self, physics: &mut Physics, number: Number) {
        let Some(peer) = self.all.get(&number).and_then(|qp| qp.peer) else { return };
        let there = self.all.get(&peer).map(|qp| qp.node);
        let Some(qp) = self.all.get_mut(&number) else { return };
        if !qp.is_error() && !qp.outgoing.retrying {
            qp.outgoing.retrying = true;
            let at = physics.after_retry(qp.node, there.unwrap_or(qp.node));
            physics.at(at, Event::RetryOut { number });
        }
    }

    /// A sender has tried long enough.
    pub(super) fn retry_out(&mut self, physics: &mut Physics, number: Number) {
        let Some(qp) = self.all.get_mut(&number).filter(|qp| !qp.is_error()) else { return };
        qp.outgoing.retrying = false;
        if let Some(index) = qp.outgoing.posted.front().map(|sent| sent.index) {
            self.fail(physics, number, Cause::Send(index, Status::RetryExceeded));
        }
    }

    /// An end learns that the other is gone, unless the path between them is.
    pub(super) fn peer_gone(&mut self, physics: &mut Physics, number: Number) {
        let there = self.all.get(&number).and_then(|qp| self.all.get(&qp.peer?)).map(|qp| qp.node);
        let Some(qp) = self.all.get(&number).filter(|qp| !qp.severed) else { return };
        if !there.is_some_and(|there| physics.links.partitioned(there, qp.node)) {
            self.fail(physics, number, Cause::Outside);
        }
    }

    /// Moves to the error state, from any state (PV-7, PV-10). The peer may learn of it without
    /// sending, or not.
    pub(super) fn fail(&mut self, physics: &mut Physics, number: Number, cause: Cause) {
        let Some(qp) = self.all.get_mut(&number).filter(|qp| !qp.is_error()) else { return };
        physics.log(format_args!("qp {number} fails: {cause:?}"));
        let cut = qp.fail(physics, cause);
        let here = qp.node;
        let Some(peer) = qp.peer else { return };
        let Some(other) = self.all.get_mut(&peer).filter(|qp| qp.peer == Some(number)) else {
            return;
        };
        other.incoming.cut = other.incoming.cut.min(cut);
        let arrival = physics.after_latency(here, other.node);
        if matches!(other.phase, Phase::Connecting { .. }) {
            physics.at(arrival, Event::Refused { number: peer });
        } else if physics.one_in(2) {
            let at = arrival.max(physics.after_ack(here, other.node));
            physics.at(at, Event::PeerGone { number: peer });
        }
    }

    /// The path of a queue pair vanishes; both ends find out when they send.
    pub(super) fn sever(&mut self, physics: &mut Physics, number: Number) {
        let Some(qp) = self.all.get_mut(&number) else { return };
        if std::mem::replace(&mut qp.severed, true) {
            return;
        }
        let waits = !qp.outgoing.posted.is_empty();
        let peer = qp.peer;
        physics.counters.killed += 1;
        physics.log(format_args!("qp {number} is severed"));
        if waits {
            self.lose(physics, number);
        }
        if let Some(peer) = peer
            && let Some(other) = self.all.get_mut(&peer)
            && !std::mem::replace(&mut other.severed, true)
            && !other.outgoing.posted.is_empty()
        {
            self.lose(physics, peer);
        }
    }

    /// All halves are dropped: the slots go with the queue pair (PV-2).
    pub(super) fn close(&mut self, physics: &mut Physics, number: Number) {
        self.fail(physics, number, Cause::Outside);
        // A waiting peer learns that nobody will connect to it.
        let waiting: Vec<Number> = self
            .all
            .iter()
            .filter(|(_, qp)| qp.peer == Some(number) && qp.listens())
            .filter(|(_, qp)| !matches!(qp.phase, Phase::Ready))
            .map(|(number, _)| *number)
            .collect();
        for waiting in waiting {
            physics.at(physics.now, Event::Refused { number: waiting });
        }
        self.all.remove(&number);
    }
}
