//! What an actor has registered: timers, tasks, streams, watches; and what it put aside.
//!
//! - **RL-1 ahead**: what is due is handled before the next message of the mailbox. It needs no
//!   room there, and is bounded by what the actor registered.
//! - **RL-2 fair**: after so many of these in a row as a batch has messages, what waits in the
//!   mailbox has a turn.
//! - **RL-3 one incarnation**: it ends with the incarnation that registered it, before the next one
//!   begins.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use tokio::task::JoinSet;

use super::cell::{ActorHand, Cell};
use super::route::{Item, Label};
use super::timers::Timers;
use super::watch::{Down, Watches};
use super::{Handlers, Task};
use crate::limits;
use crate::node::Node;

/// Makes the message of an end.
pub(super) type MakeDown<A> = fn(Down, &Node) -> Option<Item<A>>;

/// What an actor has registered. Owned by its context, and made at the first registration.
pub(super) struct Lane<A: Handlers> {
    pub(super) timers: Timers<A>,
    /// What a task ends with is done by the actor.
    pub(super) tasks: JoinSet<Option<Task<A>>>,
    pub(super) streams: SelectAll<BoxStream<'static, Option<Item<A>>>>,
    pub(super) watches: Watches,
    /// Makes the message of an end; there with the first watch.
    pub(super) down: Option<MakeDown<A>>,
    /// Ends that are not told yet, and what came to the mailbox before each (WA-2).
    downs: VecDeque<((u64, u64), Item<A>)>,
    /// Found, not taken yet: one at most.
    found: Option<Item<A>>,
    /// How many were taken since the last message.
    row: usize,
}

impl<A: Handlers> Lane<A> {
    pub(super) fn new(node: Node) -> Self {
        Lane {
            timers: Timers::new(node),
            tasks: JoinSet::new(),
            streams: SelectAll::new(),
            watches: Watches::default(),
            down: None,
            downs: VecDeque::new(),
            found: None,
            row: 0,
        }
    }

    /// Takes what is due (RL-1), unless it is the mailbox's turn (RL-2).
    pub(super) fn take(
        &mut self,
        cell: &Cell<A>,
        hand: &ActorHand<A>,
        cx: &mut Context<'_>,
    ) -> Option<Item<A>> {
        if self.is_tired() {
            return None;
        }
        self.look(cell, hand, cx);
        let found = self.found.take();
        self.row += usize::from(found.is_some());
        found
    }

    /// Looks for what is due. Returns true if there is something; if not, the waker of `cx` is
    /// woken when there may be.
    pub(super) fn look(
        &mut self,
        cell: &Cell<A>,
        hand: &ActorHand<A>,
        cx: &mut Context<'_>,
    ) -> bool {
        if self.found.is_none()
            && let Poll::Ready(item) = self.poll(cell, hand, cx)
        {
            self.found = Some(item);
        }
        self.found.is_some()
    }

    /// Returns true if it is the mailbox's turn (RL-2).
    pub(super) fn is_tired(&self) -> bool {
        self.row >= limits::BATCH_MESSAGES_MAX
    }

    /// The mailbox had its turn.
    pub(super) fn rest(&mut self) {
        self.row = 0;
    }

    fn poll(&mut self, cell: &Cell<A>, hand: &ActorHand<A>, cx: &mut Context<'_>) -> Poll<Item<A>> {
        while let Poll::Ready(down) = self.watches.poll(cx) {
            if let Some(item) = self.down.and_then(|make| make(down, cell.node())) {
                self.downs.push_back((cell.mailbox().arrived(), item));
            }
        }
        let passed = |(mark, _): &(_, _)| hand.is_empty() && cell.mailbox().has_passed(*mark);
        if self.downs.front().is_some_and(passed)
            && let Some((_, item)) = self.downs.pop_front()
        {
            return Poll::Ready(item);
        }
        if let Poll::Ready(item) = self.timers.poll(cx) {
            return Poll::Ready(item);
        }
        while let Poll::Ready(Some(ended)) = self.tasks.poll_join_next(cx) {
            match ended {
                Ok(None) => {}
                Ok(Some(task)) => {
                    return Poll::Ready((const { &Label::of_task::<A>() }, A::task(task)));
                }
                // The actor answers for its tasks.
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                Err(_aborted) => {}
            }
        }
        while let Poll::Ready(Some(item)) = Pin::new(&mut self.streams).poll_next_unpin(cx) {
            if let Some(item) = item {
                return Poll::Ready(item);
            }
        }
        Poll::Pending
    }
}
