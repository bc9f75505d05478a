//! Answers that another actor gives.

use tokio::time::Instant;

use super::{Accepts, ActorRef, Reply, ReplyTo};
use crate::busy::running;
use crate::limits;
use crate::message::Message;

impl<R: Reply> ReplyTo<R> {
    /// Has another actor answer, of this node or of another: it is asked `message`, and its answer
    /// goes to the asker. The question ends when the asker gives up, of an asker of another node
    /// after 5 seconds, or later while its message is in hand; without an answer the asker gets
    /// [`NoReply`](crate::AskCause::NoReply).
    ///
    /// The way leads through this node, and goes on when the actor that called this ends.
    pub fn forward<B, M: Message>(self, to: &ActorRef<B>, message: M)
    where
        B: Accepts<M, Reply = R>,
    {
        // A reference to no actor has no runtime, and no answer.
        let Some(deadlines) = to.destination().deadlines::<M>() else { return };
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        // Of an asker of another node it is known while its message is in hand, which this may not
        // be: an answer that comes too late is dropped.
        let in_hand = || running().and_then(|running| running.in_hand.deadline).map(left);
        let in_hand = || in_hand().unwrap_or_default().max(limits::ASK_TIMEOUT);
        let left = self.deadline().map_or_else(in_hand, left);
        let to = to.clone();
        deadlines.runtime().spawn(async move {
            let ask = to.ask(message).timeout(left);
            match ask.await {
                Ok(answer) => self.send(answer),
                Err(error) => {
                    let actor = to.address();
                    tracing::debug!(%actor, %error, "no answer to a question that was handed on");
                }
            }
        });
    }
}
