//! The time between two incarnations: the decision whether another one follows, and the pause
//! before it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::future::BoxFuture;
use ringpost_transport::{log, shield};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::living::ErasedLife;
use super::{ExitReason, note_undone};
use crate::actor::cell::ErasedCell;
use crate::actor::cell::route::Label;
use crate::actor::context::child::{RestartDecision, RestartTracker};
use crate::actor::context::task::{self, bury_asides, clear, is_to_stop};
use crate::ends::RestartPolicy;
use crate::exit::ActorExit;
use crate::rest::{IncarnationEnd, RestSender, RestingActor, StartSender};

/// The step after an incarnation.
enum RestartAction {
    /// The actor ends.
    End,
    /// The actor was ordered to pause together with others, and restarts with them when this
    /// channel says so.
    Join(oneshot::Receiver<StartSender>),
    /// The actor restarts because of its own end, after this pause.
    Restart(Duration),
}

/// An incarnation that has ended, or is about to.
struct EndingIncarnation<'a> {
    life: &'a mut dyn ErasedLife,
    me: Arc<dyn ErasedCell>,
    judgement: IncarnationEnd,
}

/// Ends everything that an incarnation has registered, decides whether another one follows, and
/// waits until that begins. Returns false if the actor ends. The state of the incarnation held
/// `kept` asks that were not answered. (Boxed: few actors have anything to clear, or are
/// restarted.)
pub(super) fn goes_on(life: &mut dyn ErasedLife, kept: usize) -> BoxFuture<'_, bool> {
    let mut ended = EndingIncarnation::of(life);
    Box::pin(async move { ended.goes_on(kept).await })
}

/// Ends the children of an incarnation that ends in order. A drain first waits for the
/// incarnation's `finish`, if there is one.
pub(super) fn end_children(life: &mut dyn ErasedLife) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        if let Some(finish) = life.registered().and_then(|registered| registered.take_finish()) {
            let me = life.me();
            tokio::select! {
                biased;
                () = is_to_stop(&*me) => {}
                () = finish => {}
            }
        }
        let mut ended = EndingIncarnation::of(life);
        ended.leave_if_over(true);
        ended.me.ends().close_incarnation();
        if let Some(registered) = ended.life.registered() {
            *registered.judgement() = Some(ended.judgement);
        }
        task::end_children(&*ended.me, ended.life.registered()).await;
    })
}

impl<'a> EndingIncarnation<'a> {
    fn of(life: &'a mut dyn ErasedLife) -> Self {
        let judged = life.registered().and_then(|registered| registered.judgement().take());
        let me = life.me();
        let judgement = judged.unwrap_or_else(|| IncarnationEnd {
            at: Instant::now(),
            was_closing: None,
            was_draining: me.intake().is_closed() && !me.intake().is_stopping(),
        });
        EndingIncarnation { me, life, judgement }
    }

    /// See the function [`goes_on`], which boxes this future.
    async fn goes_on(&mut self, kept: usize) -> bool {
        let undone = self.life.registered().map(|registered| registered.undone());
        let mut undone = undone.unwrap_or_default();
        undone.asks += kept;
        if self.life.registered().is_some() {
            let in_order = matches!(self.life.how(), ExitReason::Stopped);
            self.leave_if_over(in_order);
            undone.asks += clear(&*self.me, self.life.registered()).await;
        }
        note_undone(self.life, undone, self.judgement.was_draining);
        // The failure of a first start is reported to the spawner: there is no incarnation to
        // restart.
        if self.me.ends().is_final() || !self.life.is_born() {
            return false;
        }
        self.me.ends().end_links(self.me.address(), &self.life.how().exit());
        // Dropped only after the parent knows the outcome: the drop tells it that a start has
        // failed.
        let started = self.life.started().take();
        let next = self.next();
        self.note_restart(&next);
        let begins = match next {
            RestartAction::End => return false,
            RestartAction::Join(resumed) => self.resumed(resumed).await,
            RestartAction::Restart(delay) => self.pauses(delay, started).await,
        };
        if !begins {
            // How the incarnation ended is in the log. The end of the actor came later: a kill of
            // its own, or an end in order. (A parent or node that kills finds nothing to kill.)
            let is_killed = self.me.ends().is_killed() && !self.me.ends().is_final();
            self.life.end_as(if is_killed { ExitReason::Killed } else { ExitReason::Stopped });
        }
        begins
    }

