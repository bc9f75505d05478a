//! Messages that are lent: every way in which a loan begins and ends.

use crate::proto::error::Violation;
use crate::proto::frame::FrameReader;
use crate::proto::header::{RecordHeader, RecordKind};
use crate::proto::link::LinkProtocol;
use crate::proto::loans::{Held, Lending, LentAt, LoanCounts, Loans, NotLent};
use crate::proto::pair::{FRAME_MAX, Pair, Side, body, name};

const LARGE: usize = 2500;

/// Counts of what frames said of loans.
#[derive(Debug, Default)]
struct Seen {
    lent: usize,
    unlent: usize,
    sent: usize,
    /// Those of `sent` that others passed which were lent later.
    passed: usize,
    left_first: usize,
    /// Times that a side took back its loans.
    taken_back: usize,
}

impl Seen {
    /// Counts the records of the next frame for a side, and lets the side read it. `last` is the
    /// loan that was begun last, of the loans whose message was sent to the side.
    fn receive(&mut self, pair: &mut Pair, side: usize, last: &mut u32) {
        if let Some(frame) = pair.sides[1 - side].frames.front() {
            let (head, mut reader) = FrameReader::new(&frame.bytes, frame.tail.len()).unwrap();
            while let Some(record) = reader.read(head.records).unwrap() {
                let kind = record.header.kind;
                self.lent += usize::from(kind == RecordKind::Lend);
                self.unlent += usize::from(kind == RecordKind::Unlent);
                if record.header.lent {
                    self.sent += 1;
                    self.passed += usize::from(record.header.total < *last);
                    *last = record.header.total.max(*last);
                }
            }
        }
        pair.receive(side).unwrap();
    }
}

/// LO-1 (which the pair checks at each fetch), LO-3, LO-4: wherever asks are given up,
/// mailboxes close, loans are taken back and sides leave while messages are lent, each message has
/// its fate, and nothing is lent in the end.
#[test]
fn loans_end_in_every_way_there_is() {
    let mut seen = Seen::default();
    let (mut fetched, mut slow) = ([0; 2], 0);
    for seed in 0..600 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut pair = Pair::lending(seed);
        for mailbox in ["0", "1"] {
            pair.open(0, mailbox);
            pair.open(1, mailbox);
        }
        let (mut sent, mut last) = ([0; 2], [0; 2]);
        let closes = chance.usize(..200);
        for step in 0..120 {
            let side = chance.usize(..2);
            match chance.u8(..8) {
                0 | 1 if step != closes => {
                    let ask = seed % 2 == 0 && chance.bool();
                    let kind = if ask { RecordKind::Ask } else { RecordKind::Tell };
                    let to = chance.usize(..2);
                    let bytes = body(to, sent[side], chance.usize(1..2 * LARGE));
                    let (from, to) = (&mut pair.sides[side], name(["0", "1"][to]));
                    sent[side] += usize::from(!from.is_closed() && from.send(&to, &bytes, kind));
                }
                2 => drop(pair.transmit(side)),
                3 | 4 => seen.receive(&mut pair, side, &mut last[side]),
                5 if chance.bool() => drop(pair.fetch(side)),
                5 => drop(pair.fetch_last(side)),
                6 => drop(pair.sides[side].take(chance.usize(..2))),
                _ if chance.u8(..4) == 0 => pair.sides[side].give_up(),
                _ if chance.u8(..6) == 0 && pair.sides[side].out.lends() => {
                    pair.sides[side].take_back();
                    seen.taken_back += 1;
                }
                _ => {}
            }
            if step == closes {
                pair.close(side, 0);
            }
        }
        seen.left_first += usize::from(pair.sides.iter().any(|side| !side.out.is_finished()));
        // A side that has left answers nothing.
        pair.sides.iter_mut().for_each(|side| while side.take(0) || side.take(1) {});
        pair.sides.iter_mut().for_each(|side| side.link.leave());
        while (0..2).fold(false, |any, side| {
            let sent = pair.transmit(side);
            let waits = !pair.sides[1 - side].frames.is_empty();
            seen.receive(&mut pair, side, &mut last[side]);
            let fetches = chance.bool() && pair.fetch(side);
            any | sent | waits | fetches
        }) {}
        pair.exchange();
        for side in &mut pair.sides {
            assert!(!side.out.lends(), "seed {seed}: something is lent");
            // Asks may be answered when their side has left.
            let is_over = side.out.is_finished() && side.link.is_done();
            assert!(is_over || seed % 2 == 0, "seed {seed}: a side has not left");
            arrived_in_order(side, seed);
            let has_doubts = !side.link.end().0.is_empty();
            assert!(!has_doubts || seed % 2 == 0, "seed {seed}: a message has no fate");
        }
        fetched.iter_mut().zip(pair.fetched()).for_each(|(all, more)| *all += more);
        slow += pair.slow();
    }
    println!("{seen:?}, {} fetched, {} refused, {slow} registered late", fetched[0], fetched[1]);
    assert!(slow > 100 && seen.passed > 20 && seen.taken_back > 100);
    assert!(seen.lent > 1_000 && seen.sent > 500 && seen.unlent > 50 && seen.left_first > 50);
    assert!(fetched[0] > 500 && fetched[1] > 50);
}

