//! Messages on their way: frames, parts, confirmations and deadlines.

use std::time::Duration;

use crate::proto::error::Violation;
use crate::proto::header::RecordKind;
use crate::proto::lanes::Entry;
use crate::proto::link::Event;
use crate::proto::pair::{self, Pair, name};

/// A tell that is to be confirmed asks for an answer at once, and is confirmed by it.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_delivery_is_confirmed_without_further_traffic() {
    let mut pair = Pair::confirmed();
    pair.open(0, "0");
    let side = &mut pair.sides[0];
    let outlet = side.out.outlet(&name("0"), &mut 0);
    let (mailbox, _) = side.out.mailbox(outlet).unwrap();
    let (kind, message) = (RecordKind::Tell, 1);
    let entry = Entry { kind, mailbox, ordinal: 0, correlation: 42, message, deadline: None };
    side.out.reserve(mailbox, 0);
    side.out.commit(entry, None, &mut rkyv::util::AlignedVec::new());
    pair.exchange();
    assert_eq!(pair.sides[0].confirmed, [42]);
    assert_eq!(pair.sides[1].boxes[0].waiting[0].1, None, "it is a tell like any other");
}

/// The first part of a large ask says how long its asker still waits; the time that the others take
/// is not given to it again.
#[test]
fn the_deadline_of_a_large_ask_counts_from_its_first_part() {
    let mut pair = Pair::confirmed();
    pair.open(0, "0");
    let (second, start) = (Duration::from_secs(1), pair.sides[0].now);
    let out = &mut pair.sides[0].out;
    let outlet = out.outlet(&name("0"), &mut 0);
    let (mailbox, _) = out.mailbox(outlet).unwrap();
    let (kind, correlation) = (RecordKind::Ask, out.asks.insert(()).unwrap());
    let deadline = Some(start + 5 * second);
    let entry = Entry { kind, mailbox, ordinal: 0, correlation, message: 1, deadline };
    let mut archive = rkyv::util::AlignedVec::new();
    archive.resize(2000, 7);
    out.reserve(mailbox, 2000);
    out.commit(entry, None, &mut archive);
    while pair.transmit(0) {}
    let frames = std::mem::take(&mut pair.sides[0].frames);
    assert!(frames.len() > 1, "it is cut");
    let (mut events, right) = (Vec::new(), &mut pair.sides[1]);
    for (late, frame) in (0..).zip(&frames) {
        let now = start + late * 2 * second;
        let room = right.link.room_for(&frame.bytes, &frame.tail).unwrap();
        let frame = (&frame.bytes[..], room);
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
    assert!(!pair.sides[0].out.give_up(1 << 32));
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
    assert_eq!(pair.sides[0].frames[0].bytes.len(), pair::FRAME_MAX, "as long as a frame can be");
    pair.transmit(1);
    pair.receive(0).unwrap();
    assert!(pair.transmit(0));
    assert_eq!(pair.sides[0].frames.pop_front().unwrap().bytes.len(), pair::FRAME_MAX);
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

/// A message with a note goes another way than others of its size, and keeps its place among them.
#[test]
fn a_note_travels_with_its_message_and_changes_no_order() {
    let mut pair = Pair::confirmed();
    pair.open(0, "0");
    let (tell, ask) = (RecordKind::Tell, RecordKind::Ask);
    let sizes = [(40, tell), (43, tell), (40, tell), (2003, ask)];
    let sent: Vec<_> = (0..).zip(sizes).map(|(n, (len, _))| pair::body(0, n, len)).collect();
    for (bytes, (_, kind)) in sent.iter().zip(sizes) {
        assert!(pair.sides[0].send(&name("0"), bytes, kind));
    }
    pair.exchange();
    let toy = &pair.sides[1].boxes[0];
    assert!(toy.waiting.iter().map(|(bytes, _)| bytes).eq(&sent));
    assert_eq!((toy.noted, toy.misnoted), (2, 0));
}
