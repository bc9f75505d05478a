//! The registrations that make messages for an actor: timers, tasks, streams, watches.
//!
//! A due message of a registration is handled before the next message of the mailbox, and needs no
//! room there: the registrations of the actor bound the number of such messages. After
//! [`limits::BATCH_MESSAGES_MAX`] of them in a row the mailbox has its turn. A registration ends
//! with the incarnation that made it, before the next one begins.

use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use ringpost_transport::shield;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};

use super::timers::Timers;
use super::watch::{Down, Watches};
use crate::actor::cell::route::{Label, LabeledEnvelope};
use crate::actor::cell::{ActorCell, ActorPrefetched};
use crate::actor::send::reply::unanswered;
use crate::actor::{ClosureMessage, Handlers};
use crate::limits;
use crate::node::Node;
use crate::resident::LocalActor;
use crate::spans::Scope;
use crate::tally::{ActorStats, RegistrationKind};

/// A function that makes the message about the end of an actor.
pub(crate) type DownFactory<A> = fn(Down, &Node) -> Option<LabeledEnvelope<A>>;

/// A due message, and its scope, if it has one.
pub(crate) type DueMessage<A> = (LabeledEnvelope<A>, Option<Box<Scope>>);

/// The continuation of a task that has ended. The actor handles the closure `task` like a message,
/// in the scope of the handler that spawned the task.
pub(crate) struct TaskContinuation<A: Handlers> {
    pub(crate) task: ClosureMessage<A>,
    pub(crate) scope: Option<Box<Scope>>,
}

pin_project! {
    /// A task of an actor. If it is dropped before its end, it adds to `unanswered` the number of
    /// `ReplyTo`s that it holds and whose askers wait.
    struct CountedTask<F> {
        #[pin]
        future: Option<F>,
        unanswered: Arc<Mutex<usize>>,
    }

    impl<F> PinnedDrop for CountedTask<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let dropped = unanswered(|| this.future.set(None));
            *this.unanswered.lock() += dropped;
        }
    }
}

impl<F: Future> Future for CountedTask<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let future = self.project().future.as_pin_mut();
        future.expect("it is there until it is dropped").poll(cx)
    }
}

/// The timers, tasks, streams and watches of an actor. Owned by its context, and created with the
/// first of them.
pub(crate) struct EventSources<A: Handlers> {
    pub(crate) timers: Timers<A>,
    pub(crate) tasks: JoinSet<Option<TaskContinuation<A>>>,
    /// The number of asks left unanswered by tasks that were dropped before their end.
    unanswered: Arc<Mutex<usize>>,
    /// Each pipe holds a clone until its closure is called.
    pub(crate) pipes: Arc<()>,
    pub(crate) streams: SelectAll<BoxStream<'static, Option<LabeledEnvelope<A>>>>,
    pub(crate) watches: Watches,
    /// Set by the first watch.
    pub(crate) down: Option<DownFactory<A>>,
    tally: Arc<ActorStats>,
    /// The number of messages taken from here since the last message of the mailbox.
    row: usize,
    /// Says, modulo 3, which is polled first: timers, tasks or streams.
    turn: usize,
}

impl<A: Handlers> EventSources<A> {
    pub(crate) fn new(node: Node, tally: Arc<ActorStats>) -> Self {
        EventSources {
            timers: Timers::new(node),
            tasks: JoinSet::new(),
            unanswered: Arc::default(),
            pipes: Arc::default(),
            streams: SelectAll::new(),
            watches: Watches::default(),
            down: None,
            tally,
            row: 0,
            turn: 0,
        }
    }

    /// Runs a task of the actor.
    pub(crate) fn spawn(
        &mut self,
        future: impl Future<Output = Option<TaskContinuation<A>>> + Send + 'static,
        runtime: &Handle,
    ) -> AbortHandle {
        let task = CountedTask { future: Some(future), unanswered: self.unanswered.clone() };
        let task = self.tasks.spawn_on(task, runtime);
        self.count();
        task
    }

