//! Senders: tells and asks of random sizes to random mailboxes, waiting where they have to.

use std::future::poll_fn;
use std::time::Duration;

use fastrand::Rng;
use ringpost_transport::endpoint::{
    Endpoint, Kind, Outlet, PendingReply, ReplyLoss, Unsent, Waiter,
};
use ringpost_transport::fabric::sim::World;
use ringpost_transport::host::{OpenRequest, Target};
use ringpost_transport::id::NodeName;

use super::host::MESSAGE;
use super::ledger::{HEAD, Lane, Ledger, read, write};
use super::plan::Plan;

/// One sending task of a node.
pub(super) struct Sender {
    pub(super) me: usize,
    pub(super) endpoint: Endpoint,
    pub(super) ledger: Ledger,
    pub(super) world: World,
    pub(super) rng: Rng,
}

impl Sender {
    /// Sends what the plan says, then ends.
    pub(super) async fn send(mut self, plan: &Plan) {
        let mut asks = Vec::new();
        for _ in 0..plan.messages {
            let to = loop {
                let to = self.rng.usize(0..plan.nodes.len());
                if to != self.me {
                    break to;
                }
            };
            let mailbox = self.rng.usize(0..plan.mailboxes);
            let small = self.rng.u32(0..4) != 0;
            let bytes = HEAD + self.rng.usize(0..if small { 200 } else { plan.bytes_max });
            let lane = (self.me, to, mailbox);
            let ask = self.rng.u32(0..4) == 0;
            match self.commit(plan, lane, bytes, ask).await {
                Ok(Some(pending)) => asks.push((lane, bytes, pending)),
                Ok(None) => {}
                Err(unsent) => self.note_unsent(lane, &unsent).await,
            }
            if asks.len() > 20 {
                let (lane, bytes, pending) = asks.swap_remove(self.rng.usize(0..asks.len()));
                self.await_answer(lane, bytes, pending).await;
            }
            if self.rng.u32(0..16) == 0 {
                self.world.sleep(Duration::from_nanos(self.rng.u64(0..3_000_000))).await;
            }
        }
        for (lane, bytes, pending) in asks {
            self.await_answer(lane, bytes, pending).await;
        }
    }

    async fn commit(
        &mut self,
        plan: &Plan,
        lane: Lane,
        bytes: usize,
        ask: bool,
    ) -> Result<Option<PendingReply>, Unsent> {
        let name = NodeName::new(&plan.nodes[lane.1]).expect("a good name");
        let target = Target::Name(format!("m{}", lane.2));
        let outlet: Outlet = self.endpoint.outlet(&name, OpenRequest { target, kind: 0 });
        let mut waiter = Waiter::default();
        let kind = if ask { Kind::Ask { deadline: None } } else { Kind::Tell };
        let ledger = &self.ledger;
        poll_fn(|cx| {
            let mut archive = |out: &mut rkyv::util::AlignedVec<16>| {
                let mut message = Vec::with_capacity(bytes);
                write(lane.0, ledger.next(lane), bytes, &mut message);
                out.extend_from_slice(&message);
                Ok(())
            };
            let polled = outlet.poll_send(&MESSAGE, kind, &mut archive, &mut waiter, cx);
            if let std::task::Poll::Ready(Ok(_)) = &polled {
                // Nothing else ran between the archive and this line: the number is still the next.
                ledger.committed(lane);
                if ask {
                    ledger.asked();
                }
            }
            polled
        })
        .await
    }

    /// An ask's end; where it was not answered, what that says of the message.
    async fn await_answer(&self, lane: Lane, bytes: usize, pending: PendingReply) {
        let answer = pending.await;
        self.ledger.ask_ended();
        match answer {
            Ok(payload) => {
                let whole = read(&payload).is_some_and(|(from, _, whole)| from == self.me && whole);
                if !whole || payload.len() != bytes {
                    self.ledger.garbage("an answer that is not the echo of its ask");
                }
            }
            Err(ReplyLoss::Refused(_)) => self.ledger.lost(lane),
            Err(ReplyLoss::LinkDown(_)) => self.ledger.unknown(lane),
            Err(_) => {}
        }
    }

    /// Only faults and closed mailboxes may keep a message from being sent.
    async fn note_unsent(&self, lane: Lane, unsent: &Unsent) {
        self.world.log(&format!("unsent {lane:?} {unsent}"));
        match unsent {
            Unsent::NoSuchMailbox | Unsent::Closed => {
                self.world.sleep(Duration::from_millis(3)).await;
            }
            Unsent::NodeDown(_) | Unsent::Leaving => {
                self.world.sleep(Duration::from_millis(200)).await;
            }
            other => self.ledger.garbage(&format!("unsent: {other}")),
        }
    }
}
