//! Answers that another actor gives.

use tokio::time::Instant;

use super::{Accepts, ActorRef, Reply, ReplyTo};
use crate::busy::running;
use crate::limits;
use crate::message::Message;

impl<R: Reply> ReplyTo<R> {
    /// Has another actor answer, of this node or of another: it is asked `message`, and its answer
    /// goes to the asker. Within a handler the question ends when the asker gives up, elsewhere
    /// after 5 seconds; without an answer the asker gets
    /// [`NoReply`](crate::AskError::NoReply).
    ///
    /// The way leads through this node, and goes on when the actor that called this ends.
    pub fn forward<B, M: Message>(self, to: &ActorRef<B>, message: M)
    where
        B: Accepts<M, Reply = R>,
    {
        // A reference to no actor has no runtime, and no answer.
        let Some(deadlines) = to.destination().deadlines::<M>() else { return };
        let left = running().and_then(|running| running.deadline);
        let left = left.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let to = to.clone();
        deadlines.runtime().spawn(async move {
            let ask = to.ask(message).timeout(left.unwrap_or(limits::ASK_TIMEOUT));
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
