//! How queue pairs end: time-outs, severed paths, deaths, closes.

use super::super::Status;
use super::event::{Event, Number};
use super::physics::Physics;
use super::queue_pair::{Cause, Phase};
use super::queue_pairs::QueuePairs;

impl QueuePairs {
    /// Something of this sender was lost: it tries until its time is out.
    pub(super) fn lose(&mut self, physics: &mut Physics, number: Number) {
        let Some(qp) = self.all.get_mut(&number).filter(|qp| !qp.is_error()) else { return };
        if let (Some(peer), Some(oldest)) = (qp.peer, qp.outgoing.posted.front())
            && !std::mem::replace(&mut qp.outgoing.retrying, true)
        {
            let at = physics.after_retry(qp.node, peer.node);
            physics.at(at, Event::RetryOut { number, oldest: oldest.index });
        }
    }

    /// The time of a sender is out, unless the send that was the oldest then was accepted since.
    pub(super) fn retry_out(&mut self, physics: &mut Physics, number: Number, oldest: u64) {
        let Some(qp) = self.all.get_mut(&number) else { return };
        qp.outgoing.retrying = false;
        match qp.outgoing.posted.front().map(|sent| sent.index) {
            Some(index) if index == oldest => {
                self.fail(physics, number, Cause::Send(index, Status::RetryExceeded));
            }
            _ => self.lose(physics, number),
        }
    }

    /// An end learns that the other is gone, unless the path between them is, too.
    pub(super) fn peer_gone(&mut self, physics: &mut Physics, number: Number) {
        if self.all.get(&number).is_some_and(|qp| qp.hears(&physics.links)) {
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
        let Some(other) = self.all.get_mut(&peer.number) else { return };
        if other.peer.is_some_and(|own| own.number == number) {
            other.incoming.cut = other.incoming.cut.min(cut);
            if physics.one_in(2) {
                // The news does not overtake the answers to frames that arrived (PV-6).
                let at = physics.after_ack(here, peer.node).max(other.outgoing.last_ack);
                physics.at(at, Event::PeerGone { number: peer.number });
            }
        }
    }

    /// The path of a queue pair vanishes; each end finds out when it sends.
    pub(super) fn sever(&mut self, physics: &mut Physics, number: Number) {
        let Some(peer) = self.all.get(&number).map(|qp| qp.peer) else { return };
        for end in [Some(number), peer.map(|peer| peer.number)].into_iter().flatten() {
            if let Some(qp) = self.all.get_mut(&end).filter(|qp| !qp.severed) {
                physics.log(format_args!("qp {end} is severed"));
                qp.severed = true;
                self.lose(physics, end);
            }
        }
    }

    /// The end is dropped: the slots go with the queue pair (PV-2). A peer that waits for it to
    /// connect learns that it will not.
    pub(super) fn close(&mut self, physics: &mut Physics, number: Number) {
        self.fail(physics, number, Cause::Outside);
        self.all.remove(&number);
        for (&waiting, qp) in &self.all {
            if let (Phase::Connecting { .. }, Some(peer)) = (&qp.phase, qp.peer)
                && peer.number == number
            {
                let at = physics.after_latency(peer.node, qp.node);
                physics.at(at, Event::Refused { number: waiting });
            }
        }
    }
}
