//! A life that waits for messages: it handles asks on the threads of their askers.
#![allow(unsafe_code, reason = "tells the turn of the actor where its life lies")]

use std::any::Any;
use std::ptr::NonNull;
use std::task::{Context as TaskContext, Waker};

use ringpost_transport::shield;

use super::{ExitReason, Life, handle_letter};
use crate::actor::Handlers;
use crate::actor::cell::route::Route;
use crate::actor::cell::{ErasedCell, IdleLife, LocalMessage};
use crate::busy::{AskContext, enter_actor, note, take_turn, take_wait};
use crate::slot::AskInPlace;
use crate::waits::AskChain;

impl<A: Handlers> Life<A> {
    /// Lets askers use the life until it is polled again, if it waits for its mailbox alone. Must
    /// be the last call in a poll of the life that finds nothing to do.
    pub(super) fn rest(&mut self) {
        if A::IN_PLACE && !self.cx.has_more() {
            let life = NonNull::from_mut(self);
            // SAFETY: a poll of the life calls this, and has the turn. The life is pinned with the
            // future of its task, and only the incarnation refers to it, which does nothing until
            // the next poll (TN-3).
            unsafe { self.cell.base().turn().rest(life) };
        }
    }

    /// Runs a handler as the task of the actor would; `act` runs it, and returns false if it waits.
    /// After a panic, the next poll of the life ends the actor. Returns true if the life must be
    /// polled.
    fn act(&mut self, act: impl FnOnce(&mut Self) -> bool) -> bool {
        debug_assert!(!self.running.runs(), "a life that waits for messages has no handler");
        if self.running.runs() {
            return true;
        }
        let me = self.cell.base();
        let within = enter_actor((me.token(), me.id()), me.node().runtime().id());
        let acted = shield::catch(|| act(self));
        let has_waited = take_wait();
        drop(within);
        match acted {
            Ok(true) => {
                if has_waited {
                    self.cell.base().end_waits();
                }
                self.cx.done();
                // The task waits for timers, tasks and streams that the handler has registered.
                self.cx.has_more()
            }
            // A poll of the life follows, which gives the handler the right waker. (So a handler
            // that only yields goes on at once.)
            Ok(false) => true,
            Err(message) => {
                shield::run(|| self.running.clear());
                self.how = ExitReason::Panicked(message.into());
                true
            }
        }
    }
}

impl<A: Handlers> IdleLife for Life<A> {
    fn run_ask(&mut self, ask: &mut AskInPlace<'_>) -> bool {
        let route = A::ROUTES.get(usize::from(ask.route));
        let Some(Route { head, answer: Some(answer), .. }) = route else { return false };
        if self.cell.ends().is_halted() {
            return false;
        }
        self.act(|life| {
            let Life { actor: Some(actor), cx, .. } = life else { return true };
            let in_hand = AskContext { deadline: Some(ask.deadline), asked: None };
            cx.begin(&head.label, &in_hand, 0);
            // The handler awaits nothing, so its asks have no chain.
            let mut asks = AskChain::default();
            let noted = note(&head.label.duty, in_hand.deadline, &mut asks);
            answer(actor, ask.message, ask.answer, cx);
            drop(noted);
            true
        })
    }

    fn handle(&mut self, letter: &mut dyn Any) -> bool {
        let Some(letter) = letter.downcast_mut::<LocalMessage<A::Envelope>>() else { return false };
        self.act(|life| {
            let Life { actor: Some(actor), cell, cx, .. } = &mut *life else { return true };
            let Some(begun) = handle_letter(cell, actor, cx, letter) else { return true };
            life.start(begun);
            let polled = life.running.poll(&mut TaskContext::from_waker(Waker::noop()));
            take_turn();
            if polled.is_ready() {
                life.cell.base().end_waits();
            }
            polled.is_ready()
        })
    }
}
