//! Tests of prefetched messages and their mailbox, polled by the tests, with links that have room
//! for replies or have none.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::deadlines::Deadlines;
use crate::mailbox::tests::{TakenMessage, take, take_unbegun};
use crate::mailbox::{FillOutcome, Mailbox};

/// A link with room for `room` replies, and the tasks to wake when it gets more.
#[derive(Default)]
struct Link {
    room: AtomicUsize,
    waiting: Mutex<Vec<Waker>>,
}

impl Link {
    fn grant(&self, replies: usize) {
        self.room.fetch_add(replies, Ordering::Relaxed);
        std::mem::take(&mut *self.waiting.lock()).into_iter().for_each(Waker::wake);
    }
}

/// A message of another node.
struct Message {
    link: (u64, Arc<Link>),
    number: u32,
    is_ask: bool,
    is_late: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

/// One message, or tells of one link that arrived together.
type Item = VecDeque<Message>;

impl RemoteItem for Item {
    type Message = Message;

    fn count(&self) -> usize {
        self.len()
    }

    fn take_first(&mut self) -> Option<Message> {
        self.pop_front()
    }

    fn take_tell(&mut self) -> Option<Message> {
        self.pop_front_if(|message| !message.is_ask)
    }

    fn peer(&self) -> usize {
        self[0].link.0 as usize
    }

    fn poll_begin(&self, cx: &mut Context<'_>) -> Poll<()> {
        self[0].poll_begin(cx)
    }

    fn deadline(&self) -> Option<Instant> {
        self[0].deadline
    }
}

impl Message {
    fn poll_begin(&self, cx: &mut Context<'_>) -> Poll<()> {
        let has_room = self.link.1.room.load(Ordering::Relaxed) > 0;
        let is_late = self.deadline.is_some_and(|deadline| deadline <= Instant::now());
        if !self.is_ask || has_room || is_late || self.is_late.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        self.link.1.waiting.lock().push(cx.waker().clone());
        Poll::Pending
    }
}

#[derive(Default)]
struct TestWaker(AtomicUsize);

impl Wake for TestWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A mailbox, its actor, and links 0 and 1 to it.
struct MailboxFixture {
    mailbox: Mailbox<u32, Item>,
    hand: Prefetched<u32, Item>,
    links: [Arc<Link>; 2],
    late: Arc<AtomicBool>,
    bell: Arc<TestWaker>,
}

impl MailboxFixture {
    fn new() -> Self {
        MailboxFixture::of(64)
    }

    fn of(capacity: usize) -> Self {
        MailboxFixture {
            mailbox: Mailbox::new(capacity),
            hand: Prefetched::new(),
            links: Default::default(),
            late: Arc::default(),
            bell: Arc::default(),
        }
    }

    fn push(&self, link: usize, number: u32, is_ask: bool) {
        self.push_all(link, number..number + 1, is_ask);
    }

    /// Pushes messages with these numbers, which arrive together.
    fn push_all(&self, link: usize, numbers: std::ops::Range<u32>, is_ask: bool) {
        let message = |number| {
            let link = (link as u64, self.links[link].clone());
            Message { link, number, is_ask, is_late: self.late.clone(), deadline: None }
        };
        let item: Item = numbers.map(message).collect();
        assert!(self.mailbox.push_remote(&mut vec![item], |item| item).is_ok());
    }

    fn ask(&self, link: usize, number: u32) {
        self.push(link, number, true);
    }

    fn tell(&self, link: usize, number: u32) {
        self.push(link, number, false);
    }

    /// Runs the actor until it waits or ends, and returns the messages it began. Each ask that
    /// begins uses up the room of its reply.
    fn begun(&mut self) -> (Vec<u32>, Poll<FillOutcome>) {
        let mut begun = Vec::new();
        loop {
            let batch = self.batch(&mut begun);
            if batch != Poll::Ready(FillOutcome::Filled) {
                return (begun, batch);
            }
        }
    }

    /// Runs one batch of the actor.
    fn batch(&mut self, begun: &mut Vec<u32>) -> Poll<FillOutcome> {
        let waker = Waker::from(self.bell.clone());
        let mut cx = Context::from_waker(&waker);
        let batch = self.mailbox.poll_batch(&mut self.hand, &mut cx);
        while batch == Poll::Ready(FillOutcome::Filled)
            && let Some(taken) = take(&mut self.hand, &mut cx)
        {
            begun.push(match taken {
                TakenMessage::Local(number) => number,
                TakenMessage::Remote(message) => {
                    if message.is_ask && !message.is_late.load(Ordering::Relaxed) {
                        message.link.1.room.fetch_sub(1, Ordering::Relaxed);
                    }
                    message.number
                }
            });
        }
        batch
    }

