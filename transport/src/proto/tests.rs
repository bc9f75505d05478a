//! Two sides of a link, joined by queues of frames.

mod hostile;
mod loans;
mod message;
mod opening;
mod queue;

use proptest::prelude::*;

use super::fate::{Sent, What};
use super::pair::{Pair, body, name, type_of};
use crate::unresolved::{UnackedTell, Unresolved};

/// Returns what two sides are told to do, in any order.
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

/// Two sides that have had each other's confirmation; with a seed they lend large messages.
fn lending(seed: Option<u64>) -> Pair {
    seed.map_or_else(Pair::confirmed, Pair::lending)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The messages of each mailbox arrive in order, each once and whole, and so do answers (LA-1,
    /// WI-1, CR-2); then both sides say goodbye (LK-3).
    // Promised in docs/SEMANTICS.md.
    #[test]
    fn messages_and_answers_arrive_once_whole_and_in_order(
        sizes in [[sizes(), sizes()], [sizes(), sizes()]],
        steps in steps(),
        lends in any::<Option<u64>>(),
    ) {
        let mut pair = lending(lends);
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
            prop_assert!(side.boxes.iter().all(|toy| toy.misnoted == 0), "notes to side {i}");
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
        after in proptest::collection::vec(0u8..8, 0..60),
        lends in any::<Option<u64>>(),
    ) {
        let mut pair = lending(lends);
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
                2 => pair.fetch(side),
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

    /// A message to a mailbox that closes is taken or refused, never both and never lost.
    #[test]
    fn a_closed_mailbox_refuses_exactly_what_it_did_not_take(
        sizes in sizes(), before in steps(), after in steps(), lends in any::<Option<u64>>(),
    ) {
        let mut pair = lending(lends);
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
        // Fates come in any order; messages never committed stay with their sender.
        let mut gone = refused.clone();
        gone.sort_unstable();
        let committed = pair.sides[0].committed(0);
        // The fate of an ask is told by its answer.
        let tells = (taken..committed).filter(|n| !asks[*n]).map(type_of);
        prop_assert_eq!(gone, tells.collect::<Vec<_>>());
        let unanswered = (taken..committed).filter(|n| asks[*n]).count();
        prop_assert_eq!(pair.sides[0].unanswered, unanswered);
        prop_assert!(committed <= count);
    }

    /// Wherever a link is cut, whatever was on its way then, the peer's report gives each message
    /// in doubt the fate that the peer's mailbox shows; none is left out or told of twice.
    // Promised in docs/SEMANTICS.md.
    #[test]
    fn after_a_cut_the_word_tells_every_fate_truly(
        sizes in sizes(), before in steps(), close: bool, after in steps(),
        lends in any::<Option<u64>>(),
    ) {
        let tells = sizes.into_iter().map(|(size, _)| (size, false)).collect();
        let mut pair = lending(lends);
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
        let tell = |message| UnackedTell { request: name("0"), message, confirm: None };
        let (in_flight, _) = left.link.end();
        let message = |sent: &Sent| match sent.what {
            What::Tell { message, .. } => message,
            other => panic!("only tells were sent: {other:?}"),
        };
        let in_flight = in_flight.into_iter().flat_map(Sent::each);
        let doubts = in_flight.map(|s| ((s.frame, s.place), tell(message(&s)))).collect();
        let report = right.link.end().1.expect("an honest peer");
        let unresolved = Unresolved::new();
        unresolved.begin();
        unresolved.end(1, doubts, None);
        let mut settled = unresolved.refused(1, &report.refusals);
        settled.extend(unresolved.consumed(Some((1, report.count))));

        let arrived = right.boxes[0].taken.len() + right.boxes[0].waiting.len();
        let mut lost = left.refused.clone();
        lost.extend(left.out.end().0.iter().map(|entry| entry.message));
        for (tell, fate) in settled {
            prop_assert!(fate.is_err() || tell.message <= type_of(arrived), "{}", tell.message);
            lost.extend(fate.err().map(|_| tell.message));
        }
        lost.sort_unstable();
        prop_assert_eq!(lost, (arrived..left.committed(0)).map(type_of).collect::<Vec<_>>());
    }
}
