//! A life that waits for messages: it handles asks where their askers run.
#![allow(unsafe_code, reason = "tells the turn of the actor where its life lies")]

use std::ptr::NonNull;

use ringpost_transport::shield;

use super::{Ending, Life};
use crate::actor::Handlers;
use crate::actor::cell::{Body, Resting};
use crate::actor::route::Route;
use crate::busy::{InHand, enter_actor, note, take_wait};
use crate::slot::AskInPlace;
use crate::waits::Hand;

impl<A: Handlers> Life<A> {
    /// Lets askers use the life until it is polled again, if it waits for its mailbox alone. To be
    /// called last by the poll of it, which finds nothing to do.
    pub(super) fn rest(&mut self) {
        if A::IN_PLACE && !self.cx.has_more() {
            let life = NonNull::from_mut(self);
            // SAFETY: a poll of the life calls this, and has the turn. The life is pinned with the
            // future of its task, and only the incarnation refers to it, which does nothing until
            // the next poll (TN-3).
            unsafe { self.cell.base().turn().rest(life) };
        }
    }
}

impl<A: Handlers> Resting for Life<A> {
    fn answer(&mut self, ask: &mut AskInPlace<'_>) -> bool {
        let Life { actor: Some(actor), cell, cx, how, .. } = self else { return false };
        let route = A::ROUTES.get(usize::from(ask.route));
        let Some(Route { head, answer: Some(answer), .. }) = route else { return false };
        let me = cell.base();
        if me.ends().is_halted() {
            return false;
        }
        let in_hand = InHand { deadline: Some(ask.deadline), asked: None };
        let within = enter_actor((me.token(), me.id()), me.node().runtime().id());
        cx.begin(&head.label, &in_hand, 0);
        // It awaits nothing, so its asks have no chain.
        let mut hand = Hand::default();
        let noted = note(&head.label.duty, in_hand.deadline, &mut hand);
        let answered = shield::catch(|| answer(actor, ask.message, ask.answer, cx));
        drop(noted);
        if take_wait() {
            me.end_waits();
        }
        drop(within);
        match answered {
            Ok(()) => {
                cx.done();
                // The task waits for timers, tasks and streams that the handler has registered.
                cx.has_more()
            }
            Err(message) => {
                *how = Ending::Panicked(message.into());
                true
            }
        }
    }
}
