//! Frames of a peer that is broken or hostile.

use proptest::prelude::*;

use crate::limits;
use crate::proto::error::Violation;
use crate::proto::header::{RecordHeader, RecordKind};
use crate::proto::pair::{Frame, Pair, name};

/// Returns a byte to change, or the frame's end to move, in the frame of that number.
fn damage() -> impl Strategy<Value = (usize, usize, u8, bool)> {
    // Mostly headers: that is where a change means something.
    (0usize..30, prop_oneof![0usize..64, 0usize..1024], 1u8.., any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// A damaged frame is a violation, or says something else that is harmless; both sides go on
    /// without a panic until one sees a violation.
    #[test]
    fn damaged_frames_never_panic(
        damages in proptest::collection::vec(damage(), 1..4),
        sizes in proptest::collection::vec((0usize..2500, any::<bool>()), 1..6),
    ) {
        let mut pair = Pair::confirmed();
        pair.plan(&[[sizes.clone(), sizes.clone()], [sizes, Vec::new()]]);
        let mut seen = 0;
        'run: for round in 0..60u8 {
            for choice in [0, 2, 1, 12, 13, 14] {
                pair.step(choice);
            }
            let side = usize::from(round & 1);
            while pair.transmit(side) {}
            while let Some(mut frame) = pair.sides[side].frames.pop_front() {
                let Frame { bytes, tail } = &mut frame;
                for (number, at, change, cut) in &damages {
                    if *number != seen {
                        continue;
                    }
                    let at = at % bytes.len();
                    bytes[at] ^= change;
                    if *cut {
                        bytes.truncate(at.max(16));
                        tail.truncate(at);
                        let whole = (bytes.len() + tail.len()) as u32;
                        bytes[8..12].copy_from_slice(&whole.to_le_bytes());
                    }
                }
                seen += 1;
                if pair.receive_frame(1 - side, &frame).is_err() {
                    break 'run;
                }
            }
        }
    }
}

/// Only an OPEN that was written can be answered: no queued one, and not the 1,025th.
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

/// A header that promises a note has room for all of it.
#[test]
fn a_note_of_another_length_is_a_violation() {
    for bytes in [32, 48, 63] {
        let mut pair = Pair::confirmed();
        pair.open(0, "0");
        assert!(pair.sides[0].send(&name("0"), &[7; 43], RecordKind::Tell));
        assert!(pair.transmit(0));
        let mut frame = pair.sides[0].frames.pop_front().unwrap().bytes;
        assert_eq!(frame[16..20], [RecordKind::Tell as u8, 4, 64, 0]);
        frame[18] = bytes;
        assert_eq!(pair.receive_bytes(1, &frame), Err(Violation::Record), "{bytes}");
    }
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
    let refusal = crate::proto::error::OpenRefusal::NoSuchMailbox;
    let flood = (0..10_000).find_map(|correlation| link.open_refused(correlation, &refusal).err());
    assert_eq!(flood, Some(Violation::Flood));
}
