//! Two sides of a link, joined by queues of frames.

mod hostile;

use std::time::Duration;

use proptest::prelude::*;

use super::asks::GivenUp;
use super::fate::{Sent, What};
use super::frame::FrameReader;
use super::header::{FRAME_HEADER, RecordHeader, RecordKind};
use super::lanes::Entry;
use super::link::Event;
use super::outbound::Notice;
use super::pair::{self, Pair, Side, body, name};
use crate::limits;
use crate::proto::error::Violation;
use crate::unresolved::{UnackedTell, Unresolved};

/// What two sides are told to do, in any order.
fn steps() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..200)
}

/// Sizes from nothing to more than three frames.
fn sizes() -> impl Strategy<Value = Vec<(usize, bool)>> {
    proptest::collection::vec(
        (prop_oneof![0usize..64, 900usize..1100, 1100usize..4000], any::<bool>()),
        0..12,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Of each mailbox in order, everything once and whole; so are answers (LA-1, FR-1, WI-1,
    /// CR-2); then both sides say goodbye (LK-3).
    // Promised in docs/SEMANTICS.md.
    #[test]
    fn messages_and_answers_arrive_once_whole_and_in_order(
        sizes in [[sizes(), sizes()], [sizes(), sizes()]],
        steps in steps(),
    ) {
        let mut pair = Pair::confirmed();
        pair.plan(&sizes);
        for step in steps {
            pair.step(step);
        }
        pair.settle();
        for (i, side) in pair.sides.iter().enumerate() {
            let sent = &sizes[1 - i];
            for (mailbox, sizes) in sent.iter().enumerate() {
                let expected = sizes.iter().enumerate().map(|(n, s)| body(mailbox, n, s.0));
                let same = expected.eq(side.boxes[mailbox].taken.iter().cloned());
                prop_assert!(same, "mailbox {mailbox} of side {i}");
            }
            let asked = sizes[i].iter().enumerate().flat_map(|(mailbox, sizes)| {
                let asks = sizes.iter().enumerate().filter(|(_, s)| s.1);
                asks.map(move |(n, s)| body(mailbox, n, s.0))
            });
            let mut asked: Vec<_> = asked.collect();
            let mut answers = side.answers.clone();
            asked.sort();
            answers.sort();
            prop_assert!(answers == asked, "answers to side {i}");
            prop_assert!(side.refused.is_empty());
        }
        pair.leave();
        prop_assert!(pair.sides.iter().all(|side| side.link.is_done()));
        let acknowledged = pair.sides.iter_mut().all(|side| side.link.end().0.is_empty());
        prop_assert!(acknowledged);
    }

    /// CR-6, LK-3: rings that grow wherever a driver lets them, also while both sides leave, carry
    /// everything, and each side knows in the end how large the other's ring is.
    #[test]
    fn rings_that_grow_carry_everything_to_the_last_goodbye(
        sizes in [[sizes(), sizes()], [sizes(), sizes()]],
        before in proptest::collection::vec(0u8..20, 0..200),
        after in proptest::collection::vec(0u8..6, 0..60),
    ) {
        let mut pair = Pair::confirmed();
        pair.plan(&sizes);
        for step in before {
            match step {
                0..16 => pair.step(step),
                _ => pair.grow(usize::from(step & 1)),
            };
        }
        pair.sides.iter_mut().for_each(|side| side.link.leave());
        for step in after {
            let side = usize::from(step & 1);
            match step >> 1 {
                0 => pair.transmit(side),
                1 => pair.receive(side).expect("an honest peer"),
                _ => pair.grow(side),
            };
        }
        pair.exchange();
        for (i, side) in pair.sides.iter().enumerate() {
            let sender = &pair.sides[1 - i];
            for (mailbox, toy) in side.boxes.iter().enumerate() {
                let arrived = toy.taken.len() + toy.waiting.len();
                prop_assert_eq!(arrived, sender.committed(mailbox), "mailbox {} of {}", mailbox, i);
            }
            prop_assert!(side.link.is_done());
            prop_assert_eq!(side.link.ring(), sender.link.peer_ring());
        }
    }

    /// FA-1: what was sent to a mailbox that closes is taken or refused, never both and never lost.
    #[test]
    fn a_closed_mailbox_refuses_exactly_what_it_did_not_take(
        sizes in sizes(), before in steps(), after in steps(),
    ) {
        let mut pair = Pair::confirmed();
        let count = sizes.len();
        let asks: Vec<bool> = sizes.iter().map(|(_, ask)| *ask).collect();
        pair.plan(&[[sizes, Vec::new()], [Vec::new(), Vec::new()]]);
        for step in before {
            pair.step(step);
        }
        pair.close(1, 0);
        for step in after {
            pair.step(step);
        }
        pair.settle();
        let taken = pair.sides[1].boxes[0].taken.len();
        let refused = &pair.sides[0].refused;
        // Fates come in any order; what was never committed stays with its sender.
        let mut gone = refused.clone();
        gone.sort_unstable();
        let committed = pair.sides[0].committed(0);
        // Of asks their answers tell.
        let tells = (taken..committed).filter(|n| !asks[*n]).map(|n| n as u128 + 1);
        prop_assert_eq!(gone, tells.collect::<Vec<_>>());
        let unanswered = (taken..committed).filter(|n| asks[*n]).count();
        prop_assert_eq!(pair.sides[0].unanswered, unanswered);
        prop_assert!(committed <= count);
    }

    /// FA-3, PA-1: wherever a link is cut, whatever was on its way then, the peer's word gives each
    /// message in doubt the fate that the peer's mailbox shows; none is left out or told of twice.
    // Promised in docs/SEMANTICS.md.
    #[test]
    fn after_a_cut_the_word_tells_every_fate_truly(
        sizes in sizes(), before in steps(), close: bool, after in steps(),
    ) {
        let tells = sizes.into_iter().map(|(size, _)| (size, false)).collect();
        let mut pair = Pair::confirmed();
        pair.plan(&[[tells, Vec::new()], [Vec::new(), Vec::new()]]);
        for step in before {
            pair.step(step);
        }
        if close {
            pair.close(1, 0);
        }
        for step in after {
            pair.step(step);
        }

        let [left, right] = &mut pair.sides;
        let letter = |message| UnackedTell { request: name("0"), message, confirm: None };
        let (in_flight, _) = left.link.end();
        let message = |sent: &Sent| match sent.what {
            What::Tell { message, .. } => message,
            other => panic!("only tells were sent: {other:?}"),
        };
        let doubts = in_flight.iter().map(|s| ((s.frame, s.place), letter(message(s)))).collect();
        let word = right.link.end().1.expect("an honest peer");
        let unresolved = Unresolved::new();
        unresolved.begin();
        unresolved.end(1, doubts, None);
        let mut settled = unresolved.refused(1, &word.refusals);
        settled.extend(unresolved.consumed(Some((1, word.count))));

        let arrived = (right.boxes[0].taken.len() + right.boxes[0].waiting.len()) as u128;
        let mut lost = left.refused.clone();
        lost.extend(left.out.end().iter().map(|entry| entry.message));
        for (letter, fate) in settled {
            prop_assert_eq!(fate.is_ok(), letter.message <= arrived, "{}", letter.message);
            lost.extend(fate.err().map(|_| letter.message));
        }
        lost.sort_unstable();
        let committed = left.committed(0) as u128;
        prop_assert_eq!(lost, (arrived + 1..=committed).collect::<Vec<_>>());
    }
}

/// A tell that is to be confirmed asks for an answer at once, and is confirmed by it.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_delivery_is_confirmed_without_further_traffic() {
    let mut pair = Pair::confirmed();
    pair.open(0, "0");
    let side = &mut pair.sides[0];
    let outlet = side.out.outlet(&name("0"), &mut 0);
    let (port, _) = side.out.port(outlet).unwrap();
    let (kind, message) = (RecordKind::Tell, 1);
    let entry = Entry { kind, port, ordinal: 0, correlation: 42, message, deadline: None };
    side.out.reserve(port, 0);
    side.out.commit(entry, &mut rkyv::util::AlignedVec::new());
    pair.exchange();
    assert_eq!(pair.sides[0].confirmed, [42]);
    assert_eq!(pair.sides[1].boxes[0].waiting[0].1, None, "it is a tell like any other");
}

/// The first part of a large ask says how long its asker still waits; the time that the others take
/// is not given to it again.
// Promised in docs/SEMANTICS.md.
#[test]
fn the_deadline_of_a_large_ask_counts_from_its_first_part() {
    let mut pair = Pair::confirmed();
    pair.open(0, "0");
    let (second, start) = (Duration::from_secs(1), pair.sides[0].now);
    let out = &mut pair.sides[0].out;
    let outlet = out.outlet(&name("0"), &mut 0);
    let (port, _) = out.port(outlet).unwrap();
    let (kind, correlation) = (RecordKind::Ask, out.asks.insert(()).unwrap());
    let deadline = Some(start + 5 * second);
    let entry = Entry { kind, port, ordinal: 0, correlation, message: 1, deadline };
    let mut archive = rkyv::util::AlignedVec::new();
    archive.resize(2000, 7);
    out.reserve(port, 2000);
    out.commit(entry, &mut archive);
    while pair.transmit(0) {}
    let frames = std::mem::take(&mut pair.sides[0].frames);
    assert!(frames.len() > 1, "it is cut");
    let (mut events, right) = (Vec::new(), &mut pair.sides[1]);
    for (late, frame) in (0..).zip(&frames) {
        let now = start + late * 2 * second;
        right.link.handle_frame(frame, &mut right.out, &mut events, now).unwrap();
    }
    let [Event::Deliver(arrival)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(arrival.deadline, deadline);
    assert!(!right.out.open_asks.is_wanted(correlation, start + 5 * second));
}

/// An ask that is given up while it is being written may be handled: it is written to its end, and
/// only then is the other node told.
#[test]
fn an_ask_that_is_half_written_is_not_said_to_be_unsent() {
    let mut pair = Pair::confirmed();
    pair.open(0, "0");
    assert!(pair.sides[0].send(&name("0"), &[1; 2000], RecordKind::Ask));
    assert!(pair.transmit(0));
    let (given_up, _) = pair.sides[0].out.give_up(1 << 32);
    assert_eq!(given_up, GivenUp::Leaving);
    pair.exchange();
    assert_eq!(pair.sides[1].boxes[0].waiting.len(), 1, "it arrived whole");
    let now = pair.sides[1].now;
    assert!(!pair.sides[1].out.open_asks.is_wanted(1 << 32, now), "and then its cancellation");
}

#[test]
fn nothing_goes_before_the_confirmation() {
    let mut pair = Pair::new();
    pair.sides[0].out.outlet(&name("0"), &mut 0);
    assert!(pair.transmit(0), "the confirmation");
    assert!(!pair.transmit(0), "LK-1");
    assert_eq!(pair.sides[0].frames[0].len(), pair::FRAME_MAX, "as long as a frame can be");
    pair.transmit(1);
    pair.receive(0).unwrap();
    assert!(pair.transmit(0));
    assert_eq!(pair.sides[0].frames.pop_front().unwrap().len(), pair::FRAME_MAX);
    assert_eq!(pair.receive(1), Err(Violation::Confirm), "an OPEN first");
}

#[test]
fn small_messages_share_a_frame() {
    let mut pair = Pair::confirmed();
    pair.open(0, "0");
    for n in 0..3 {
        assert!(pair.sides[0].send(&name("0"), &[n; 10], RecordKind::Tell));
    }
    assert!(pair.transmit(0));
    assert_eq!(pair.sides[0].frames.len(), 1);
    assert!(!pair.transmit(0), "nothing is left");
    pair.receive(1).unwrap();
    assert_eq!(pair.sides[1].boxes[0].waiting.len(), 3);
}

#[test]
fn requests_for_one_mailbox_share_its_port_and_end_together() {
    let mut pair = Pair::confirmed();
    pair.open(0, "0");
    pair.open(0, "also 0");
    let out = &mut pair.sides[0].out;
    let outlets = [out.outlet(&name("0"), &mut 0), out.outlet(&name("also 0"), &mut 0)];
    assert_ne!(outlets[0], outlets[1]);
    assert_eq!(out.port(outlets[0]).unwrap().0, out.port(outlets[1]).unwrap().0);
    pair.sides[0].notices.clear();
    pair.close(1, 0);
    pair.transmit(1);
    pair.receive(0).unwrap();
    let ended = std::mem::take(&mut pair.sides[0].notices);
    assert_eq!(ended, outlets.map(|outlet| Notice::Ended { outlet, port: Some(0), refusal: None }));
}

#[test]
fn a_description_longer_than_a_frame_comes_in_parts() {
    let mut pair = Pair::confirmed();
    pair.sides[1].accepted = 100;
    pair.open(0, "0");
    let outlet = pair.sides[0].out.outlet(&name("0"), &mut 0);
    assert_eq!(pair.sides[0].out.port(outlet).unwrap().1.accepted.len(), 100);
    let (bytes, room) = (100 * 48 + 32, pair::FRAME_MAX - FRAME_HEADER - 32);
    assert!(bytes > 2 * room);
}

#[test]
fn a_mailbox_that_is_not_there_is_refused() {
    let mut pair = Pair::confirmed();
    let outlet = pair.sides[0].out.outlet(&name("nobody"), &mut 0);
    pair.settle();
    let refusal = Some(crate::proto::error::OpenRefusal::NoSuchMailbox);
    assert_eq!(pair.sides[0].notices, [Notice::Ended { outlet, port: None, refusal }]);
}

/// Only an OPEN that was written can be answered: not one that is queued, nor the 1,025th.
#[test]
fn an_answer_to_an_open_that_was_not_written_is_a_violation() {
    let record = |kind, correlation: u32| RecordHeader {
        correlation: correlation.into(),
        ordinal: 1,
        ..RecordHeader::new(kind)
    };
    for kind in [RecordKind::OpenRefused, RecordKind::Opened] {
        let mut pair = Pair::confirmed();
        let out = &mut pair.sides[0].out;
        let many = limits::OPENS_MAX + 1;
        let outlets = (0..many).map(|n| out.outlet(&name(&format!("none {n}")), &mut 0));
        let outlets: Vec<_> = outlets.collect();
        let early = pair.inject(0, record(kind, outlets[0]), 0, 0);
        assert_eq!(early, Err(Violation::Opening), "{kind:?} of one that is queued");

        let mut pair = Pair::confirmed();
        let out = &mut pair.sides[0].out;
        for n in 0..many {
            out.outlet(&name(&format!("none {n}")), &mut 0);
        }
        // The peer takes every frame, and answers no OPEN.
        let probe = RecordHeader::new(RecordKind::Probe);
        while pair.transmit(0) {
            pair.sides[0].frames.clear();
            pair.inject(0, probe, 0, 0).expect("honest");
        }
        let waits = *outlets.last().expect("there are many");
        let last = pair.inject(0, record(kind, waits), 0, 0);
        assert_eq!(last, Err(Violation::Opening), "{kind:?} of one that waits");
    }
}

/// Whether a tell is in one of the frames that a side has written; they are lost.
fn tells(pair: &mut Pair, side: usize) -> bool {
    let frames = std::mem::take(&mut pair.sides[side].frames);
    frames.iter().any(|frame| {
        let (header, mut reader) = FrameReader::new(frame).expect("a frame");
        std::iter::from_fn(|| reader.read(header.records).expect("a record"))
            .any(|record| record.header.kind == RecordKind::Tell)
    })
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

/// OB-3: a peer that gives the sender too few credits for messages cannot have it keep what was
/// committed to mailboxes that it closes; each message has its fate at once.
#[test]
fn what_waits_for_mailboxes_that_close_leaves_the_queue() {
    let mut pair = Pair::confirmed();
    pair.inject(0, RecordHeader::new(RecordKind::Probe), 0, 0).expect("honest");
    // Of the ring of 8 frames two credits are left: for control, and for no message.
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

/// What waits for another mailbox keeps its order when one closes.
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

/// Every breach of the protocol that this layer can see, each as a single record or frame.
#[test]
fn each_breach_is_named() {
    let head = |kind| RecordHeader::new(kind);
    let at = |kind, mailbox, generation| RecordHeader { mailbox, generation, ..head(kind) };
    let cases = [
        (head(RecordKind::Confirm), Violation::Confirm),
        (head(RecordKind::Fragment), Violation::Fragment),
        (RecordHeader { total: 1 << 30, ..at(RecordKind::Tell, 0, 1) }, Violation::Fragment),
        (head(RecordKind::Ask), Violation::Record),
        (head(RecordKind::Open), Violation::Opening),
        (RecordHeader { correlation: 9, ..head(RecordKind::Opened) }, Violation::Opening),
        (RecordHeader { correlation: 9, ..head(RecordKind::OpenRefused) }, Violation::Opening),
        (at(RecordKind::Closed, 7, 1), Violation::Unknown),
        (at(RecordKind::Window, 7, 1), Violation::Unknown),
        (RecordHeader { total: 1, ..at(RecordKind::Window, 0, 1) }, Violation::WindowReport),
        (RecordHeader { ordinal: 1, ..head(RecordKind::Refusal) }, Violation::Refusal),
        (at(RecordKind::Tell, 7, 1), Violation::Unknown),
    ];
    for (header, violation) in cases {
        let mut pair = Pair::confirmed();
        pair.open(0, "0");
        assert_eq!(pair.inject(0, header, 1, 0), Err(violation), "{header:?}");
    }
    let mut pair = Pair::confirmed();
    assert_eq!(pair.inject(0, head(RecordKind::Probe), 1, 1), Err(Violation::Count));
    assert_eq!(Pair::confirmed().receive_bytes(0, &[1; 15]), Err(Violation::Frame));
    let mut pair = Pair::confirmed();
    pair.inject(0, head(RecordKind::Goodbye), 1, 0).unwrap();
    assert_eq!(pair.inject(0, head(RecordKind::Probe), 1, 0), Err(Violation::Goodbye));
    let mut pair = Pair::confirmed();
    let overrun = (0..100).find_map(|_| pair.inject(0, head(RecordKind::Probe), 1, 0).err());
    assert_eq!(overrun, Some(Violation::CreditOverrun));
    let mut pair = Pair::confirmed();
    pair.open(0, "0");
    let tell = at(RecordKind::Tell, 0, 1);
    let overrun = (0..100).find_map(|_| pair.inject(1, tell, 3, 0).err());
    assert_eq!(overrun, Some(Violation::WindowOverrun));
    let mut pair = Pair::confirmed();
    let link = &mut pair.sides[0].link;
    let flood = (0..10_000).find_map(|correlation| link.open_refused(correlation, 1).err());
    assert_eq!(flood, Some(Violation::Flood));
}
