//! Tests of the mailbox alone, polled by hand.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::time::Instant;

use super::*;
use crate::limits;

/// Counts its wake-ups.
#[derive(Default)]
struct TestWaker(AtomicUsize);

impl Wake for TestWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A message that can always be begun.
impl RemoteItem for u32 {
    type Message = u32;

    fn count(&self) -> usize {
        1
    }

    fn take_first(&mut self) -> Option<u32> {
        Some(*self)
    }

    fn take_tell(&mut self) -> Option<u32> {
        None
    }

    fn peer(&self) -> usize {
        0
    }

    fn poll_begin(&self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// One message, by the queue that it was taken from.
pub(super) enum TakenMessage<L, R> {
    Local(L),
    Remote(R),
}

/// Takes the next message to begin it, as an actor does.
pub(super) fn take<L: Copy, R: RemoteItem>(
    hand: &mut Prefetched<L, R>,
    cx: &mut Context<'_>,
) -> Option<TakenMessage<L, R::Message>> {
    if let Some(message) = hand.begin_local().copied() {
        return Some(TakenMessage::Local(message));
    }
    hand.take_tell().or_else(|| hand.take_far(cx)).map(TakenMessage::Remote)
}

/// Takes out the messages of an actor that begins no more, as its cell does.
pub(super) fn take_unbegun<L: Copy, R: RemoteItem>(
    hand: &mut Prefetched<L, R>,
) -> Vec<TakenMessage<L, R::Message>> {
    let local = std::iter::from_fn(|| hand.take_local().copied()).map(TakenMessage::Local);
    let mut unbegun: Vec<_> = local.collect();
    unbegun.extend(hand.take_remote().map(TakenMessage::Remote));
    unbegun
}

struct Sender {
    bell: Arc<TestWaker>,
    turn: Option<u64>,
}

impl Sender {
    fn new() -> Self {
        Sender { bell: Arc::default(), turn: None }
    }

    fn poll<'a>(&mut self, mailbox: &'a Mailbox<u32, u32>) -> Poll<Result<MailboxRoom<'a>, Cause>> {
        let waker = Waker::from(self.bell.clone());
        mailbox.poll_room(&mut self.turn, &mut Context::from_waker(&waker))
    }

    fn push(&mut self, mailbox: &Mailbox<u32, u32>, message: u32) -> bool {
        match self.poll(mailbox) {
            Poll::Ready(Ok(room)) => mailbox.fill(room, message).is_ok(),
            _ => false,
        }
    }

    /// Pushes if it needs no waiting; a sender that waits, with its turn.
    fn push_at_once(&mut self, mailbox: &Mailbox<u32, u32>, message: u32) -> bool {
        let vacancy = match self.turn {
            None => mailbox.try_vacancy(),
            Some(turn) => mailbox.vacancy_in_turn(turn),
        };
        let Ok(vacancy) = vacancy else { return false };
        drop(match self.turn.take() {
            None => vacancy.fill(message),
            Some(turn) => vacancy.fill_in_turn(turn, message),
        });
        true
    }

    fn rings(&self) -> usize {
        self.bell.0.load(Ordering::Relaxed)
    }
}

struct Reader {
    bell: Arc<TestWaker>,
    hand: Prefetched<u32, u32>,
}

impl Reader {
    fn new() -> Self {
        Reader { bell: Arc::default(), hand: Prefetched::new() }
    }

    fn poll(&mut self, mailbox: &Mailbox<u32, u32>) -> Poll<FillOutcome> {
        let waker = Waker::from(self.bell.clone());
        mailbox.poll_batch(&mut self.hand, &mut Context::from_waker(&waker))
    }

    fn taken(&mut self) -> Vec<u32> {
        let waker = Waker::from(self.bell.clone());
        std::iter::from_fn(|| take(&mut self.hand, &mut Context::from_waker(&waker)))
            .map(|taken| match taken {
                TakenMessage::Local(message) | TakenMessage::Remote(message) => message,
            })
            .collect()
    }

    fn rings(&self) -> usize {
        self.bell.0.load(Ordering::Relaxed)
    }
}

