//! Senders of a link without a driver: which are granted room, and which are woken for it.

mod leading;
mod look_ups;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use rkyv::util::AlignedVec;

use super::{Attempt, Awaited, Hint, LinkHandle, Outgoing, Replier, SendKind, Unsent};
use crate::cause::{LinkCause, OpenRefusal};
use crate::close_reason::CloseReason;
use crate::driver_signals::DriverSignals;
use crate::id::{Incarnation, NodeId, NodeName};
use crate::limits;
use crate::memory::Pool;
use crate::open_request::{MessageForms, OpenRequest, Target};
use crate::proto::credit::CreditSettings;
use crate::proto::header::{RecordHeader, RecordKind};
use crate::proto::link::{LinkProtocol, Sizes};
use crate::proto::remote_mailbox::Description;
use crate::proto::send_queue::SendQueue;
use crate::proto::window::{Count, WindowSize};

pub(crate) const MESSAGE: MessageForms = MessageForms { id: 1, layouts: &[2], replies: &[3] };
const WINDOW: WindowSize = WindowSize { messages: 4, bytes: 1000 };
const LINK_WINDOW: u32 = 1500;

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Sender {
    request: Arc<OpenRequest>,
    archive: AlignedVec<16>,
    place: Option<usize>,
    bell: Arc<Bell>,
}

impl Sender {
    fn new(name: &str, bytes: usize) -> Self {
        let mut archive = AlignedVec::new();
        archive.resize(bytes, 0);
        let request = OpenRequest::new(Target::Name(name.into()), 0);
        Sender { request: Arc::new(request), archive, place: None, bell: Arc::default() }
    }

    /// Takes a step as a tell does: first the short way.
    fn poll(&mut self, link: &Arc<LinkHandle>) -> Attempt {
        if self.place.is_none() && self.commits_at_once(link) {
            return Attempt::Committed(Awaited::Nothing);
        }
        let waker = Waker::from(self.bell.clone());
        let outgoing = Outgoing {
            message: &MESSAGE,
            form: 0,
            kind: SendKind::Tell,
            note: None,
            archive: &mut self.archive,
        };
        link.attempt((&self.request, &mut Hint::default()), outgoing, &mut self.place, Some(&waker))
    }

    fn commits_at_once(&self, link: &LinkHandle) -> bool {
        let way = (&self.request, &mut Hint::default());
        link.commit_at_once(way, (&MESSAGE, 0), &self.archive)
    }

    fn commits(&mut self, link: &Arc<LinkHandle>) -> bool {
        matches!(self.poll(link), Attempt::Committed(_))
    }

    fn waits(&mut self, link: &Arc<LinkHandle>) -> bool {
        matches!(self.poll(link), Attempt::Wait)
    }

    fn drop_it(&mut self, link: &LinkHandle) {
        link.forget(self.place.take().expect("it waits"));
    }

    fn woken(&self) -> usize {
        self.bell.0.load(Ordering::Relaxed)
    }
}

/// A link on which each of these mailboxes is open, at the index that is beside its name.
pub(crate) fn opened(mailboxes: &[(&str, u32)]) -> Arc<LinkHandle> {
    let link = link(WINDOW);
    for (name, index) in mailboxes {
        open(&link, name, *index, WINDOW);
    }
    link
}

/// A link on which no mailbox is open.
fn link(mailbox_window: WindowSize) -> Arc<LinkHandle> {
    let name = NodeName::new("beta").expect("a good name");
    let peer = NodeId { name, incarnation: Incarnation(1) };
    let queue = SendQueue::new(LINK_WINDOW, mailbox_window, 500);
    let own = (queue, Pool::new(Vec::new()).gauge());
    LinkHandle::new(peer, ("none", false), 1 << 20, Arc::new(DriverSignals::new()), own)
}

/// The peer opens a mailbox.
fn open(link: &LinkHandle, name: &str, index: u32, window: WindowSize) {
    let request = Sender::new(name, 0).request;
    let mut state = link.state.lock();
    let correlation = state.send_queue.outlet(&request, &mut 0).into();
    state.send_queue.asked(correlation);
    let kind = RecordKind::Opened;
    let place = RecordHeader { mailbox: index, generation: 1, ..RecordHeader::new(kind) };
    let header = RecordHeader { correlation, ..place };
    let (carried, accepted) = (Count::default(), vec![MESSAGE.newest()]);
    let description = Description { window, carried, id: 0, accepted }.encode();
    state.send_queue.handle_opened(&header, &description).expect("honest");
    link.finish(state);
}

