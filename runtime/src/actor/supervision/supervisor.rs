//! `Supervisor`: an actor that starts others in order, restarts them when they fail, and stops them
//! in reverse order.

use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::stream;
use parking_lot::Mutex;
use ringpost_transport::{log, shield};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use crate::actor::cell::ActorCell;
use crate::actor::context::child::{Child, Parent, RestReport};
use crate::actor::context::family::ChildHandle;
use crate::actor::send::destination::DestinationView;
use crate::actor::spawn::StartFuture;
use crate::actor::{Actor, ActorRef, Context, Handler, Handlers, Local};
use crate::address::Address;
use crate::busy::at_rest;
use crate::ends::ExitControl;
use crate::error::{AskCause, AskError, BoxError, SpawnError};
use crate::limits;
use crate::message::Message;
use crate::node::Node;
use crate::resident::LocalActor;
use crate::rest::{RestingActor, StartSender};
use crate::{actor, handlers, message};

/// The choice of the children that are restarted when one of them has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The child that failed.
    OneForOne,
    /// All children: they are stopped in reverse order, and started in order.
    OneForAll,
    /// The child that failed, and all children that were started after it.
    RestForOne,
}

/// An actor that starts its children in order, restarts them when they fail, and stops them in
/// reverse order when it ends. It is an actor like any other: it is spawned on a node, or as the
/// child of another actor.
///
/// ```
/// # use ringpost::prelude::*;
/// # use ringpost::spawn::{Child, Strategy, Supervisor};
/// # #[actor]
/// # #[derive(Default)]
/// # struct Store;
/// # #[handlers]
/// # impl Store {}
/// # #[actor]
/// # #[derive(Default)]
/// # struct Index;
/// # #[handlers]
/// # impl Index {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # let node = Node::builder("alpha").start().await?;
/// let supervisor = Supervisor::new(Strategy::RestForOne)
///     .child(Child::new(Store::default).named("store"))
///     .child(Child::new(Index::default).named("index"));
/// node.spawn("storage", supervisor).await?;
/// let index = node.actor::<Index>("index").await?;
/// # drop(index);
/// # Ok(())
/// # }
/// ```
///
/// If a child fails more often than its [`Restart`](crate::spawn::Restart) allows, the supervisor
/// fails: it stops its other children, and is restarted itself if it is a child of another actor. A
/// child that ends without a failure, and is not restarted then, is gone. More children are added
/// with [`start_child`](ActorRef::start_child) while the supervisor runs.
#[derive(Clone)]
pub struct Supervisor {
    strategy: Strategy,
    children: Vec<Arc<dyn ChildSpec>>,
    group: ChildGroup,
}

/// The children that are restarted together. Each incarnation of a supervisor has its own.
#[derive(Default)]
struct ChildGroup {
    /// The children that were started and have not ended, by number.
    running: BTreeMap<usize, RunningChild>,
    /// The number of children whose start was begun, including starts that failed. The next child
    /// gets this number.
    begun: usize,
    /// The children that wait for their restart, by number, each with the sender that restarts it.
    resting: BTreeMap<usize, oneshot::Sender<StartSender>>,
    /// Receives the answer of the child that was told to pause, while the supervisor waits for it.
    /// Kept when the wait is given up: a child that cannot send its answer takes its pause for a
    /// failure, and may escalate that to a supervisor that is stopping its children.
    pausing: Option<oneshot::Receiver<RestingActor>>,
    /// The channel on which children report that they have failed and wait for a restart. `None`
    /// before the start, and if each child restarts alone.
    reports: Option<(mpsc::UnboundedSender<RestReport>, ReportReceiver)>,
}

/// A child that has started and not ended.
struct RunningChild {
    member: ChildHandle,
    /// The child's reports up to this number are outdated: since then it was told to pause together
    /// with others, and did.
    overtaken: u64,
}

impl Clone for ChildGroup {
    fn clone(&self) -> Self {
        ChildGroup::default()
    }
}