// Promised in docs/SEMANTICS.md.
#[test]
fn no_more_than_the_capacity_is_reserved_or_waiting() {
    let mailbox = Mailbox::<u32, u32>::new(2);
    let room = mailbox.try_room().ok().unwrap();
    assert!(Sender::new().push(&mailbox, 1));
    assert_eq!(mailbox.try_room().err(), Some(Cause::MailboxFull));
    assert!(mailbox.fill(room, 2).is_ok());
    assert!(Sender::new().poll(&mailbox).is_pending());
}

// Promised in docs/SEMANTICS.md.
#[test]
fn room_goes_to_those_who_wait_in_the_order_they_came() {
    let mailbox = Mailbox::<u32, u32>::new(1);
    let mut reader = Reader::new();
    assert!(Sender::new().push(&mailbox, 0));
    let (mut first, mut second) = (Sender::new(), Sender::new());
    assert!(first.poll(&mailbox).is_pending());
    assert!(second.poll(&mailbox).is_pending());
    assert_eq!(reader.poll(&mailbox), Poll::Ready(FillOutcome::Filled));
    assert_eq!((first.rings(), second.rings()), (1, 0));
    assert!(second.poll(&mailbox).is_pending(), "it is the first one's turn");
    assert_eq!(mailbox.try_room().err(), Some(Cause::MailboxFull), "nobody overtakes the line");
    assert!(first.push(&mailbox, 1));
    assert_eq!(reader.taken(), [0]);
    assert_eq!(reader.poll(&mailbox), Poll::Ready(FillOutcome::Filled));
    assert!(second.push(&mailbox, 2));
}

/// MB-10: a sender that was woken takes its place in the queue and fills it in one step.
#[test]
fn a_vacancy_is_for_the_sender_whose_turn_it_is() {
    let mailbox = Mailbox::<u32, u32>::new(64);
    let mut reader = Reader::new();
    (0..64).for_each(|message| assert!(Sender::new().push_at_once(&mailbox, message)));
    let mut senders: Vec<_> = (0..5).map(|_| Sender::new()).collect();
    senders.iter_mut().for_each(|sender| assert!(sender.poll(&mailbox).is_pending()));
    // Two places: a batch has a thirty-second of the capacity.
    assert_eq!(reader.poll(&mailbox), Poll::Ready(FillOutcome::Filled));
    assert!(!Sender::new().push_at_once(&mailbox, 99), "nobody overtakes the queue");
    assert!(!senders[2].push_at_once(&mailbox, 66), "it was not woken");
    assert!(senders[1].push_at_once(&mailbox, 65));
    mailbox.leave(senders[0].turn.take().unwrap());
    assert_eq!(senders[2].rings(), 1, "the place of a sender that has left is the next one's");
    assert!(senders[2].poll(&mailbox).is_ready(), "and its room is given back");
    assert!(senders[3].push_at_once(&mailbox, 67));
    assert!(!senders[4].push_at_once(&mailbox, 68));
    mailbox.stop();
    assert!(!senders[4].push_at_once(&mailbox, 68));
    assert_eq!(senders[4].poll(&mailbox).map(|room| room.err()), Poll::Ready(Some(Cause::Stopped)));
}

// Promised in docs/SEMANTICS.md.
#[test]
fn a_sender_that_leaves_gives_its_turn_to_the_next() {
    let mailbox = Mailbox::<u32, u32>::new(1);
    let mut reader = Reader::new();
    assert!(Sender::new().push(&mailbox, 0));
    let (mut first, mut second) = (Sender::new(), Sender::new());
    assert!(first.poll(&mailbox).is_pending());
    assert!(second.poll(&mailbox).is_pending());
    assert_eq!(reader.poll(&mailbox), Poll::Ready(FillOutcome::Filled));
    mailbox.leave(first.turn.take().unwrap());
    assert_eq!(second.rings(), 1);
    assert!(second.push(&mailbox, 2));
}

#[test]
fn room_that_is_not_filled_goes_to_the_next() {
    let mailbox = Mailbox::<u32, u32>::new(1);
    let room = mailbox.try_room().ok().unwrap();
    let mut next = Sender::new();
    assert!(next.poll(&mailbox).is_pending());
    drop(room);
    assert_eq!(next.rings(), 1);
    assert!(next.push(&mailbox, 1));
}

