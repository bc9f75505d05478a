//! Asks: answers, time-outs, asks that lead nowhere.

use std::pin::pin;
use std::time::Duration;

use ringpost::prelude::*;

use crate::actors::{Hold, Note, Notebook, held, node};

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
pub struct Anything<T> {
    pub value: T,
}

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
        by_reference == Err(AskError::NotSent(Cause::SelfAsk))
            && by_recipient == Err(AskError::NotSent(Cause::SelfAsk))
    }
}

impl Handler<View<Audit>> for Teller {
    type Reply = usize;
    async fn handle(&mut self, msg: View<Audit>, _cx: &mut Context<Self>) -> usize {
        msg.note.len()
    }
}

impl<T: Send + 'static> Handler<Anything<T>> for Teller {
    type Reply = Local<T>;
    async fn handle(&mut self, msg: Anything<T>, _cx: &mut Context<Self>) -> Local<T> {
        Local(msg.value)
    }
}

impl<T: Send + 'static> Accepts<Anything<T>> for Teller {
    type Input = Anything<T>;
    type Reply = Local<T>;
    fn envelope(
        input: Anything<T>,
        reply: ringpost::ReplyTo<Local<T>>,
    ) -> <Self as ringpost::Handlers>::Envelope {
        ringpost::boxed::<Self, Anything<T>>(input, reply)
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
    assert_eq!(teller.ask(Anything { value: 'x' }).await, Ok(Local('x')));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_ask_of_oneself_fails_at_once() {
    let node = node().await;
    let teller = node.spawn("teller", Teller::default()).await.unwrap();
    assert_eq!(teller.ask_yourself().await, Ok(true));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_ask_without_an_answer_ends_after_five_seconds_or_as_long_as_it_says() {
    let node = node().await;
    let held = held(&node, 8).await;
    let start = tokio::time::Instant::now();
    assert_eq!(held.actor.notes().await, Err(AskError::Timeout));
    assert_eq!(start.elapsed().as_secs(), 5);
    let quick = held.actor.notes().timeout(Duration::from_millis(20)).await;
    assert_eq!(quick, Err(AskError::Timeout));
    assert!(!AskError::Timeout.is_retryable());
    assert_eq!(start.elapsed().as_millis() / 10, 502);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_ask_that_finds_no_room_in_time_was_not_sent() {
    let node = node().await;
    let held = held(&node, 1).await;
    held.actor.tell(Note { number: 1 }).await.unwrap();
    let error = held.actor.notes().await.unwrap_err();
    assert_eq!(error, AskError::NotSent(Cause::Timeout));
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
    assert_eq!(late, Err(AskError::Timeout));
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
    assert_eq!(late.await, Err(AskError::Timeout));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_handler_that_panics_answers_its_asker_with_an_error() {
    let node = node().await;
    let notebook = node.spawn("notebook", Notebook::new()).await.unwrap();
    assert_eq!(notebook.fail().await, Err(AskError::NoReply));
    let exit = notebook.wait_stopped().await;
    assert_eq!(exit, ActorExit::Panicked("as it was told".into()));
    assert_eq!(notebook.notes().await, Err(AskError::NotSent(Cause::Stopped)));
    assert_eq!(notebook.tell(Hold).await.unwrap_err().cause, Cause::Stopped);
}