    fn rings(&self) -> usize {
        self.bell.0.load(Ordering::Relaxed)
    }
}

// Promised in docs/SEMANTICS.md.
#[test]
fn a_link_without_room_keeps_its_order_and_others_go_on() {
    let mut scene = MailboxFixture::new();
    scene.links[1].grant(9);
    for number in [1, 2] {
        scene.tell(0, number);
    }
    scene.ask(0, 3);
    scene.tell(0, 4);
    scene.ask(1, 11);
    scene.tell(0, 5);
    scene.ask(0, 6);
    scene.tell(1, 12);
    assert_eq!(scene.begun(), (vec![1, 2, 11, 12], Poll::Pending));
    scene.tell(0, 7);
    scene.tell(1, 13);
    assert_eq!(scene.begun(), (vec![13], Poll::Pending), "7 waits for those before it");
    scene.links[0].grant(1);
    assert_eq!(scene.begun(), (vec![3, 4, 5], Poll::Pending), "room for one reply");
    scene.links[0].grant(1);
    assert_eq!(scene.begun(), (vec![6, 7], Poll::Pending));
    scene.tell(0, 8);
    assert_eq!(scene.begun(), (vec![8], Poll::Pending), "nothing is held any more");
    assert!(!scene.hand.remote().is_some_and(RemotePrefetched::holds_back));
}

/// Messages of this node go on, too.
#[test]
fn messages_of_this_node_go_on_while_a_link_has_no_room() {
    let mut scene = MailboxFixture::new();
    scene.ask(0, 1);
    assert_eq!(scene.begun(), (vec![], Poll::Pending));
    let room = scene.mailbox.try_room().ok().unwrap();
    assert!(scene.mailbox.fill(room, 100).is_ok());
    assert_eq!(scene.rings(), 1);
    assert_eq!(scene.begun(), (vec![100], Poll::Pending));
}

/// Many released messages of one link take turns with messages of other links and of this node.
#[test]
fn what_was_held_back_goes_on_in_turn_with_all_else() {
    const OTHER: u32 = 1000;
    const LOCAL: u32 = 2000;
    let mut scene = MailboxFixture::new();
    scene.ask(0, 1);
    (2..200).for_each(|number| scene.tell(0, number));
    assert_eq!(scene.begun(), (vec![], Poll::Pending));
    for number in 0..10 {
        let room = scene.mailbox.try_room().ok().unwrap();
        assert!(scene.mailbox.fill(room, LOCAL + number).is_ok());
    }
    scene.push_all(1, OTHER..OTHER + 40, false);
    scene.links[0].grant(1);
    let (begun, _) = scene.begun();
    assert_eq!(begun.len(), 199 + 10 + 40);
    // A batch of this mailbox has two messages of this node and 32 of other nodes.
    let position = |number| begun.iter().position(|begun| *begun == number).unwrap();
    assert!(position(LOCAL + 9) <= 5 * (32 + 2), "{begun:?}");
    assert!(position(OTHER + 39) <= 4 * (32 + 2), "{begun:?}");
}

/// Released messages get their turn beside a node that keeps the remote queue full, even with the
/// smallest batch.
#[test]
fn what_was_held_back_has_its_turn_in_the_smallest_mailbox() {
    for capacity in [1, 32, 63, 64, 100, 1000] {
        let mut scene = MailboxFixture::of(capacity);
        scene.ask(0, 1);
        (2..6).for_each(|number| scene.tell(0, number));
        assert_eq!(scene.begun(), (vec![], Poll::Pending));
        scene.links[0].grant(1);
        let mut begun = Vec::new();
        for number in 100..112 {
            scene.tell(1, number);
            assert_eq!(scene.batch(&mut begun), Poll::Ready(FillOutcome::Filled));
        }
        begun.retain(|number| *number < 100);
        assert_eq!(begun, [1, 2, 3, 4, 5], "of a mailbox for {capacity}");
    }
}

/// For `Down` after the last message: held-back messages of one node do not delay the mark of
/// another node, and messages after a mark do not delay it.
#[test]
fn a_mark_of_one_node_passes_whatever_is_held_back_of_another() {
    let mut scene = MailboxFixture::new();
    scene.ask(0, 1);
    scene.tell(1, 11);
    let marks = [0, 1].map(|link| scene.mailbox.mark(Some(link)));
    let passed = |scene: &MailboxFixture| {
        [0, 1].map(|link| scene.mailbox.has_passed(Some(link), marks[link], &scene.hand))
    };
    assert_eq!(passed(&scene), [false, false]);
    for round in 1..5 {
        // The node sends another ask as soon as one is begun.
        scene.ask(0, 1 + round);
        assert_eq!(scene.begun().0.contains(&11), round == 1);
        assert_eq!(passed(&scene), [round > 1, true]);
        scene.links[0].grant(1);
        assert_eq!(scene.begun().0, [round]);
    }
    assert!(scene.hand.remote().is_some_and(RemotePrefetched::holds_back));
}

/// Each of two links without room waits for its own room.
#[test]
fn each_link_waits_for_its_own_room() {
    let mut scene = MailboxFixture::new();
    scene.ask(0, 1);
    scene.ask(1, 11);
    scene.ask(0, 2);
    scene.ask(1, 12);
    assert_eq!(scene.begun(), (vec![], Poll::Pending));
    scene.links[1].grant(1);
    assert!(scene.rings() > 0);
    assert_eq!(scene.begun(), (vec![11], Poll::Pending));
    scene.links[0].grant(2);
    scene.links[1].grant(1);
    let (mut begun, _) = scene.begun();
    begun.sort_unstable();
    assert_eq!(begun, [1, 2, 12]);
}

/// The wake-up is not lost, whether room comes before or after the actor waits.
#[test]
fn room_wakes_an_actor_that_waits_for_it() {
    let mut scene = MailboxFixture::new();
    scene.ask(0, 1);
    let waker = Waker::from(scene.bell.clone());
    let mut cx = Context::from_waker(&waker);
    let filled = scene.mailbox.poll_batch(&mut scene.hand, &mut cx);
    assert_eq!(filled, Poll::Ready(FillOutcome::Filled));
    assert!(take(&mut scene.hand, &mut cx).is_none(), "it is held back");
    scene.links[0].grant(1);
    assert_eq!(scene.rings(), 1);
    assert_eq!(scene.begun(), (vec![1], Poll::Pending), "found without waiting");
    scene.ask(0, 2);
    assert_eq!(scene.begun(), (vec![], Poll::Pending));
    let rings = scene.rings();
    scene.links[0].grant(1);
    assert!(scene.rings() > rings, "the waiting actor is woken");
    assert_eq!(scene.begun(), (vec![2], Poll::Pending));
}

/// An ask that is held back can expire.
#[test]
fn an_ask_that_is_held_back_goes_when_its_deadline_has_passed() {
    let mut scene = MailboxFixture::new();
    scene.ask(0, 1);
    scene.tell(0, 2);
    assert_eq!(scene.begun(), (vec![], Poll::Pending));
    scene.late.store(true, Ordering::Relaxed);
    scene.tell(1, 11);
    assert_eq!(scene.begun(), (vec![1, 11, 2], Poll::Pending), "in turn with another link's");
}

/// A drain handles messages that are held back, too.
#[test]
fn a_drain_waits_for_what_is_held_back() {
    let mut scene = MailboxFixture::new();
    scene.ask(0, 1);
    scene.tell(0, 2);
    assert_eq!(scene.begun(), (vec![], Poll::Pending));
    scene.mailbox.drain();
    assert_eq!(scene.begun(), (vec![], Poll::Pending));
    scene.links[0].grant(1);
    assert_eq!(scene.begun(), (vec![1, 2], Poll::Ready(FillOutcome::End)));
}

/// A stop begins no more messages, and returns the held ones with the others.
#[test]
fn what_is_held_back_comes_out_at_the_end() {
    let mut scene = MailboxFixture::new();
    scene.ask(0, 1);
    scene.tell(0, 2);
    assert_eq!(scene.begun(), (vec![], Poll::Pending));
    scene.tell(0, 3);
    scene.ask(1, 11);
    scene.mailbox.stop();
    scene.links[0].grant(9);
    assert_eq!(scene.begun(), (vec![], Poll::Ready(FillOutcome::End)));
    scene.mailbox.close(&mut scene.hand);
    let left: Vec<_> = take_unbegun(&mut scene.hand)
        .into_iter()
        .map(|taken| match taken {
            TakenMessage::Local(number) => number,
            TakenMessage::Remote(message) => message.number,
        })
        .collect();
    assert_eq!(left, [1, 2, 3, 11]);
    assert!(!scene.hand.remote().is_some_and(RemotePrefetched::holds_back));
}

/// An actor needs no other event to see that an ask has expired.
#[tokio::test(start_paused = true)]
async fn the_deadline_of_an_ask_that_is_held_back_releases_what_came_after_it() {
    let deadlines =
        Deadlines::start(&tokio::runtime::Handle::current(), crate::limits::ASK_TIMEOUT);
    let mut alarm = None;
    let mut scene = MailboxFixture::new();
    for (number, seconds) in [(1, 9), (2, 5)] {
        let link = (u64::from(number), scene.links[0].clone());
        let (is_late, second) = (scene.late.clone(), std::time::Duration::from_secs(1));
        let deadline = Some(Instant::now() + second * seconds);
        let ask = Message { link, number, is_ask: true, is_late, deadline };
        assert!(scene.mailbox.push_remote(&mut vec![Item::from([ask])], |item| item).is_ok());
    }
    assert_eq!(scene.begun(), (vec![], Poll::Pending));
    let mut released = Vec::new();
    while released.len() < 2 {
        let MailboxFixture { mailbox, hand, .. } = &mut scene;
        let filled = poll_fn(|cx| mailbox.poll_fill(hand, &mut alarm, &&deadlines, cx)).await;
        assert_eq!(filled, FillOutcome::Filled);
        let mut cx = Context::from_waker(Waker::noop());
        while let Some(TakenMessage::Remote(message)) = take(hand, &mut cx) {
            released.push(message.number);
        }
    }
    assert_eq!(released, [2, 1], "in the order of their deadlines");
}

proptest! {
    /// For any messages, together or single, from this node and from two links with changing room
    /// for replies: all messages of each sender are begun once and in order, and a mark passes when
    /// all before it are begun.
    #[test]
    fn of_each_sender_everything_is_begun_once_and_in_order(
        steps in proptest::collection::vec((0usize..8, 0usize..2, 1u32..200), 1..60),
    ) {
        const LOCAL: u32 = 1 << 30;
        const OTHER: u32 = 1 << 20;
        let mut scene = MailboxFixture::new();
        let mut next = [0, OTHER, LOCAL];
        let (mut begun, mut marks) = (Vec::new(), Vec::new());
        for (what, link, count) in steps {
            match what {
                7 => marks.push((link, scene.mailbox.mark(Some(link)), next[link])),
                0 | 1 => {
                    scene.push_all(link, next[link]..next[link] + count, false);
                    next[link] += count;
                }
                2 => {
                    scene.ask(link, next[link]);
                    next[link] += 1;
                }
                3 => scene.links[link].grant(1),
                4 => {
                    if let Ok(room) = scene.mailbox.try_room() {
                        prop_assert!(scene.mailbox.fill(room, next[2]).is_ok());
                        next[2] += 1;
                    }
                }
                _ => {
                    begun.extend(scene.begun().0);
                    for (link, mark, before) in &marks {
                        let of = if *link == 0 { 0..OTHER } else { OTHER..LOCAL };
                        let last = begun.iter().filter(|number| of.contains(number)).max();
                        let is_begun = *before == of.start || last >= Some(&(before - 1));
                        let passed = scene.mailbox.has_passed(Some(*link), *mark, &scene.hand);
                        prop_assert_eq!(passed, is_begun);
                    }
                }
            }
        }
        scene.mailbox.drain();
        loop {
            let (more, end) = scene.begun();
            begun.extend(more);
            if end.is_ready() {
                break;
            }
            scene.links.iter().for_each(|link| link.grant(1));
        }
        let of = |from: u32, to: u32| begun.iter().copied().filter(move |n| (from..to).contains(n));
        prop_assert!(of(0, OTHER).eq(0..next[0]));
        prop_assert!(of(OTHER, LOCAL).eq(OTHER..next[1]));
        prop_assert!(of(LOCAL, u32::MAX).eq(LOCAL..next[2]));
    }
}
