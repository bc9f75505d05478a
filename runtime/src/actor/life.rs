//! An actor's task: start, one message after the other, stop.
//!
//! - **LF-1 one at a time**: a message begins when the handler of the one before has ended.
//! - **LF-2 one way out**: however the actor ends (stop, drain, panic, kill, the runtime's own
//!   end), [`Exit`] runs once, after the actor's state was dropped, and does all there is to do.

use std::any::Any;
use std::future::{pending, poll_fn};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;

use futures::FutureExt;
use futures::future::{AbortRegistration, Abortable};
use tokio::sync::oneshot;

use super::cell::{ActorHand, Cell, Home};
use super::{ActorRef, Context, Handlers, running};
use crate::busy::{Duty, on_duty};
use crate::error::{BoxError, SpawnError};
use crate::exit::ActorExit;
use crate::mailbox::{Batch, Hand, Taken};
use crate::resident::Resident;

/// Told when the actor has started, or why it has not.
pub(super) type Started = oneshot::Sender<Result<(), SpawnError>>;

/// Runs an actor to its end. Dropped before its first poll, it drops the actor and then `exit`.
pub(super) async fn run<A: Handlers>(actor: A, mut exit: Exit<A>, kill: AbortRegistration) {
    let token = exit.cell.token();
    let life = live(actor, &exit.cell, &mut exit.hand, &mut exit.started);
    let caught = AssertUnwindSafe(running::within(token, life)).catch_unwind();
    exit.how = match Abortable::new(caught, kill).await {
        Ok(Ok(Ok(()))) => Ending::Stopped,
        Ok(Ok(Err(error))) => Ending::Unstarted(error),
        Ok(Err(panic)) => Ending::Panicked(message_of(&*panic)),
        Err(_aborted) => Ending::Killed,
    };
}

async fn live<A: Handlers>(
    mut actor: A,
    cell: &Arc<Cell<A>>,
    hand: &mut ActorHand<A>,
    started: &mut Option<Started>,
) -> Result<(), BoxError> {
    let mut cx = Context::new(ActorRef::local(cell.clone()), cell.node().clone());
    let runtime = cell.node().runtime().id();
    let start = const { &Duty::runs(A::NAME, "on_start") };
    on_duty(start, runtime, actor.on_start(&mut cx)).await?;
    if let Some(started) = started.take() {
        // An error says that the spawner no longer waits.
        drop(started.send(Ok(())));
    }
    let deadlines = cell.node().deadlines();
    while cell.mailbox().fill_hand(hand, deadlines).await == Batch::Filled {
        loop {
            // Lets other tasks run now and then, however much there is to do.
            tokio::task::coop::consume_budget().await;
            if cell.mailbox().is_stopping() {
                break;
            }
            let begun = match hand.take_tell() {
                Some(unopened) => cell.open(unopened),
                None => match poll_fn(|cx| Poll::Ready(hand.take(cx))).await {
                    None => break,
                    Some(Taken::Local(letter)) => cell.begin(letter),
                    Some(Taken::Remote(unopened)) => cell.open(unopened),
                },
            };
            let Some((label, envelope)) = begun else { continue };
            // LF-1: the next message is taken when this one is done.
            on_duty(&label.duty, runtime, actor.receive(envelope, &mut cx)).await;
        }
    }
    if cell.is_killed() {
        // `Abortable` looks for a kill again when its future waits, not when it is ready.
        return pending().await;
    }
    let stop = const { &Duty::runs(A::NAME, "on_stop") };
    on_duty(stop, runtime, actor.on_stop(&mut cx)).await;
    Ok(())
}

/// The end of an actor (LF-2). Made before its task, which may never run.
pub(super) struct Exit<A: Handlers> {
    cell: Arc<Cell<A>>,
    hand: ActorHand<A>,
    started: Option<Started>,
    how: Ending,
}

enum Ending {
    Stopped,
    Unstarted(BoxError),
    Panicked(Arc<str>),
    Killed,
}

impl<A: Handlers> Exit<A> {
    pub(super) fn new(cell: Arc<Cell<A>>, started: Started) -> Self {
        Exit { cell, hand: Hand::new(), started: Some(started), how: Ending::Killed }
    }
}

impl<A: Handlers> Drop for Exit<A> {
    fn drop(&mut self) {
        let actor = self.cell.address();
        let (exit, unstarted) = match std::mem::replace(&mut self.how, Ending::Killed) {
            Ending::Stopped => (ActorExit::Stopped, None),
            Ending::Unstarted(error) => (ActorExit::Stopped, Some(SpawnError::Start(error))),
            Ending::Killed => (ActorExit::Killed, Some(SpawnError::Killed)),
            Ending::Panicked(message) => {
                tracing::error!(%actor, %message, "an actor panicked");
                (ActorExit::Panicked(message.clone()), Some(SpawnError::Panicked(message)))
            }
        };
        tracing::debug!(%actor, %exit, "an actor ended");
        self.cell.end(&mut self.hand, exit);
        if let (Some(started), Some(error)) = (self.started.take(), unstarted) {
            // An error says that the spawner no longer waits.
            drop(started.send(Err(error)));
        }
    }
}

fn message_of(panic: &(dyn Any + Send)) -> Arc<str> {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").into()
}
