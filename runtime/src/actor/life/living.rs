//! A life without the type of its actor.

use std::mem;
use std::sync::Arc;

use ringpost_transport::shield;

use super::{Ending, Life};
use crate::actor::Handlers;
use crate::actor::cell::Body;
use crate::actor::cell::route::Label;
use crate::actor::context::child::Course;
use crate::actor::context::task::Registered;
use crate::exit::ActorExit;
use crate::rest::Started;

/// A life without the type of its actor: the code between two incarnations, and at the end, is
/// compiled once, and not for each actor of a program.
pub(super) trait Living: Send {
    fn me(&self) -> Arc<dyn Body>;

    fn how(&mut self) -> &mut Ending;

    /// Sets how it ended. (Drops the former ending, which may hold an error of the user.)
    fn end_as(&mut self, how: Ending) {
        shield::discard(mem::replace(self.how(), how));
    }

    fn started(&mut self) -> &mut Option<Started>;

    fn is_born(&self) -> bool;

    /// Returns how it is restarted; `None` if it never is.
    fn course(&mut self) -> Option<&mut Course>;

    fn registered(&mut self) -> Option<&mut dyn Registered>;

    /// Returns the message whose handler did not end.
    fn take_in_hand(&mut self) -> Option<&'static Label>;

    /// See [`Cell::leave_unbegun`](crate::actor::cell::Cell::leave_unbegun).
    fn leave_unbegun(&mut self);

    /// See [`Cell::end`](crate::actor::cell::Cell::end).
    fn end(&mut self, exit: ActorExit);
}

/// A life as [`Living`]. (Not the life itself: a pointer to a generic type can drop it, and that
/// drop would be compiled for each part of a program that makes a pointer.)
pub(super) struct Lent<'a, A: Handlers>(pub(super) &'a mut Life<A>);

impl<A: Handlers> Living for Lent<'_, A> {
    fn me(&self) -> Arc<dyn Body> {
        self.0.cell.clone()
    }

    fn how(&mut self) -> &mut Ending {
        &mut self.0.how
    }

    fn started(&mut self) -> &mut Option<Started> {
        &mut self.0.started
    }

    fn is_born(&self) -> bool {
        self.0.cx.is_born
    }

    fn course(&mut self) -> Option<&mut Course> {
        self.0.plan.as_mut().map(|plan| plan.course_mut())
    }

    fn registered(&mut self) -> Option<&mut dyn Registered> {
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
