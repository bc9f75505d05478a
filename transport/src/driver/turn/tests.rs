//! A whole driver on a toy queue pair, turn by turn; its peer is played frame by frame.

mod spinning;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use rkyv::util::AlignedVec;
use tokio::sync::watch;

use proptest::prelude::*;

use super::*;
use crate::close_reason::CloseReason;
use crate::driver::dispatch::Run;
use crate::driver::growth::Growth;
use crate::driver::mailboxes::Mailboxes;
use crate::driver::reports::Reports;
use crate::driver::slots::Slots;
use crate::driver::spin::Spin;
use crate::fabric::{
    Fabric, FabricError, Limits, Notify, Opening, PostError, QueuePair, QueuePairConfig,
    SendRequest, Spins,
};
use crate::host::{Deliveries, Delivery, Host, Inbox, Lost, OpenRefusal, PeerEvent, Refusal};
use crate::id::{Incarnation, NodeId, NodeName};
use crate::link::{
    Attempt, Awaited, CloseNotice, Hint, LinkHandle, Outgoing, PendingReply, Poster, ReplyLoss,
    SendKind,
};
use crate::memory::{Budget, Pool, Region};
use crate::open_request::{Accepted, MessageForms, OpenRequest, Target};
use crate::proto;
use crate::proto::credit::CreditSettings;
use crate::proto::frame::{FrameReader, FrameWriter, Head};
use crate::proto::header::{RecordHeader, RecordKind};
use crate::proto::link::Sizes;
use crate::proto::remote_mailbox::{Description, encode_request};
use crate::proto::send_queue::SendQueue;
use crate::proto::window::{Count, WindowSize};
use crate::unresolved::Unresolved;

const SLOT: usize = 2048;
const RING: u32 = 16;
const WINDOW: WindowSize = WindowSize { messages: 8, bytes: 5000 };
const MESSAGE: MessageForms = MessageForms { id: 1, layouts: &[2], replies: &[3] };

/// The slots that the queue pair holds, and the completions that it has to give back.
#[derive(Default)]
struct Wire {
    receives: VecDeque<Slot>,
    done: VecDeque<Completion>,
    sent: Vec<Vec<u8>>,
    /// Sends are refused.
    refuses: bool,
    /// Times it was polled, and armed.
    looks: u64,
    armed: u64,
    /// Comes when it is armed.
    at_arm: Option<Completion>,
}

struct Queue(Arc<Mutex<Wire>>);

impl QueuePair for Queue {
    fn post_send(&mut self, batch: &mut Vec<SendRequest>) -> Result<(), PostError> {
        let wire = &mut *self.0.lock();
        if wire.refuses {
            return Err(PostError::Device(5));
        }
        for SendRequest { slot, bytes, .. } in batch.drain(..) {
            wire.sent.push(slot[..bytes as usize].to_vec());
            wire.done.push_back(Completion { work: Work::Send, slot, status: Status::Success });
        }
        Ok(())
    }

    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        self.0.lock().receives.extend(slots.drain(..));
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>, max: usize) -> usize {
        let Wire { done, looks, .. } = &mut *self.0.lock();
        *looks += 1;
        let count = done.len().min(max);
        completions.extend(done.drain(..count));
        count
    }

    fn arm(&mut self, _: Notify) {
        let wire = &mut *self.0.lock();
        wire.armed += 1;
        wire.done.extend(wire.at_arm.take());
    }

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn close(&mut self) {
        let wire = &mut *self.0.lock();
        let (work, status) = (Work::Recv { bytes: 0 }, Status::Flushed);
        let flushed = wire.receives.drain(..).map(|slot| Completion { work, slot, status });
        wire.done.extend(flushed);
    }
}

#[derive(Debug)]
struct NoFabric;

impl Fabric for NoFabric {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn limits(&self) -> Limits {
        unreachable!("the bounds are given")
    }

    fn alloc(&self, _: usize) -> Result<Region, FabricError> {
        unreachable!("no ring grows here")
    }

