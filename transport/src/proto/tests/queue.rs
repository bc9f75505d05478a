//! Messages that wait for credits, for a window, or behind others.

use crate::proto::frame::FrameReader;
use crate::proto::header::{RecordHeader, RecordKind, Stream};
use crate::proto::lanes::Entry;
use crate::proto::pair::{self, Pair, Side, body, name};
use crate::proto::send_queue::Room;

/// Returns true if a tell is in one of the frames that a side has written; they are lost.
fn tells(pair: &mut Pair, side: usize) -> bool {
    let frames = std::mem::take(&mut pair.sides[side].frames);
    frames.iter().any(|frame| {
        let (header, mut reader) =
            FrameReader::new(&frame.bytes, frame.tail.len()).expect("a frame");
        std::iter::from_fn(|| reader.read(header.records).expect("a record"))
            .any(|record| record.header.kind == RecordKind::Tell)
    })
}

/// The oracle is the first record of each frame, which leaves no room for the other two.
// Promised in docs/SEMANTICS.md.
#[test]
fn of_three_frames_small_messages_a_large_one_and_a_large_answer_go_first_in_one_each() {
    const ROUNDS: usize = 4;
    const LARGE: usize = 14_000;
    let mut pair = Pair::with_rings(32);
    pair.exchange();
    pair.open(0, "0");
    pair.open(0, "1");
    let out = &mut pair.sides[0].out;
    let archive = |bytes| {
        let mut archive = rkyv::util::AlignedVec::<16>::new();
        archive.resize(bytes, 7);
        archive
    };
    // The large one first: it would wait for small ones that were committed before it (LA-1).
    for (to, bytes) in std::iter::once(("0", LARGE)).chain([("1", 900); ROUNDS]) {
        let outlet = out.outlet(&name(to), &mut 0);
        let (mailbox, _) = out.mailbox(outlet).expect("it is open");
        let kind = RecordKind::Tell;
        let entry = Entry { kind, mailbox, ordinal: 0, correlation: 0, message: 1, deadline: None };
        out.reserve(mailbox, bytes as u32);
        out.commit(entry, None, &mut archive(bytes));
    }
    out.open_asks.open(1 << 32, None).expect("the first one");
    out.reply(1 << 32, 0, &mut archive(LARGE));
    let mut first = Vec::new();
    while first.len() < 3 * ROUNDS {
        assert!(pair.transmit(0), "there are credits for all of them");
        let frame = pair.sides[0].frames.pop_back().expect("it was sent");
        let (head, mut reader) = FrameReader::new(&frame.bytes, frame.tail.len()).expect("a frame");
        let record = reader.read(head.records).expect("a record").expect("at least one");
        let RecordHeader { kind, ordinal, total, .. } = record.header;
        first.push(match (kind, total) {
            (RecordKind::Tell, 0) => "small",
            (RecordKind::Tell, _) => "message",
            (RecordKind::Reply, _) => "answer",
            (RecordKind::Fragment, _) if ordinal == Stream::Messages as u16 => "message",
            (RecordKind::Fragment, _) => "answer",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(first, ["small", "message", "answer"].repeat(ROUNDS));
}

/// Signals and BLOCKED records for a peer that takes nothing wait once, however often sent.
#[test]
fn signals_and_blocked_mailboxes_wait_once_however_often_they_are_said() {
    let mut pair = Pair::confirmed();
    pair.open(0, "0");
    let out = &mut pair.sides[0].out;
    let outlet = out.outlet(&name("0"), &mut 0);
    let (mailbox, _) = out.mailbox(outlet).expect("it is open");
    for _ in 0..1000 {
        out.signal(mailbox, 7);
        out.signal(mailbox, 8);
        out.say_blocked(mailbox, Room::NotInMailbox);
        out.say_blocked(mailbox, Room::NotInLink);
    }
    while pair.transmit(0) {}
    let frames = std::mem::take(&mut pair.sides[0].frames);
    let mut said = Vec::new();
    for frame in &frames {
        let (header, mut reader) =
            FrameReader::new(&frame.bytes, frame.tail.len()).expect("a frame");
        while let Some(record) = reader.read(header.records).expect("a record") {
            said.push(record.header.kind);
        }
    }
    let count = |kind| said.iter().filter(|said| **said == kind).count();
    assert_eq!((count(RecordKind::Signal), count(RecordKind::Blocked)), (2, 2));
}

/// The code of an answer that says that there is none.
const NO_ANSWER: u16 = 1;

/// Answers need fewer credits than messages: where credits come back one at a time, endless answers
/// would leave none.
#[test]
fn endless_answers_leave_credits_for_a_message() {
    let mut pair = Pair::with_rings(16);
    pair.exchange();
    pair.open(0, "0");
    let answer = |pair: &mut Pair| {
        let mut archive = rkyv::util::AlignedVec::new();
        archive.resize(900, 0);
        pair.sides[0].out.reply(1, NO_ANSWER, &mut archive);
    };
    (0..100).for_each(|_| answer(&mut pair));
    let mut acknowledged = pair.sides[0].link.frames_sent();
    while pair.transmit(0) {}
    assert!(pair.sides[0].link.frames_sent() != acknowledged, "the ring is full of answers");
    assert!(pair.sides[0].send(&name("0"), &[1; 40], RecordKind::Tell));
    let left = (0..24).any(|_| {
        acknowledged = acknowledged.wrapping_add(1);
        pair.acknowledge(0, acknowledged);
        while pair.transmit(0) {}
        tells(&mut pair, 0)
    });
    assert!(left, "no message among so many answers");
    assert!(pair.sides[0].out.queued() > 50, "answers waited all the time");
}

/// Frames that begin with control and have room for answers, and for no message, in any number.
#[test]
fn a_message_waits_behind_any_number_of_control_records() {
    let mut pair = Pair::confirmed();
    pair.open(0, "0");
    assert!(pair.sides[0].send(&name("0"), &[1; 900], RecordKind::Tell));
    for _ in 0..300 {
        let Side { link, out, .. } = &mut pair.sides[0];
        (0..15).for_each(|_| link.control(RecordHeader::new(RecordKind::Probe)));
        out.reply(1, NO_ANSWER, &mut rkyv::util::AlignedVec::new());
        assert!(pair.transmit(0) && pair.receive(1).expect("honest"));
        assert!(pair.transmit(1) || pair.sides[1].out.is_empty());
        pair.receive(0).expect("honest");
    }
    assert!(pair.sides[1].boxes[0].waiting.is_empty());
    pair.exchange();
    assert_eq!(pair.sides[1].boxes[0].waiting.len(), 1);
}

/// A peer that gives the sender too few credits for messages cannot make it keep messages to
/// mailboxes that the peer closes; each message has its fate at once.
#[test]
fn what_waits_for_mailboxes_that_close_leaves_the_queue() {
    let mut pair = Pair::confirmed();
    pair.inject(0, RecordHeader::new(RecordKind::Probe), 0, 0).expect("honest");
    // Two credits of the ring of 8 frames are left: for control, and for no message.
    let withheld = 6;
    for _ in 0..withheld {
        pair.sides[0].link.probe();
        assert!(pair.transmit(0));
    }
    for generation in 1..=100 {
        let committed = pair.sides[0].committed(0);
        assert_eq!(pair.sides[0].refused.len(), committed, "each has its fate");
        assert!(!pair.sides[0].send(&name("0"), &[], RecordKind::Tell), "it is not open");
        assert!(pair.transmit(0), "an OPEN");
        let correlation = pair.sides[0].out.outlet(&name("0"), &mut 0).into();
        let header = |kind| RecordHeader { generation, correlation, ..RecordHeader::new(kind) };
        pair.inject_opened(0, header(RecordKind::Opened), 0u32.wrapping_sub(withheld));
        // Some larger than a frame, and small ones that have to stay behind those.
        for bytes in [10, 1500, 20, 30] {
            assert!(pair.sides[0].send(&name("0"), &vec![7; bytes], RecordKind::Tell));
        }
        assert!(!pair.transmit(0), "no credit for a message");
        assert_eq!(pair.sides[0].out.queued(), 4);
        let closed = RecordHeader { correlation: 0, ..header(RecordKind::Closed) };
        pair.inject(0, closed, 0, 0u32.wrapping_sub(withheld)).expect("a peer may close");
        assert_eq!(pair.sides[0].out.queued(), 0);
    }
    // Credits that are due. A side that believed that a message waits would have no commit wake it.
    pair.transmit(0);
    let Side { link, out, .. } = &mut pair.sides[0];
    assert!(link.is_idle(out) && !link.waits_for_credits());
}

/// Messages that wait for another mailbox keep their order when one closes.
#[test]
fn what_waits_for_the_neighbours_of_a_mailbox_that_closes_stays_in_order() {
    let mut pair = Pair::confirmed();
    pair.open(0, "0");
    pair.open(0, "1");
    let sizes = [10, 1500, 20];
    for (n, bytes) in sizes.into_iter().enumerate() {
        assert!(pair.sides[0].send(&name("0"), &vec![0; bytes], RecordKind::Tell));
        assert!(pair.sides[0].send(&name("1"), &body(1, n, bytes), RecordKind::Tell));
    }
    pair.close(1, 0);
    pair.transmit(1);
    pair.receive(0).expect("honest");
    assert_eq!(pair.sides[0].refused.len(), sizes.len());
    assert_eq!(pair.sides[0].out.queued(), sizes.len());
    pair.exchange();
    assert!(pair.sides[1].boxes[0].waiting.is_empty());
    let waiting = pair.sides[1].boxes[1].waiting.iter().map(|(bytes, _)| bytes.clone());
    let sent = sizes.into_iter().enumerate().map(|(n, bytes)| body(1, n, bytes));
    assert_eq!(waiting.collect::<Vec<_>>(), sent.collect::<Vec<_>>());
}

/// WI-1: the neighbour of a mailbox that holds the whole window of the link goes on.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_stuck_mailbox_does_not_use_up_the_links_window_for_its_neighbours() {
    let mut pair = Pair::confirmed();
    pair.open(0, "0");
    pair.open(0, "1");
    assert!(pair.sides[0].send(&name("0"), &[1; pair::LINK_WINDOW as usize], RecordKind::Tell));
    for n in 0..3 {
        assert!(pair.sides[0].send(&name("1"), &[n; 100], RecordKind::Tell), "message {n}");
        assert!(!pair.sides[0].send(&name("1"), &[n; 100], RecordKind::Tell), "one at a time");
        pair.exchange();
        pair.sides[1].take(1);
        pair.exchange();
    }
    assert_eq!(pair.sides[1].boxes[0].waiting.len(), 1);
}
