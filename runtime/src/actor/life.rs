//! An actor's task: start, one message after the other, stop; and again, if it is restarted.
//!
//! - **LF-1 one at a time**: a message begins when the handler of the previous one has ended. Until
//!   then only the handler uses the actor and its context, which are not moved.
//!
//! However the actor ends (stop, drain, panic, kill, failure, the runtime's own end), the drop of
//! [`Life`] runs once: it drops the actor's state, and then does everything else that an end
//! requires. An incarnation begins when the state of the previous one was dropped, and its tasks
//! and children have ended. The mailbox, the prefetched messages, the name and the identity stay.

mod guarded;
mod living;
mod rest;
mod resting;
mod running;

use std::future::pending;
use std::marker::PhantomPinned;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use ringpost_transport::{log, shield};
use tokio::task::{coop, yield_now};

use super::cell::route::Label;
use super::cell::{ActorCell, ActorPrefetched, BegunMessage, CellBase, ErasedCell, LocalMessage};
use super::context::child::RestartPlan;
use super::context::task::UnfinishedWork;
use super::send::reply::unanswered;
use super::{Context, Handlers};
use crate::busy::{AskContext, HandlerInfo, note, on_duty, take_wait};
use crate::deadlines::Alarm;
use crate::error::{BoxError, SpawnError};
use crate::exit::ActorExit;
use crate::limits;
use crate::mailbox::{FillOutcome, OutlinedDrop, Prefetched};
use crate::node::Node;
use crate::resident::LocalActor;
use crate::rest::StartSender;
use crate::spans::Scope;
use crate::waits::AskChain;
use guarded::GuardedIncarnation;
use living::{ErasedLife, LifeRef};
use running::CurrentHandler;

/// An actor and everything that its task owns. Created before the task, which may never run. The
/// fields that each message needs are side by side, and next to the future that handles it.
#[repr(C)]
pub(super) struct Life<A: Handlers> {
    actor: Option<A>,
    how: ExitReason,
    /// Reports the result of the current start; `None` once it is reported.
    started: Option<StartSender>,
    /// The restart plan; `None` if the actor is never restarted.
    plan: Option<Box<RestartPlan<A>>>,
    cx: Context<A>,
    hand: ActorPrefetched<A>,
    cell: Arc<ActorCell<A>>,
    /// Borrows `actor` and `cx`, which stay in their places while a handler runs.
    running: CurrentHandler,
    _pinned: PhantomPinned,
}

/// How an incarnation ended.
enum ExitReason {
    Stopped,
    /// Its start failed; with the error and its text.
    Unstarted(Box<(BoxError, Arc<str>)>),
    /// Boxed, because each actor contains this enum.
    Panicked(Box<Arc<str>>),
    Killed,
    Failed(Box<Arc<str>>),
}

impl<A: Handlers> Life<A> {
    /// (Inlined, so that the life is created in the place from which it is moved into its task.)
    #[inline(always)]
    pub(super) fn new(
        cell: Arc<ActorCell<A>>,
        actor: Option<A>,
        plan: Option<Box<RestartPlan<A>>>,
        started: StartSender,
    ) -> OutlinedDrop<Self> {
        OutlinedDrop::new(Life {
            actor,
            cx: Context::new(cell.clone()),
            cell,
            hand: Prefetched::new(),
            plan,
            started: Some(started),
            how: ExitReason::Killed,
            running: CurrentHandler::default(),
            _pinned: PhantomPinned,
        })
    }

    pub(super) fn cell(&self) -> Arc<ActorCell<A>> {
        self.cell.clone()
    }

    /// Sets the actor of a life that was created without one.
    pub(super) fn give(&mut self, actor: A) {
        self.actor = Some(actor);
    }