    fn open(&self, _: QueuePairConfig) -> Result<Box<dyn Opening>, FabricError> {
        unreachable!("the queue pair is given")
    }
}

/// A mailbox that keeps its deliveries.
#[derive(Default)]
struct Basket {
    id: u64,
    waiting: Mutex<Vec<Delivery>>,
    notices: Mutex<Vec<CloseNotice>>,
}

impl Inbox for Basket {
    fn id(&self) -> u64 {
        self.id
    }

    fn accepted(&self) -> Vec<Accepted> {
        vec![MESSAGE.newest()]
    }

    fn deliver(&self, run: &mut Vec<Deliveries>) -> Result<(), Refusal> {
        self.waiting.lock().extend(run.drain(..).flatten());
        Ok(())
    }

    fn signal(&self, _: u16) {}

    fn on_close(&self, notice: CloseNotice) {
        self.notices.lock().push(notice);
    }
}

/// A host with a mailbox of every name, each created when it is asked for.
#[derive(Default)]
struct Baskets(Mutex<Vec<(Target, Arc<Basket>)>>);

impl Host for Baskets {
    fn open(&self, _: &NodeId, request: &OpenRequest) -> Result<Arc<dyn Inbox>, OpenRefusal> {
        let mut all = self.0.lock();
        let basket = Arc::new(Basket { id: all.len() as u64, ..Basket::default() });
        all.push((request.target.clone(), basket.clone()));
        Ok(basket)
    }

    fn lost(&self, lost: Lost) {
        panic!("nothing was sent, but {lost:?} was lost");
    }

    fn event(&self, _: PeerEvent) {}
}

struct Rig {
    driver: Driver,
    wire: Arc<Mutex<Wire>>,
    host: Arc<Baskets>,
    /// Records that this side has sent and were not looked at.
    said: Vec<RecordKind>,
}

impl Rig {
    /// A link that is confirmed.
    fn new() -> Self {
        let (wire, host) = (Arc::<Mutex<Wire>>::default(), Arc::<Baskets>::default());
        let name = NodeName::new("peer").expect("a good name");
        let (budget, unresolved) = (Arc::new(Budget::new(0)), Unresolved::new());
        let reports = Reports {
            peer: NodeId { name, incarnation: Incarnation(1) },
            host: host.clone(),
            budget: budget.clone(),
            unresolved,
            epoch: 1,
        };
        let slots = |count: u32| Region::heap(count as usize * SLOT).into_slots(SLOT);
        let mut ring = slots(RING);
        let pool = Pool::new(slots(RING));
        let send_queue = SendQueue::new(6000, WINDOW, proto::link::LinkProtocol::eager_max(SLOT));
        let signals = reports.unresolved.signals().clone();
        let own = (send_queue, pool.gauge());
        let link = LinkHandle::new(reports.peer.clone(), ("toy", false), 1 << 20, signals, own);
        let credit = CreditSettings::new(RING, RING, 2).expect("they cannot stall");
        let sizes = Sizes { frame_max: SLOT, message_max: 1 << 20, tail_max: 0 };
        let accounts = reports.unresolved.begin();
        let start = tokio::time::Instant::now().into_std();
        let proto = proto::link::LinkProtocol::new(credit, sizes, accounts.waiting(), start);
        let mut queue = Queue(wire.clone());
        queue.post_recv(&mut ring).expect("there is room");
        let slots = Slots::new(pool, slots(RING), RING as usize, 0);
        let driver = Driver {
            link,
            pipe: Arc::new(Mutex::new(Pipe::new(proto, Box::new(queue), slots))),
            mailboxes: Mailboxes::new(WINDOW, 6000, accounts),
            growth: Growth::new(Arc::new(NoFabric), SLOT as u32, RING, budget),
            reports,
            closing: std::collections::VecDeque::new(),
            phase: watch::channel(crate::driver::Phase::Opening).0,
            scratch: Scratch::default(),
            run: Run::default(),
            spin: Spin::new(Spins::Never, Duration::ZERO),
            news: News::all(),
        };
        let mut rig = Rig { driver, wire, host, said: Vec::new() };
        rig.turn();
        let confirm = RecordHeader::new(RecordKind::Confirm);
        let room = FrameWriter::new(&mut [0; SLOT]).room(&confirm);
        rig.hear(&[(confirm, vec![0; room])]);
        rig.said.clear();
        rig
    }