/// Checks that messages came to each mailbox in order (LA-1).
fn arrived_in_order(side: &Side, seed: u64) {
    for (mailbox, toy) in side.boxes.iter().enumerate() {
        let arrived = toy.taken.iter().chain(toy.waiting.iter().map(|(bytes, _)| bytes));
        // The number that `body` was given: 31 times 223 is 1, modulo 256.
        let number =
            |bytes: &Vec<u8>| (bytes[0].wrapping_sub(mailbox as u8 * 101)).wrapping_mul(223);
        let numbers: Vec<_> = arrived.map(number).collect();
        assert!(numbers.is_sorted(), "seed {seed}: {numbers:?}");
    }
}

/// LA-1: a message that is committed behind a lent message stays behind it.
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

#[test]
fn as_much_is_lent_as_the_limits_say() {
    use crate::limits::{LENT_BYTES_MAX, LOANS_MAX};
    let at = LentAt { pair: 1, key: (2, 3) };
    let mut loans = Loans::new(Some(FRAME_MAX));
    assert_eq!(loans.lending(FRAME_MAX - 1), Lending::Parts);
    assert_eq!(loans.lending(FRAME_MAX), Lending::Undecided);
    assert_eq!(loans.lending(LENT_BYTES_MAX + 1), Lending::Parts);
    let held = || std::sync::Arc::new(()) as Held;
    for number in 0..LOANS_MAX as u16 {
        assert!(loans.has_room(LENT_BYTES_MAX / LOANS_MAX));
        assert_eq!(loans.begin(LENT_BYTES_MAX / LOANS_MAX), number);
    }
    assert!(!loans.has_room(0), "what is being registered counts");
    for number in 0..LOANS_MAX as u16 {
        assert!(loans.is_awaited(Lending::Loan(number)));
        assert_eq!(loans.answered(number, 0), Err(Violation::Loan), "the peer does not know it");
        assert!(loans.lent(number, Ok((at, held()))).is_some());
        assert!(loans.is_awaited(Lending::Loan(number)));
    }
    assert_eq!(loans.answered(0, 0), Ok(None));
    assert!(!loans.has_room(1), "the message was not sent, so the peer still keeps it");
    assert_eq!(loans.end(Lending::Loan(0)), Some(0));
    assert!(loans.has_room(LENT_BYTES_MAX / LOANS_MAX));
    assert!(!loans.has_room(LENT_BYTES_MAX / LOANS_MAX + LOANS_MAX));
    assert_eq!(loans.take_returned().len(), 1);
    for number in 4..LOANS_MAX as u16 {
        assert_eq!(loans.answered(number, 0), Ok(None));
        assert_eq!(loans.end(Lending::Loan(number)), Some(number));
    }
    assert_eq!(loans.take_returned().len(), LOANS_MAX - 4);

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

    // If the message is not sent after all, the peer's answer ends the loan; it may have the bytes.
    assert_eq!(loans.forgo(Lending::Loan(2)), None);
    let unlent = RecordHeader { ordinal: 2, ..RecordHeader::new(RecordKind::Unlent) };
    assert_eq!(loans.answered(2, 0), Ok(Some(unlent)));
    assert_eq!(loans.forgo(Lending::Loan(3)), None);
    loans.peer_left();
    assert!(loans.is_empty() && loans.take_returned().len() == 2, "the peer may read the last one");
    assert!(LinkProtocol::eager_max(FRAME_MAX) < FRAME_MAX);
    let counts = loans.take_counts();
    let lent_bytes = (LENT_BYTES_MAX / LOANS_MAX * LOANS_MAX) as u64;
    let (lent, returned) = (LOANS_MAX as u64, LOANS_MAX as u64 - 1);
    let lent = LoanCounts { lent, lent_bytes, returned, ..LoanCounts::default() };
    assert_eq!(counts, LoanCounts { not_fetched: 1, paused: 4, ..lent });
}

