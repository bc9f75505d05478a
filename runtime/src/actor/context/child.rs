//! Children: how and when an actor is restarted.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::actor::Handlers;
use crate::actor::options::SpawnOptions;
use crate::address::Address;
use crate::ends::RestartPolicy;
use crate::exit::ActorExit;
use crate::limits;
use crate::message;
use crate::resident::LocalActor;
use crate::rest::{RestingActor, StartSender};

/// The description of a child: its options, its restart policy, and the function that makes its
/// state.
///
/// ```
/// # use std::time::Duration;
/// # use ringpost::prelude::*;
/// # use ringpost::spawn::{Child, Restart};
/// # #[actor]
/// # #[derive(Default)]
/// # struct Worker;
/// # #[handlers]
/// # impl Worker {}
/// let restart = Restart::on_failure()
///     .at_most(5, Duration::from_secs(60))
///     .backoff(Duration::from_millis(10), Duration::from_secs(5));
/// let child = Child::new(Worker::default).named("worker").restart(restart);
/// # drop(child);
/// ```
///
/// A restarted actor keeps its mailbox, its name and its identity: its references stay valid, and
/// the next incarnation handles the messages that wait. Its state, timers, tasks and children are
/// gone before the next incarnation is made. The message in hand at the failure is not tried again:
/// its asker gets [`Panicked`](crate::AskCause::Panicked), or [`NoReply`](crate::AskCause::NoReply)
/// after a failure other than a panic, and the log names the message. An actor that is not
/// restarted refuses messages while its children end.
pub struct Child<A: Handlers> {
    pub(crate) make: Factory<A>,
    pub(crate) options: SpawnOptions,
    pub(crate) restart: Restart,
    pub(crate) stop_within: Duration,
}

/// A function that makes the state of an actor.
pub(crate) type Factory<A> = Arc<dyn Fn() -> A + Send + Sync>;

impl<A: Handlers> Child<A> {
    /// Creates the description of a child. `make` makes the child's state, at the start and at each
    /// restart. The child is restarted as [`Restart::on_failure`] says, unless
    /// [`restart`](Child::restart) sets another policy.
    pub fn new(make: impl Fn() -> A + Send + Sync + 'static) -> Self {
        Child {
            make: Arc::new(make),
            options: SpawnOptions::anonymous(),
            restart: Restart::on_failure(),
            stop_within: limits::STOP_WITHIN,
        }
    }

    /// Sets the name: 1 to 256 bytes without `/` and control characters, not starting with `#`.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.options = self.options.with_name(name);
        self
    }

    /// Sets how many messages of this node may wait in the mailbox; 0 counts as 1.
    pub fn mailbox_capacity(mut self, messages: usize) -> Self {
        self.options = self.options.mailbox_capacity(messages);
        self
    }

    /// Sets when the child is restarted.
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// Sets how long the child may take to stop when its parent ends, or when it is restarted
    /// together with others. A child that takes longer is killed. The default is 5 s.
    pub fn stop_within(mut self, deadline: Duration) -> Self {
        self.stop_within = deadline.min(limits::ASK_TIMEOUT_MAX);
        self
    }
}

impl<A: Handlers> Clone for Child<A> {
    fn clone(&self) -> Self {
        let Child { make, options, restart, stop_within } = self;
        let (make, options) = (make.clone(), options.clone());
        Child { make, options, restart: *restart, stop_within: *stop_within }
    }
}

impl<A: Handlers> fmt::Debug for Child<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("actor", &A::NAME)
            .field("options", &self.options)
            .field("restart", &self.restart)
            .finish_non_exhaustive()
    }
}

/// The policy of restarts: after which ends an actor is restarted, how often, and after what pause.
/// During the pause, a kill, the shutdown of its node and the end of its parent end the actor at
/// once, and so does a stop unless the actor is restarted after a stop. A drain ends it after it
/// has restarted and handled its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    revival: RestartPolicy,
    most: u32,
    within: Duration,
    shortest: Duration,
    longest: Duration,
}

impl Restart {
    fn when(revival: RestartPolicy) -> Self {
        Restart {
            revival,
            most: limits::RESTARTS_MAX,
            within: limits::RESTARTS_WITHIN,
            shortest: limits::BACKOFF_MIN,
            longest: limits::BACKOFF_MAX,
        }
    }

    /// Never restarts the actor.
    pub fn never() -> Self {
        Restart::when(RestartPolicy::Never)
    }

    /// Restarts the actor after a failure: a panic, a failed start, a kill, or a child that failed
    /// too often. An actor that was stopped or drained has ended.
    pub fn on_failure() -> Self {
        Restart::when(RestartPolicy::AfterFailures)
    }