    /// The driver is woken, and runs until it sleeps.
    fn turn(&mut self) {
        assert!(self.poll().is_pending(), "the link lives");
        for frame in self.wire.lock().sent.drain(..) {
            let (head, mut reader) = FrameReader::new(&frame, 0).expect("a frame");
            while let Some(record) = reader.read(head.records).expect("a record") {
                self.said.push(record.header.kind);
            }
        }
    }

    fn poll(&mut self) -> Poll<Turn> {
        let pipe = self.driver.pipe.clone();
        self.driver.turn(&pipe, &mut Context::from_waker(Waker::noop()))
    }

    /// A frame with these records comes from the peer, which has consumed all that was sent.
    fn hear(&mut self, records: &[(RecordHeader, Vec<u8>)]) {
        self.arrives(records);
        self.turn();
    }

    fn arrives(&mut self, records: &[(RecordHeader, Vec<u8>)]) {
        let consumed = self.driver.pipe.lock().proto.frames_sent();
        {
            let wire = &mut *self.wire.lock();
            let mut slot = wire.receives.pop_front().expect("a credit is a posted slot");
            let mut writer = FrameWriter::new(&mut slot);
            for (header, payload) in records {
                writer.push(*header, payload);
            }
            let bytes = writer.finish(Head { consumed, ..Head::default() }) as u32;
            let (work, status) = (Work::Recv { bytes }, Status::Success);
            wire.done.push_back(Completion { work, slot, status });
        }
    }

    /// Returns an ask of this side, to a mailbox of the peer that is opened for the first.
    fn ask(&mut self) -> PendingReply {
        let reply = self.commit();
        self.turn();
        reply
    }

    /// Commits an ask, of which the driver does not know yet.
    fn commit(&mut self) -> PendingReply {
        let target = Target::Name("its".into());
        let request = Arc::new(OpenRequest::new(target, 0));
        let (kind, mut place) = (SendKind::Ask { deadline: None }, None);
        let mut attempt = |rig: &Rig| {
            let (mut archive, mut hint) = (AlignedVec::new(), Hint::default());
            let outgoing =
                Outgoing { message: &MESSAGE, form: 0, kind, note: None, archive: &mut archive };
            let to = (&request, &mut hint);
            rig.driver.link.attempt(to, outgoing, &mut place, Some(Waker::noop()))
        };
        let mut first = attempt(self);
        if matches!(first, Attempt::Wait) {
            self.turn();
            let (window, accepted) = (WINDOW, vec![MESSAGE.newest()]);
            let description = Description { window, carried: Count::default(), id: 0, accepted };
            self.hear(&[(at(RecordKind::Opened, 0).0, description.encode())]);
            first = attempt(self);
        }
        let Attempt::Committed(Awaited::Reply(reply)) = first else { panic!("no room") };
        reply
    }

    /// Takes `messages` messages from a mailbox.
    fn take(&self, mailbox: usize, messages: usize) {
        let basket = self.host.0.lock()[mailbox].1.clone();
        let taken: Vec<Delivery> = basket.waiting.lock().drain(..messages).collect();
        drop(taken);
    }
}

fn open(name: &str, correlation: u64) -> (RecordHeader, Vec<u8>) {
    let request = OpenRequest::new(Target::Name(name.into()), 0);
    let header = RecordHeader { correlation, ..RecordHeader::new(RecordKind::Open) };
    (header, encode_request(&request))
}

