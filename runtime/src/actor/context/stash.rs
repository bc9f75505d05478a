//! The stash: messages that an actor puts aside, to handle them later.

use std::fmt;

use super::Context;
use super::task::StashEntry;
use crate::actor::cell::route::Label;
use crate::actor::{Accepts, Handlers, Reply, ReplyTo};
use crate::limits;
use crate::spans::Scope;
use crate::view::Input;

/// The error of a full stash. It gives the message back.
#[derive(Clone, PartialEq, Eq)]
pub struct StashFull<T> {
    /// The message, together with its `ReplyTo` if one was given.
    pub message: T,
}

ringpost_transport::debug_by_display!(StashFull<T>);

impl<T> fmt::Display for StashFull<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = limits::MAILBOX_CAPACITY;
        let bytes = limits::STASH_BYTES_MAX;
        write!(
            f,
            "{most} messages, or {bytes} bytes of messages of other nodes, are put aside already: \
             put them back first with `unstash`"
        )
    }
}

impl<T> std::error::Error for StashFull<T> {}

impl<A: Handlers> Context<A> {
    /// Puts the message in hand, which its handler passes to this method, into the stash, to be
    /// handled later. (The asker of an ask gets the return value of the handler; to keep the asker
    /// waiting, take a [`ReplyTo`] and call [`stash_ask`](Self::stash_ask).) A message that is
    /// still stashed when the actor ends is a dead letter.
    ///
    /// # Errors
    /// [`StashFull`], with the message: the stash holds at most [`limits::MAILBOX_CAPACITY`]
    /// messages, and at most [`limits::STASH_BYTES_MAX`] bytes of messages from other nodes.
    pub fn stash<I: Input>(&mut self, message: I) -> Result<(), StashFull<I>>
    where
        A: Accepts<I::Message, Input = I>,
    {
        let full = self.put_aside(message, ReplyTo::nobody());
        full.map_err(|(message, _)| StashFull { message })
    }

    /// Stashes an ask as [`stash`](Self::stash) does, with the `ReplyTo` of its asker.
    ///
    /// # Errors
    /// [`StashFull`] as for [`stash`](Self::stash), with the message and its `ReplyTo`.
    pub fn stash_ask<I: Input, R: Reply>(
        &mut self,
        message: I,
        reply: ReplyTo<R>,
    ) -> Result<(), StashFull<(I, ReplyTo<R>)>>
    where
        A: Accepts<I::Message, Input = I, Reply = R>,
    {
        self.put_aside(message, reply).map_err(|message| StashFull { message })
    }

    /// Takes all messages out of the stash, in the order in which each was first stashed. They are
    /// handled next, before the messages in the mailbox; an ask whose asker has given up by then is
    /// skipped. Returns how many messages were stashed.
    pub fn unstash(&mut self) -> usize {
        self.held().map_or(0, |held| held.more().unstash())
    }

    fn put_aside<I: Input, R: Reply>(
        &mut self,
        message: I,
        reply: ReplyTo<R>,
    ) -> Result<(), (I, ReplyTo<R>)>
    where
        A: Accepts<I::Message, Input = I, Reply = R>,
    {
        let (deadline, bytes, scope) = (self.deadline, self.bytes, Scope::here());
        let more = self.more();
        if !more.has_room_aside(bytes) {
            return Err((message, reply));
        }
        let (label, is_ask) = (const { &Label::of::<A, I::Message>() }, reply.is_awaited());
        let kept = Box::new((message, reply));
        let number = more.came_back.take().unwrap_or_else(|| {
            more.asides += 1;
            more.asides
        });
        more.stash.insert(number, StashEntry { label, kept, is_ask, deadline, bytes, scope });
        more.count();
        Ok(())
    }
}
