//! A peer that asks for large answers and does not take them.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc::UnboundedSender;

use super::breaches::at;
use super::stingy::Stingy;
use super::*;
use crate::cause::Refusal;
use crate::host::Deliveries;
use crate::open_request::{Accepted, MessageForms};
use crate::proto::header::{ALL_MAILBOXES, RecordHeader};

const ASK: MessageForms = MessageForms { id: 1, layouts: &[2], replies: &[3] };
/// Mailboxes, so that their windows together hold as many asks as may be open.
const MAILBOXES: usize = limits::PENDING_ASKS_MAX / limits::MAILBOX_WINDOW_MESSAGES as usize;
/// Bytes of the answer that it asks for.
const REPLY_BYTES: u32 = 256 * 1024;
/// The bytes of answers that the node may have made: as many as may wait, one more answer per
/// mailbox, made meanwhile, and one answer that left.
const MADE_MAX: usize = limits::REPLY_BYTES_MAX + (MAILBOXES + 1) * REPLY_BYTES as usize;
/// The most that the process may grow by.
const GROWTH_KIB_MAX: u64 = 256 * 1024;
/// Asks in one frame.
const TOGETHER: usize = 64;

/// A layer above whose mailboxes answer an ask with the number of bytes it asks for. They answer
/// the asks of one peer one after the other, and none before there is room.
struct Answering {
    events: UnboundedSender<PeerEvent>,
    /// Bytes of large answers that were made.
    made: Arc<AtomicUsize>,
    queues: Queues,
    notices: Arc<Mutex<Vec<CloseNotice>>>,
}

/// The deliveries that wait, by mailbox and peer.
type Queues = Arc<Mutex<HashMap<(u64, usize), UnboundedSender<Delivery>>>>;

struct Answerer {
    id: u64,
    made: Arc<AtomicUsize>,
    queues: Queues,
    notices: Arc<Mutex<Vec<CloseNotice>>>,
}

impl Host for Answering {
    fn open(&self, _: &NodeId, request: &OpenRequest) -> Result<Arc<dyn Inbox>, OpenRefusal> {
        let Target::Name(name) = &request.target else { return Err(OpenRefusal::NoSuchMailbox) };
        let id = name.parse().map_err(|_| OpenRefusal::NoSuchMailbox)?;
        let (made, queues) = (self.made.clone(), self.queues.clone());
        Ok(Arc::new(Answerer { id, made, queues, notices: self.notices.clone() }))
    }

    fn lost(&self, lost: Lost) {
        panic!("{lost:?} was lost");
    }

    fn event(&self, event: PeerEvent) {
        // The test may be over.
        let _ = self.events.send(event);
    }
}

impl Inbox for Answerer {
    fn id(&self) -> u64 {
        self.id
    }

    fn accepted(&self) -> Vec<Accepted> {
        vec![ASK.newest()]
    }

    fn deliver(&self, run: &mut Vec<Deliveries>) -> Result<(), Refusal> {
        let mut queues = self.queues.lock();
        for delivery in run.drain(..).flatten() {
            let queue = queues.entry((self.id, delivery.peer_number())).or_insert_with(|| {
                let (sender, queue) = mpsc::unbounded_channel();
                tokio::spawn(answer(queue, self.made.clone()));
                sender
            });
            assert!(queue.send(delivery).is_ok(), "its task ends with the test");
        }
        Ok(())
    }

    fn signal(&self, _: u16) {}

    fn on_close(&self, notice: CloseNotice) {
        self.notices.lock().push(notice);
    }
}

async fn answer(mut queue: mpsc::UnboundedReceiver<Delivery>, made: Arc<AtomicUsize>) {
    while let Some(Delivery { payload, replier, receipt, .. }) = queue.recv().await {
        let mut replier = replier.expect("an ask");
        poll_fn(|cx| replier.poll_room(cx)).await;
        drop(receipt);
        if !replier.begin(tokio::time::Instant::now()) {
            continue;
        }
        // The handler takes a moment, in which others begin.
        tokio::task::yield_now().await;
        let bytes = u32::from_le_bytes(payload[..].try_into().unwrap());
        if bytes == REPLY_BYTES {
            made.fetch_add(bytes as usize, Ordering::Relaxed);
        }
        let mut archive = AlignedVec::new();
        archive.resize(bytes as usize, 7);
        replier.send(&mut archive);
    }
}

