//! An actor's task: start, one message after the other, stop; and again, if it is restarted.
//!
//! - **LF-1 one at a time**: a message begins when the handler of the one before has ended.
//! - **LF-2 one way out**: however the actor ends (stop, drain, panic, kill, failure, the runtime's
//!   own end), the drop of [`Life`] runs once, after the actor's state was dropped, and does all
//!   there is to do.
//! - **LF-3 no overlap**: an incarnation begins when the state of the one before is dropped, and
//!   its tasks and children have ended. Mailbox, hand, name and identity stay.

use std::any::Any;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::sync::oneshot;
use tokio::task::coop;
use tokio::time::sleep;

use super::cell::{ActorHand, Begun, Cell};
use super::child::{Plan, Verdict};
use super::ends::Forced;
use super::{Context, Handlers};
use crate::busy::{Duty, Running, on_duty};
use crate::deadlines::Alarm;
use crate::error::{BoxError, SpawnError};
use crate::exit::ActorExit;
use crate::mailbox::{Batch, Hand, Taken};
use crate::resident::{Resident, Resting, Started};

/// An actor and all that its task has of it. Made before the task, which may never run.
pub(super) struct Life<A: Handlers> {
    /// First, so that it is dropped first.
    actor: Option<A>,
    cell: Arc<Cell<A>>,
    cx: Context<A>,
    hand: ActorHand<A>,
    /// How it is restarted; `None` if it never is.
    plan: Option<Box<Plan<A>>>,
    /// Told of the start that is under way.
    started: Option<Started>,
    /// It has started once.
    is_born: bool,
    how: Ending,
}

/// How an incarnation ended.
enum Ending {
    Stopped,
    Unstarted(BoxError),
    Panicked(Arc<str>),
    Killed,
    Failed(Arc<str>),
}

impl<A: Handlers> Life<A> {
    pub(super) fn new(
        cell: Arc<Cell<A>>,
        actor: A,
        plan: Option<Box<Plan<A>>>,
        started: Started,
    ) -> Self {
        Life {
            actor: Some(actor),
            cx: Context::new(cell.clone()),
            cell,
            hand: Hand::new(),
            plan,
            started: Some(started),
            is_born: false,
            how: Ending::Killed,
        }
    }

    /// Runs the actor to its end. Dropped before its first poll, it drops the actor and ends it.
    #[expect(clippy::manual_async_fn, reason = "the arguments of an `async fn` are stored twice")]
    pub(super) fn run(mut self) -> impl Future<Output = ()> + Send {
        async move {
            loop {
                let cell = self.cell.clone();
                let ended = Guarded { cell: &cell, attended: false, inner: self.incarnate() };
                let how = ended.await;
                drop(cell);
                self.how = how;
                // LF-3: nothing of it is left when the next one is made.
                drop_quietly(&mut self.actor);
                self.cx.clear().await;
                if !self.goes_on().await {
                    return;
                }
            }
        }
    }

    /// Runs one incarnation.
    async fn incarnate(&mut self) -> Result<(), BoxError> {
        let Life { actor, cell, cx, hand, plan, started, is_born, .. } = self;
        let actor = match (actor, plan) {
            (Some(actor), _) => actor,
            (none, Some(plan)) => none.insert(plan.make()),
            (None, None) => return Ok(()),
        };
        let runtime = cell.node().runtime().id();
        let of = |deadline| (runtime, Running { token: cell.token(), deadline });
        let start = const { &Duty::runs(A::NAME, "on_start") };
        on_duty(start, of(None), actor.on_start(cx)).await?;
        *is_born = true;
        if let Some(started) = started.take() {
            // An error says that the spawner no longer waits.
            drop(started.send(Ok(())));
        }
        while let Some(begun) = next(cell, cx, hand).await {
            let Begun { label, envelope, deadline } = begun;
            cx.begin(label, deadline);
            // LF-1: the next message is taken when this one is done.
            on_duty(&label.duty, of(deadline), actor.receive(envelope, cx)).await;
            cx.done();
        }
        // EN-2: what was ordered while the last handler ran is seen now.
        if cell.ends().is_forced() {
            // `Guarded` sees it when this waits.
            return pending().await;
        }
        cx.end_children().await;
        let stop = const { &Duty::runs(A::NAME, "on_stop") };
        on_duty(stop, of(None), actor.on_stop(cx)).await;
        Ok(())
    }

