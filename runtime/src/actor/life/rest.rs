//! The time between two incarnations: whether another one comes, and the rest before it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::{Ending, Life};
use crate::actor::Handlers;
use crate::actor::cell::Cell;
use crate::actor::child::{Plan, Verdict};
use crate::actor::wait::Wait;
use crate::exit::ActorExit;
use crate::mutants::planted;
use crate::resident::Resident;
use crate::rest::{Pause, Resting, Started};

/// The outcome of an incarnation.
enum Next {
    /// Nothing: that was its end.
    End,
    /// It was told to rest with others, and begins anew with them: when this tells it.
    Join(oneshot::Receiver<Started>),
    /// It is restarted for its own end, after such a pause.
    Restart(Duration),
}

/// The end of an incarnation.
struct Ended {
    at: Instant,
    /// True if it had been stopped or drained; there if its mailbox was emptied since for another
    /// reason.
    was_closing: Option<bool>,
}

impl<A: Handlers> Life<A> {
    /// Ends what the incarnation has registered, decides what comes after it, and waits until it
    /// does. Returns false when that is the end.
    pub(super) async fn goes_on(&mut self) -> bool {
        let mut ended = Ended { at: Instant::now(), was_closing: None };
        if self.cx.has_more() {
            self.leave_if_over(&mut ended);
            self.cx.clear().await;
        }
        // A first start that fails is told to its spawner: there is no incarnation to restart.
        if self.cell.ends().is_final() || !self.is_born {
            return false;
        }
        if !planted!(SurvivingLink) {
            self.cell.end_links(&self.how.exit());
        }
        // Told when the parent knows what comes of it: dropped, it says the same.
        let started = self.started.take();
        let next = self.next(&ended);
        self.note_restart(&next);
        let begins = match next {
            Next::End => return false,
            Next::Join(resumed) => self.resumed(resumed).await,
            Next::Restart(delay) => self.pauses(delay, started).await,
        };
        if !begins {
            // How the incarnation ended is in the log. The end of the actor came later: a kill of
            // its own, or an end in order. (A parent or node that kills finds nothing to kill.)
            let is_killed = self.cell.ends().is_killed() && !self.cell.ends().is_final();
            self.how = if is_killed { Ending::Killed } else { Ending::Stopped };
        }
        begins
    }

    /// Ends the children of an incarnation that ends in order.
    pub(super) async fn end_children(&mut self) {
        self.leave_if_over(&mut Ended { at: Instant::now(), was_closing: None });
        self.cx.end_children().await;
    }

    /// Drops what was not begun if nothing is begun any more: its askers do not wait for the
    /// children, which may be among them.
    fn leave_if_over(&mut self, ended: &mut Ended) {
        if self.is_over(ended) {
            ended.was_closing = Some(self.cell.mailbox().is_closing());
            self.cx.bury_asides();
            self.cell.leave_unbegun(&mut self.hand);
        }
    }

    /// Returns true if it is certain now that no other incarnation comes.
    fn is_over(&self, ended: &Ended) -> bool {
        let ends = self.cell.ends();
        let exit = || {
            let is_closing = self.cell.mailbox().is_closing();
            if is_closing { ActorExit::Stopped } else { self.how.exit() }
        };
        let is_last = |plan: &Plan<A>| !ends.is_to_rest() && plan.is_over(&exit(), ended.at);
        ends.is_final() || !self.is_born || self.plan.as_deref().is_none_or(is_last)
    }

    /// Decides what comes after an incarnation, and has the parent know if it failed too often.
    fn next(&mut self, ended: &Ended) -> Next {
        // One that was over when it ended does not rest with others.
        let pause = self.cell.ends().rest().filter(|_| ended.was_closing.is_none());
        let is_to_rest = pause.is_some();
        if let Some(resumed) = pause.and_then(rest) {
            return Next::Join(resumed);
        }
        // A stopped or drained actor has stopped, whatever its last handler came to.
        let is_closing = ended.was_closing.unwrap_or_else(|| self.cell.mailbox().is_closing())
            && !planted!(RevivedAfterStop);
        if is_to_rest && !is_closing && matches!(self.how, Ending::Stopped) {
            // It ended only to rest with others, which went on without it: they took it for killed.
            self.how = Ending::Killed;
        }
        let exit = self.how.exit();
        let (is_revived, is_dismissed) = (self.is_revived(), self.is_dismissed());
        // One that is dismissed goes on after a failure, with what is left of a drain.
        let is_over = is_closing && !(is_dismissed && exit.is_failure());
        let judged = if is_over { ActorExit::Stopped } else { exit.clone() };
        let Some(plan) = self.plan.as_mut() else { return Next::End };
        if is_dismissed && !judged.is_failure() {
            return Next::End;
        }
        match plan.after(&judged, ended.at) {
            Verdict::Restart(delay) if self.cell.renew(is_revived) => Next::Restart(delay),
            Verdict::Restart(_) | Verdict::End => Next::End,
            // Its parent has others in its place.
            Verdict::Exceeded(_) if is_dismissed => Next::End,
            Verdict::Exceeded(most) => {
                let reason: Arc<str> = most.text(self.cell.address(), &exit).into();
                plan.escalate(reason.clone());
                self.how = Ending::Failed(reason);
                Next::End
            }
        }
    }

