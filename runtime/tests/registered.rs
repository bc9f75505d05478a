//! Timers, tasks and streams that an actor registers.

mod stash;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use ringpost::context::TimerKey;
use ringpost::prelude::*;
use ringpost::spawn::{Child, SpawnOptions};
use ringpost::{NotBegun, ReplyTo, limits};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use crate::actors::{Note, node};
use crate::cause;
use crate::remote::pair;

pub const MS: Duration = Duration::from_millis(1);

/// Registers timers, tasks and streams on request, and notes their outcomes.
#[derive(Default)]
pub struct Clerk {
    pub notes: Vec<u64>,
    shut: bool,
    asks_when: bool,
    pub met: Option<ActorRef<Clerk>>,
    downs: Vec<(String, ActorExit)>,
}

#[actor]
impl Actor for Clerk {}

/// A number, cloned by timers.
#[message]
#[derive(Clone)]
struct Tick {
    number: u64,
}

#[message]
struct Order {
    number: u64,
}

#[message]
struct HandOn(ActorRef<Clerk>);

#[message]
pub struct Bulk {
    pub bytes: Vec<u8>,
}

#[message]
pub struct Meet(pub ActorRef<Clerk>);

#[message(local)]
pub struct AskSilent(pub ActorRef<Silent>);

#[message(local)]
pub struct Do(pub Deed);

pub type Deed = Box<dyn FnOnce(&mut Clerk, &mut Context<Clerk>) + Send>;

#[handlers]
impl Clerk {
    #[handler]
    pub fn note(&mut self, msg: Note) {
        self.notes.push(msg.number);
    }

    #[handler]
    fn tick(&mut self, msg: Tick) {
        self.notes.push(msg.number);
    }

    #[handler]
    async fn linger(&mut self, cancelled: String, cx: &mut Context<Self>) {
        tokio::time::sleep(10 * MS).await;
        assert!(cx.cancel(cancelled));
    }

    #[handler]
    pub fn bulk(&mut self, msg: View<Bulk>) {
        self.notes.push(msg.bytes.len() as u64);
    }

    #[handler]
    pub async fn meet(&mut self, msg: Meet) {
        msg.0.tell(Note { number: 4242 }).await.unwrap();
        self.met = Some(msg.0);
    }

    #[handler]
    pub fn notes(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.notes)
    }

    #[handler]
    pub fn act(&mut self, msg: Do, cx: &mut Context<Self>) {
        (msg.0)(self, cx);
    }

    #[handler]
    pub fn down(&mut self, msg: Down) {
        self.notes.push(1000);
        self.downs.push((msg.actor.to_string(), msg.exit));
    }

    #[handler]
    pub fn downs(&mut self) -> Vec<(String, String)> {
        self.downs.drain(..).map(|(who, exit)| (who, exit.to_string())).collect()
    }

    #[handler]
    pub fn fail(&mut self) {
        panic!("as it was told")
    }

    #[handler]
    fn open(&mut self, cx: &mut Context<Self>) -> u64 {
        self.shut = false;
        cx.unstash() as u64
    }

    #[handler]
    pub async fn ask_silent(&mut self, msg: AskSilent) -> bool {
        msg.0.say().await.is_ok()
    }

    #[handler]
    async fn ask_hung(&mut self, msg: AskHung) -> bool {
        // So many that each has a waker of its own.
        join_all((0..40).map(|_| msg.0.hang())).await.iter().any(Result::is_ok)
    }

    #[handler]
    fn hand_on(&mut self, msg: HandOn, reply: ReplyTo<Vec<u64>>) {
        reply.forward(&msg.0, Notes);
    }

    #[handler]
    fn slowly(&mut self, reply: ReplyTo<u64>, cx: &mut Context<Self>, doubled: u64) {
        cx.spawn_task(async move {
            tokio::time::sleep(10 * MS).await;
            reply.send(2 * doubled);
        });
    }

    #[handler]
    fn never(&mut self, reply: ReplyTo<u64>) {
        drop(reply);
    }

    /// Waits for the clerk to open.
    #[handler]
    fn serve(&mut self, msg: View<Order>, reply: ReplyTo<u64>, cx: &mut Context<Self>) {
        if self.shut {
            cx.stash_ask(msg, reply).unwrap();
        } else {
            match cx.deadline().filter(|_| self.asks_when) {
                Some(deadline) => self.notes.push((deadline - Instant::now()).as_millis() as u64),
                None => self.notes.push(msg.number.to_native()),
            }
            reply.send(msg.number.to_native());
        }
    }
}

