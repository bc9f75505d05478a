//! The lines against an oracle, and what a task sends beside its place in one.

use proptest::prelude::*;

use super::*;

fn want(bytes: u32) -> Want {
    let message = MessageForms::NONE;
    Want { message, ordinal: 0, kind: SendKind::Tell, bytes }
}

fn join(queue: &mut WaitQueue, line: Line, number: u32) -> usize {
    queue.join(line, Waker::noop().clone(), want(number), Some(WaitsFor::Turn))
}

/// Returns the entries of a line, by the number they joined with.
fn numbers(queue: &mut WaitQueue, line: Line) -> Vec<u32> {
    let mut at = queue.first(line);
    let mut all = Vec::new();
    while let Some(key) = at {
        all.push(queue.want(key).bytes);
        let after = queue.entries[key].after;
        at = (after != NONE).then_some(after);
    }
    all
}

/// WQ-4: a task's messages do not pass its own place in line.
#[tokio::test]
async fn who_stands_in_line_has_no_burst_any_more() {
    let task = async {
        let mut queue = WaitQueue::default();
        queue.begin_burst(1);
        join(&mut queue, Line::Room(2), 0);
        join(&mut queue, Line::Opening(1), 0);
        assert!(queue.burst(1).is_some(), "these are other lines");
        join(&mut queue, Line::Room(1), 0);
        assert!(queue.burst(1).is_none());
    };
    tokio::spawn(task).await.expect("it holds");
}

proptest! {
    /// The oracle is a vector for each line.
    // Promised in docs/SEMANTICS.md.
    #[test]
    fn lines_are_first_in_first_out_whoever_leaves(
        steps in proptest::collection::vec((0u8..5, 0u32..3, 0usize..8), 1..100),
    ) {
        let mut queue = WaitQueue::default();
        let mut oracle: Vec<Vec<(u32, usize)>> = vec![Vec::new(); 3];
        for (number, (what, line, at)) in (0..).zip(steps) {
            let place = Line::Room(line);
            let (own, line) = (line, line as usize);
            match what {
                0 | 1 => {
                    let key = join(&mut queue, place, number);
                    oracle[line].push((number, key));
                }
                2 if at < oracle[line].len() => {
                    let (number, key) = oracle[line].remove(at);
                    let (want, standing) = queue.leave(key).unwrap();
                    prop_assert_eq!((want.bytes, standing), (number, Standing::Waiting));
                    prop_assert!(queue.leave(key).is_none());
                }
                3 if at < oracle[line].len() => {
                    let entry = oracle[line].remove(at);
                    let to = (own + 1) % 3;
                    queue.move_to(entry.1, Line::Room(to));
                    oracle[to as usize].push(entry);
                }
                4 if !oracle[line].is_empty() => {
                    let (_, key) = oracle[line].remove(0);
                    let granted = Standing::Granted { mailbox: own, found: Found::default() };
                    queue.resolve(key, granted.clone(), Instant::now());
                    prop_assert_eq!(queue.take_wakers().0.len(), 1);
                    prop_assert_eq!(queue.standing(key), granted);
                    queue.leave(key);
                }
                _ => {}
            }
            for (line, own) in oracle.iter().enumerate() {
                let place = Line::Room(line as u32);
                let expected = own.iter().map(|(number, _)| *number).collect::<Vec<_>>();
                prop_assert_eq!(numbers(&mut queue, place), expected);
                prop_assert_eq!(queue.ends(place).len, own.len());
            }
        }
    }
}