    /// Decides what comes after an incarnation, and waits until it does. Returns false when that is
    /// the end.
    async fn goes_on(&mut self) -> bool {
        let Life { cell, plan, how, started, is_born, cx, .. } = self;
        let exit = how.exit();
        let in_hand = cx.take_in_hand();
        // A first start that fails is told to its spawner: there is no incarnation to restart.
        if cell.ends().is_final() || !*is_born {
            return false;
        }
        if let Some(started) = started.take() {
            drop(started.send(Err(SpawnError::Start(exit.to_string().into()))));
        }
        let mut delay = Duration::ZERO;
        let pause = cell.ends().take_pause();
        if pause.is_none() {
            let Some(plan) = plan.as_mut() else { return false };
            delay = match plan.after(&exit) {
                Verdict::End => return false,
                Verdict::Exceeded(most) => {
                    let reason = most.text(cell.address(), &exit);
                    *how = Ending::Failed(reason.as_str().into());
                    plan.escalate(reason.into());
                    return false;
                }
                Verdict::Restart(delay) => delay,
            };
            let (actor, message) = (cell.address(), in_hand.map(|label| label.name()));
            metrics::counter!("ringpost_actor_restarts_total", "actor" => A::NAME).increment(1);
            tracing::warn!(%actor, %exit, message, ?delay, "an actor is restarted");
        }
        if !cell.renew() {
            return false;
        }
        let reports = plan.as_ref().and_then(|plan| plan.reports());
        let (resume, resumed) = oneshot::channel();
        let resting = Resting { delay, resume };
        let told = match (pause, reports) {
            (Some(pause), _) => Some(pause.send(resting).is_ok()),
            (None, Some(reports)) => Some(reports(resting)),
            (None, None) => None,
        };
        let resumed = match told {
            None => rested(&self.cell, sleep(delay)).await.is_some(),
            Some(told) => told && self.resumed(resumed).await,
        };
        // What was ordered of an actor that rested is done: it had ended.
        self.cell.ends().renew();
        resumed && !self.cell.ends().is_final()
    }

    /// Rests until the actor is to begin anew. Returns false when it never is.
    async fn resumed(&mut self, mut resumed: oneshot::Receiver<Started>) -> bool {
        loop {
            match rested(&self.cell, &mut resumed).await {
                Some(Ok(started)) => {
                    self.started = Some(started);
                    return true;
                }
                Some(Err(_)) => return false,
                None if self.cell.ends().is_final() => return false,
                None => {
                    // It is to rest, and does.
                    let Some(pause) = self.cell.ends().take_pause() else { continue };
                    self.cell.renew();
                    let (resume, again) = oneshot::channel();
                    if pause.send(Resting { delay: Duration::ZERO, resume }).is_err() {
                        return false;
                    }
                    resumed = again;
                }
            }
        }
    }
}

/// Waits for `future`, unless something is ordered first.
async fn rested<A: Handlers, F: Future>(cell: &Cell<A>, future: F) -> Option<F::Output> {
    let ordered = poll_fn(|cx| {
        cell.mailbox().attend(cx.waker());
        if cell.ends().is_ordered() { Poll::Ready(()) } else { Poll::Pending }
    });
    tokio::select! {
        biased;
        () = ordered => None,
        output = future => Some(output),
    }
}

/// Waits for what is to be handled next; `None` when nothing comes any more.
async fn next<A: Handlers>(
    cell: &Cell<A>,
    cx: &mut Context<A>,
    hand: &mut ActorHand<A>,
) -> Option<Begun<A>> {
    loop {
        let taken = poll_fn(|task| poll_taken(cell, cx, hand, task)).await;
        match taken {
            Look::Begun(begun) => return Some(begun),
            Look::Skipped => {}
            Look::End => return None,
            Look::Empty => {
                let mut alarm = Alarm::new(cell.node().deadlines());
                let filled = poll_fn(|task| {
                    let is_tired = cx.take_rest();
                    if !is_tired && cx.poll_lane(cell, hand, task) {
                        return Poll::Ready(Batch::Filled);
                    }
                    let filled = cell.mailbox().poll_fill(hand, &mut alarm, task);
                    if filled.is_pending() && is_tired && cx.poll_lane(cell, hand, task) {
                        return Poll::Ready(Batch::Filled);
                    }
                    filled
                });
                if filled.await == Batch::End {
                    return None;
                }
            }
        }
    }
}

/// What a look at the lane and at the hand came to.
enum Look<A: Handlers> {
    Begun(Begun<A>),
    /// An ask that nobody waits for.
    Skipped,
    /// Nothing is to be begun.
    Empty,
    End,
}

