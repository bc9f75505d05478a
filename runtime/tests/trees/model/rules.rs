//! The consequences of the end of an incarnation: restarts, groups, escalation.

use ringpost::ActorExit;
use ringpost::spawn::Strategy;

use super::super::plan::{Recipe, Type, WINDOW, When};
use super::{End, Life, Model, Rest};

/// The judgement of an actor whose incarnation has ended.
enum Verdict {
    Ended,
    /// It has ended, and its parent fails with it.
    TooOften(String),
    Restart,
}

impl Model<'_> {
    /// Applies the end of an incarnation, on its own, by an order or with its children: the actor
    /// is restarted, has ended, or has ended once too often, with which its parent fails.
    pub(super) fn ended(&mut self, actor: usize, end: End) {
        let level = end.level;
        match self.judge(actor, end) {
            Verdict::Ended => {}
            Verdict::TooOften(why) => match self.tree[actor].parent {
                Some(parent) => self.escalate(parent, &why, level + 1),
                None => self.reached.note("the root failed too often"),
            },
            Verdict::Restart => {
                if level > 0 {
                    self.reached.note("a supervisor was restarted after an escalation");
                }
                self.rest(actor, self.tree[actor].pause);
            }
        }
    }

    /// Two workers of one group panic before their supervisor hears of either.
    pub(super) fn panic_both(&mut self, first: usize, second: usize) {
        let exit = || ActorExit::Panicked("boom".into());
        let parent = self.tree[first].parent.unwrap();
        let mut verdicts = Vec::new();
        for actor in [first, second] {
            self.halt(actor, &exit());
            verdicts.push(self.judge(actor, End { exit: exit(), in_order: false, level: 0 }));
        }
        let why = verdicts.iter().find_map(|verdict| match verdict {
            Verdict::TooOften(why) => Some(why.clone()),
            _ => None,
        });
        if let Some(why) = why {
            return self.escalate(parent, &why, 1);
        }
        let failed = [first, second].into_iter().zip(verdicts);
        let failed = failed.filter(|(_, verdict)| matches!(verdict, Verdict::Restart));
        let failed: Vec<usize> = failed.map(|(actor, _)| actor).collect();
        let Some(oldest) = failed.iter().min() else { return };
        if failed.len() == 2 {
            self.reached.note("two of a group failed at once");
        }
        let pause = failed.iter().map(|actor| self.tree[*actor].pause).max().unwrap();
        self.rest(*oldest, pause);
    }

    /// Decides what becomes of an actor whose incarnation has ended.
    fn judge(&mut self, actor: usize, end: End) -> Verdict {
        let End { exit, in_order, .. } = end;
        let Recipe { name, when, most, .. } = &self.tree[actor];
        if *when == When::Never || (*when == When::OnFailure && in_order) {
            self.end(actor, exit);
            return Verdict::Ended;
        }
        let (now, restarts) = (self.now, &mut self.states[actor].restarts);
        let before = restarts.len();
        restarts.retain(|at| now - at < WINDOW);
        if restarts.len() >= *most as usize {
            let why = format!(
                "alpha/{name} was restarted {most} times within 60.5s and ended again: {exit}"
            );
            self.end(actor, ActorExit::Failed(why.as_str().into()));
            return Verdict::TooOften(why);
        }
        if before >= *most as usize {
            self.reached.note("a restart was allowed because others were long ago");
        }
        restarts.push(now);
        if in_order {
            self.reached.note("what was stopped was restarted");
        }
        self.states[actor].life = Life::Rests;
        Verdict::Restart
    }

    /// A child has failed too often: its parent stops the others, and has failed.
    fn escalate(&mut self, parent: usize, why: &str, level: u32) {
        self.reached.note(match level {
            1 => "an escalation",
            2 => "an escalation through two levels",
            _ => "an escalation through three levels or more",
        });
        self.end_children(parent, &ActorExit::Stopped);
        let exit = ActorExit::Failed(why.into());
        self.ended(parent, End { exit, in_order: false, level });
    }

    /// Rests an actor before its restart, and with it the actors that are restarted together with
    /// it.
    fn rest(&mut self, actor: usize, pause: u64) {
        let rest = match self.tree[actor].parent.map(|parent| (parent, self.tree[parent].is)) {
            Some((parent, Type::Supervisor(Strategy::OneForAll))) => {
                self.rest_with(parent, actor, 0)
            }
            Some((parent, Type::Supervisor(Strategy::RestForOne))) => {
                self.rest_with(parent, actor, actor + 1)
            }
            _ => Rest::One(actor),
        };
        // The pause of each that failed counts: a group rests until the last of them is over.
        let before = self.rests.iter().find(|(_, other)| *other == rest).map(|(until, _)| *until);
        let until = before.unwrap_or(self.now).max(self.now + pause);
        if before.is_some() {
            self.reached.note("a child failed while others of its group rested");
        }
        self.rests.retain(|(_, other)| *other != rest);
        if until == self.now {
            return self.resume(rest);
        }
        self.reached.note("an actor rested");
        self.rests.push((until, rest));
    }

    /// Stops the children of `parent` from `first` on, the youngest first: children that are never
    /// restarted have ended, and so have children that ended before.
    fn rest_with(&mut self, parent: usize, failed: usize, first: usize) -> Rest {
        let others = self.children(parent).into_iter().filter(|at| *at >= first && *at != failed);
        for other in others.collect::<Vec<_>>().into_iter().rev() {
            match (self.states[other].life, self.tree[other].when) {
                (Life::Ended, When::Never) => {}
                (Life::Ended, _) => {
                    self.reached.note("a group restart left alone what had ended in order")
                }
                (Life::Rests, _) => {}
                (Life::Runs, When::Never) => {
                    self.reached.note("a group restart ended what is never restarted");
                    self.halt(other, &ActorExit::Stopped);
                    self.end(other, ActorExit::Stopped);
                }
                (Life::Runs, _) => {
                    if self.is_supervisor(other) {
                        self.reached.note("a supervisor was restarted with its group");
                    }
                    self.halt(other, &ActorExit::Stopped);
                    self.states[other].life = Life::Rests;
                }
            }
        }
        Rest::Group(parent)
    }

    /// Starts what rested, in order. What does not start has failed, and rests again with the
    /// others of its group, or has failed too often.
    pub(super) fn resume(&mut self, rest: Rest) {
        self.rests.retain(|(_, other)| *other != rest);
        let starts = match rest {
            Rest::One(actor) => vec![actor],
            Rest::Group(parent) => self.children(parent),
        };
        let starts = starts.into_iter().filter(|at| self.states[*at].life == Life::Rests);
        let starts: Vec<usize> = starts.collect();
        for actor in starts {
            let rests_again = self.rests.iter().any(|(_, other)| *other == rest);
            if self.states[actor].life != Life::Rests || rests_again {
                continue;
            }
            let Err(why) = self.begin(actor) else {
                self.catch_up(actor);
                continue;
            };
            self.reached.note(match (rest, self.is_supervisor(actor)) {
                (Rest::Group(_), _) => "in a group restart a start failed",
                (_, true) => "a restarted supervisor could not start",
                (_, false) => "a restarted worker could not start",
            });
            let exit = ActorExit::Failed(why.as_str().into());
            let in_order = self.states[actor].is_draining;
            self.ended(actor, End { exit, in_order, level: 0 });
        }
    }
}
