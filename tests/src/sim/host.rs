//! The layer above the transport, as the scenarios need it: mailboxes that are consumed slowly, and
//! now and then closed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use ringpost_transport::endpoint::CloseNotice;
use ringpost_transport::fabric::sim::World;
use ringpost_transport::host::{
    Accepted, Delivery, Host, Inbox, Lost, OpenRefusal, OpenRequest, PeerEvent, Refusal, Target,
};
use ringpost_transport::id::NodeId;
use rkyv::util::AlignedVec;
use tokio::sync::Notify;

use super::diary::{Diary, Lane, is_confirmed, told};
use super::message::read;

/// The only message of the scenarios.
pub(super) const MESSAGE: Accepted = Accepted { id: 77, layout: 1, reply: 1 };

/// The mailboxes of one node.
pub(super) struct TestHost {
    names: Vec<String>,
    boxes: Mutex<BTreeMap<usize, Arc<TestInbox>>>,
    diary: Diary,
    world: World,
    pub(super) link_ups: AtomicU64,
}

impl TestHost {
    pub(super) fn new(names: Vec<String>, diary: Diary, world: World) -> Arc<Self> {
        let (boxes, link_ups) = Default::default();
        Arc::new(TestHost { names, boxes, diary, world, link_ups })
    }

    /// Opens a mailbox of this name.
    pub(super) fn open_mailbox(&self, number: usize) -> Arc<TestInbox> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let inbox = Arc::new(TestInbox {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            number,
            state: Mutex::default(),
            news: Notify::new(),
            diary: self.diary.clone(),
        });
        self.boxes.lock().insert(number, inbox.clone());
        inbox
    }

    /// Takes a mailbox away: what is in it is dropped, links are told.
    pub(super) fn close_mailbox(&self, number: usize) {
        let inbox = self.boxes.lock().remove(&number);
        if let Some(inbox) = inbox {
            inbox.close();
        }
    }

    fn me(&self) -> &str {
        &self.names[self.diary.run().node]
    }

    fn lane_of(&self, lost: &Lost) -> Option<Lane> {
        let to = self.names.iter().position(|name| *name == lost.peer.as_str())?;
        let Target::Name(name) = &lost.target else { return None };
        Some((to, name.strip_prefix('m')?.parse().ok()?))
    }
}

impl Host for TestHost {
    fn open(&self, _peer: &NodeId, request: &OpenRequest) -> Result<Arc<dyn Inbox>, OpenRefusal> {
        let Target::Name(name) = &request.target else { return Err(OpenRefusal::NoSuchMailbox) };
        let number = name.strip_prefix('m').and_then(|n| n.parse::<usize>().ok());
        let boxes = self.boxes.lock();
        let inbox = number.and_then(|n| boxes.get(&n)).ok_or(OpenRefusal::NoSuchMailbox)?;
        Ok(inbox.clone())
    }

    fn lost(&self, lost: Lost) {
        let Some(lane) = self.lane_of(&lost) else {
            return self.diary.garbage("a message to nobody was reported lost");
        };
        if !is_confirmed(lane.1) {
            self.diary.told(lane, None, told(lost.fate));
        }
        self.world.log(&format!("{} lost {lane:?} {:?}", self.me(), lost.fate));
    }

    fn event(&self, event: PeerEvent) {
        if matches!(event, PeerEvent::LinkUp { .. }) {
            self.link_ups.fetch_add(1, Ordering::Relaxed);
        }
        let text = match event {
            PeerEvent::LinkUp { peer, fabric } => format!("up {} {fabric}", peer.name),
            PeerEvent::LinkDown { peer, cause } => format!("link down {} {cause}", peer.name),
            PeerEvent::NodeDown { peer, cause } => format!("node down {} {cause}", peer.name),
            _ => "something else".to_owned(),
        };
        self.world.log(&format!("{} {text}", self.me()));
    }
}

/// One mailbox.
pub(super) struct TestInbox {
    id: u64,
    number: usize,
    state: Mutex<InboxState>,
    news: Notify,
    diary: Diary,
}

#[derive(Default)]
struct InboxState {
    queue: VecDeque<Delivery>,
    notices: Vec<CloseNotice>,
    closed: bool,
}

impl TestInbox {
    fn close(&self) {
        let (queue, notices) = {
            let mut state = self.state.lock();
            state.closed = true;
            (std::mem::take(&mut state.queue), std::mem::take(&mut state.notices))
        };
        drop((queue, notices));
        self.news.notify_one();
    }

    async fn take(&self) -> Option<Delivery> {
        loop {
            {
                let mut state = self.state.lock();
                if let Some(delivery) = state.queue.pop_front() {
                    return Some(delivery);
                }
                if state.closed {
                    return None;
                }
            }
            self.news.notified().await;
        }
    }

    /// Consumes what comes, with pauses, until the mailbox closes. `keep` payloads are held on to,
    /// as an actor does that keeps what it got.
    pub(super) async fn consume(
        self: Arc<Self>,
        world: World,
        pause_max: Duration,
        mut rng: Rng,
    ) -> Option<()> {
        let mut kept = VecDeque::new();
        let keep = rng.usize(0..40);
        loop {
            let Delivery { payload, replier, receipt, .. } = self.take().await?;
            drop(receipt);
            if let Some(replier) = replier {
                answer(replier, &payload, &mut rng);
            }
            kept.push_back(payload);
            if kept.len() > keep {
                kept.pop_front();
            }
            if !pause_max.is_zero() && rng.bool() {
                world.sleep(pause_max.mul_f64(rng.f64())).await;
            }
        }
    }
}

/// Echoes an ask, mostly.
fn answer(replier: ringpost_transport::endpoint::Replier, asked: &[u8], rng: &mut Rng) {
    match rng.u32(0..10) {
        0 => drop(replier),
        1 => replier.fail(5),
        _ => {
            let mut bytes = AlignedVec::new();
            bytes.extend_from_slice(asked);
            replier.send(&mut bytes);
        }
    }
}

impl Inbox for TestInbox {
    fn id(&self) -> u64 {
        self.id
    }

    fn accepted(&self) -> Vec<Accepted> {
        vec![Accepted { id: 5, layout: 5, reply: 5 }, MESSAGE]
    }

    fn deliver(&self, delivery: Delivery) -> Result<(), Refusal> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Refusal::Closed);
        }
        match read(&delivery.payload) {
            Some((from, number, whole)) => {
                self.diary.arrived(self.number, from, number, whole);
            }
            None => self.diary.garbage("a message without a head"),
        }
        state.queue.push_back(delivery);
        drop(state);
        self.news.notify_one();
        Ok(())
    }

    fn signal(&self, _signal: u16) {
        self.diary.garbage("a signal that nobody sent");
    }

    fn on_close(&self, notice: CloseNotice) {
        let mut state = self.state.lock();
        if !state.closed {
            state.notices.push(notice);
        }
    }
}