    /// Takes the next due message, unless it is the mailbox's turn. Timers do not wake the task:
    /// see [`wait`](Self::wait).
    pub(crate) fn take(
        &mut self,
        cell: &ActorCell<A>,
        hand: &ActorPrefetched<A>,
        cx: &mut Context<'_>,
    ) -> Option<DueMessage<A>> {
        if self.row >= limits::BATCH_MESSAGES_MAX {
            return None;
        }
        while let Poll::Ready(down) = self.watches.poll(cell.mailbox(), hand, cx) {
            if let Some(item) = self.down.and_then(|make| make(down, cell.node())) {
                self.row += 1;
                return Some((item, None));
            }
        }
        // Each kind is polled first in turn, so that a kind which always has an item delays no
        // other.
        for at in self.turn..self.turn + 3 {
            let found = match at % 3 {
                0 => {
                    let due = self.timers.take_due(|| hand.is_empty() && cell.intake().is_empty());
                    due.map(|item| (item, None))
                }
                1 => self.ended_task(cx),
                _ => self.next_of_streams(cx).map(|item| (item, None)),
            };
            if found.is_some() {
                self.turn = at + 1;
                self.row += 1;
                self.count();
                return found;
            }
        }
        self.count();
        None
    }

    /// Updates the counts of registrations.
    pub(crate) fn count(&self) {
        self.tally.set(RegistrationKind::Timers, self.timers.len());
        self.tally.set(RegistrationKind::Tasks, self.tasks.len());
        self.tally.set(RegistrationKind::Streams, self.streams.len());
    }

    /// Returns the number of pipes whose closures have not been called.
    pub(crate) fn open_pipes(&self) -> usize {
        Arc::strong_count(&self.pipes) - 1
    }

    /// Registers the waker to be woken by the next timer.
    pub(crate) fn wait(&mut self, cx: &mut Context<'_>) {
        self.timers.wait(cx);
    }

    /// Records that the mailbox had its turn. Returns true if [`take`](Self::take) returned nothing
    /// before, because it was the mailbox's turn.
    pub(crate) fn rest(&mut self) -> bool {
        std::mem::take(&mut self.row) >= limits::BATCH_MESSAGES_MAX
    }

    fn ended_task(&mut self, cx: &mut Context<'_>) -> Option<DueMessage<A>> {
        while let Poll::Ready(Some(ended)) = self.tasks.poll_join_next(cx) {
            match ended {
                Ok(None) => {}
                Ok(Some(TaskContinuation { task, scope })) => {
                    return Some(((const { &Label::of_task::<A>() }, A::task(task)), scope));
                }
                // A panic of a task is a panic of its actor.
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                Err(_aborted) => {}
            }
        }
        None
    }

    fn next_of_streams(&mut self, cx: &mut Context<'_>) -> Option<LabeledEnvelope<A>> {
        match Pin::new(&mut self.streams).poll_next_unpin(cx) {
            Poll::Ready(Some(None)) => {
                // The message could not be made: the other kinds have their turn before the next
                // item.
                cx.waker().wake_by_ref();
                None
            }
            Poll::Ready(item) => item.flatten(),
            Poll::Pending => None,
        }
    }

    /// Ends all registrations, and waits for the tasks. Returns the number of asks that were left
    /// unanswered by this while their askers waited.
    pub(crate) async fn end(mut self) -> usize {
        let by_tasks = self.unanswered.clone();
        // Tasks that the program itself aborted before do not count.
        let before = *by_tasks.lock();
        let mut others = 0;
        self.tasks.abort_all();
        while let Some(ended) = self.tasks.join_next().await {
            others += unanswered(|| shield::discard(ended));
        }
        others += unanswered(|| shield::discard(self));
        let by_tasks = *by_tasks.lock() - before;
        others + by_tasks
    }
}

impl<A: Handlers> Drop for EventSources<A> {
    /// Resets the counts of registrations.
    fn drop(&mut self) {
        for what in [RegistrationKind::Timers, RegistrationKind::Tasks, RegistrationKind::Streams] {
            self.tally.set(what, 0);
        }
    }
}
