//! What the actor's task does with the context of its handlers.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Context as TaskContext;

use tokio::time::Instant;

use super::Context;
use crate::actor::Handlers;
use crate::actor::cell::{ActorHand, Begun, Cell};
use crate::actor::family::Family;
use crate::actor::lane::Lane;
use crate::actor::route::{Item, Label};
use crate::dead_letter::DeadLetterCause;

/// What few actors need, as a context holds it: as with a cell, the compiler is not to look through
/// it into the envelope.
pub(super) trait Held<A: Handlers>: Send {
    fn more(&mut self) -> &mut More<A>;
}

impl<A: Handlers> Held<A> for More<A> {
    fn more(&mut self) -> &mut More<A> {
        self
    }
}

/// What few actors need.
pub(super) struct More<A: Handlers> {
    pub(super) lane: Option<Lane<A>>,
    pub(super) family: Family,
    pub(super) stash: VecDeque<Aside<A>>,
    /// Put back before the mailbox.
    pub(super) unstashed: VecDeque<Aside<A>>,
}

/// A message that was put aside.
pub(super) struct Aside<A: Handlers> {
    pub(super) item: Item<A>,
    /// Its asker is told when it is dropped.
    pub(super) is_ask: bool,
}

/// What the actor's task does with its context.
impl<A: Handlers> Context<A> {
    /// Notes the message that begins.
    pub(in crate::actor) fn begin(&mut self, label: &'static Label, deadline: Option<Instant>) {
        self.in_hand = Some(label);
        self.deadline = deadline;
    }

    /// Notes that its handler has ended.
    pub(in crate::actor) fn done(&mut self) {
        self.in_hand = None;
        if let Some(lane) = self.lane_if_any() {
            lane.timers.note_activity();
        }
    }

    /// Returns the message whose handler did not end.
    pub(in crate::actor) fn take_in_hand(&mut self) -> Option<&'static Label> {
        self.in_hand.take()
    }

    /// Takes what comes before the mailbox.
    #[inline]
    pub(in crate::actor) fn take_item(
        &mut self,
        cell: &Cell<A>,
        hand: &ActorHand<A>,
        task: &mut TaskContext<'_>,
    ) -> Option<Begun<A>> {
        let more = self.held()?;
        let lane = more.lane.as_mut();
        let item = match lane.and_then(|lane| lane.take(cell, hand, task)) {
            Some(item) => item,
            None => {
                let back = more.unstashed.pop_front();
                if back.is_some() || !hand.is_empty() {
                    more.lane.iter_mut().for_each(Lane::rest);
                }
                back?.item
            }
        };
        let (label, envelope) = item;
        Some(Begun { label, envelope, deadline: None })
    }

    /// Looks for what is due beside the mailbox. Returns true if there is something.
    pub(in crate::actor) fn poll_lane(
        &mut self,
        cell: &Cell<A>,
        hand: &ActorHand<A>,
        task: &mut TaskContext<'_>,
    ) -> bool {
        self.lane_if_any().is_some_and(|lane| lane.look(cell, hand, task))
    }

    /// Returns true if it is the mailbox's turn, which it then has.
    pub(in crate::actor) fn take_rest(&mut self) -> bool {
        let lane = self.lane_if_any().filter(|lane| lane.is_tired());
        lane.map(Lane::rest).is_some()
    }

    /// Ends the children, the youngest first.
    pub(in crate::actor) async fn end_children(&mut self) {
        let near = self.near.clone();
        if let Some(more) = self.held() {
            more.family.end(near.cell()).await;
        }
    }

    /// Ends all that the incarnation has registered (RL-3). What it put aside is put back.
    pub(in crate::actor) async fn clear(&mut self) {
        self.end_children().await;
        self.deadline = None;
        self.unstash();
        let Some(more) = self.held() else { return };
        if let Some(lane) = more.lane.as_mut() {
            lane.tasks.shutdown().await;
        }
        let lane = more.lane.take();
        drop(catch_unwind(AssertUnwindSafe(|| drop(lane))));
    }

    /// Ends all that is registered, and waits for nothing.
    pub(in crate::actor) fn abandon(&mut self) {
        let Some(mut held) = self.more.take() else { return };
        let more = held.more();
        more.family.abandon();
        let aside = more.unstashed.drain(..).chain(more.stash.drain(..));
        for Aside { item: (label, envelope), is_ask } in aside {
            if !is_ask {
                self.cell().bury(label, DeadLetterCause::Stopped);
            }
            drop(catch_unwind(AssertUnwindSafe(|| drop(envelope))));
        }
        drop(catch_unwind(AssertUnwindSafe(|| drop(held))));
    }
}
