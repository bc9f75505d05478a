//! Senders: tells and asks of random sizes to random mailboxes, waiting where they have to.

use std::future::poll_fn;
use std::time::Duration;

use fastrand::Rng;
use ringpost_history::Fate;
use ringpost_transport::endpoint::{
    Awaited, Confirmation, Endpoint, Kind, Outlet, PendingReply, ReplyLoss, Unsent, Waiter,
};
use ringpost_transport::fabric::sim::World;
use ringpost_transport::host::{OpenRequest, Target};
use ringpost_transport::id::NodeName;

use super::diary::{Diary, Lane, is_confirmed, told};
use super::host::MESSAGE;
use super::message::{HEAD, read, write};
use super::plan::Plan;

/// One sending task of a node.
pub(super) struct Sender {
    pub(super) endpoint: Endpoint,
    pub(super) diary: Diary,
    pub(super) world: World,
    pub(super) rng: Rng,
}

/// An ask that waits for its answer.
struct Asked {
    lane: Lane,
    number: u64,
    bytes: usize,
    pending: PendingReply,
}

impl Sender {
    /// Sends what the plan says, then ends.
    pub(super) async fn send(mut self, plan: &Plan) {
        let me = self.diary.run().node;
        let (mut asks, mut tells) = (Vec::new(), Vec::new());
        for _ in 0..plan.messages {
            let to = loop {
                let to = self.rng.usize(0..plan.nodes.len());
                if to != me {
                    break to;
                }
            };
            let mailbox = self.rng.usize(0..plan.mailboxes);
            let small = self.rng.u32(0..4) != 0;
            let bytes = HEAD + self.rng.usize(0..if small { 200 } else { plan.bytes_max });
            let lane = (to, mailbox);
            let ask = self.rng.u32(0..4) == 0;
            match self.commit(plan, lane, bytes, ask).await {
                Ok((number, Awaited::Reply(pending))) => {
                    asks.push(Asked { lane, number, bytes, pending });
                }
                Ok((number, Awaited::Fate(fate))) => tells.push((lane, number, fate)),
                Ok((_, Awaited::Nothing)) => {}
                Err(unsent) => self.note_unsent(lane, &unsent).await,
            }
            if asks.len() > 20 {
                let asked = asks.swap_remove(self.rng.usize(0..asks.len()));
                self.await_answer(asked).await;
            }
            if self.rng.u32(0..16) == 0 {
                self.world.sleep(Duration::from_nanos(self.rng.u64(0..3_000_000))).await;
            }
        }
        for asked in asks {
            self.await_answer(asked).await;
        }
        for (lane, number, fate) in tells {
            self.await_fate(lane, number, fate).await;
        }
    }

    /// Sends one message; gives its number.
    async fn commit(
        &mut self,
        plan: &Plan,
        lane: Lane,
        bytes: usize,
        ask: bool,
    ) -> Result<(u64, Awaited), Unsent> {
        let name = NodeName::new(&plan.nodes[lane.0]).expect("a good name");
        let target = Target::Name(format!("m{}", lane.1));
        let outlet: Outlet = self.endpoint.outlet(&name, OpenRequest { target, kind: 0 });
        let mut waiter = Waiter::default();
        let kind = match ask {
            true => Kind::Ask { deadline: None },
            false if is_confirmed(lane.1) => Kind::ConfirmedTell,
            false => Kind::Tell,
        };
        let diary = &self.diary;
        poll_fn(|cx| {
            let mut archive = |out: &mut rkyv::util::AlignedVec<16>| {
                let mut message = Vec::with_capacity(bytes);
                write(diary.run(), diary.next(lane), bytes, &mut message);
                out.extend_from_slice(&message);
                Ok(())
            };
            let polled = outlet.poll_send(&MESSAGE, kind, &mut archive, &mut waiter, cx);
            // Nothing else ran since the archive was written: the number is still the next.
            polled.map(|sent| match sent {
                Ok(awaited) => Ok((diary.committed(lane, ask), awaited)),
                Err(unsent) => {
                    diary.refused(lane, ask, &unsent.to_string());
                    Err(unsent)
                }
            })
        })
        .await
    }

    /// An ask's end; where it was not answered, what that says of the message.
    async fn await_answer(&self, asked: Asked) {
        let Asked { lane, number, bytes, pending } = asked;
        let fate = match pending.await {
            Ok(payload) => {
                if read(&payload) != Some((self.diary.run(), number, true))
                    || payload.len() != bytes
                {
                    self.diary.garbage("an answer that is not the echo of its ask");
                }
                return self.diary.answered(lane, number);
            }
            Err(ReplyLoss::Refused(_)) => Fate::Refused("closed"),
            Err(ReplyLoss::LinkDown(_)) => Fate::Unknown,
            Err(ReplyLoss::Failed(_)) => Fate::Delivered,
            Err(loss) => return self.diary.garbage(&format!("an ask that ended with {loss}")),
        };
        self.diary.told(lane, Some(number), fate);
    }

    /// What became of a tell that was to be confirmed.
    async fn await_fate(&self, lane: Lane, number: u64, fate: Confirmation) {
        let fate = fate.await.map_or_else(told, |()| Fate::Delivered);
        self.diary.told(lane, Some(number), fate);
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
            other => self.diary.garbage(&format!("unsent: {other}")),
        }
    }
}
