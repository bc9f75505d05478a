//! `Inbox`: a receiver of messages for code that is not an actor.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use ringpost_transport::shield;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendError;

use super::cell::route::Label;
use super::cell::{ActorCell, ErasedCell};
use super::context::watch::down_of;
use super::send::destination::DestinationView;
use super::{Actor, ActorRef, Context, Down, Handler, Recipient, SpawnOptions, Watchable};
use crate::busy::at_rest;
use crate::dead_letter::DeadLetterCause;
use crate::error::SpawnError;
use crate::message::Message;
use crate::node::Node;
use crate::resident::Halt;
use crate::{actor, handlers};

/// A receiver of messages of one type for code that is not an actor: a stream of the messages sent
/// to its [`recipient`](Inbox::recipient). Created by [`Node::inbox`]. Dropping it closes it:
/// messages sent later are refused, and messages that were not received are dead letters.
///
/// The recipient may be sent in messages, even to other nodes if `M` can cross nodes.
pub struct Inbox<M: Message> {
    messages: mpsc::Receiver<M>,
    actor: ActorRef<InboxActor<M>>,
    /// Ready when the actor given to [`end_with`](Self::end_with) has ended.
    end: Option<BoxFuture<'static, Down>>,
    ended: Option<Down>,
}

/// The actor behind an inbox. It passes its messages to the inbox one after the other.
pub(super) struct InboxActor<M: Message> {
    messages: mpsc::Sender<M>,
}

#[actor(name = "ringpost::Inbox")]
#[diagnostic::do_not_recommend]
impl<M: Message> Actor for InboxActor<M> {}

#[handlers(M)]
impl<M: Message> InboxActor<M> {}

#[diagnostic::do_not_recommend]
impl<M: Message> Handler<M> for InboxActor<M> {
    type Reply = ();

    async fn handle(&mut self, msg: M, cx: &mut Context<Self>) {
        // The owner may take its time to receive the next message. An error means that the inbox
        // was dropped: this actor is about to stop.
        if let Err(SendError(unsent)) = at_rest(self.messages.send(msg)).await {
            bury(cx.cell(), unsent);
        }
    }
}

impl Node {
    /// Creates an inbox for messages `M`, of which at most `capacity` wait.
    ///
    /// # Errors
    /// [`SpawnError::Shutdown`] when the node is shutting down.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the actor of the inbox lives until the node
    /// shuts down.
    pub async fn inbox<M: Message>(&self, capacity: usize) -> Result<Inbox<M>, SpawnError> {
        let (sender, messages) = mpsc::channel(1);
        let options = SpawnOptions::anonymous().mailbox_capacity(capacity);
        let actor = self.spawn_with(options, InboxActor { messages: sender }).await?;
        Ok(Inbox { messages, actor, end: None, ended: None })
    }
}

impl<M: Message> Inbox<M> {
    /// Returns the recipient for which this inbox receives messages.
    pub fn recipient(&self) -> Recipient<M> {
        self.actor.recipient()
    }

    /// Ends this inbox with `actor`: when that actor has ended, the inbox is closed, and
    /// [`receive`](Self::receive) returns every message that the actor sent to it before, and then
    /// `None`. A second call replaces the first.
    pub fn end_with(&mut self, actor: &impl Watchable) {
        self.end = Some(down_of(actor));
    }

    /// Returns the end of the actor that this inbox [ends with](Self::end_with); `Some` once
    /// [`receive`](Self::receive) has seen that end.
    pub fn down(&self) -> Option<&Down> {
        self.ended.as_ref()
    }

    /// Waits for the next message. Returns `None` when the node has shut down, or when the actor
    /// that this inbox [ends with](Self::end_with) has ended and all earlier messages were
    /// received.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn receive(&mut self) -> Option<M> {
        poll_fn(|cx| self.poll_receive(cx)).await
    }

    fn poll_receive(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<M>> {
        if let Some(end) = &mut self.end
            && let Poll::Ready(down) = end.poll_unpin(cx)
        {
            self.end = None;
            self.ended = Some(down);
            // The messages of the ended actor have arrived: the inbox's actor passes them on, and
            // ends.
            if let DestinationView::Local(near) = self.actor.destination().view() {
                near.cell().resident().halt(Halt::Drain);
            }
        }
        self.messages.poll_recv(cx)
    }
}

impl<M: Message> Stream for Inbox<M> {
    type Item = M;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<M>> {
        self.poll_receive(cx)
    }
}

impl<M: Message> Drop for Inbox<M> {
    fn drop(&mut self) {
        // This never fails, because the inbox's actor is on this node.
        self.actor.request_stop().ok();
        self.messages.close();
        while let Ok(unread) = self.messages.try_recv() {
            if let DestinationView::Local(near) = self.actor.destination().view() {
                bury(near.cell(), unread);
            }
        }
    }
}

/// Makes a dead letter of a message that the owner did not receive.
fn bury<M: Message>(clerk: &ActorCell<InboxActor<M>>, message: M) {
    let label = const { &Label::of::<InboxActor<M>, M>() };
    clerk.base().bury(label, DeadLetterCause::Stopped);
    shield::discard(message);
}
