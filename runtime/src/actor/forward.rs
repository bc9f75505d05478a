//! Answers that another actor gives.

use tokio::time::Instant;

use super::{Accepts, ActorRef, Reply, ReplyTo};
use crate::limits;
use crate::message::Message;

impl<R: Reply> ReplyTo<R> {
    /// Has another actor answer, of this node or of another: it is asked `message`, and its answer
    /// goes to the asker. It is asked until the time-out of the asker's own ask, also when that is
    /// dropped before; without an answer the asker gets [`NoReply`](crate::AskCause::NoReply), and
    /// the log says why.
    ///
    /// The way leads through this node, and goes on when the actor that called this ends.
    pub fn forward<B, M: Message>(self, to: &ActorRef<B>, message: M)
    where
        B: Accepts<M, Reply = R>,
    {
        let Some(deadlines) = to.destination().deadlines::<M>() else {
            // A reference to no actor has no runtime, and no answer.
            let (actor, error) = (to.address(), "the reference leads to no actor");
            tracing::warn!(%actor, error, "no answer to an ask that was forwarded to it");
            return;
        };
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        let left = self.deadline().map_or(limits::ASK_TIMEOUT, left);
        let to = to.clone();
        deadlines.runtime().spawn(async move {
            let ask = to.ask(message).timeout(left);
            match ask.await {
                Ok(answer) => self.send(answer),
                Err(error) => {
                    let actor = to.address();
                    tracing::warn!(%actor, %error, "no answer to an ask that was forwarded to it");
                }
            }
        });
    }
}