impl Clerk {
    pub async fn spawn(node: &Node) -> ActorRef<Clerk> {
        node.spawn_anonymous(Clerk::default()).await.unwrap()
    }
}

/// Runs a closure within the clerk, and returns its result.
pub async fn within<T: Send + 'static>(
    clerk: &ActorRef<Clerk>,
    run: impl FnOnce(&mut Clerk, &mut Context<Clerk>) -> T + Send + 'static,
) -> T {
    let (done, result) = tokio::sync::oneshot::channel();
    let run = |clerk: &mut Clerk, cx: &mut Context<Clerk>| {
        // An error says that the test is over.
        drop(done.send(run(clerk, cx)));
    };
    clerk.tell(Do(Box::new(run))).await.unwrap();
    result.await.unwrap()
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn timers_tell_once_or_again_and_nothing_when_they_are_taken_back() {
    let node = node().await;
    let clerk = Clerk::spawn(&node).await;
    within(&clerk, |_, cx| {
        cx.tell_after("late", 30 * MS, Note { number: 30 });
        cx.tell_after("late", 20 * MS, Note { number: 20 });
        cx.tell_every(("beat", 1), 10 * MS, Tick { number: 10 });
        cx.tell_after(7, 15 * MS, Note { number: 15 });
        assert!(cx.cancel(7) && !cx.cancel(7));
    })
    .await;
    tokio::time::sleep(35 * MS).await;
    assert_eq!(clerk.notes().await.unwrap(), [10, 20, 10, 10]);
    within(&clerk, |_, cx| assert!(cx.cancel(("beat", 1)))).await;
    tokio::time::sleep(100 * MS).await;
    assert_eq!(clerk.notes().await, Ok(vec![]));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_timer_that_is_due_while_a_handler_runs_and_is_taken_back_tells_nothing() {
    let node = node().await;
    let clerk = Clerk::spawn(&node).await;
    within(&clerk, |_, cx| {
        cx.tell_after("a", 5 * MS, Note { number: 1 });
        cx.tell_every("b", 4 * MS, Tick { number: 2 });
    })
    .await;
    // Both are due when this handler ends, which takes one back.
    clerk.tell(Linger { cancelled: "a".into() }).await.unwrap();
    tokio::time::sleep(11 * MS).await;
    // Ticks that were missed meanwhile are left out.
    assert_eq!(clerk.notes().await, Ok(vec![2]));
    tokio::time::sleep(2 * MS).await;
    assert_eq!(clerk.notes().await, Ok(vec![2]));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_detached_tells_nothing_more_and_is_dropped() {
    let node = node().await;
    let clerk = node.spawn("clerk", Clerk::default()).await.unwrap();
    let (sent, mut received) = mpsc::unbounded_channel::<()>();
    let attached = within(&clerk, move |_, cx| {
        cx.attach(futures::stream::once(async { Tick { number: 2 } })).detach();
        cx.attach(futures::stream::repeat_with(move || {
            sent.send(()).unwrap();
            Tick { number: 1 }
        }))
    })
    .await;
    assert_eq!(received.recv().await, Some(()));
    let notes = within(&clerk, move |clerk, _| {
        attached.detach();
        clerk.notes.len()
    })
    .await;
    // The stream has what would keep the channel open.
    while received.recv().await.is_some() {}
    let after = clerk.notes().await.unwrap();
    assert_eq!(after, vec![1; notes]);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn what_is_registered_ends_with_the_incarnation() {
    let node = node().await;
    let clerk = node.supervise(Child::new(Clerk::default)).await.unwrap();
    let (sent, mut received) = mpsc::unbounded_channel::<()>();
    within(&clerk, move |_, cx| {
        cx.tell_every("tick", 5 * MS, Tick { number: 1 });
        cx.attach(futures::stream::repeat_with(|| Tick { number: 2 }).then(async |tick| {
            tokio::time::sleep(5 * MS).await;
            tick
        }));
        cx.spawn_task(async move {
            sent.send(()).unwrap();
            std::future::pending::<()>().await;
            drop(sent);
        });
    })
    .await;
    assert_eq!(received.recv().await, Some(()));
    tokio::time::sleep(6 * MS).await;
    assert_eq!(clerk.notes().await.unwrap(), [1, 2]);
    clerk.fail().await.unwrap_err();
    assert_eq!(received.recv().await, None, "the task is gone");
    tokio::time::sleep(100 * MS).await;
    assert_eq!(clerk.notes().await, Ok(vec![]));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_actor_is_told_when_it_was_idle_for_a_while() {
    let node = node().await;
    let clerk = Clerk::spawn(&node).await;
    within(&clerk, |_, cx| cx.tell_when_idle(20 * MS, Tick { number: 9 })).await;
    for _ in 0..5 {
        tokio::time::sleep(15 * MS).await;
        assert_eq!(clerk.notes().await, Ok(vec![]));
    }
    let start = Instant::now();
    tokio::time::sleep(25 * MS).await;
    assert_eq!(clerk.notes().await.unwrap(), [9]);
    assert!(start.elapsed() < 30 * MS);
    within(&clerk, |_, cx| assert!(cx.cancel(TimerKey::Idle))).await;
    tokio::time::sleep(100 * MS).await;
    assert_eq!(clerk.notes().await, Ok(vec![]));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn the_output_of_a_task_comes_in_the_actors_turn_and_its_panic_is_the_actors() {
    let node = node().await;
    let clerk = Clerk::spawn(&node).await;
    let gate = std::sync::Arc::new(Semaphore::new(0));
    let opened = gate.clone();
    within(&clerk, move |_, cx| {
        let work = async move { opened.acquire().await.unwrap().forget() };
        cx.pipe(work, |clerk, (), cx| {
            clerk.notes.push(5);
            cx.stop();
        });
        cx.spawn_task(async {}).abort();
    })
    .await;
    assert_eq!(clerk.notes().await, Ok(vec![]));
    gate.add_permits(1);
    assert_eq!(clerk.wait_stopped().await, ActorExit::Stopped);
    let clerk = Clerk::spawn(&node).await;
    within(&clerk, |_, cx| drop(cx.spawn_task(async { panic!("in a task") }))).await;
    assert_eq!(clerk.wait_stopped().await, ActorExit::Panicked("in a task".into()));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_stream_is_taken_from_as_fast_as_its_items_are_handled_and_messages_have_their_turn() {
    let node = node().await;
    let clerk = Clerk::spawn(&node).await;
    let taken = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = taken.clone();
    within(&clerk, move |_, cx| {
        let next = move || counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        cx.attach(futures::stream::repeat_with(move || Tick { number: next() }));
        cx.attach(futures::stream::iter([7, 8]).map(|number| Note { number }));
    })
    .await;
    // The stream always has an item; the message still comes through.
    let (taken, handled) = within(&clerk, move |clerk, _| {
        (taken.load(std::sync::atomic::Ordering::SeqCst), clerk.notes.len() as u64)
    })
    .await;
    // Its two streams have one item each ready at most, beside the handled ones.
    assert!(taken >= 16 && taken <= handled + 1, "{taken} were taken, {handled} handled");
    clerk.stop().await.unwrap();
    clerk.wait_stopped().await;
}

/// A time-out that no clock counts to is a year.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn timers_that_never_fire_end_no_actor() {
    let node = node().await;
    let clerk = Clerk::spawn(&node).await;
    within(&clerk, |_, cx| {
        cx.tell_every("never", Duration::MAX, Tick { number: 1 });
        cx.tell_when_idle(Duration::MAX, Tick { number: 2 });
    })
    .await;
    assert_eq!(clerk.notes().await, Ok(vec![]));
    tokio::time::advance(Duration::from_secs(366 * 24 * 60 * 60)).await;
    tokio::time::sleep(MS).await;
    let mut notes = clerk.notes().await.unwrap();
    notes.sort_unstable();
    assert_eq!(notes, [1, 2]);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_answer_may_come_later_from_a_task_or_from_another_actor() {
    let node = node().await;
    let (clerk, other) = (Clerk::spawn(&node).await, Clerk::spawn(&node).await);
    other.tell(Note { number: 3 }).await.unwrap();
    let (slow, note) = tokio::join!(clerk.slowly(21), clerk.notes());
    assert_eq!((slow, note), (Ok(42), Ok(vec![])), "meanwhile it handles others");
    assert_eq!(clerk.ask(HandOn(other.clone())).await, Ok(vec![3]));
    assert_eq!(cause(clerk.never().await), Err(AskCause::NoReply));
    clerk.tell(Slowly { doubled: 1 }).await.unwrap();
    other.stop().await.unwrap();
    other.wait_stopped().await;
    let never = AskCause::NotBegun(NotBegun::Stopped);
    assert_eq!(cause(clerk.ask(HandOn(other)).await), Err(never));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_ask_within_a_handler_ends_when_the_asker_of_the_handler_gives_up() {
    let node = node().await;
    let (clerk, start) = (Clerk::spawn(&node).await, Instant::now());
    // The asker of `clerk` waits 50 ms, and so does `clerk` for an answer that never comes.
    let silent = node.spawn_anonymous(Silent).await.unwrap();
    let timed = clerk.ask(AskSilent(silent)).timeout(50 * MS).await;
    let timed = cause(timed);
    assert!(matches!(timed, Err(AskCause::Timeout) | Ok(false)), "{timed:?}");
    assert_eq!(clerk.notes().await, Ok(vec![]));
    assert_eq!(start.elapsed().as_millis(), 50);
}

/// An asker that drops its ask, near or far, or leaves with its node, frees the actor that waits on
/// its behalf.
#[tokio::test]
async fn an_ask_within_a_handler_ends_when_the_asker_of_the_handler_is_gone() {
    let (alpha, beta) = pair().await;
    let near = alpha.spawn("clerk", Clerk::default()).await.unwrap();
    let far: ActorRef<Clerk> = beta.actor("alpha/clerk").await.unwrap();
    let begun = Arc::new(Semaphore::new(0));
    for (clerk, leaves) in [(&near, false), (&far, false), (&far, true)] {
        let hung = alpha.spawn_anonymous(Hung(begun.clone())).await.unwrap();
        let (clerk, start) = (clerk.clone(), Instant::now());
        let asks = tokio::spawn(async move { clerk.ask(AskHung(hung)).await });
        begun.acquire().await.unwrap().forget();
        if leaves {
            beta.shutdown(Duration::ZERO).await;
        } else {
            asks.abort();
        }
        drop(asks.await);
        assert_eq!(near.notes().await, Ok(vec![]), "it goes on");
        assert!(start.elapsed() < limits::ASK_TIMEOUT, "its own time-out did not end it");
    }
    alpha.shutdown(Duration::ZERO).await;
}

#[message]
pub struct AskHung(ActorRef<Hung>);

/// Tells when it was asked, and never answers.
#[actor]
pub struct Hung(Arc<Semaphore>);

#[handlers]
impl Hung {
    #[handler]
    pub async fn hang(&mut self) {
        self.0.add_permits(1);
        std::future::pending().await
    }
}

#[actor]
pub struct Silent;

#[handlers]
impl Silent {
    #[handler]
    pub async fn say(&mut self) {
        std::future::pending().await
    }
}

/// An actor whose lane is never empty still handles messages of other nodes, and still ends.
#[tokio::test]
async fn a_lane_that_is_always_full_holds_up_neither_other_nodes_nor_a_drain() {
    let (alpha, beta) = pair().await;
    let clerk = beta.spawn("clerk", Clerk::default()).await.unwrap();
    within(&clerk, |_, cx| cx.attach(futures::stream::repeat_with(|| Tick { number: 1 }))).await;
    let far = alpha.actor::<Clerk>("beta/clerk").await.unwrap();
    for number in 0..200 {
        far.tell(Note { number: 1000 + number }).await.unwrap();
    }
    far.drain().await.unwrap();
    assert_eq!(clerk.wait_stopped().await, ActorExit::Stopped);
    assert_eq!(beta.dead_letters().total() + alpha.dead_letters().total(), 0);
    crate::remote::end([alpha, beta]).await;
}

/// A mailbox that is full refuses none of it, and does not go first.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn what_was_registered_comes_ahead_of_a_mailbox_that_is_full() {
    let node = node().await;
    let options = SpawnOptions::anonymous().mailbox_capacity(1);
    let clerk = node.spawn_with(options, Clerk::default()).await.unwrap();
    let other = Clerk::spawn(&node).await;
    let watched = other.clone();
    within(&clerk, move |_, cx| {
        cx.watch(&watched);
        cx.tell_after("later".to_owned(), 1000 * MS, Note { number: 99 });
        cx.tell_after(1, 5 * MS, Note { number: 1 });
    })
    .await;
    clerk.tell(Linger { cancelled: "later".into() }).await.unwrap();
    tokio::task::yield_now().await;
    clerk.try_tell(Note { number: 2 }).unwrap();
    let full = clerk.try_tell(Note { number: 3 }).unwrap_err();
    assert_eq!(full.cause, Cause::MailboxFull);
    other.stop().await.unwrap();
    other.wait_stopped().await;
    let mut notes = clerk.notes().await.unwrap();
    // The mailbox has a turn between the two.
    assert_ne!(notes[0], 2, "{notes:?}");
    notes.sort();
    assert_eq!(notes, [1, 2, 1000]);
}