/// The receiver of the children's reports. Read by a stream that is attached to the supervisor, and
/// by the handler of a report while that runs.
type ReportReceiver = Arc<Mutex<mpsc::UnboundedReceiver<RestReport>>>;

/// The description of a child, without the type of its actor.
trait ChildSpec: Send + Sync {
    fn begin(
        &self,
        node: &Node,
        parent: Parent,
    ) -> Result<(Arc<dyn LocalActor>, StartFuture), SpawnError>;
    fn stop_within(&self) -> Duration;
}

impl<A: Handlers> ChildSpec for Child<A> {
    fn begin(
        &self,
        node: &Node,
        parent: Parent,
    ) -> Result<(Arc<dyn LocalActor>, StartFuture), SpawnError> {
        // A panic in the user's function is not a failure of the supervisor.
        let begin = || node.begin_child(self.clone(), parent);
        let (cell, starts) = shield::catch(begin).map_err(SpawnError::Panicked)??;
        Ok((cell, starts))
    }

    fn stop_within(&self) -> Duration {
        self.stop_within
    }
}

impl Supervisor {
    /// Creates a supervisor without children.
    pub fn new(strategy: Strategy) -> Self {
        Supervisor { strategy, children: Vec::new(), group: ChildGroup::default() }
    }

    /// Adds a child, which is started after the children that were added before.
    pub fn child<A: Handlers>(mut self, child: Child<A>) -> Self {
        self.children.push(Arc::new(child));
        self
    }

    /// Starts a child, and waits until it has started. An error contains the child's address, if
    /// its start was begun.
    async fn start(
        &mut self,
        child: &dyn ChildSpec,
        cx: &mut Context<Self>,
    ) -> Result<Arc<dyn LocalActor>, (Option<Address>, SpawnError)> {
        let (number, member, starts) = self.begin(child, cx).map_err(|error| (None, error))?;
        starts.await.map_err(|error| (Some(member.actor.address().clone()), error))?;
        Ok(self.join(number, member))
    }

    /// Begins to start a child, which ends with the supervisor from now on.
    fn begin(
        &mut self,
        child: &dyn ChildSpec,
        cx: &mut Context<Self>,
    ) -> Result<(usize, ChildHandle, StartFuture), SpawnError> {
        let (number, me) = (self.group.begun, cx.shared_cell());
        self.group.begun += 1;
        let parent = match &self.group.reports {
            None => Parent::Actor(me),
            Some((reports, _)) => Parent::Group(me, reports.clone(), number),
        };
        let (actor, starts) = child.begin(cx.node(), parent)?;
        let member = ChildHandle { actor, stop_within: child.stop_within() };
        cx.adopt(member.clone());
        Ok((number, member, starts))
    }

    /// Adds a child that has started to the children that are restarted together, and returns it.
    fn join(&mut self, number: usize, member: ChildHandle) -> Arc<dyn LocalActor> {
        let actor = member.actor.clone();
        if self.group.reports.is_some() {
            self.group.running.retain(|_, running| !running.member.actor.has_ended());
            self.group.running.insert(number, RunningChild { member, overtaken: 0 });
        }
        actor
    }

    /// Pauses a child, if it has not ended: its incarnation ends, and it waits for a restart. Kills
    /// an incarnation that does not end in time.
    async fn pause(&mut self, number: usize) {
        let ChildGroup { running, resting, pausing, .. } = &mut self.group;
        let Some(RunningChild { member, overtaken }) = running.get_mut(&number) else { return };
        let ChildHandle { actor, stop_within } = member;
        let (pause, paused) = oneshot::channel();
        actor.order(|ends| ends.pause(pause));
        let paused = pausing.insert(paused);
        let rests = match timeout(*stop_within, &mut *paused).await {
            Ok(rests) => Ok(rests),
            Err(_late) => {
                actor.order(ExitControl::kill_unless_resting);
                timeout(limits::KILL_TIMEOUT, paused).await
            }
        };
        *pausing = None;
        match rests {
            Ok(Ok(RestingActor { resume, reports, .. })) => {
                *overtaken = reports;
                resting.insert(number, resume);
            }
            Ok(Err(_ended)) => {}
            Err(_late) => {
                // If it ends after all, it has failed, and reports that.
                let actor = actor.address();
                log::warn!(%actor, "a killed actor still runs: its handler never waits");
            }
        }
    }