fn at(kind: RecordKind, mailbox: u32) -> (RecordHeader, Vec<u8>) {
    (RecordHeader { mailbox, generation: 1, ..RecordHeader::new(kind) }, Vec::new())
}

/// WI-3: the answer to an OPEN goes before the reports of windows, and nothing else might come that
/// wakes the driver for them: the peer waits, and sends nothing.
#[test]
fn a_report_that_an_answer_to_an_open_kept_from_its_frame_goes_before_the_driver_sleeps() {
    let mut rig = Rig::new();
    rig.hear(&[open("one", 1)]);
    assert_eq!(rig.said, [RecordKind::Opened]);
    rig.hear(&[at(RecordKind::Tell, 0), at(RecordKind::Tell, 0)]);
    rig.take(0, 1);
    rig.said.clear();
    rig.turn();
    assert_eq!(rig.said, [], "one of eight is not due");
    rig.hear(&[at(RecordKind::Blocked, 0), open("other", 2)]);
    assert_eq!(rig.said, [RecordKind::Opened, RecordKind::Window]);
}

/// WI-3: as much as is due, taken at the moment in which an OPEN comes.
#[test]
fn what_is_taken_while_an_open_is_answered_is_reported_before_the_driver_sleeps() {
    let mut rig = Rig::new();
    rig.hear(&[open("one", 1)]);
    let tells: Vec<_> = (0..WINDOW.messages).map(|_| at(RecordKind::Tell, 0)).collect();
    rig.hear(&tells);
    rig.said.clear();
    rig.take(0, WINDOW.messages as usize / 2);
    rig.hear(&[open("other", 2)]);
    assert_eq!(rig.said, [RecordKind::Opened, RecordKind::Window]);
}

/// A device refuses a frame. The link ends with the system's reason, and its drain does not wait
/// for frames that were never posted.
#[tokio::test]
async fn a_refused_frame_is_the_cause_and_holds_up_no_end() {
    let mut rig = Rig::new();
    let _answered = rig.ask();
    rig.wire.lock().refuses = true;
    let _unanswered = rig.commit();
    let Poll::Ready(Turn::End(mut cause)) = rig.poll() else { panic!("the link goes on") };
    assert_eq!(cause, LinkCause::Fabric(Status::Refused(PostError::Device(5))));
    let text = cause.to_string();
    assert!(text.ends_with("the device refused: Input/output error (os error 5)"), "{text}");
    assert!(rig.driver.drain(&mut cause).now_or_never().is_some(), "it waits");
    assert_eq!(cause, LinkCause::Fabric(Status::Refused(PostError::Device(5))));
}

/// A peer that says again and again that it waits makes nothing grow.
#[test]
fn a_mailbox_that_is_blocked_again_and_again_is_looked_at_once() {
    let mut rig = Rig::new();
    rig.hear(&[open("one", 1), at(RecordKind::Tell, 0)]);
    for _ in 0..1000 {
        rig.driver.mailboxes.block((0, 1)).expect("it is open");
    }
    assert_eq!(rig.driver.mailboxes.take_wanted().len(), 1);
}

/// A sender that finds the pipe in use, or no slot, wakes the driver; a sender that posts does not.
#[test]
fn a_sender_posts_in_the_drivers_place_or_wakes_it() {
    let mut rig = Rig::new();
    drop(rig.ask());
    let (link, pipe) = (rig.driver.link.clone(), rig.driver.pipe.clone());
    let locked = pipe.lock();
    assert!(!pipe.try_post(&link), "it is in use");
    drop(locked);
    rig.wire.lock().sent.clear();
    assert!(pipe.try_post(&link), "all is posted");
    assert_eq!(rig.wire.lock().sent.len(), 1);
    drop(rig.ask());
    let slots = std::mem::take(&mut pipe.lock().slots.free);
    assert!(!pipe.try_post(&link), "completions bring slots, and only the driver takes those");
    pipe.lock().slots.free = slots;
    pipe.lock().end();
    assert!(pipe.try_post(&link), "nothing is posted any more, so nobody need be woken");
}