#[test]
fn a_batch_takes_from_both_intakes_in_order_and_rings_once() {
    let mailbox = Mailbox::<u32, u32>::new(64);
    let mut reader = Reader::new();
    assert!(reader.poll(&mailbox).is_pending());
    for message in 0..3 {
        assert!(Sender::new().push(&mailbox, message));
        assert!(mailbox.push_remote(&mut vec![10 + message], |message| message).is_ok());
    }
    assert_eq!(reader.rings(), 1, "once for the whole batch");
    let mut all = Vec::new();
    while reader.poll(&mailbox) == Poll::Ready(FillOutcome::Filled) {
        all.append(&mut reader.taken());
    }
    assert_eq!(all, [0, 1, 10, 11, 2, 12], "two of each in turn");
}

#[test]
fn what_only_a_burst_of_another_node_needed_is_given_back() {
    let mailbox = Mailbox::<u32, u32>::new(4096);
    let mut reader = Reader::new();
    assert!(reader.poll(&mailbox).is_pending());
    for message in 0..1000 {
        assert!(mailbox.push_remote(&mut vec![message], |message| message).is_ok());
    }
    let capacity = || mailbox.state.lock().remote.as_ref().map(|remote| remote.capacity());
    assert!(capacity() >= Some(1000));
    while reader.poll(&mailbox) == Poll::Ready(FillOutcome::Filled) {
        reader.taken();
    }
    assert!(capacity() <= Some(limits::QUEUE_KEPT_MESSAGES));
}

#[test]
fn a_drain_takes_what_was_accepted_and_what_was_reserved() {
    let mailbox = Mailbox::<u32, u32>::new(4);
    let mut reader = Reader::new();
    let room = mailbox.try_room().ok().unwrap();
    let unused = mailbox.try_room().ok().unwrap();
    assert!(mailbox.push_remote(&mut vec![7], |message| message).is_ok());
    let mut late = Sender::new();
    mailbox.drain();
    assert!(matches!(late.poll(&mailbox), Poll::Ready(Err(Cause::Stopped))));
    let mut late = vec![8];
    assert!(mailbox.push_remote(&mut late, |message| message).is_err());
    assert_eq!(late, [8]);
    assert_eq!(reader.poll(&mailbox), Poll::Ready(FillOutcome::Filled));
    assert_eq!(reader.taken(), [7]);
    assert!(reader.poll(&mailbox).is_pending(), "room is still reserved");
    assert!(mailbox.fill(room, 9).is_ok());
    assert_eq!(reader.rings(), 1);
    assert_eq!(reader.poll(&mailbox), Poll::Ready(FillOutcome::Filled));
    assert_eq!(reader.taken(), [9]);
    assert!(reader.poll(&mailbox).is_pending());
    drop(unused);
    assert_eq!(reader.rings(), 2);
    assert_eq!(reader.poll(&mailbox), Poll::Ready(FillOutcome::End));
}

#[test]
fn a_stop_wakes_all_and_leaves_what_was_not_begun() {
    let mailbox = Mailbox::<u32, u32>::new(1);
    let mut reader = Reader::new();
    assert!(reader.poll(&mailbox).is_pending());
    assert!(Sender::new().push(&mailbox, 1));
    assert!(mailbox.push_remote(&mut vec![2], |message| message).is_ok());
    let mut waiting = Sender::new();
    assert!(waiting.poll(&mailbox).is_pending());
    mailbox.stop();
    assert!(mailbox.is_stopping());
    assert_eq!(waiting.rings(), 1);
    assert!(matches!(waiting.poll(&mailbox), Poll::Ready(Err(Cause::Stopped))));
    assert_eq!(reader.poll(&mailbox), Poll::Ready(FillOutcome::End));
    mailbox.close(&mut reader.hand);
    let unbegun = take_unbegun(&mut reader.hand).into_iter().map(|taken| match taken {
        TakenMessage::Local(message) | TakenMessage::Remote(message) => message,
    });
    assert_eq!(unbegun.collect::<Vec<_>>(), [1, 2]);
}

/// Several messages that arrived together.
impl RemoteItem for VecDeque<u32> {
    type Message = u32;

    fn count(&self) -> usize {
        self.len()
    }

    fn take_first(&mut self) -> Option<u32> {
        self.pop_front()
    }

    fn take_tell(&mut self) -> Option<u32> {
        self.pop_front()
    }

    fn peer(&self) -> usize {
        0
    }