#[inline]
fn poll_taken<A: Handlers>(
    cell: &Cell<A>,
    cx: &mut Context<A>,
    hand: &mut ActorHand<A>,
    task: &mut TaskContext<'_>,
) -> Poll<Look<A>> {
    // Lets other tasks run now and then, however much there is to do.
    let turn = ready!(coop::poll_proceed(task));
    turn.made_progress();
    if cell.mailbox().is_stopping() {
        return Poll::Ready(Look::End);
    }
    if let Some(begun) = cx.take_item(cell, hand, task) {
        return Poll::Ready(Look::Begun(begun));
    }
    let begun = match hand.take_tell() {
        Some(unopened) => cell.open(unopened),
        None => match hand.take(task) {
            None => return Poll::Ready(Look::Empty),
            Some(Taken::Local(letter)) => cell.begin(letter),
            Some(Taken::Remote(unopened)) => cell.open(unopened),
        },
    };
    Poll::Ready(begun.map_or(Look::Skipped, Look::Begun))
}

pin_project! {
    /// An incarnation that ends when that is ordered, and whose panics are caught.
    struct Guarded<'a, A: Handlers, F> {
        cell: &'a Cell<A>,
        attended: bool,
        #[pin]
        inner: F,
    }
}

impl<A: Handlers, F: Future<Output = Result<(), BoxError>>> Future for Guarded<'_, A, F> {
    type Output = Ending;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Ending> {
        let this = self.project();
        if !*this.attended {
            this.cell.mailbox().attend(cx.waker());
            *this.attended = true;
        }
        let ends = this.cell.ends();
        let polled = if ends.is_forced() {
            Ok(Poll::Pending)
        } else {
            catch_unwind(AssertUnwindSafe(|| this.inner.poll(cx)))
        };
        // An actor that killed itself and ended in the same breath was killed.
        match ends.forced() {
            Some(Forced::Kill) => return Poll::Ready(Ending::Killed),
            Some(Forced::Fail(reason)) => return Poll::Ready(Ending::Failed(reason)),
            None => {}
        }
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(Ok(()))) => Poll::Ready(Ending::Stopped),
            Ok(Poll::Ready(Err(error))) => Poll::Ready(Ending::Unstarted(error)),
            Err(panic) => Poll::Ready(Ending::Panicked(message_of(&*panic))),
        }
    }
}

impl Ending {
    fn exit(&self) -> ActorExit {
        match self {
            Ending::Stopped => ActorExit::Stopped,
            Ending::Unstarted(error) => ActorExit::Failed(error.to_string().into()),
            Ending::Panicked(message) => ActorExit::Panicked(message.clone()),
            Ending::Killed => ActorExit::Killed,
            Ending::Failed(reason) => ActorExit::Failed(reason.clone()),
        }
    }

    /// Returns the error of who spawned an actor that did not start.
    fn unstarted(self) -> SpawnError {
        match self {
            Ending::Unstarted(error) => SpawnError::Start(error),
            Ending::Panicked(message) => SpawnError::Panicked(message),
            Ending::Failed(reason) => SpawnError::Start(reason.to_string().into()),
            Ending::Killed | Ending::Stopped => SpawnError::Killed,
        }
    }
}

impl<A: Handlers> Drop for Life<A> {
    fn drop(&mut self) {
        // LF-2: whoever waits is told when the state is gone.
        drop_quietly(&mut self.actor);
        self.cx.abandon();
        let how = std::mem::replace(&mut self.how, Ending::Killed);
        let (actor, exit) = (self.cell.address(), how.exit());
        match &exit {
            ActorExit::Panicked(message) => {
                tracing::error!(%actor, %message, "an actor panicked");
            }
            ActorExit::Failed(reason) if self.is_born => {
                tracing::error!(%actor, %reason, "an actor failed")
            }
            _ => {}
        }
        tracing::debug!(%actor, %exit, "an actor ended");
        self.cell.end(&mut self.hand, exit);
        if let Some(started) = self.started.take() {
            // An error says that the spawner no longer waits.
            drop(started.send(Err(how.unstarted())));
        }
    }
}

/// Drops the state of an actor. A panic of its own `Drop` is in the log, and keeps nothing from its
/// end.
fn drop_quietly<A>(actor: &mut Option<A>) {
    drop(catch_unwind(AssertUnwindSafe(|| drop(actor.take()))));
}

pub(super) fn message_of(panic: &(dyn Any + Send)) -> Arc<str> {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").into()
}