/// The peer has taken a message of `bytes` bytes from a mailbox.
pub(crate) fn take(link: &LinkHandle, mailbox: u32, bytes: u32) {
    let mut state = link.state.lock();
    state.send_queue.release(mailbox, bytes);
    link.finish(state);
}

/// The link ends.
pub(crate) fn end(link: &LinkHandle) {
    let credit = CreditSettings::new(8, 8, 2).expect("they cannot stall");
    let sizes = Sizes { frame_max: 2048, message_max: 1 << 20, tail_max: 0 };
    let now = crate::sync::some_moment();
    let mut proto = LinkProtocol::new(credit, sizes, Count::default(), now);
    link.end(&mut proto, &LinkCause::Closed);
}

/// The peer refuses the only opening that it has not answered.
fn refuse(link: &LinkHandle, refusal: OpenRefusal) {
    let mut state = link.state.lock();
    state.send_queue.asked(0);
    state.send_queue.handle_open_refused(0, refusal).expect("it is being opened");
    link.finish(state);
}

/// Both names lead to one mailbox.
#[test]
fn senders_by_two_references_stand_in_one_line() {
    let link = opened(&[("one", 0), ("other", 0)]);
    assert!(Sender::new("one", 900).commits(&link));
    let mut first = Sender::new("one", 200);
    assert!(first.waits(&link));
    let mut second = Sender::new("other", 50);
    assert!(second.waits(&link), "there is room for it, and it is not its turn");
    assert_eq!(link.view().waiting.iter().map(|line| line.senders).collect::<Vec<_>>(), [2]);
}

/// The next sender in line may need less room than the sender that left.
#[test]
fn the_next_in_line_goes_on_when_the_first_one_leaves() {
    let link = opened(&[("one", 0)]);
    assert!(Sender::new("one", 900).commits(&link));
    let (mut large, mut small) = (Sender::new("one", 200), Sender::new("one", 50));
    assert!(large.waits(&link) && small.waits(&link));
    large.drop_it(&link);
    assert_eq!(small.woken(), 1);
    assert!(small.commits(&link));
}

/// Room that was granted and not used goes to the next sender.
// Promised in docs/SEMANTICS.md.
#[test]
fn room_that_was_granted_and_not_used_goes_to_the_next() {
    let link = opened(&[("one", 0)]);
    assert!(Sender::new("one", 900).commits(&link));
    let mut waiting: Vec<_> = [200, 60, 40].map(|bytes| Sender::new("one", bytes)).into();
    assert!(waiting.iter_mut().all(|sender| sender.waits(&link)));
    waiting.remove(0).drop_it(&link);
    let [granted, next] = &mut waiting[..] else { panic!("two are left") };
    assert_eq!((granted.woken(), next.woken()), (1, 1), "there is room for both");
    let mut late = Sender::new("one", 30);
    assert!(late.waits(&link), "what was granted is reserved");
    granted.drop_it(&link);
    assert_eq!(late.woken(), 1);
    assert!(next.commits(&link) && late.commits(&link));
}

/// WQ-4: the oracle is how many messages a task may commit, and that all of the room is granted
/// although most that were granted some never run.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_burst_is_a_few_messages_and_tasks_that_do_not_run_hold_up_no_other() {
    let window = WindowSize { messages: 128, bytes: 1000 };
    let link = link(window);
    open(&link, "one", 0, window);
    assert!((0..128).all(|_| Sender::new("one", 1).commits_at_once(&link)));
    let mut waiting: Vec<_> = (0..100).map(|_| Sender::new("one", 1)).collect();
    assert!(waiting.iter_mut().all(|sender| sender.waits(&link)));
    let release_all = || {
        let mut state = link.state.lock();
        (0..128).for_each(|_| state.send_queue.release(0, 1));
        link.finish(state);
    };
    release_all();
    let woken = |waiting: &[Sender]| waiting.iter().filter(|sender| sender.woken() > 0).count();
    assert_eq!(woken(&waiting), 8, "a sixteenth of the room is granted");

    let mut first = waiting.remove(0);
    let of_link = link.clone();
    let burst = async move {
        assert!(first.commits(&of_link));
        (0..100).take_while(|_| first.commits_at_once(&of_link)).count()
    };
    assert_eq!(tokio::spawn(burst).await.expect("no panic"), 15);
    let of_link = link.clone();
    let other = async move { Sender::new("one", 1).commits_at_once(&of_link) };
    assert!(!tokio::spawn(other).await.expect("no panic"), "it has no burst");

    for granted in [21, 44, 78, 99] {
        link.take_requests();
        assert_eq!(woken(&waiting), granted);
    }
    let mut room = 128 - 16;
    waiting.iter_mut().for_each(|sender| room -= usize::from(sender.commits(&link)));
    assert_eq!(room, 13, "it is for whoever comes next");
    assert!(Sender::new("one", 1).commits_at_once(&link));
}