    /// Runs the actor to its end. If the future is dropped before its first poll, it drops and ends
    /// the actor.
    #[expect(clippy::manual_async_fn, reason = "the arguments of an `async fn` are stored twice")]
    pub(super) fn run(mut life: OutlinedDrop<Self>) -> impl Future<Output = ()> + Send {
        async move {
            let me = &mut *life;
            loop {
                // The spawner gets this if the task ends with its runtime.
                me.how = ExitReason::Killed;
                me.how = {
                    let cell = me.cell.clone();
                    GuardedIncarnation::new(cell, OutlinedDrop::new(me.incarnate())).await
                };
                // First, because the handler borrows the state.
                shield::run(|| me.running.clear());
                if !matches!(me.how, ExitReason::Stopped) && me.cx.has_in_hand() {
                    count_handler_ended(A::NAME);
                }
                // Nothing is left of the state when the next one is made.
                let kept = unanswered(|| shield::discard(me.actor.take()));
                if me.cell.ends().is_final() && !me.cx.has_more() {
                    let undone = UnfinishedWork { asks: kept, ..UnfinishedWork::default() };
                    return note_undone(&mut LifeRef(me), undone, false);
                }
                if !rest::goes_on(&mut LifeRef(me), kept).await {
                    return;
                }
            }
        }
    }

    /// Runs one incarnation. (Only `self` lives across its awaits, because each actor contains this
    /// future.)
    #[expect(clippy::manual_async_fn, reason = "the arguments of an `async fn` are stored twice")]
    fn incarnate(&mut self) -> impl Future<Output = Result<(), BoxError>> + Send {
        async move {
            let start = const { &HandlerInfo::runs(A::NAME, "on_start") };
            // A message that the last incarnation was handling does not belong to this one.
            self.cx.done();
            if self.cx.is_born {
                self.begin_anew();
            }
            if let Some(actor) = &mut self.actor {
                let mut starts = pin!(actor.on_start(&mut self.cx));
                // (Without its type, so that the rest is compiled once.)
                let starts: Pin<&mut (dyn Future<Output = _> + Send)> = starts.as_mut();
                on_duty(start, AskContext::default(), None, starts).await?;
            }
            note_started(self.cell.base(), self.started.take());
            self.cx.is_born = true;
            MessageLoop { life: self, alarm: None }.await;
            self.cx.done();
            // An order that came while the last handler ran takes effect now.
            if self.cell.ends().is_forced() {
                // `GuardedIncarnation` sees it when this waits.
                return pending().await;
            }
            if self.cx.has_more() {
                rest::end_children(&mut LifeRef(self)).await;
            }
            let stop = const { &HandlerInfo::runs(A::NAME, "on_stop") };
            if let Some(actor) = &mut self.actor {
                let mut stops = pin!(actor.on_stop(&mut self.cx));
                let stops: Pin<&mut (dyn Future<Output = ()> + Send)> = stops.as_mut();
                on_duty(stop, AskContext::default(), None, stops).await;
            }
            Ok(())
        }
    }

    #[cold]
    fn begin_anew(&mut self) {
        self.cell.tally().count_restart();
        if let (actor @ None, Some(plan)) = (&mut self.actor, &self.plan) {
            *actor = Some(plan.make());
        }
    }

    /// Handles one message after the other (LF-1), until the handler of one may wait. Returns that
    /// message, which has begun, or `None` if no more messages come.
    fn poll_next(
        &mut self,
        alarm: &mut Option<Box<Alarm<Node>>>,
        task: &mut TaskContext<'_>,
    ) -> Poll<Option<BegunMessage<A>>> {
        let Life { actor: Some(actor), how, cell, cx, hand, .. } = self else {
            return Poll::Ready(None);
        };
        if let ExitReason::Panicked(message) = how {
            // A handler that ran on its asker's thread has panicked.
            resume_unwind(Box::new(message.to_string()));
        }
        cx.done();
        // Lets other tasks run now and then, however much there is to do.
        ready!(coop::poll_proceed(task)).made_progress();
        while cx.turn < limits::TURN_MESSAGES_MAX {
            cx.turn += 1;
            cx.done();
            if cell.mailbox().is_stopping() || cell.ends().is_halted() {
                return Poll::Ready(None);
            }
            if let Some(begun) = cx.take_item(cell, hand, task) {
                match begin_item(actor, cx, begun) {
                    None => continue,
                    waiting => return Poll::Ready(waiting),
                }
            }
            if let Some(letter) = hand.begin_local() {
                match handle_letter(cell, actor, cx, letter) {
                    None => continue,
                    waiting => return Poll::Ready(waiting),
                }
            }
            let unopened = match hand.take_tell().or_else(|| hand.take_far(task)) {
                Some(unopened) => unopened,
                None => {
                    match cell.mailbox().poll_fill(hand, alarm, cell.node(), task) {
                        Poll::Ready(FillOutcome::Filled) => continue,
                        Poll::Ready(FillOutcome::End) => return Poll::Ready(None),
                        // The mailbox had its turn, but no message.
                        Poll::Pending if cx.rest_lane() => continue,
                        Poll::Pending => {
                            cx.turn = 0;
                            cx.wait(task);
                            self.rest();
                            return Poll::Pending;
                        }
                    }
                }
            };
            // The mailbox had its turn, even if this is an ask whose asker no longer waits.
            cx.rest_lane();
            let Some(begun) = cell.open(unopened) else { continue };
            cx.note_mail();
            if let waiting @ Some(_) = begin_item(actor, cx, begun) {
                return Poll::Ready(waiting);
            }
        }
        cx.done();
        // Handling continues when other tasks had their turn.
        cx.turn = 0;
        match pin!(yield_now()).poll(task) {
            Poll::Ready(()) | Poll::Pending => Poll::Pending,
        }
    }
}

