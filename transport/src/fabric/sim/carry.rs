//! Frames from one queue pair to another, and the answers to them.

use super::super::{SendRequest, Status, Work};
use super::event::{Event, Frame, Number};
use super::link_model::nanos;
use super::physics::Physics;
use super::queue_pair::{Cause, Phase, Sent};
use super::queue_pairs::QueuePairs;
use super::rule::{On, Verdict};

/// How long a frame that found no receive waits before it is tried again (the verbs encoding 12).
const RNR_TIMER_NS: u64 = 640_000;

impl QueuePairs {
    /// One frame leaves, if the faults let it.
    pub(super) fn send(&mut self, physics: &mut Physics, number: Number, request: SendRequest) {
        let Some(qp) = self.all.get_mut(&number) else { return };
        qp.outgoing.held += 1;
        let Some(peer) = qp.peer.filter(|_| !qp.is_error()) else {
            return qp.flush_send(physics, request.slot);
        };
        let index = qp.outgoing.count;
        qp.outgoing.count += 1;
        let bytes = request.bytes as usize;
        physics.log(format_args!("qp {number} sends {index} of {bytes}"));
        physics.counters.frames += 1;
        physics.counters.frame_bytes += bytes as u64;
        let passage = physics.pass((qp.node, peer.node), bytes);
        let mut frame = Frame {
            from: number,
            to: peer.number,
            index,
            bytes: request.bytes().into(),
            solicited: request.solicited,
            rnr_tries: qp.config.rnr_retry,
            fails: None,
        };
        let (slot, signaled) = (request.slot, request.signaled);
        qp.outgoing.posted.push_back(Sent { index, slot, signaled, departs: passage.departs });
        let mut arrives = passage.arrives.max(qp.outgoing.last_arrival);
        match physics.judge(On::Frames, (qp.node, peer.node), index) {
            Verdict::Pass => {}
            Verdict::Delay(delay) => arrives += nanos(delay),
            Verdict::Drop => return self.lose(physics, number),
            Verdict::Fail(status) if physics.one_in(2) => {
                return self.answer(physics, number, index, Some(status));
            }
            Verdict::Fail(status) => frame.fails = Some(status),
            Verdict::Kill => return self.sever(physics, number),
            Verdict::Unanswered => qp.outgoing.deaf = true,
        }
        qp.outgoing.last_arrival = arrives;
        physics.at(arrives, Event::Arrive(frame));
    }

    /// A frame reaches the other end, if that is there and no frame before it is missing.
    pub(super) fn arrive(&mut self, physics: &mut Physics, frame: Frame) {
        let (from, to) = (frame.from, frame.to);
        let Some(sender) = self.peer(from) else { return };
        let taken = self.all.get_mut(&to).filter(|qp| qp.takes(sender, &physics.links));
        let Some(qp) = taken else { return self.lose(physics, from) };
        let next = qp.incoming.accepted + qp.incoming.inbox.len() as u64;
        if frame.index != next || frame.index >= qp.incoming.cut {
            return;
        }
        qp.incoming.inbox.push_back(frame);
        if matches!(qp.phase, Phase::Fresh) {
            self.lose(physics, from);
        } else {
            self.deliver(physics, to);
        }
    }

    /// Frames meet receives (PV-3), or do not (PV-5), or do not fit (PV-6).
    pub(super) fn deliver(&mut self, physics: &mut Physics, number: Number) {
        while let Some(qp) = self.all.get_mut(&number).filter(|qp| !qp.incoming.waits_for_timer)
            && let Some(mut frame) = qp.incoming.inbox.pop_front()
        {
            let (from, index, bytes) = (frame.from, frame.index, frame.bytes.len());
            let Some(slot) = qp.incoming.receives.front_mut() else {
                physics.counters.rnr += 1;
                physics.log(format_args!("qp {number} has no receive for {index}"));
                if frame.rnr_tries == 0 {
                    qp.incoming.inbox.clear();
                    return self.answer(physics, from, index, Some(Status::RnrRetryExceeded));
                }
                frame.rnr_tries -= 1;
                qp.incoming.inbox.push_front(frame);
                qp.incoming.waits_for_timer = true;
                return physics.at(physics.now + RNR_TIMER_NS, Event::RnrTimer { number });
            };
            let Some(room) = slot.get_mut(..bytes) else {
                self.answer(physics, from, index, Some(Status::RemoteInvalidRequest));
                return self.fail(physics, number, Cause::Recv(Status::LocalLength));
            };
            room.copy_from_slice(&frame.bytes);
            physics.log(format_args!("qp {number} receives {index} of {bytes}"));
            if let Some(slot) = qp.incoming.receives.pop_front() {
                let work = Work::Recv { bytes: bytes as u32 };
                qp.done.push(physics, work, slot, Status::Success, frame.solicited);
            }
            qp.incoming.accepted += 1;
            self.answer(physics, from, index, frame.fails);
        }
    }

    /// A frame that found no receive is tried again (PV-5).
    pub(super) fn rnr_timer(&mut self, physics: &mut Physics, number: Number) {
        if let Some(qp) = self.all.get_mut(&number) {
            qp.incoming.waits_for_timer = false;
            self.deliver(physics, number);
        }
    }

    /// The peer's queue pair answers a frame: accepted, or not for this reason.
    fn answer(&mut self, physics: &mut Physics, to: Number, index: u64, error: Option<Status>) {
        let Some(qp) = self.all.get_mut(&to) else { return };
        let Some(peer) = qp.peer else { return };
        let at = physics.after_ack(peer.node, qp.node).max(qp.outgoing.last_ack);
        qp.outgoing.last_ack = at;
        physics.at(at, Event::Answer { number: to, index, error });
    }

    /// An answer reaches the sender: it tells of all frames up to this one.
    pub(super) fn answered(
        &mut self,
        physics: &mut Physics,
        number: Number,
        index: u64,
        error: Option<Status>,
    ) {
        let Some(qp) = self.all.get_mut(&number).filter(|qp| !qp.is_error()) else { return };
        if !qp.hears(&physics.links) || qp.outgoing.deaf {
            return self.lose(physics, number);
        }
        match error {
            None => qp.acknowledge(physics, index + 1),
            Some(status) => {
                qp.acknowledge(physics, index);
                self.fail(physics, number, Cause::Send(index, status));
            }
        }
    }
}