/// WQ-4: a line whose room is granted in parts grows by senders that waited for another name to be
/// opened. The oracle is the number of senders that are granted room.
#[test]
fn senders_by_a_second_name_join_a_line_of_which_a_part_was_granted() {
    let window = WindowSize { messages: 128, bytes: 1000 };
    let link = link(window);
    open(&link, "one", 0, window);
    assert!((0..128).all(|_| Sender::new("one", 1).commits_at_once(&link)));
    let mut waiting: Vec<_> = (0..20).map(|_| Sender::new("one", 1)).collect();
    waiting.extend((0..20).map(|_| Sender::new("other", 1)));
    assert!(waiting.iter_mut().all(|sender| sender.waits(&link)));
    let woken = |waiting: &[Sender]| waiting.iter().filter(|sender| sender.woken() > 0).count();

    let mut state = link.state.lock();
    (0..30).for_each(|_| state.send_queue.release(0, 1));
    link.finish(state);
    assert_eq!(woken(&waiting), 8, "a part of the room");
    open(&link, "other", 0, window);
    assert_eq!(woken(&waiting), 8, "the next part has its time");
    for granted in [16, 24, 30, 30] {
        link.take_requests();
        assert_eq!(woken(&waiting), granted, "each part once");
    }
    assert!(waiting[..30].iter_mut().all(|sender| sender.commits(&link)), "in their order");
    assert!(waiting[30..].iter_mut().all(|sender| sender.waits(&link)));
}

/// The limit speaks of the user's bytes; lengths and pointers of the archive come on top.
// Promised in docs/SEMANTICS.md.
#[test]
fn an_archive_may_be_so_much_longer_than_the_limit_and_no_more() {
    let link = opened(&[("one", 0)]);
    let most = (1 << 20) + 256 + 1024;
    let mut largest = Sender::new("one", most);
    assert!(largest.commits(&link) && largest.waits(&link));
    let Attempt::Failed(Unsent::TooLarge { bytes, limit }) =
        Sender::new("one", most + 1).poll(&link)
    else {
        panic!("it is too large")
    };
    assert_eq!((bytes, limit), (most + 1, 1 << 20));
}

/// The room that was reserved for it is free again.
// Promised in docs/SEMANTICS.md.
#[test]
fn one_ask_too_many_fails_and_leaves_its_room_to_others() {
    let link = opened(&[("one", 0)]);
    let asker = link.replies.lock().insert(None);
    while link.state.lock().send_queue.asks.insert(asker).is_ok() {}
    let mut sender = Sender::new("one", 1000);
    let outgoing = Outgoing {
        message: &MESSAGE,
        form: 0,
        kind: SendKind::Ask { deadline: None },
        note: None,
        archive: &mut sender.archive,
    };
    let way = (&sender.request, &mut Hint::default());
    let attempt = link.attempt(way, outgoing, &mut None, Some(Waker::noop()));
    assert!(matches!(attempt, Attempt::Failed(Unsent::TooManyAsks)));
    assert!(Sender::new("one", 1000).commits(&link));
}

/// However often it is polled, and whatever for.
#[test]
fn a_task_that_waits_for_room_for_answers_is_kept_once() {
    let link = opened(&[("one", 0)]);
    let answer = |number: u64| {
        let correlation = 1 << 32 | number;
        let asks = &mut link.state.lock().send_queue.open_asks;
        asks.open(correlation, None).expect("not too many");
        Replier::new(link.clone(), correlation)
    };
    let mut number = 0;
    while link.state.lock().send_queue.takes_replies() {
        let mut archive = AlignedVec::new();
        archive.resize(1 << 20, 0);
        answer(number).send(&mut archive);
        number += 1;
    }
    assert_eq!(number, 16, "of 1 MiB each");
    let waits = [answer(16), answer(17)];
    let tasks: Vec<_> = (0..3).map(|_| Waker::from(Arc::new(Bell::default()))).collect();
    for at in 0..1000 {
        let mut cx = Context::from_waker(&tasks[at % 3]);
        assert!(waits[at % 2].poll_room(&mut cx).is_pending());
    }
    assert_eq!(link.state.lock().for_replies.len(), 3);
}