    /// Records a failed child, and pauses the children that are restarted with it. Returns the time
    /// at which the restart is due. Stops pausing children if the supervisor must end.
    async fn gather(&mut self, failed: RestReport, cx: &Context<Self>) -> Instant {
        let RestReport { number, resting: RestingActor { delay, reports, resume } } = failed;
        let until = Instant::now() + delay;
        if self.group.running.get(&number).is_some_and(|child| reports <= child.overtaken) {
            // The child was told to pause with others since, and is or was restarted with these.
            return until;
        }
        // (The failed child may have been ended since: the others restart without it.)
        self.group.resting.insert(number, resume);
        let first = if self.strategy == Strategy::OneForAll { 0 } else { number + 1 };
        let others = first..self.group.begun;
        let others: Vec<usize> =
            self.group.running.range(others).map(|(other, _)| *other).collect();
        for other in others.into_iter().rev() {
            if self.group.resting.contains_key(&other) {
                continue;
            }
            tokio::select! {
                biased;
                () = cx.is_to_end() => break,
                () = self.pause(other) => {}
            }
        }
        until
    }

    /// Waits for the next report of a child that has failed.
    async fn failure(&self) -> RestReport {
        let next = poll_fn(|cx| match &self.group.reports {
            Some((_, reported)) => reported.lock().poll_recv(cx),
            None => Poll::Pending,
        });
        match next.await {
            Some(failed) => failed,
            None => pending().await,
        }
    }

    /// Restarts the first of the children that wait for it, and waits until it has started or has
    /// failed to start. A child that has failed waits again and reports that, or has ended. Returns
    /// false if no child waits for a restart.
    async fn start_first(resting: &mut BTreeMap<usize, oneshot::Sender<StartSender>>) -> bool {
        let Some((_, resume)) = resting.pop_first() else { return false };
        let (started, starts) = oneshot::channel();
        if resume.send(started).is_ok() {
            // An error is reported by the child, or escalated.
            drop(starts.await);
        }
        true
    }
}

#[actor(name = "ringpost::Supervisor")]
#[diagnostic::do_not_recommend]
impl Actor for Supervisor {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        if self.strategy != Strategy::OneForOne {
            let (reports, reported) = mpsc::unbounded_channel();
            let reported = Arc::new(Mutex::new(reported));
            self.group.reports = Some((reports, reported.clone()));
            cx.attach(stream::poll_fn(move |cx| reported.lock().poll_recv(cx)));
        }
        for child in self.children.clone() {
            let started = self.start(&*child, cx).await;
            started.map_err(|(address, error)| match address {
                Some(child) => format!("its child {child} did not start: {error}").into(),
                None => BoxError::from(error),
            })?;
        }
        Ok(())
    }
}

#[handlers(RestReport, StartChild, EndChild)]
impl Supervisor {}

/// Tells a supervisor to start another child.
#[message(local)]
struct StartChild(Arc<dyn ChildSpec>);

/// Tells a supervisor to end the child with this token.
#[message(local)]
struct EndChild(usize);

impl ActorRef<Supervisor> {
    /// Starts another child of this supervisor, after its current children. Returns when it has
    /// started. From then on it is a child like the others. A restart of the supervisor itself
    /// begins with its original children. If the child does not start, it is not added, and the
    /// supervisor goes on.
    ///
    /// # Errors
    /// [`SpawnError`] as for [`Context::spawn`]; [`NoSupervisor`](SpawnError::NoSupervisor) if the
    /// supervisor has ended, or is on another node.
    ///
    /// # Cancel safety
    /// If the future is dropped, the child may still run.
    pub async fn start_child<A: Handlers>(
        &self,
        child: Child<A>,
    ) -> Result<ActorRef<A>, SpawnError> {
        // The longest timeout, because the child may take long to start.
        let asked = self.ask(StartChild(Arc::new(child))).timeout(limits::ASK_TIMEOUT_MAX);
        let Local(started) = asked.await.map_err(SpawnError::NoSupervisor)?;
        let cell = started?.as_any().downcast::<ActorCell<A>>().map_err(|_| SpawnError::Killed)?;
        Ok(ActorRef::local(cell))
    }

