//! Finding actors by name.

use ringpost_transport::id::NodeName;

use super::{ActorRef, Handlers, Recipient};
use crate::address::{Address, check_name};
use crate::error::LookupError;
use crate::message::Message;
use crate::node::Node;

impl Node {
    /// Finds the actor at `"node/name"`, or `"name"` on this node. On another node it is asked for
    /// there: the future is ready when the other node has said that it has such an actor.
    ///
    /// # Errors
    /// [`LookupError`]: the path is none, or there is no such actor, it is of another type, or its
    /// node cannot be reached.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn actor<A: Handlers>(&self, path: &str) -> Result<ActorRef<A>, LookupError> {
        let actor: ActorRef<A> = ActorRef::bind(self, self.parse(path)?);
        let there = actor.destination().touch().await;
        there.map_err(|cause| LookupError::NotFound { path: path.to_owned(), cause })?;
        Ok(actor)
    }

    /// Finds the actor at a path, of whatever type, as one that accepts `M` and, when `R` is not
    /// [`Unasked`](super::Unasked), answers `R`.
    ///
    /// # Errors
    /// As [`actor`](Node::actor). Whether an actor of another node accepts the message is found out
    /// when it is sent one.
    ///
    /// # Cancel safety
    /// As [`actor`](Node::actor).
    pub async fn recipient<M: Message, R: Send + 'static>(
        &self,
        path: &str,
    ) -> Result<Recipient<M, R>, LookupError> {
        let recipient: Recipient<M, R> = Recipient::bind(self, self.parse(path)?);
        let there = recipient.destination().touch().await;
        there.map_err(|cause| LookupError::NotFound { path: path.to_owned(), cause })?;
        Ok(recipient)
    }

    fn parse(&self, path: &str) -> Result<Address, LookupError> {
        let Some((node, name)) = path.split_once('/') else {
            return Ok(Address::by_name(self.shared_name().clone(), check_name(path)?));
        };
        NodeName::new(node)?;
        Ok(Address::by_name(node.into(), check_name(name)?))
    }
}