/// The part of an incarnation that handles messages, between `on_start` and `on_stop`.
struct MessageLoop<'a, A: Handlers> {
    life: &'a mut Life<A>,
    /// `Some` while an ask from another node is held back.
    alarm: Option<Box<Alarm<Node>>>,
}

impl<A: Handlers> Future for MessageLoop<'_, A> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let MessageLoop { life, alarm } = &mut *self;
        loop {
            // LF-1: the next message is taken when this one's handler has ended.
            if ready!(life.running.poll(cx)) {
                life.cell.base().end_waits();
            }
            match ready!(life.poll_next(alarm, cx)) {
                Some(begun) => life.start(begun),
                None => return Poll::Ready(()),
            }
            *alarm = None;
        }
    }
}

/// Handles a message if its handler never waits. Otherwise returns the message, which has begun.
fn begin_item<A: Handlers>(
    actor: &mut A,
    cx: &mut Context<A>,
    begun: BegunMessage<A>,
) -> Option<BegunMessage<A>> {
    let BegunMessage { label, mut envelope, in_hand, bytes, scope } = begun;
    cx.begin(label, &in_hand, bytes);
    receive_at_once(actor, cx, (label, &in_hand, scope.as_deref()), &mut envelope);
    envelope.is_some().then(|| BegunMessage { label, envelope, in_hand, bytes, scope })
}

/// Handles a message of this node in its place in the batch, if its handler never waits. Otherwise
/// returns the message, which has begun. Does nothing for an ask whose asker has given up.
#[inline]
fn handle_letter<A: Handlers>(
    cell: &ActorCell<A>,
    actor: &mut A,
    cx: &mut Context<A>,
    letter: &mut LocalMessage<A::Envelope>,
) -> Option<BegunMessage<A>> {
    cx.rest_lane();
    let (in_hand, scope) = cell.begin(letter)?;
    cx.note_mail();
    let label = letter.label;
    cx.begin(label, &in_hand, 0);
    receive_at_once(actor, cx, (label, &in_hand, scope.as_deref()), &mut letter.envelope);
    let envelope = letter.envelope.take();
    let is_left = envelope.is_some();
    is_left.then(|| BegunMessage { label, envelope: envelope.into(), in_hand, bytes: 0, scope })
}

