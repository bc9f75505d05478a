//! Asks: answers, time-outs, asks that lead nowhere.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ringpost::prelude::*;
use ringpost::spawn::Child;
use ringpost::{Handler, Local, NotBegun};
use tokio::sync::Notify;

use crate::actors::{Hold, Note, Notebook, held, node};
use crate::cause;

/// The end of an ask that its actor did not begin in time.
const LATE: AskCause = AskCause::NotBegun(NotBegun::Timeout);

#[message]
#[derive(Debug, Clone, PartialEq)]
pub struct Deposit {
    pub account: String,
    pub cents: u64,
}

#[message]
pub struct Audit {
    pub note: String,
}

#[message(local)]
pub struct Anything(pub u32);

#[actor]
#[derive(Default)]
pub struct Teller {
    total: u64,
    kept: Option<View<Deposit>>,
}

#[handlers(View<Audit>)]
impl Teller {
    #[handler]
    pub async fn deposit(&mut self, msg: View<Deposit>) -> u64 {
        self.total += msg.cents.to_native();
        self.kept = Some(msg);
        self.total
    }

    #[handler]
    pub async fn anything(&mut self, msg: Anything) -> Local<u32> {
        Local(msg.0)
    }

    #[handler]
    pub fn last(&mut self) -> Option<String> {
        let kept = self.kept.take()?.detach();
        Some(kept.to_owned().account)
    }

    #[handler]
    pub fn withdraw(&mut self, cents: u64) -> Result<u64, String> {
        self.total = self.total.checked_sub(cents).ok_or("not that much")?;
        Ok(self.total)
    }

    #[handler]
    pub fn channel(&mut self) -> Local<std::sync::mpsc::Sender<u8>> {
        Local(std::sync::mpsc::channel().0)
    }

    #[handler]
    pub async fn ask_yourself(&mut self, cx: &mut Context<Self>) -> bool {
        let by_reference = cx.actor().last().await;
        let by_recipient = cx.actor().asker::<Withdraw>().ask(Withdraw { cents: 0 }).await;
        cause(by_reference) == Err(AskCause::NotSent(Cause::SelfAsk))
            && cause(by_recipient) == Err(AskCause::NotSent(Cause::SelfAsk))
    }
}