    /// Drops the messages that were not begun, if no more are begun. So their askers, which may be
    /// children of the actor, do not wait for the end of the children.
    fn leave_if_over(&mut self, in_order: bool) {
        if self.judgement.was_closing.is_none() && self.is_over(in_order) {
            self.judgement.was_closing = Some(self.me.intake().is_closed());
            bury_asides(self.me.base(), self.life.registered());
            self.life.leave_unbegun();
        }
    }

    /// Returns true if it is certain now that no other incarnation follows this one, which has
    /// ended or is about to. `in_order` is false if it ends by a failure or a kill.
    fn is_over(&mut self, in_order: bool) -> bool {
        if self.me.ends().is_final() || !self.life.is_born() {
            return true;
        }
        let is_closing = self.me.intake().is_closed();
        if is_closing && in_order && self.is_dismissed() {
            return true;
        }
        let ends = self.me.ends();
        let exit = if is_closing { ActorExit::Stopped } else { self.life.how().exit() };
        let course = self.life.course();
        course.is_none_or(|course| !ends.is_to_rest() && course.is_over(&exit, self.judgement.at))
    }

    /// Chooses the action after an incarnation, and tells the parent if it failed too often.
    fn next(&mut self) -> RestartAction {
        // An actor whose end was certain before does not pause with others.
        let was_closing = self.judgement.was_closing;
        let pause = self.me.ends().rest().filter(|_| was_closing.is_none());
        let is_to_rest = pause.is_some();
        if let Some(resumed) = pause.and_then(|pause| self.rest(pause)) {
            return RestartAction::Join(resumed);
        }
        // A stopped or drained actor has stopped, however its last handler ended.
        let is_closing = was_closing.unwrap_or_else(|| self.me.intake().is_closed());
        if is_to_rest && !is_closing && matches!(self.life.how(), ExitReason::Stopped) {
            // It ended only to pause with others, which went on without it: they took it for
            // killed.
            self.life.end_as(ExitReason::Killed);
        }
        let exit = self.life.how().exit();
        let (is_revived, is_dismissed) = (self.is_revived(), self.is_dismissed());
        // A dismissed actor that fails is restarted, for the rest of its drain.
        let is_over = is_closing && !(is_dismissed && exit.is_failure());
        let judged = if is_over { ActorExit::Stopped } else { exit.clone() };
        if is_dismissed && !judged.is_failure() {
            return RestartAction::End;
        }
        let Some(course) = self.life.course() else { return RestartAction::End };
        match course.after(&judged, self.judgement.at) {
            RestartDecision::Restart(delay) if self.me.renew(is_revived) => {
                RestartAction::Restart(delay)
            }
            RestartDecision::Restart(_) | RestartDecision::End => RestartAction::End,
            // The pool that dismissed it has other workers, or ends.
            RestartDecision::Exceeded(_) if is_dismissed => RestartAction::End,
            RestartDecision::Exceeded(most) => {
                let reason: Arc<str> = most.text(self.me.address(), &exit).into();
                course.escalate(reason.clone());
                self.life.end_as(ExitReason::Failed(reason.into()));
                RestartAction::End
            }
        }
    }

    /// Logs the end of an incarnation that is not the last one; the drop of [`Life`](super::Life)
    /// logs the last one.
    fn note_restart(&mut self, next: &RestartAction) {
        let exit = self.life.how().exit();
        let delay = match next {
            RestartAction::Restart(delay) => *delay,
            RestartAction::Join(_) if exit.is_failure() => Duration::ZERO,
            RestartAction::Join(_) | RestartAction::End => return,
        };
        let (actor, in_hand) = (self.me.address(), self.life.take_in_hand().map(Label::name));
        let kind = self.me.name();
        shield::run(|| {
            metrics::counter!("ringpost_actor_restarts_total", "actor" => kind).increment(1)
        });
        log::warn!(%actor, %exit, in_hand, ?delay, "an actor is restarted");
    }

