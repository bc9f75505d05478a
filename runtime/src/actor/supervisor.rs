//! An actor that starts others in order, restarts them when they fail, and stops them in reverse.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::child::{Child, Parent};
use super::family::Member;
use super::spawn::Starts;
use super::{Actor, Context, Handler, Handlers};
use crate::error::{BoxError, SpawnError};
use crate::limits;
use crate::node::Node;
use crate::resident::{Halt, Resident, Resting, Started};
use crate::{actor, handlers, message};

/// Which children are restarted when one of them has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// That one.
    OneForOne,
    /// All: they are stopped in reverse order, and started in order.
    OneForAll,
    /// That one, and those that were started after it.
    RestForOne,
}

/// An actor that starts its children in order, restarts them when they fail, and stops them in
/// reverse when it ends. It is an actor like any other: it is spawned on a node, or the child of
/// another one.
///
/// ```
/// # use ringpost::Strategy;
/// # use ringpost::prelude::*;
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
/// A child that has failed more often than its [`Restart`](super::Restart) allows has the
/// supervisor fail: it stops its other children, and is restarted itself if it is somebody's child.
/// A child that ended otherwise than by a failure, and is not restarted then, has ended for good.
#[derive(Clone)]
pub struct Supervisor {
    strategy: Strategy,
    children: Vec<Arc<dyn Spec>>,
    running: Vec<Member>,
    /// Children that rest and are to be started.
    resting: Waiting,
}

/// Children that are to be started, by their number.
#[derive(Default)]
struct Waiting(BTreeMap<usize, oneshot::Sender<Started>>);

/// No incarnation of a supervisor has what another one waits for.
impl Clone for Waiting {
    fn clone(&self) -> Self {
        Waiting::default()
    }
}

/// A child, without its type.
trait Spec: Send + Sync {
    fn begin(&self, node: &Node, parent: Parent)
    -> Result<(Arc<dyn Resident>, Starts), SpawnError>;
    fn stop_within(&self) -> Duration;
}

impl<A: Handlers> Spec for Child<A> {
    fn begin(
        &self,
        node: &Node,
        parent: Parent,
    ) -> Result<(Arc<dyn Resident>, Starts), SpawnError> {
        let (cell, starts) = node.begin_child(self.clone(), parent)?;
        Ok((cell, starts))
    }

    fn stop_within(&self) -> Duration {
        self.stop_within
    }
}

/// A child has failed, and rests.
#[message(local)]
pub(super) struct Rested {
    number: usize,
    resting: Resting,
}

impl Supervisor {
    /// A supervisor without children.
    pub fn new(strategy: Strategy) -> Self {
        let (children, running) = (Vec::new(), Vec::new());
        Supervisor { strategy, children, running, resting: Waiting::default() }
    }

    /// Adds a child, which is started after those that were added before.
    pub fn child<A: Handlers>(mut self, child: Child<A>) -> Self {
        self.children.push(Arc::new(child));
        self
    }

    /// Has a child rest, if it has not ended.
    async fn pause(&mut self, number: usize) {
        let Some(Member { actor, stop_within }) = self.running.get(number) else { return };
        let (pause, mut paused) = oneshot::channel();
        actor.pause(pause);
        let rests = match timeout(*stop_within, &mut paused).await {
            Ok(rests) => Ok(rests),
            Err(_late) => {
                actor.halt(Halt::Kill);
                timeout(limits::KILL_TIMEOUT, paused).await
            }
        };
        match rests {
            Ok(Ok(Resting { resume, .. })) => {
                self.resting.0.insert(number, resume);
            }
            Ok(Err(_ended)) => {}
            Err(_late) => {
                let actor = actor.address();
                tracing::warn!(%actor, "a killed actor still runs: its handler never waits");
            }
        }
    }

    /// Starts those that rest, in order, up to one that fails to start: that one rests again, and
    /// says so.
    async fn start_resting(&mut self) {
        while let Some((_, resume)) = self.resting.0.pop_first() {
            let (started, starts) = oneshot::channel();
            // An error says that it has ended meanwhile.
            if resume.send(started).is_ok() && !matches!(starts.await, Ok(Ok(()))) {
                return;
            }
        }
    }
}

#[actor(name = "ringpost::Supervisor")]
#[diagnostic::do_not_recommend]
impl Actor for Supervisor {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let (reports, mut reported) = mpsc::unbounded_channel();
        let me: Arc<dyn Resident> = cx.shared_cell();
        for (number, child) in self.children.iter().enumerate() {
            let parent = match self.strategy {
                Strategy::OneForOne => Parent::Actor(me.clone()),
                _ => Parent::Group(me.clone(), reports.clone(), number),
            };
            let (actor, starts) = child.begin(cx.node(), parent)?;
            let member = Member { actor, stop_within: child.stop_within() };
            cx.adopt(member.clone());
            let started = starts.await.unwrap_or(Err(SpawnError::Killed));
            let address = member.actor.address();
            started.map_err(|error| format!("its child {address} did not start: {error}"))?;
            self.running.push(member);
        }
        if self.strategy != Strategy::OneForOne {
            let rested = futures::stream::poll_fn(move |cx| reported.poll_recv(cx));
            cx.attach(futures::StreamExt::map(rested, |(number, resting)| Rested {
                number,
                resting,
            }));
        }
        Ok(())
    }
}

#[handlers(Rested)]
impl Supervisor {}

#[diagnostic::do_not_recommend]
impl Handler<Rested> for Supervisor {
    type Reply = ();

    /// Restarts a child that failed, and those that are restarted with it.
    async fn handle(&mut self, msg: Rested, _cx: &mut Context<Self>) {
        let Rested { number, resting: Resting { delay, resume } } = msg;
        if resume.is_closed() {
            // It was told to rest with others since, and is started with them.
            return;
        }
        self.resting.0.insert(number, resume);
        let first = if self.strategy == Strategy::OneForAll { 0 } else { number + 1 };
        for other in (first..self.running.len()).rev() {
            if !self.resting.0.contains_key(&other) {
                self.pause(other).await;
            }
        }
        sleep(delay).await;
        self.start_resting().await;
    }
}