    /// Tells of an incarnation that ended by itself and is not the last one; of the last one tells
    /// the drop of [`Life`].
    fn note_restart(&mut self, next: &Next) {
        let exit = self.how.exit();
        let delay = match next {
            Next::Restart(delay) => *delay,
            Next::Join(_) if exit.is_failure() => Duration::ZERO,
            Next::Join(_) | Next::End => return,
        };
        let (actor, in_hand) = (self.cell.address(), self.cx.take_in_hand());
        let in_hand = in_hand.map(|label| label.name());
        metrics::counter!("ringpost_actor_restarts_total", "actor" => A::NAME).increment(1);
        tracing::warn!(%actor, %exit, in_hand, ?delay, "an actor is restarted");
    }

    /// Rests after an end of its own: as long as that takes, or until its parent has all of a group
    /// begin anew. Returns false when it never begins anew.
    async fn pauses(&mut self, delay: Duration, started: Option<Started>) -> bool {
        // The spawner is told this should the task end with its runtime.
        self.how = Ending::Killed;
        let (resume, resumed) = oneshot::channel();
        let _wait = self.wait_for_group();
        let plan = self.plan.as_ref();
        let is_told = plan.and_then(|plan| plan.report(Resting { delay, resume }));
        drop(started);
        match is_told {
            Some(is_told) => is_told && self.resumed(resumed).await,
            None => {
                let mut pause = pin!(sleep(delay));
                loop {
                    rested(&self.cell, self.is_revived(), pause.as_mut()).await;
                    if self.begins_anew() {
                        return true;
                    }
                    if !self.outlives_kill() {
                        return false;
                    }
                }
            }
        }
    }

    /// Rests until the actor is to begin anew. Returns false when it never is.
    async fn resumed(&mut self, mut resumed: oneshot::Receiver<Started>) -> bool {
        self.how = Ending::Killed;
        let _wait = self.wait_for_group();
        loop {
            match rested(&self.cell, self.is_revived(), &mut resumed).await {
                Some(Ok(started)) => {
                    self.started = Some(started);
                    return self.begins_anew();
                }
                Some(Err(_)) => return false,
                None if self.is_ended_at_rest() => return false,
                None => {
                    // It is to rest, and does.
                    if let Some(again) = self.cell.ends().take_pause().and_then(rest) {
                        resumed = again;
                    }
                }
            }
        }
    }

    /// Makes the actor ready to begin anew: what was accepted before a drain is handled. Returns
    /// false when it has ended for good.
    fn begins_anew(&self) -> bool {
        self.cell.ends().begin_anew() && self.cell.renew(self.is_revived())
    }

    /// Returns true if the actor was killed while it rested and goes on resting all the same.
    fn outlives_kill(&self) -> bool {
        let outlives = self.plan.as_ref().is_some_and(|plan| plan.outlives_kills());
        outlives && self.is_revived() && self.cell.ends().outlive_kill()
    }

    /// Returns true if the actor was ended while it rested: by its parent or its node, by a kill,
    /// or by a stop, if it is not restarted after one.
    fn is_ended_at_rest(&self) -> bool {
        let ends = self.cell.ends();
        let is_stopped = self.cell.mailbox().is_stopping() && !self.is_revived();
        ends.is_final() || ends.is_killed() || is_stopped
    }

    /// Notes that the supervisor is to have it begin anew.
    fn wait_for_group(&self) -> Option<Wait> {
        let supervisor = self.plan.as_ref()?.group()?;
        Wait::for_resume(&*self.cell, &**supervisor)
    }

    fn is_revived(&self) -> bool {
        self.cell.ends().is_revived()
    }

    /// Returns true if it was restarted after a stop, too, and is not any more.
    fn is_dismissed(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.is_revived()) && !self.is_revived()
    }
}

/// Says that an actor rests. Returns what tells when it is to begin anew; `None` if its supervisor
/// no longer waits for it to rest.
fn rest(pause: Pause) -> Option<oneshot::Receiver<Started>> {
    let (resume, resumed) = oneshot::channel();
    let is_told = pause.send(Resting { delay: Duration::ZERO, resume }).is_ok();
    is_told.then_some(resumed)
}

/// Waits for `future`, unless something is ordered first. A stop is an order to an actor that is
/// not restarted after one.
async fn rested<A: Handlers, F: Future>(
    cell: &Cell<A>,
    is_revived: bool,
    future: F,
) -> Option<F::Output> {
    let ordered = poll_fn(|cx| {
        cell.mailbox().attend(cx.waker());
        let is_stopped = !is_revived && cell.mailbox().is_stopping();
        if is_stopped || cell.ends().is_ordered() { Poll::Ready(()) } else { Poll::Pending }
    });
    tokio::select! {
        biased;
        () = ordered => None,
        output = future => Some(output),
    }
}