    fn poll_begin(&self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// The order of a batch, and a stop, for any number of messages that arrived together.
#[test]
fn messages_that_came_together_leave_room_for_a_turn_of_the_others() {
    let mailbox = Mailbox::<u32, VecDeque<u32>>::new(4);
    let (mut hand, mut cx) = (Prefetched::new(), Context::from_waker(Waker::noop()));
    let together = |numbers: std::ops::Range<u32>| numbers.collect::<VecDeque<_>>();
    let mut run = vec![together(100..200), together(200..203)];
    assert!(mailbox.push_remote(&mut run, |message| message).is_ok());
    assert_eq!(mailbox.depth().remote, 103);
    let mut begun = Vec::new();
    for local in 0..4 {
        assert!(mailbox.fill(mailbox.try_room().ok().unwrap(), local).is_ok());
        if local == 3 {
            break;
        }
        assert_eq!(mailbox.poll_batch(&mut hand, &mut cx), Poll::Ready(FillOutcome::Filled));
        assert_eq!(mailbox.depth().remote, 3, "what came together is taken together");
        let before = begun.len();
        let taken = std::iter::from_fn(|| take(&mut hand, &mut cx));
        begun.extend(taken.map(|taken| match taken {
            TakenMessage::Local(message) | TakenMessage::Remote(message) => message,
        }));
        assert_eq!((begun.len() - before, begun[before]), (2, local), "one of each in turn");
    }
    mailbox.close(&mut hand);
    begun.extend(take_unbegun(&mut hand).into_iter().map(|taken| match taken {
        TakenMessage::Local(message) | TakenMessage::Remote(message) => message,
    }));
    let remote: Vec<_> = begun.iter().copied().filter(|number| *number >= 100).collect();
    assert_eq!((remote, begun.len()), ((100..203).collect(), 107));
}

#[test]
fn room_that_outlives_a_stop_takes_nothing() {
    let mailbox = Mailbox::<u32, u32>::new(2);
    let (room, other) = (mailbox.try_room().ok().unwrap(), mailbox.try_room().ok().unwrap());
    mailbox.stop();
    assert_eq!(mailbox.fill(room, 5).err(), Some(5));
    drop(other);
}

/// A mark passes before the messages after it are begun, even if all are prefetched together.
#[test]
fn a_mark_has_passed_as_soon_as_what_came_before_it_is_begun() {
    let mailbox = Mailbox::<u32, u32>::new(64);
    let (mut sender, mut reader) = (Sender::new(), Reader::new());
    let push = |sender: &mut Sender, numbers: std::ops::Range<u32>| {
        assert!(numbers.into_iter().all(|number| sender.push(&mailbox, number)));
    };
    push(&mut sender, 0..4);
    assert_eq!(reader.poll(&mailbox), Poll::Ready(FillOutcome::Filled));
    push(&mut sender, 4..8);
    let mark = mailbox.mark(None);
    let mut begun = Vec::new();
    while begun.len() < 18 {
        if begun.len() == 4 {
            push(&mut sender, 8..18);
        }
        assert_eq!(mailbox.has_passed(None, mark, &reader.hand), begun.len() >= 8, "{begun:?}");
        let waker = Waker::noop();
        match take(&mut reader.hand, &mut Context::from_waker(waker)) {
            Some(TakenMessage::Local(number)) => begun.push(number),
            _ => assert_eq!(reader.poll(&mailbox), Poll::Ready(FillOutcome::Filled)),
        }
    }
    assert_eq!(begun, (0..18).collect::<Vec<_>>());
}

/// MB-10, also if the memory has to grow, and if the vacancy is not filled.
#[test]
fn a_vacancy_has_room_for_one_message() {
    let mailbox = Mailbox::<u32, u32>::new(100);
    for message in 0..100 {
        drop(mailbox.try_vacancy().ok().unwrap());
        mailbox.try_vacancy().ok().unwrap().fill(message);
    }
    assert_eq!(mailbox.try_vacancy().err(), Some(Cause::MailboxFull));
    assert_eq!(mailbox.depth().local, 100);
    mailbox.drain();
    assert_eq!(mailbox.try_vacancy().err(), Some(Cause::Stopped));
    let (mut reader, mut begun) = (Reader::new(), Vec::new());
    while reader.poll(&mailbox) == Poll::Ready(FillOutcome::Filled) {
        begun.extend(reader.taken());
    }
    assert_eq!(begun, (0..100).collect::<Vec<_>>());
}