    /// Restarts the actor after every end, including a stop, as long as its parent lives.
    pub fn always() -> Self {
        Restart::when(RestartPolicy::Always)
    }

    /// Sets how many restarts are allowed within a time; the default is 5 within a minute. If the
    /// actor needs a further restart, it ends, and its parent fails with it.
    pub fn at_most(mut self, restarts: u32, within: Duration) -> Self {
        (self.most, self.within) = (restarts, within);
        self
    }

    /// Sets the pause before a restart: `shortest` at first, doubled at each further restart within
    /// the time of [`at_most`](Restart::at_most), up to `longest` and at most a year. The default
    /// is 10 ms up to 5 s.
    pub fn backoff(mut self, shortest: Duration, longest: Duration) -> Self {
        let longest = longest.max(shortest).min(limits::ASK_TIMEOUT_MAX);
        (self.shortest, self.longest) = (shortest.min(longest), longest);
        self
    }
}

/// The decision after the end of an incarnation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RestartDecision {
    /// The actor is not restarted.
    End,
    /// The actor is not restarted because it failed too often; its parent fails, too.
    Exceeded(RestartLimit),
    /// The actor is restarted after this pause.
    Restart(Duration),
}

/// The limit that an actor has exceeded: at most this many restarts within this time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RestartLimit {
    restarts: u32,
    within: Duration,
}

impl RestartLimit {
    /// Returns the reason of the failure as a text: the chain of events, with the first cause last.
    pub(crate) fn text(&self, actor: &Address, exit: &ActorExit) -> String {
        let RestartLimit { restarts, within } = self;
        format!("{actor} was restarted {restarts} times within {within:?} and ended again: {exit}")
    }
}

/// The past restarts of one actor, and the decision about the next. Does no I/O.
#[derive(Debug)]
pub(crate) struct RestartHistory {
    restart: Restart,
    /// The times of the restarts that still count.
    times: VecDeque<Instant>,
}

impl RestartHistory {
    pub(crate) fn new(restart: Restart) -> Self {
        RestartHistory { restart, times: VecDeque::new() }
    }

    /// Decides whether to restart the actor after an incarnation that ended with `exit` at `now`.
    pub(crate) fn after(&mut self, exit: &ActorExit, now: Instant) -> RestartDecision {
        let Restart { most, within, shortest, longest, .. } = self.restart;
        if self.ends_with(exit) {
            return RestartDecision::End;
        }
        self.times.drain(..self.times.len() - self.recent(now));
        if self.times.len() >= most as usize {
            return RestartDecision::Exceeded(RestartLimit { restarts: most, within });
        }
        let doubled = shortest.saturating_mul(1 << self.times.len().min(31));
        self.times.push_back(now);
        RestartDecision::Restart(doubled.min(longest))
    }

    /// Returns true if [`after`](Self::after) would not restart the actor.
    fn is_over(&self, exit: &ActorExit, now: Instant) -> bool {
        self.ends_with(exit) || self.recent(now) >= self.restart.most as usize
    }

    fn ends_with(&self, exit: &ActorExit) -> bool {
        match self.restart.revival {
            RestartPolicy::Never => true,
            RestartPolicy::AfterFailures => !exit.is_failure(),
            RestartPolicy::Always => false,
        }
    }

    /// Returns how many of the last restarts still count at `now`.
    fn recent(&self, now: Instant) -> usize {
        let within = self.restart.within;
        self.times.iter().rev().take_while(|time| now.duration_since(**time) < within).count()
    }
}

/// How one actor is restarted, and its parent, which fails if the actor is restarted too often.
/// Owned by the actor's task.
pub(crate) struct RestartPlan<A> {
    make: Factory<A>,
    course: RestartTracker,
}

/// The part of a [`RestartPlan`] that does not name the type of the actor.
pub(crate) struct RestartTracker {
    restarts: RestartHistory,
    parent: Parent,
    /// The number of [`RestReport`]s sent to the parent.
    reports: u64,
}

/// Reports to a supervisor that a child needs a restart, and waits until the supervisor begins it.
#[message(local)]
pub(crate) struct RestReport {
    /// The child's number: 0 for the supervisor's first child.
    pub(crate) number: usize,
    pub(crate) resting: RestingActor,
}

/// The parent of an actor, which fails when the actor fails too often.
#[derive(Clone)]
pub(crate) enum Parent {
    /// The node: there is no actor to tell.
    Node,
    Actor(Arc<dyn LocalActor>),
    /// A supervisor that restarts all or some of its children together. The child with this number
    /// sends a report when it waits for a restart.
    Group(Arc<dyn LocalActor>, mpsc::UnboundedSender<RestReport>, usize),
}