    /// Ends a child of this supervisor permanently, whatever its [`Restart`](crate::spawn::Restart)
    /// says: stops it, and kills it if that takes too long. Returns true when it has ended, or was
    /// left behind because its handler never waits; false if it is not a child of this supervisor,
    /// or had ended.
    ///
    /// A child that awaits this for itself is killed when its time to stop is over. It should stop
    /// itself by its context, or call this in a task.
    ///
    /// # Errors
    /// [`AskError`] if the supervisor has ended, or is on another node; with the cause
    /// [`NoReply`](crate::AskCause::NoReply) if the supervisor must end itself before the child has
    /// ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, the child may still end.
    pub async fn end_child<A: Handlers>(&self, child: &ActorRef<A>) -> Result<bool, AskError> {
        let now = child.destination().now();
        let DestinationView::Local(near) = now.view() else { return Ok(false) };
        let asked =
            self.ask(EndChild(near.cell().resident().token())).timeout(limits::ASK_TIMEOUT_MAX);
        let Local(ended) = asked.await?;
        let error = || {
            AskError::new(AskCause::NoReply, self.address().clone(), <EndChild as Message>::NAME)
        };
        ended.ok_or_else(error)
    }
}

#[diagnostic::do_not_recommend]
impl Handler<StartChild> for Supervisor {
    type Reply = Local<Result<Arc<dyn LocalActor>, SpawnError>>;

    async fn handle(&mut self, msg: StartChild, cx: &mut Context<Self>) -> Self::Reply {
        let (number, member, starts) = match self.begin(&*msg.0, cx) {
            Ok(begun) => begun,
            Err(error) => return Local(Err(error)),
        };
        // A supervisor that must end does not wait for a child that may never start: it ends the
        // child, too.
        let started = tokio::select! {
            biased;
            () = cx.is_to_end() => Err(SpawnError::Killed),
            started = starts => started,
        };
        Local(started.map(|()| self.join(number, member)))
    }
}

#[diagnostic::do_not_recommend]
impl Handler<EndChild> for Supervisor {
    type Reply = Local<Option<bool>>;

    /// Returns `None` if the supervisor must end first: it ends the child with the others.
    async fn handle(&mut self, msg: EndChild, cx: &mut Context<Self>) -> Self::Reply {
        let Some(child) = cx.child(msg.0) else { return Local(Some(false)) };
        tokio::select! {
            biased;
            () = child.leave(false) => Local(Some(true)),
            () = cx.is_to_end() => Local(None),
        }
    }
}

#[diagnostic::do_not_recommend]
impl Handler<RestReport> for Supervisor {
    type Reply = ();

    /// Restarts a child that failed, the children that are restarted with it, and all children that
    /// fail meanwhile. Ends early if the supervisor must end: then the children that wait for a
    /// restart end, too.
    async fn handle(&mut self, msg: RestReport, cx: &mut Context<Self>) {
        let (mut failed, mut until) = (Some(msg), Instant::now());
        loop {
            if let Some(failed) = failed.take() {
                until = until.max(self.gather(failed, cx).await);
            }
            let mut resting = std::mem::take(&mut self.group.resting);
            let goes_on = tokio::select! {
                biased;
                () = cx.is_to_end() => false,
                next = self.failure() => {
                    failed = Some(next);
                    true
                }
                goes_on = async {
                    at_rest(sleep_until(until)).await;
                    Self::start_first(&mut resting).await
                } => goes_on,
            };
            self.group.resting.append(&mut resting);
            if !goes_on {
                return;
            }
        }
    }
}