/// They wait in one line before their mailbox is open, too.
#[test]
fn senders_by_one_name_share_a_line_before_it_is_open() {
    let link = opened(&[]);
    let mut senders: Vec<_> = (0..6).map(|_| Sender::new("one", 10)).collect();
    assert!(senders.iter_mut().all(|sender| sender.waits(&link)));
    assert_eq!(link.view().waiting.iter().map(|line| line.senders).collect::<Vec<_>>(), [6]);
    open(&link, "one", 0, WINDOW);
    let woken: Vec<_> = senders.iter().map(Sender::woken).collect();
    assert_eq!(woken, [1, 1, 1, 1, 0, 0], "the window is of four");
}

/// The number of messages in all mailboxes is bounded, as their bytes are; a mailbox in which
/// nothing waits still takes one.
// Promised in docs/SEMANTICS.md.
#[test]
fn so_many_messages_wait_in_all_mailboxes_and_one_in_each() {
    let link = link(WindowSize { messages: 1 << 20, bytes: 1000 });
    for (name, index) in [("one", 0), ("other", 1), ("third", 2)] {
        open(&link, name, index, WindowSize { messages: 1 << 20, bytes: 1000 });
    }
    let one = Sender::new("one", 0);
    assert!(Sender::new("other", 0).commits(&link));
    let more = (0..).take_while(|_| one.commits_at_once(&link)).count();
    assert_eq!(more + 1, limits::LINK_WINDOW_MESSAGES as usize);
    assert!(Sender::new("one", 0).waits(&link) && Sender::new("other", 0).waits(&link));
    let mut third = Sender::new("third", 0);
    assert!(third.commits(&link), "nothing of it waits");
    assert!(third.waits(&link), "one does now");
}

/// Room in the link's window wakes the senders that have room, and no others.
#[test]
fn room_in_the_links_window_wakes_only_those_it_is_for() {
    let link = opened(&[("one", 0), ("other", 1)]);
    assert!(Sender::new("one", 900).commits(&link));
    assert!(Sender::new("other", 550).commits(&link));
    let mut first = Sender::new("other", 100);
    let mut rest: Vec<_> = (0..20).map(|_| Sender::new("other", 100)).collect();
    assert!(first.waits(&link) && rest.iter_mut().all(|sender| sender.waits(&link)));
    // Written, then taken: as much as one of them needs is free again.
    let mut state = link.state.lock();
    state.send_queue.release(0, 900);
    state.send_queue.reserve(0, 850);
    link.finish(state);
    assert_eq!(first.woken(), 1);
    assert_eq!(rest.iter().map(Sender::woken).sum::<usize>(), 0);
    assert!(first.commits(&link));
}

/// The link's window goes round, whichever mailbox is taken from.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_mailbox_that_is_taken_from_leaves_the_link_window_to_others() {
    let link = opened(&[("one", 0), ("other", 1)]);
    let mut sent = [300; 3].map(|bytes| Sender::new("one", bytes));
    assert!(sent.iter_mut().all(|sender| sender.commits(&link)));
    assert!(Sender::new("other", 600).commits(&link));
    let mut of_one: Vec<_> = (0..4).map(|_| Sender::new("one", 300)).collect();
    let mut of_other = Sender::new("other", 300);
    assert!(of_one[0].waits(&link), "its mailbox is full");
    assert!(of_other.waits(&link), "the link is");
    assert!(of_one[1..].iter_mut().all(|sender| sender.waits(&link)));
    // One message of the first mailbox is off: a sender that waited for the link has its room.
    take(&link, 0, 300);
    assert_eq!((of_other.woken(), of_one[0].woken()), (1, 0));
    assert!(of_other.commits(&link));
    let mut newcomer = Sender::new("other", 10);
    assert!(newcomer.waits(&link), "others wait for the link, too");
    take(&link, 0, 300);
    assert_eq!((of_one[0].woken(), of_one[1].woken()), (1, 0));
}