/// LO-1, LO-3: what a device registers too late, or not at all, is not lent; nothing waits for it
/// any more, and its memory is given back.
#[test]
fn what_is_registered_too_late_is_given_back() {
    let at = LentAt { pair: 1, key: (2, 3) };
    let held = || std::sync::Arc::new(()) as Held;
    let mut loans = Loans::new(Some(FRAME_MAX));
    let [first, second, third, fourth] = [0; 4].map(|_| loans.begin(FRAME_MAX));
    // Its message is not sent after all.
    assert_eq!(loans.forgo(Lending::Loan(first)), None);
    assert!(!loans.is_empty());
    assert_eq!(loans.lent(first, Ok((at, held()))), None);
    // The device refuses, and there is no queue pair any more.
    assert_eq!(loans.lent(second, Err(NotLent::Failed)), None);
    assert_eq!(loans.lent(third, Err(NotLent::NotYet)), None);
    for loan in [second, third].map(Lending::Loan) {
        assert!(!loans.is_awaited(loan) && loans.end(loan).is_none(), "it goes in parts");
    }
    assert_eq!(loans.take_returned().len(), 1);
    // The peer has left, and answers nothing.
    loans.peer_left();
    assert_eq!(loans.lent(fourth, Ok((at, held()))), None);
    assert!(loans.is_empty() && loans.take_returned().len() == 1);
    // A loan that there is not.
    assert_eq!(loans.lent(9, Ok((at, held()))), None);
    assert_eq!(loans.take_returned().len(), 1);
    let parts = LoanCounts { not_registered: 1, ..LoanCounts::default() };
    assert_eq!(loans.take_counts(), parts);
}

/// A number that is open is not given again, however long its loan lasts.
#[test]
fn the_number_of_an_open_loan_is_not_given_again() {
    let mut loans = Loans::new(Some(FRAME_MAX));
    let first = loans.begin(FRAME_MAX);
    for _ in 0..=u32::from(u16::MAX) {
        let number = loans.begin(FRAME_MAX);
        assert_ne!(number, first);
        assert_eq!(loans.lent(number, Err(NotLent::NotYet)), None);
    }
}

