//! The side that calls.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::{AskError, LookupError, Message, Node, Recipient, Reply};

/// Calls functions that are served under names of this node and of others, also many at a time.
/// Shared by reference; it keeps the ways to the servers that it has called.
pub struct Client<M: Message, R: Reply> {
    node: Node,
    timeout: Option<Duration>,
    /// By path. Held for a look-up.
    servers: Mutex<HashMap<String, Recipient<M, R>>>,
}

/// A call has no answer.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The path has no valid name of a node or server.
    #[error("no server: {0}")]
    Lookup(#[source] LookupError),
    /// There was no answer; [`AskError::is_retryable`] says whether the request was certainly not
    /// handled.
    #[error("{0}")]
    Ask(#[source] AskError),
}

crate::end::debug_by_display!(CallError);

impl<M: Message, R: Reply> Client<M, R> {
    /// Makes a client whose calls wait as long as asks of the node do, 5 s unless it was told
    /// otherwise.
    pub fn new(node: &Node) -> Self {
        Client { node: node.clone(), timeout: None, servers: Mutex::default() }
    }

    /// Returns a client whose calls wait this long.
    pub fn with_timeout(node: &Node, timeout: Duration) -> Self {
        Client { timeout: Some(timeout), ..Client::new(node) }
    }

    /// Calls the function at a path, `"server/echo"` or `"echo"` on this node, and waits for the
    /// answer. Each call finds the server that has the name at that time.
    ///
    /// # Errors
    /// [`CallError`]: also [`AskCause::Panicked`](ringpost::AskCause::Panicked) where the function
    /// panicked.
    ///
    /// # Cancel safety
    /// When the future is dropped before the request was sent, nothing is called; later the
    /// function's future is dropped as soon as its node knows.
    pub async fn call(&self, server: &str, request: M) -> Result<R, CallError> {
        let to = self.server(server).map_err(CallError::Lookup)?;
        to.ask(request).await.map_err(CallError::Ask)
    }

    fn server(&self, path: &str) -> Result<Recipient<M, R>, LookupError> {
        let mut servers = self.servers.lock();
        if let Some(known) = servers.get(path) {
            return Ok(known.clone());
        }
        let mut server = self.node.named_recipient(path)?;
        if let Some(timeout) = self.timeout {
            server = server.with_ask_timeout(timeout);
        }
        servers.insert(path.to_owned(), server.clone());
        Ok(server)
    }
}
