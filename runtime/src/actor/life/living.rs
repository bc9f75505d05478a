//! A life without the type of its actor.

use std::mem;
use std::sync::Arc;

use ringpost_transport::shield;

use super::{ExitReason, Life};
use crate::actor::Handlers;
use crate::actor::cell::ErasedCell;
use crate::actor::cell::route::Label;
use crate::actor::context::child::RestartTracker;
use crate::actor::context::task::ErasedStore;
use crate::exit::ActorExit;
use crate::rest::StartSender;

/// A life without the type of its actor: the code between two incarnations, and at the end, is
/// compiled once, and not for each actor of a program.
pub(super) trait ErasedLife: Send {
    fn me(&self) -> Arc<dyn ErasedCell>;

    fn how(&mut self) -> &mut ExitReason;

    /// Sets how the incarnation ended. (Drops the previous reason, which may hold an error of the
    /// user.)
    fn end_as(&mut self, how: ExitReason) {
        shield::discard(mem::replace(self.how(), how));
    }

    fn started(&mut self) -> &mut Option<StartSender>;

    fn is_born(&self) -> bool;

    /// Returns the state of the actor's restarts; `None` if it is never restarted.
    fn course(&mut self) -> Option<&mut RestartTracker>;

    fn registered(&mut self) -> Option<&mut dyn ErasedStore>;

    /// Takes the label of the message whose handler did not end, if there is one.
    fn take_in_hand(&mut self) -> Option<&'static Label>;

    /// Closes the mailbox, and drops the messages that were never begun: see
    /// [`ActorCell::leave_unbegun`](crate::actor::cell::ActorCell::leave_unbegun).
    fn leave_unbegun(&mut self);

    /// Ends the actor, and tells everyone who waits for its end: see
    /// [`ActorCell::end`](crate::actor::cell::ActorCell::end).
    fn end(&mut self, exit: ActorExit);
}

/// The [`ErasedLife`] of a life. (Not the life itself: a trait object of a generic type can drop
/// it, and that drop would be compiled for each part of a program that makes the trait object.)
pub(super) struct LifeRef<'a, A: Handlers>(pub(super) &'a mut Life<A>);

impl<A: Handlers> ErasedLife for LifeRef<'_, A> {
    fn me(&self) -> Arc<dyn ErasedCell> {
        self.0.cell.clone()
    }

    fn how(&mut self) -> &mut ExitReason {
        &mut self.0.how
    }

    fn started(&mut self) -> &mut Option<StartSender> {
        &mut self.0.started
    }

    fn is_born(&self) -> bool {
        self.0.cx.is_born
    }

    fn course(&mut self) -> Option<&mut RestartTracker> {
        self.0.plan.as_mut().map(|plan| plan.course_mut())
    }

    fn registered(&mut self) -> Option<&mut dyn ErasedStore> {
        self.0.cx.more_registered()
    }

    fn take_in_hand(&mut self) -> Option<&'static Label> {
        self.0.cx.take_in_hand()
    }

    fn leave_unbegun(&mut self) {
        self.0.cell.leave_unbegun(&mut self.0.hand);
    }

    fn end(&mut self, exit: ActorExit) {
        self.0.cell.end(&mut self.0.hand, exit);
    }
}
