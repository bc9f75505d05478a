//! Messages that are lent: every way in which a loan begins and ends.

use crate::proto::error::Violation;
use crate::proto::frame::FrameReader;
use crate::proto::header::{RecordHeader, RecordKind};
use crate::proto::link::LinkProtocol;
use crate::proto::loans::{Lending, LentAt, Loans};
use crate::proto::pair::{FRAME_MAX, Pair, body, name};

const LARGE: usize = 2500;

/// Counts of what frames said of loans.
#[derive(Debug, Default)]
struct Seen {
    lent: usize,
    unlent: usize,
    sent: usize,
    left_first: usize,
}

impl Seen {
    /// Counts what the next frame for a side says, and has the side read it.
    fn receive(&mut self, pair: &mut Pair, side: usize) {
        if let Some(frame) = pair.sides[1 - side].frames.front() {
            let (head, mut reader) = FrameReader::new(frame).unwrap();
            while let Some(record) = reader.read(head.records).unwrap() {
                let kind = record.header.kind;
                self.lent += usize::from(kind == RecordKind::Lend);
                self.unlent += usize::from(kind == RecordKind::Unlent);
                self.sent += usize::from(record.header.lent);
            }
        }
        pair.receive(side).unwrap();
    }
}

/// LO-1 (which the pair checks at each fetch), LO-3, FE-1: wherever asks are given up, mailboxes
/// close and sides leave while messages are lent, each message has its fate, and nothing is lent in
/// the end.
#[test]
fn loans_end_in_every_way_there_is() {
    let mut seen = Seen::default();
    let mut fetched = [0; 2];
    for seed in 0..600 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut pair = Pair::lending(seed);
        pair.open(0, "0");
        pair.open(1, "0");
        let mut sent = [0; 2];
        let closes = chance.usize(..200);
        for step in 0..120 {
            let side = chance.usize(..2);
            match chance.u8(..8) {
                0 | 1 if step != closes => {
                    let ask = seed % 2 == 0 && chance.bool();
                    let kind = if ask { RecordKind::Ask } else { RecordKind::Tell };
                    let bytes = body(0, sent[side], chance.usize(1..2 * LARGE));
                    let from = &mut pair.sides[side];
                    sent[side] +=
                        usize::from(!from.is_closed() && from.send(&name("0"), &bytes, kind));
                }
                2 => drop(pair.transmit(side)),
                3 | 4 => seen.receive(&mut pair, side),
                5 => drop(pair.fetch(side)),
                6 => drop(pair.sides[side].take(0)),
                _ if chance.u8(..4) == 0 => pair.sides[side].give_up(),
                _ => {}
            }
            if step == closes {
                pair.close(side, 0);
            }
        }
        seen.left_first += usize::from(pair.sides.iter().any(|side| !side.out.is_finished()));
        // A side that has left answers nothing.
        pair.sides.iter_mut().for_each(|side| while side.take(0) {});
        pair.sides.iter_mut().for_each(|side| side.link.leave());
        while (0..2).fold(false, |any, side| {
            let sent = pair.transmit(side);
            let waits = !pair.sides[1 - side].frames.is_empty();
            seen.receive(&mut pair, side);
            let fetches = chance.bool() && pair.fetch(side);
            any | sent | waits | fetches
        }) {}
        pair.exchange();
        for side in &mut pair.sides {
            assert!(!side.out.lends(), "seed {seed}: something is lent");
            // Asks may be answered when their side has left.
            let is_over = side.out.is_finished() && side.link.is_done();
            assert!(is_over || seed % 2 == 0, "seed {seed}: a side has not left");
            let has_doubts = !side.link.end().0.is_empty();
            assert!(!has_doubts || seed % 2 == 0, "seed {seed}: a message has no fate");
        }
        fetched.iter_mut().zip(pair.fetched()).for_each(|(all, more)| *all += more);
    }
    println!("{seen:?}, {} fetched, {} refused", fetched[0], fetched[1]);
    assert!(seen.lent > 1_000 && seen.sent > 500 && seen.unlent > 50 && seen.left_first > 50);
    assert!(fetched[0] > 500 && fetched[1] > 50);
}