impl Handler<View<Audit>> for Teller {
    type Reply = u64;
    async fn handle(&mut self, msg: View<Audit>, _cx: &mut Context<Self>) -> u64 {
        msg.note.len() as u64
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn answers_come_back_from_every_form_of_handler() {
    let node = node().await;
    let teller = node.spawn("teller", Teller::default()).await.unwrap();
    assert_eq!(teller.deposit(Deposit { account: "ada".into(), cents: 3 }).await, Ok(3));
    assert_eq!(teller.ask(Deposit { account: "bob".into(), cents: 4 }).await, Ok(7));
    assert_eq!(teller.last().await, Ok(Some("bob".into())));
    assert_eq!(teller.withdraw(8).await, Ok(Err("not that much".into())));
    assert_eq!(teller.ask(Audit { note: "four".into() }).await, Ok(4));
    assert!(teller.channel().await.unwrap().0.send(1).is_err());
    assert_eq!(teller.ask(Anything(3)).await, Ok(Local(3)));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_ask_of_oneself_fails_at_once() {
    let node = node().await;
    let teller = node.spawn("teller", Teller::default()).await.unwrap();
    assert_eq!(teller.ask_yourself().await, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn an_ask_without_an_answer_ends_after_five_seconds_or_as_long_as_it_says() {
    let node = node().await;
    let held = held(&node, 8).await;
    let start = tokio::time::Instant::now();
    assert_eq!(cause(held.actor.notes().await), Err(LATE));
    assert_eq!(start.elapsed().as_secs(), 5);
    let quick = held.actor.notes().timeout(Duration::from_millis(20)).await;
    assert_eq!(cause(quick), Err(LATE));
    assert_eq!(start.elapsed().as_millis() / 10, 502);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_ask_that_finds_no_room_in_time_was_not_sent() {
    let node = node().await;
    let held = held(&node, 1).await;
    held.actor.tell(Note { number: 1 }).await.unwrap();
    let error = held.actor.notes().await.unwrap_err();
    assert_eq!(error.cause, AskCause::NotSent(Cause::Timeout));
    assert!(error.is_retryable());
    held.gate.add_permits(1);
    assert_eq!(held.actor.notes().await, Ok(vec![1]));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_actor_skips_asks_whose_asker_has_given_up() {
    let node = node().await;
    let held = held(&node, 8).await;
    let late = held.actor.ask(Note { number: 1 }).timeout(Duration::from_millis(10)).await;
    assert_eq!(cause(late), Err(LATE));
    held.actor.tell(Note { number: 2 }).await.unwrap();
    held.gate.add_permits(1);
    assert_eq!(held.actor.notes().await, Ok(vec![2]));
}

#[tokio::test(start_paused = true)]
async fn an_ask_that_was_skipped_as_too_late_timed_out() {
    let node = node().await;
    let held = held(&node, 8).await;
    let mut late = pin!(held.actor.ask(Note { number: 1 }).timeout(Duration::from_millis(10)));
    assert!(futures::poll!(late.as_mut()).is_pending());
    tokio::time::advance(Duration::from_millis(10)).await;
    held.gate.add_permits(1);
    assert_eq!(held.actor.notes().await, Ok(vec![]), "it was skipped");
    assert_eq!(cause(late.await), Err(LATE));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_handler_that_panics_answers_its_asker_with_an_error() {
    let node = node().await;
    let notebook = node.spawn("notebook", Notebook::new()).await.unwrap();
    assert_eq!(cause(notebook.fail().await), Err(AskCause::Panicked));
    let exit = notebook.wait_stopped().await;
    assert_eq!(exit, ActorExit::Panicked("as it was told".into()));
    assert_eq!(cause(notebook.notes().await), Err(AskCause::NotSent(Cause::Stopped)));
    assert_eq!(notebook.tell(Hold).await.unwrap_err().cause, Cause::Stopped);
}

#[tokio::test(start_paused = true)]
async fn asks_that_nobody_waits_for_are_never_handled() {
    let node = node().await;
    let held = held(&node, 64).await;
    let asker = held.actor.asker::<Note>();
    for number in 0..10 {
        // Dropped, timed out, by reference and by recipient.
        let mut dropped = pin!(held.actor.ask(Note { number }));
        assert!(futures::poll!(dropped.as_mut()).is_pending());
        let timed_out = asker.ask(Note { number: 10 + number }).timeout(Duration::from_millis(1));
        assert_eq!(cause(timed_out.await), Err(LATE));
    }
    let waiting = held.actor.ask(Note { number: 100 });
    let (waited, ()) = tokio::join!(waiting, async { held.gate.add_permits(1) });
    assert_eq!(waited, Ok(()));
    assert_eq!(held.actor.notes().await, Ok(vec![100]));
}

/// Ten thousand askers give up, some in the mailbox and most in the line before it, and one in a
/// hundred waits.
#[tokio::test(start_paused = true)]
async fn of_many_asks_that_were_given_up_only_those_that_somebody_waits_for_are_handled() {
    let node = node().await;
    let held = held(&node, 64).await;
    let ask = |number| held.actor.ask(Note { number }).timeout(Duration::from_secs(60));
    let mut waited = Vec::new();
    let mut dropped = Vec::new();
    for number in 0..10_000 {
        let mut asked = Box::pin(ask(number));
        assert!(futures::poll!(asked.as_mut()).is_pending());
        if number % 100 == 50 { waited.push(asked) } else { dropped.push(asked) }
    }
    drop(dropped);
    held.gate.add_permits(1);
    let answers = futures::future::join_all(waited).await;
    assert!(answers.iter().all(Result::is_ok));
    let handled = held.actor.notes().await.unwrap();
    assert_eq!(handled, (0..10_000).filter(|number| number % 100 == 50).collect::<Vec<_>>());
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_ask_that_began_and_one_that_never_did_time_out_with_an_error_each() {
    let node = node().await;
    let notebook = Notebook::new();
    let (gate, held) = (notebook.gate.clone(), notebook.held.clone());
    let actor = node.spawn("notebook", notebook).await.unwrap();
    let begun = actor.hold().timeout(Duration::from_millis(20));
    let waiting = async {
        held.notified().await;
        actor.ask(Note { number: 1 }).timeout(Duration::from_millis(10)).await
    };
    let (begun, waiting) = tokio::join!(begun, waiting);
    assert_eq!((cause(begun), cause(waiting)), (Err(AskCause::Timeout), Err(LATE)));
    assert!(LATE.is_retryable() && !AskCause::Timeout.is_retryable());
    gate.add_permits(1);
    assert_eq!(actor.notes().await, Ok(vec![]));
}

#[message(local)]
pub struct Slow {
    pub begun: Arc<Notify>,
    pub go_on: Arc<Notify>,
    pub reply: Arc<()>,
}

#[actor]
pub struct Sloth;

#[handlers]
impl Sloth {
    #[handler]
    pub async fn slow(&mut self, msg: Slow) -> Local<Arc<()>> {
        msg.begun.notify_one();
        msg.go_on.notified().await;
        Local(msg.reply)
    }
}

#[tokio::test]
async fn the_reply_to_an_asker_that_has_gone_is_dropped_by_its_actor() {
    let node = node().await;
    let sloth = node.spawn("sloth", Sloth).await.unwrap();
    let (begun, go_on, reply) = (Arc::<Notify>::default(), Arc::<Notify>::default(), Arc::new(()));
    let slow = || Slow { begun: begun.clone(), go_on: go_on.clone(), reply: reply.clone() };
    {
        let mut asked = pin!(sloth.ask(slow()));
        assert!(futures::poll!(asked.as_mut()).is_pending());
        begun.notified().await;
    }
    go_on.notify_one();
    sloth.drain().await.unwrap();
    assert_eq!(sloth.wait_stopped().await, ActorExit::Stopped);
    assert_eq!(Arc::strong_count(&reply), 1, "the reply is gone with its message");
}

// Promised in docs/SEMANTICS.md.
#[test]
fn an_ask_outside_tokio_is_answered_or_times_out() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let held = runtime.block_on(async { held(&node().await, 8).await });
    let timeout = Duration::from_millis(20);
    let late = futures::executor::block_on(held.actor.ask(Note { number: 1 }).timeout(timeout));
    assert_eq!(cause(late), Err(LATE));
    held.gate.add_permits(1);
    assert_eq!(futures::executor::block_on(held.actor.notes()), Ok(vec![]));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_ask_is_sent_without_waiting_or_comes_back() {
    let node = node().await;
    let held = held(&node, 2).await;
    let first = held.actor.ask(Note { number: 1 }).try_send().unwrap();
    drop(held.actor.ask(Note { number: 5 }).try_send().unwrap());
    let refused = held.actor.ask(Note { number: 2 }).try_send().err().unwrap();
    assert_eq!((refused.message, refused.cause), (Note { number: 2 }, Cause::MailboxFull));
    held.gate.add_permits(1);
    first.await.unwrap();
    let notes = held.actor.notes().try_send().unwrap();
    assert_eq!(notes.await, Ok(vec![1]));
    let timeout = Duration::from_millis(20);
    held.actor.tell(crate::actors::Hold).await.unwrap();
    held.held.notified().await;
    let late = held.actor.ask(Note { number: 3 }).timeout(timeout).try_send().unwrap();
    assert_eq!(cause(late.await), Err(LATE), "it counts from the moment it was sent");
    drop(held.actor.ask(Note { number: 4 }).try_send().unwrap());
    held.gate.add_permits(1);
    assert_eq!(held.actor.notes().await, Ok(vec![1]), "nobody waits for the others");
}

/// The place in line of an ask that waited goes to the next one.
#[tokio::test]
async fn an_ask_that_waited_may_be_sent_without_waiting() {
    let node = node().await;
    let held = held(&node, 1).await;
    held.actor.tell(Note { number: 1 }).await.unwrap();
    let mut waiting = held.actor.ask(Note { number: 2 });
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(std::pin::Pin::new(&mut waiting).poll(&mut cx).is_pending());
    let back = waiting.try_send().err().unwrap();
    assert_eq!((back.message, back.cause), (Note { number: 2 }, Cause::MailboxFull));
    let mut next = std::pin::pin!(held.actor.tell(Note { number: 3 }));
    assert!(next.as_mut().poll(&mut cx).is_pending());
    held.gate.add_permits(1);
    next.await.unwrap();
    assert_eq!(held.actor.notes().await, Ok(vec![1, 3]));
    let gone = ActorRef::clone(&held.actor);
    held.actor.stop().await.unwrap();
    gone.wait_stopped().await;
    let back = gone.ask(Note { number: 4 }).try_send().err().unwrap();
    assert_eq!(back.cause, Cause::Stopped);
}

// Promised in docs/SEMANTICS.md.
#[test]
fn threads_that_are_not_async_tell_and_ask() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let held = runtime.block_on(async { held(&node().await, 1).await });
    let short = Duration::from_millis(20);
    held.actor.tell(Note { number: 1 }).blocking().unwrap();
    let late = held.actor.tell(Note { number: 2 }).timeout(short).blocking().unwrap_err();
    assert_eq!((late.message, late.cause), (Note { number: 2 }, Cause::Timeout));
    let unsent = held.actor.notes().timeout(short).blocking();
    assert_eq!(cause(unsent), Err(AskCause::NotSent(Cause::Timeout)));
    held.gate.add_permits(1);
    assert_eq!(held.actor.notes().blocking(), Ok(vec![1]));
    let actor = held.actor.clone();
    let asked = runtime.spawn_blocking(move || actor.notes().blocking());
    assert_eq!(runtime.block_on(asked).unwrap(), Ok(vec![1]));
    let actor = held.actor.clone();
    let in_a_task = runtime.spawn(async move { actor.notes().blocking() });
    assert!(runtime.block_on(in_a_task).unwrap_err().is_panic(), "it would take the thread");
}

// Promised in docs/SEMANTICS.md.
#[test]
fn an_ask_ends_when_the_runtime_of_its_actor_does() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (held, full) = runtime.block_on(async {
        let (first, second) = (node().await, node().await);
        (held(&first, 8).await, held(&second, 1).await)
    });
    full.actor.try_tell(Note { number: 1 }).unwrap();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut waiting = pin!(held.actor.notes());
    let mut unsent = pin!(full.actor.notes());
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    assert!(unsent.as_mut().poll(&mut cx).is_pending());
    drop(runtime);
    let never = AskCause::NotBegun(NotBegun::Stopped);
    assert_eq!(cause(futures::executor::block_on(waiting)), Err(never));
    let unsent = futures::executor::block_on(unsent).unwrap_err();
    assert_eq!(unsent.cause, AskCause::NotSent(Cause::Stopped));
    let late = futures::executor::block_on(held.actor.notes());
    assert_eq!(cause(late), Err(AskCause::NotSent(Cause::Stopped)));
}

/// Says whether its start had a deadline, and fails when it is asked to.
struct Hurried {
    in_start: bool,
}

#[actor]
impl Actor for Hurried {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.in_start = cx.deadline().is_some();
        Ok(())
    }
}

#[handlers]
impl Hurried {
    #[handler]
    fn give_up(&mut self, cx: &mut Context<Self>) {
        assert!(cx.deadline().is_none(), "as it was told");
    }

    #[handler]
    fn was_hurried(&self) -> bool {
        self.in_start
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_begins_anew_has_nothing_left_of_the_ask_that_failed() {
    let node = node().await;
    let child = Child::new(|| Hurried { in_start: false });
    let hurried = node.supervise(child).await.unwrap();
    assert_eq!(cause(hurried.give_up().await), Err(AskCause::Panicked));
    assert_eq!(hurried.was_hurried().await, Ok(false));
}