impl Parent {
    /// Returns the number of the parent on its node, if it is an actor.
    pub(crate) fn id(&self) -> Option<u64> {
        match self {
            Parent::Node => None,
            Parent::Actor(parent) | Parent::Group(parent, ..) => Some(parent.id()),
        }
    }
}

impl<A: Handlers> RestartPlan<A> {
    /// Returns how a child is restarted; `None` if it never is.
    pub(crate) fn of(make: Factory<A>, restart: Restart, parent: Parent) -> Option<Box<Self>> {
        let course =
            |parent| RestartTracker { restarts: RestartHistory::new(restart), parent, reports: 0 };
        let plan = || Box::new(RestartPlan { make, course: course(parent) });
        (restart.revival != RestartPolicy::Never).then(plan)
    }

    /// Makes the state of the actor.
    pub(crate) fn make(&self) -> A {
        (self.make)()
    }

    pub(crate) fn course(&self) -> &RestartTracker {
        &self.course
    }

    pub(crate) fn course_mut(&mut self) -> &mut RestartTracker {
        &mut self.course
    }
}

impl RestartTracker {
    /// Returns after which ends the actor is restarted.
    pub(crate) fn revival(&self) -> RestartPolicy {
        self.restarts.restart.revival
    }

    /// Decides whether to restart the actor after an incarnation that ended with `exit` at `ended`.
    pub(crate) fn after(&mut self, exit: &ActorExit, ended: Instant) -> RestartDecision {
        self.restarts.after(exit, ended)
    }

    /// Returns true if the actor is not restarted after an incarnation that ended with `exit` at
    /// `ended`.
    pub(crate) fn is_over(&self, exit: &ActorExit, ended: Instant) -> bool {
        self.restarts.is_over(exit, ended)
    }

    /// Makes the parent fail, if it is an actor.
    pub(crate) fn escalate(&self, reason: Arc<str>) {
        match &self.parent {
            Parent::Node => {}
            Parent::Actor(parent) | Parent::Group(parent, ..) => parent.fail(reason),
        }
    }

    /// Reports to a parent that restarts its children together that this child waits for a restart,
    /// which is due after `delay`. Returns whether the report was sent; `None` for other parents.
    pub(crate) fn report(
        &mut self,
        delay: Duration,
        resume: oneshot::Sender<StartSender>,
    ) -> Option<bool> {
        let Parent::Group(_, reports, number) = &self.parent else { return None };
        self.reports += 1;
        let resting = RestingActor { delay, reports: self.reports, resume };
        Some(reports.send(RestReport { number: *number, resting }).is_ok())
    }

    /// Returns the number of [`RestReport`]s sent to the parent.
    pub(crate) fn reports(&self) -> u64 {
        self.reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn killed(restarts: &mut RestartHistory, now: Instant) -> RestartDecision {
        restarts.after(&ActorExit::Killed, now)
    }

    #[test]
    fn the_pause_doubles_up_to_the_longest_and_begins_anew_when_old_restarts_no_longer_count() {
        let restart = Restart::on_failure().at_most(4, 60 * SECOND).backoff(SECOND, 5 * SECOND);
        let (mut restarts, start) = (RestartHistory::new(restart), Instant::now());
        for (at, pause) in [(0, 1), (1, 2), (2, 4), (3, 5)] {
            let verdict = killed(&mut restarts, start + at * SECOND);
            assert_eq!(verdict, RestartDecision::Restart(pause * SECOND));
        }
        let exceeded = RestartDecision::Exceeded(RestartLimit { restarts: 4, within: 60 * SECOND });
        assert_eq!(killed(&mut restarts, start + 59 * SECOND), exceeded);
        assert_eq!(
            killed(&mut restarts, start + 62 * SECOND),
            RestartDecision::Restart(2 * SECOND)
        );
    }

    #[test]
    fn what_ended_in_order_is_restarted_only_where_that_is_asked_for() {
        let now = Instant::now();
        let after = |restart, exit: ActorExit| {
            matches!(RestartHistory::new(restart).after(&exit, now), RestartDecision::Restart(_))
        };
        assert!(after(Restart::always(), ActorExit::Stopped));
        assert!(!after(Restart::on_failure(), ActorExit::Stopped));
        assert!(after(Restart::on_failure(), ActorExit::Panicked("as it was told".into())));
        assert!(!after(Restart::never(), ActorExit::Killed));
        assert!(!after(Restart::always().at_most(0, SECOND), ActorExit::Killed));
    }
}