/// Loans wait side by side: no recipient waits for bytes that another one has yet to fetch.
#[test]
fn a_message_passes_those_of_other_mailboxes_that_are_not_fetched_yet() {
    let mut pair = (0..).map(Pair::lending).find(|pair| pair.refuses_none(8)).unwrap();
    pair.open(0, "0");
    pair.open(0, "1");
    for (number, to) in [0, 0, 1, 1].into_iter().enumerate() {
        let bytes = body(to, number, if number == 3 { 9 } else { FRAME_MAX + 90 });
        assert!(pair.sides[0].send(&name(["0", "1"][to]), &bytes, RecordKind::Tell));
    }
    let carry = |pair: &mut Pair| {
        for _ in 0..3 {
            while pair.transmit(0) {}
            while pair.receive(1).unwrap() {}
            while pair.transmit(1) {}
            while pair.receive(0).unwrap() {}
        }
    };
    carry(&mut pair);
    let fence = pair.sides[0].out.fence();
    assert!(pair.fetch_last(1));
    carry(&mut pair);
    assert_eq!(pair.sides[1].boxes.each_ref().map(|toy| toy.waiting.len()), [0, 2]);
    assert!(!pair.sides[0].out.has_passed(fence), "two are still to be written");
    // The second one to the first mailbox stays behind the first.
    assert!(pair.fetch_last(1));
    carry(&mut pair);
    assert_eq!(pair.sides[1].boxes.each_ref().map(|toy| toy.waiting.len()), [0, 2]);
    assert!(pair.fetch(1));
    carry(&mut pair);
    assert_eq!(pair.sides[1].boxes.each_ref().map(|toy| toy.waiting.len()), [2, 2]);
    assert!(pair.sides[0].out.has_passed(fence));
    arrived_in_order(&pair.sides[1], 0);
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

/// LO-3: while all loans are out a message waits for its turn to be lent, in whatever order
/// mailboxes have them. Before, one to a mailbox that had no loan went in parts.
#[test]
fn messages_wait_for_their_turn_to_be_lent() {
    const MESSAGES: usize = 24;
    let mut waited = 0;
    let pairs = (0..).map(|seed| (seed, Pair::lending(seed)));
    for (seed, mut pair) in pairs.filter(|(_, pair)| pair.refuses_none(MESSAGES)).take(20) {
        let mut chance = fastrand::Rng::with_seed(seed);
        for mailbox in ["0", "1"] {
            pair.open(0, mailbox);
        }
        let mut sent = 0;
        for _ in 0..10 * MESSAGES {
            let to = chance.usize(..2);
            let bytes = body(to, sent, 1110 + chance.usize(..60));
            if sent < MESSAGES
                && pair.sides[0].send(&name(["0", "1"][to]), &bytes, RecordKind::Tell)
            {
                sent += 1;
                continue;
            }
            while pair.transmit(0) {}
            while pair.receive(1).unwrap() {}
            waited += usize::from(pair.sides[0].out.waits_for_a_loan());
            if chance.bool() {
                pair.fetch(1)
            } else {
                pair.fetch_last(1)
            };
            while pair.sides[1].take(0) || pair.sides[1].take(1) {}
            while pair.transmit(1) {}
            while pair.receive(0).unwrap() {}
        }
        pair.exchange();
        assert_eq!(pair.fetched(), [MESSAGES, 0], "seed {seed}: none went in parts");
        arrived_in_order(&pair.sides[1], seed);
    }
    println!("{waited} times a message waited for its turn");
    assert!(waited > 50);
}

/// An ask that is given up while the peer has yet to fetch it leaves its place at once. Before, it
/// kept it, and its part of the windows, until the peer had answered the loan.
#[test]
fn an_ask_that_is_given_up_does_not_wait_for_its_loan() {
    let mut pair = (0..).map(Pair::lending).find(|pair| pair.refuses_none(8)).unwrap();
    pair.open(0, "0");
    assert!(pair.sides[0].send(&name("0"), &body(0, 0, LARGE), RecordKind::Ask));
    while pair.transmit(0) {}
    let fence = pair.sides[0].out.fence();
    assert!(pair.sides[0].out.is_empty() && pair.sides[0].out.lends());
    pair.sides[0].give_up();
    assert!(!pair.sides[0].out.is_empty(), "the driver is woken for it");
    while pair.transmit(0) {}
    assert!(pair.sides[0].out.has_passed(fence) && pair.sides[0].out.is_empty());
    assert!(pair.sides[0].out.lends(), "LO-1");
    pair.exchange();
    assert!(!pair.sides[0].out.lends() && pair.sides[1].boxes[0].waiting.is_empty());
}

/// LO-4: a loan that is taken back goes in parts; its number is taken until the peer has answered,
/// and a late answer is none of another loan.
#[test]
fn what_is_taken_back_goes_in_parts() {
    use crate::limits::LOANS_MAX;
    let at = LentAt { pair: 1, key: (2, 3) };
    let held = || std::sync::Arc::new(()) as Held;
    let mut loans = Loans::new(Some(FRAME_MAX));
    let numbers = [0; LOANS_MAX].map(|_| {
        let number = loans.begin(FRAME_MAX);
        assert!(loans.lent(number, Ok((at, held()))).is_some());
        number
    });
    assert!(loans.is_full());
    loans.take_back(1);
    assert!(loans.take_returned().is_empty(), "their queue pair lives");
    loans.take_back(2);
    assert_eq!(loans.take_returned().len(), LOANS_MAX);
    assert!(!loans.is_full(), "no answer may come: nothing waits for one");
    assert!(!loans.has_room(1), "the peer may still say that it has fetched them");
    for number in numbers {
        assert!(!loans.is_awaited(Lending::Loan(number)));
    }
    // Sent in parts before and after the answer, and not sent at all.
    let [first, second, third, fourth, rest @ ..] = numbers;
    let unlent = |number| RecordHeader { ordinal: number, ..RecordHeader::new(RecordKind::Unlent) };
    assert_eq!(loans.end(Lending::Loan(first)), None);
    assert_eq!(loans.answered(first, 0), Ok(Some(unlent(first))));
    assert_eq!(loans.answered(first, 0), Err(Violation::Loan));
    assert_eq!(loans.end(Lending::Loan(second)), None);
    assert_eq!(loans.answered(second, 1), Ok(None));
    assert_eq!(loans.answered(third, 0), Ok(None));
    assert_eq!(loans.end(Lending::Loan(third)), Some(third), "it came in the end");
    assert_eq!(loans.forgo(Lending::Loan(fourth)), None);
    for number in rest {
        assert_eq!(loans.end(Lending::Loan(number)), None);
        assert_eq!(loans.answered(number, 0), Ok(Some(unlent(number))));
    }
    loans.peer_left();
    assert!(loans.is_empty() && loans.take_returned().is_empty());
}

/// LO-3: where there is no queue pair yet, the message whose turn it is goes in parts, and messages
/// behind it are lent when there is one. A bug once made all waiting messages go in parts.
#[test]
fn what_waits_when_the_queue_pair_comes_is_lent() {
    let mut loans = Loans::new(Some(FRAME_MAX));
    let number = loans.begin(FRAME_MAX);
    assert_eq!(loans.lent(number, Err(NotLent::NotYet)), None);
    assert!(loans.is_empty() && !loans.has_room(FRAME_MAX), "it is not tried at once");
    loans.pass();
    loans.retry();
    assert!(loans.has_room(FRAME_MAX));
    loans.pass();
    let parts = LoanCounts { not_ready: 1, full: 1, ..LoanCounts::default() };
    assert_eq!(loans.take_counts(), parts);
}