/// Asks for `bytes` bytes, and waits for them.
async fn ask(remote: &RemoteSender, bytes: u32) {
    let mut waiter = Waiter::default();
    let mut archive = |_: u8, out: &mut AlignedVec<16>| {
        out.extend_from_slice(&bytes.to_le_bytes());
        Ok(None)
    };
    let kind = SendKind::Ask { deadline: None };
    let sent = poll_fn(|cx| remote.poll_send(&ASK, kind, &mut archive, &mut waiter, cx));
    let Awaited::Reply(reply) = sent.await.unwrap() else { panic!("it was an ask") };
    assert_eq!(reply.await.unwrap().len(), bytes as usize);
}

/// Opens as many asks as a link may have, leaving the node `credits` credits, and then one more.
/// Returns the cause of the link's end.
async fn withhold(credits: u32) -> LinkCause {
    let (sender, mut events) = mpsc::unbounded_channel();
    let made = Arc::new(AtomicUsize::new(0));
    let (queues, notices) = (Queues::default(), Arc::default());
    let host = Answering { events: sender, made: made.clone(), queues, notices };
    let victim = config("victim", Network::tcp(), &[]);
    let ring = victim.profile.ring_slots;
    let victim = Mesh::start(victim, Arc::new(host)).await.unwrap();
    let honest = config("honest", Network::tcp(), &victim.addresses());
    let honest = Mesh::start(honest, Arc::new(Watcher::default())).await.unwrap();
    honest.ready(1).await;
    let remote = remote(&honest, "victim", "0");
    ask(&remote, 100).await;
    let (before, _) = usage().await;

    let proven = Proven::committed(&victim.addresses()[0], &identity("wicked")).await;
    let mut wicked = Stingy::new(proven.link(&peer::silence()).await, ring);
    for mailbox in 0..MAILBOXES {
        let request = [&[0; 17][..], mailbox.to_string().as_bytes()].concat();
        let header = RecordHeader { correlation: mailbox as u64, ..head(RecordKind::Open) };
        assert!(wicked.send(&[(header, &request)]).await);
        while wicked.opened.len() <= mailbox {
            assert!(wicked.hear().await);
        }
    }
    wicked.leave(credits);
    let asks: Vec<u64> = (0..limits::PENDING_ASKS_MAX as u64).collect();
    for (round, asks) in asks.chunks(TOGETHER).enumerate() {
        let (mailbox, generation) = wicked.opened[round % MAILBOXES];
        let asks = asks.iter().map(|key| RecordHeader {
            correlation: 1 << 32 | key,
            ..at(RecordKind::Ask, mailbox, generation)
        });
        let payload = REPLY_BYTES.to_le_bytes();
        let asks: Vec<_> = asks.map(|header| (header, &payload[..])).collect();
        assert!(wicked.send(&asks).await, "the link ended with round {round}");
        if round.is_multiple_of(16) {
            let waits = at(RecordKind::Blocked, ALL_MAILBOXES, 0);
            assert!(wicked.send(&[(waits, &[])]).await);
            ask(&remote, 100).await;
        }
    }
    // A large answer, too: answers that wait for the other link take none of this link's room.
    ask(&remote, 4 * REPLY_BYTES).await;
    let (made, after) = (made.load(Ordering::Relaxed), peak());
    println!(
        "{} asks with {credits} credits: {made} bytes of answers were made, {} reports of windows \
         came; memory {before} to {after} KiB",
        asks.len(),
        wicked.reports
    );
    assert_eq!(wicked.reports > 0, credits > 1, "{} reports", wicked.reports);
    assert!(made >= limits::REPLY_BYTES_MAX, "it had no more to wait for");
    assert!(made <= MADE_MAX, "{made} bytes");
    assert!(after < before + GROWTH_KIB_MAX, "{before} to {after} KiB");
    let last = (limits::PENDING_ASKS_MAX - 1) as u64;
    let again = RecordHeader { correlation: 2 << 32 | last, ..at(RecordKind::Ask, 0, 1) };
    wicked.send(&[(again, &[])]).await;
    let cause = loop {
        match events.recv().await.unwrap() {
            PeerEvent::LinkDown { peer, cause } if peer.name.as_str() == "wicked" => break cause,
            PeerEvent::LinkUp { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    ask(&remote, 100).await;
    honest.shutdown(Duration::from_secs(5)).await;
    victim.shutdown(Duration::from_secs(5)).await;
    cause
}

/// Returns the most KiB of this process that were resident.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// With a credit the node can only give credits back, with two it can report windows.
// Promised in docs/SEMANTICS.md.
#[test]
fn answers_that_a_peer_does_not_take_are_bounded_and_others_go_on() {
    let name = "replies::answers_that_a_peer_does_not_take_are_bounded_and_others_go_on";
    alone(name, "reports of windows", async {
        for credits in [1, 2] {
            let cause = withhold(credits).await;
            assert_eq!(cause, LinkCause::Violation(Violation::Flood));
        }
    });
}