fn answer(correlation: u64) -> (RecordHeader, Vec<u8>) {
    (RecordHeader { correlation, ..RecordHeader::new(RecordKind::Reply) }, Vec::new())
}

/// An answer that was read ahead of a protocol violation, or that is behind a message that cannot
/// be delivered, is not dispatched; its asker is told nevertheless.
#[test]
fn an_answer_in_the_frame_of_a_breach_leaves_no_asker_waiting() {
    let breach = (RecordHeader::new(RecordKind::Confirm), Vec::new());
    let nowhere = at(RecordKind::Tell, 7);
    for behind in [false, true] {
        let mut rig = Rig::new();
        let mut reply = rig.ask();
        let correlation = reply.correlation();
        let frame = if behind {
            [nowhere.clone(), answer(correlation)]
        } else {
            [answer(correlation), breach.clone()]
        };
        rig.arrives(&frame);
        let poll = rig.poll();
        assert!(matches!(poll, Poll::Ready(Turn::End(LinkCause::Violation(_)))));
        drop(rig);
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Err(ReplyLoss::LinkDown(_))) = Pin::new(&mut reply).poll(&mut cx) else {
            panic!("it waits for ever");
        };
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever a peer says, in however many frames, and wherever it breaks the protocol, each
    /// asker is told something when the link has ended: its answer, if that came before.
    #[test]
    fn each_asker_is_told_whatever_the_peer_says_and_wherever_it_breaks_the_protocol(
        asks in 1usize..5,
        records in proptest::collection::vec((0usize..8, any::<bool>()), 0..8),
    ) {
        let mut rig = Rig::new();
        let mut replies: Vec<_> = (0..asks).map(|_| rig.ask()).collect();
        let (mut frame, mut answered, mut sound) = (Vec::new(), 0, true);
        for (what, ends) in records {
            let next = replies.get(answered).map(PendingReply::correlation);
            let (record, breaks) = match (what, next) {
                (0..=3, Some(correlation)) => (answer(correlation), false),
                (4, _) => ((RecordHeader::new(RecordKind::Confirm), Vec::new()), true),
                (5, _) => (at(RecordKind::Tell, 7), true),
                (6, _) => (answer(u64::MAX), false),
                _ => ((RecordHeader::new(RecordKind::Probe), Vec::new()), false),
            };
            answered += usize::from(next == Some(record.0.correlation));
            sound &= !breaks;
            frame.push(record);
            if ends {
                rig.arrives(&std::mem::take(&mut frame));
            }
            if !sound && ends {
                break;
            }
        }
        rig.arrives(&frame);
        let ended = rig.poll();
        prop_assert_eq!(ended.is_ready(), !sound);
        drop(rig);
        let mut cx = Context::from_waker(Waker::noop());
        for (number, reply) in replies.iter_mut().enumerate() {
            let told = Pin::new(reply).poll(&mut cx);
            prop_assert!(told.is_ready(), "ask {} waits for ever", number);
            let answer = matches!(told, Poll::Ready(Ok(_)));
            prop_assert!(!sound || answer == (number < answered));
        }
    }
}

/// Messages committed before a mailbox closed go first, in a frame of their own: the peer has them
/// before it learns of the end.
#[test]
fn the_end_of_a_mailbox_is_told_after_what_was_committed_before() {
    let mut rig = Rig::new();
    rig.hear(&[open("one", 1)]);
    let first = rig.ask();
    rig.said.clear();
    let second = rig.commit();
    let notices = std::mem::take(&mut *rig.host.0.lock()[0].1.notices.lock());
    for notice in notices {
        notice.close(CloseReason { code: 7, text: Some("why".into()) });
    }
    let frames = rig.driver.pipe.lock().proto.frames_sent();
    rig.turn();
    assert_eq!(rig.said, [RecordKind::Ask, RecordKind::Closed]);
    assert_eq!(rig.driver.pipe.lock().proto.frames_sent() - frames, 2);
    drop((first, second));
}