/// A sender that does not wait tells the peer that it is blocked, too, or it would never find room.
#[test]
fn a_try_that_finds_no_room_has_the_peer_report_what_was_taken() {
    let link = opened(&[("one", 0)]);
    assert!(Sender::new("one", 900).commits(&link));
    let mut sender = Sender::new("one", 200);
    let outgoing = Outgoing {
        message: &MESSAGE,
        form: 0,
        kind: SendKind::Tell,
        note: None,
        archive: &mut sender.archive,
    };
    let attempt = link.attempt((&sender.request, &mut Hint::default()), outgoing, &mut None, None);
    assert!(matches!(attempt, Attempt::Failed(Unsent::Full)));
    assert!(link.state.lock().send_queue.has_urgent(), "the peer is told");
    let link = opened(&[("one", 0)]);
    for _ in 0..WINDOW.messages {
        assert!(Sender::new("one", 10).commits(&link));
    }
    let request = &sender.request;
    assert_eq!(link.has_room((request, &mut Hint::default()), SendKind::Tell), Err(Unsent::Full));
    let stop = SendKind::UrgentSignal(0);
    assert_eq!(link.has_room((request, &mut Hint::default()), stop), Ok(()), "it takes none");
    assert!(link.state.lock().send_queue.has_urgent(), "the peer is told");
}

/// It does not wait, and no other sender does that would be told.
// Promised in docs/SEMANTICS.md.
#[test]
fn tries_after_a_refused_opening_say_so_until_one_succeeds() {
    let link = opened(&[]);
    let sender = Sender::new("none", 0);
    let tries = || link.has_room((&sender.request, &mut Hint::default()), SendKind::Tell);
    for _ in 0..2 {
        assert_eq!(tries(), Err(Unsent::Opening));
    }
    let wrong = OpenRefusal::WrongKind { found: "other".into() };
    for refusal in [OpenRefusal::NoSuchMailbox, wrong] {
        refuse(&link, refusal.clone());
        // The first of these opens again.
        for _ in 0..2 {
            assert_eq!(tries(), Err(Unsent::at_end(Some(refusal.clone()), CloseReason::default())));
        }
    }
    assert!(matches!(Sender::new("none", 0).poll(&link), Attempt::Wait));
    open(&link, "none", 0, WINDOW);
    assert_eq!(tries(), Ok(()), "it was there when it was asked for again");
    assert!(link.state.lock().send_queue.forgot_refusals(), "for the next time that it is gone");
}

#[test]
fn as_many_refusals_are_kept_as_may_be_opened_at_once_and_only_of_tries() {
    let link = opened(&[]);
    let names: Vec<String> = (0..=limits::OPENS_MAX).map(|number| number.to_string()).collect();
    for name in &names {
        let mut sender = Sender::new(name, 0);
        let tried = link.has_room((&sender.request, &mut Hint::default()), SendKind::Tell);
        assert_eq!(tried, Err(Unsent::Opening));
        assert!(matches!(sender.poll(&link), Attempt::Wait));
        refuse(&link, OpenRefusal::NoSuchMailbox);
        sender.drop_it(&link);
    }
    let mut waits = Sender::new("waits", 0);
    assert!(matches!(waits.poll(&link), Attempt::Wait));
    refuse(&link, OpenRefusal::NoSuchMailbox);
    let told = names.iter().filter(|name| {
        let request = Sender::new(name, 0).request;
        link.has_room((&request, &mut Hint::default()), SendKind::Tell) != Err(Unsent::Opening)
    });
    assert_eq!(told.count(), limits::OPENS_MAX);
    let request = &waits.request;
    let tried = link.has_room((request, &mut Hint::default()), SendKind::Tell);
    assert_eq!(tried, Err(Unsent::Opening));
}

#[test]
fn nothing_is_committed_to_a_link_that_is_left() {
    let link = opened(&[("one", 0)]);
    link.state.lock().send_queue.leave();
    assert!(matches!(Sender::new("one", 10).poll(&link), Attempt::Failed(_)));
}

/// Waits of senders are counted, however they end.
#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_with_its_link_is_counted() {
    let link = opened(&[("one", 0)]);
    for _ in 0..WINDOW.messages {
        assert!(Sender::new("one", 10).commits(&link));
    }
    let mut waits = Sender::new("one", 10);
    assert!(matches!(waits.poll(&link), Attempt::Wait));
    tokio::time::advance(Duration::from_secs(3)).await;
    end(&link);
    assert_eq!(link.counters().mailbox_wait_us.load(Ordering::Relaxed), 3_000_000);
}