    /// Pauses after an end of its own: for `delay`, or until its parent restarts the whole group.
    /// Returns false if the actor is not restarted.
    async fn pauses(&mut self, delay: Duration, started: Option<StartSender>) -> bool {
        // The spawner gets this if the task ends with its runtime.
        self.life.end_as(ExitReason::Killed);
        let (resume, resumed) = oneshot::channel();
        let course = self.life.course();
        let is_told = course.and_then(|course| course.report(delay, resume));
        drop(started);
        match is_told {
            Some(is_told) => is_told && self.resumed(resumed).await,
            None => {
                rested(&*self.me, sleep(delay)).await;
                self.begins_anew()
            }
        }
    }

    /// Pauses until the actor is to restart. Returns false if it is not restarted.
    async fn resumed(&mut self, mut resumed: oneshot::Receiver<StartSender>) -> bool {
        self.life.end_as(ExitReason::Killed);
        loop {
            match rested(&*self.me, &mut resumed).await {
                Some(Ok(started)) => {
                    *self.life.started() = Some(started);
                    return self.begins_anew();
                }
                Some(Err(_)) => return false,
                None if self.is_ended_at_rest() => return false,
                None => {
                    // It is ordered to pause with others, and reports that it does.
                    let pause = self.me.ends().take_pause();
                    if let Some(again) = pause.and_then(|pause| self.rest(pause)) {
                        resumed = again;
                    }
                }
            }
        }
    }

    /// Reports that the actor pauses. Returns the channel that tells it to restart; `None` if its
    /// supervisor no longer waits for the report.
    fn rest(&mut self, pause: RestSender) -> Option<oneshot::Receiver<StartSender>> {
        let reports = self.life.course().map_or(0, |course| course.reports());
        let (resume, resumed) = oneshot::channel();
        let is_told = pause.send(RestingActor { delay: Duration::ZERO, reports, resume }).is_ok();
        is_told.then_some(resumed)
    }

    /// Prepares the actor for a restart: messages that were accepted before a drain are handled.
    /// Returns false if the actor has been ended.
    fn begins_anew(&mut self) -> bool {
        let is_revived = self.is_revived();
        self.me.ends().begin_anew() && self.me.renew(is_revived)
    }

    /// Returns true if the actor was ended during its pause: by its parent or its node, by a kill,
    /// or by a stop, if it is not restarted after one.
    fn is_ended_at_rest(&mut self) -> bool {
        let is_stopped = self.me.intake().is_stopping() && !self.is_revived();
        let ends = self.me.ends();
        ends.is_final() || ends.is_killed() || is_stopped
    }

    fn is_revived(&self) -> bool {
        self.me.ends().is_revived()
    }

    /// Returns true if the actor used to be restarted after a stop, too, and is not any more.
    fn is_dismissed(&mut self) -> bool {
        let was_revived = |course: &mut RestartTracker| course.revival() == RestartPolicy::Always;
        self.life.course().is_some_and(was_revived)
            && self.me.ends().revival() == RestartPolicy::AfterFailures
    }
}

/// Waits for `future`. Returns `None` if something is ordered first. A stop is an order only to an
/// actor that is not restarted after a stop.
async fn rested<F: Future>(me: &dyn ErasedCell, future: F) -> Option<F::Output> {
    let ordered = poll_fn(|cx| {
        me.intake().attend(cx.waker());
        // The actor may be dismissed during the pause.
        let is_stopped = !me.ends().is_revived() && me.intake().is_stopping();
        if is_stopped || me.ends().is_ordered() { Poll::Ready(()) } else { Poll::Pending }
    });
    tokio::select! {
        biased;
        () = ordered => None,
        output = future => Some(output),
    }
}