/// LA-1: what is committed behind a message that is lent stays behind it.
#[test]
fn a_small_message_waits_behind_one_that_is_lent() {
    let mut pair = Pair::lending(3);
    pair.open(0, "0");
    pair.open(0, "1");
    let send = |pair: &mut Pair, to: &str, bytes: &[u8]| {
        assert!(pair.sides[0].send(&name(to), bytes, RecordKind::Tell));
    };
    send(&mut pair, "0", &body(0, 0, LARGE));
    send(&mut pair, "0", &body(0, 1, 9));
    send(&mut pair, "1", &body(1, 0, 9));
    while pair.transmit(0) {}
    while pair.receive(1).unwrap() {}
    assert_eq!(pair.sides[1].boxes.each_ref().map(|toy| toy.waiting.len()), [0, 1]);
    pair.exchange();
    let waiting = pair.sides[1].boxes[0].waiting.iter().map(|(bytes, _)| bytes.len());
    assert_eq!(waiting.collect::<Vec<_>>(), [LARGE, 9]);
    assert_eq!(pair.fetched(), [1, 0]);
}

/// LO-2.
#[test]
fn as_much_is_lent_as_the_limits_say() {
    use crate::limits::{LENT_BYTES_MAX, LOANS_MAX};
    let at = LentAt { pair: 1, key: (2, 3) };
    let mut loans = Loans::new(Some(FRAME_MAX));
    assert_eq!(loans.lending(FRAME_MAX - 1), Lending::Parts);
    assert_eq!(loans.lending(FRAME_MAX), Lending::Undecided);
    assert_eq!(loans.lending(LENT_BYTES_MAX + 1), Lending::Parts);
    for _ in 0..LOANS_MAX {
        assert!(loans.has_room(LENT_BYTES_MAX / LOANS_MAX));
        loans.begin(LENT_BYTES_MAX / LOANS_MAX, at, std::sync::Arc::new(()));
    }
    assert!(!loans.has_room(0));
    assert_eq!(loans.answered(0, 0), Ok(None));
    assert!(!loans.has_room(1), "the message was not sent, so the peer still keeps it");
    assert_eq!(loans.end(Lending::Loan(0)), Some(0));
    assert!(loans.has_room(LENT_BYTES_MAX / LOANS_MAX));
    assert!(!loans.has_room(LENT_BYTES_MAX / LOANS_MAX + LOANS_MAX));
    assert_eq!(loans.take_returned().len(), 1);

    // Answers that make no sense.
    for (number, cause) in [(0, 0), (9, 0), (1, 2)] {
        assert_eq!(loans.answered(number, cause), Err(Violation::Loan), "{number} {cause}");
    }
    assert_eq!(loans.answered(1, 1), Ok(None));
    assert_eq!(loans.answered(1, 0), Err(Violation::Loan), "a second one");
    // LO-3: for a while nothing is lent.
    let paused = std::iter::repeat_with(|| loans.lending(FRAME_MAX));
    assert_eq!(paused.take_while(|lending| *lending == Lending::Parts).count(), 4);
    assert_eq!(loans.end(Lending::Loan(1)), None);

    // One that is not sent after all ends when the peer has answered; it may keep the bytes.
    assert_eq!(loans.forgo(Lending::Loan(2)), None);
    let unlent = RecordHeader { ordinal: 2, ..RecordHeader::new(RecordKind::Unlent) };
    assert_eq!(loans.answered(2, 0), Ok(Some(unlent)));
    assert_eq!(loans.forgo(Lending::Loan(3)), None);
    loans.peer_left();
    assert!(loans.is_empty() && loans.take_returned().len() == 2, "the peer may read the last one");
    assert!(LinkProtocol::eager_max(FRAME_MAX) < FRAME_MAX);
}

/// Room that comes in the middle of a frame is for a loan, too: the next message is not begun in
/// parts.
#[test]
fn a_burst_is_lent_whole() {
    let mut pair = (0..).map(Pair::lending).find(|pair| pair.refuses_none(12)).unwrap();
    pair.open(0, "0");
    for number in 0..12 {
        while !pair.sides[0].send(&name("0"), &body(0, number, 1210), RecordKind::Tell) {
            while pair.transmit(0) {}
            while pair.receive(1).unwrap() {}
            while pair.fetch(1) {}
            while pair.sides[1].take(0) {}
            while pair.transmit(1) {}
            while pair.receive(0).unwrap() {}
        }
    }
    pair.exchange();
    assert_eq!(pair.fetched(), [12, 0]);
}