/// Handles a message whose handler never waits. Leaves any other message in `envelope`.
#[inline(always)]
fn receive_at_once<A: Handlers>(
    actor: &mut A,
    cx: &mut Context<A>,
    (label, in_hand, scope): (&'static Label, &AskContext, Option<&Scope>),
    envelope: &mut Option<A::Envelope>,
) {
    if label.waits {
        return;
    }
    // The handler awaits nothing, so its asks have no chain.
    let mut asks = AskChain::default();
    let noted = note(&label.duty, in_hand.deadline, &mut asks);
    let within = scope.map(Scope::enter);
    actor.receive_at_once(envelope, cx);
    drop((within, noted));
    if take_wait() {
        cx.cell().base().end_waits();
    }
}

/// Records that an incarnation has started, and reports that to `started`.
fn note_started(me: &CellBase, started: Option<StartSender>) {
    me.end_waits();
    me.ends().started();
    if let Some(started) = started {
        // An error says that the spawner no longer waits.
        drop(started.send(Ok(())));
    }
}

impl ExitReason {
    fn of(output: Result<(), BoxError>) -> Self {
        match output {
            Ok(()) => ExitReason::Stopped,
            Err(error) => {
                let text = error.to_string().into();
                ExitReason::Unstarted(Box::new((error, text)))
            }
        }
    }

    fn exit(&self) -> ActorExit {
        match self {
            ExitReason::Stopped => ActorExit::Stopped,
            ExitReason::Unstarted(why) => ActorExit::Failed(why.1.clone()),
            ExitReason::Panicked(message) => ActorExit::Panicked((**message).clone()),
            ExitReason::Killed => ActorExit::Killed,
            ExitReason::Failed(reason) => ActorExit::Failed((**reason).clone()),
        }
    }

    /// Returns the error for the spawner of an actor that did not start.
    fn unstarted(self) -> SpawnError {
        match self {
            ExitReason::Unstarted(why) => SpawnError::Start(why.0),
            ExitReason::Panicked(message) => SpawnError::Panicked(*message),
            ExitReason::Failed(reason) => SpawnError::Start(reason.to_string().into()),
            ExitReason::Killed | ExitReason::Stopped => SpawnError::Killed,
        }
    }
}

impl<A: Handlers> Drop for Life<A> {
    fn drop(&mut self) {
        // First the handler, which borrows the state, then the state. Tasks that wait for the end
        // are told after that.
        shield::run(|| self.running.clear());
        shield::discard(self.actor.take());
        self.cx.abandon();
        end(&mut LifeRef(self));
    }
}

/// Logs the work that an incarnation leaves undone if it ends in order. Timers and pipes count only
/// after a drain: an actor that was stopped may not need them any more.
fn note_undone(life: &mut dyn ErasedLife, undone: UnfinishedWork, was_drained: bool) {
    let is_news = undone.asks > 0 || was_drained && undone != UnfinishedWork::default();
    if is_news && matches!(life.how(), ExitReason::Stopped) {
        let (me, UnfinishedWork { asks, pipes, timers }) = (life.me(), undone);
        let actor = me.address();
        log::warn!(%actor, asks, pipes, timers, "an actor ended with work undone");
    }
}

/// Ends an actor whose state was dropped, and tells everyone who waits for its end.
fn end(life: &mut dyn ErasedLife) {
    let how = std::mem::replace(life.how(), ExitReason::Killed);
    let (me, exit) = (life.me(), how.exit());
    let resident: &dyn LocalActor = &*me;
    let (is_born, in_hand) = (life.is_born(), life.take_in_hand().map(Label::name));
    life.end(exit.clone());
    if let Some(started) = life.started().take() {
        // An error says that the spawner no longer waits.
        shield::discard(started.send(Err(how.unstarted())));
    } else {
        shield::discard(how);
    }
    match &exit {
        // The end of a tie only repeats how the linked actor ended.
        _ if resident.is_tie() => {}
        ActorExit::Panicked(reason) => {
            count_failure(me.name());
            log::error!(actor = %me.address(), %reason, in_hand, "an actor panicked");
        }
        ActorExit::Failed(reason) if is_born => {
            count_failure(me.name());
            log::error!(actor = %me.address(), %reason, "an actor failed");
        }
        _ => {}
    }
    log::debug!(actor = %me.address(), %exit, "an actor ended");
}

/// Counts a handler that was ended before its time. Its message is not tried again.
#[cold]
fn count_handler_ended(actor: &'static str) {
    shield::run(|| {
        metrics::counter!("ringpost_handlers_ended_total", "actor" => actor).increment(1)
    });
}

fn count_failure(actor: &'static str) {
    shield::run(|| {
        metrics::counter!("ringpost_actor_failures_total", "actor" => actor).increment(1)
    });
}
