//! Calls that block.

use std::time::Duration;

use ringpost::spawn::SpawnError;
use ringpost::wire::Wire;
use ringpost::{Message, Reply, View};

use super::node::{Blocking, Node};
use crate::rpc::{self, CallError};

/// Threads that run the functions of one server at a time, at most.
const THREADS: usize = 64;

/// Serves a function under a name of the node, until that shuts down; see [`rpc::serve`]. Up to 64
/// requests are handled at a time, each on a thread that may block. A panic fails its own request
/// only.
///
/// # Errors
/// As of [`rpc::serve`].
pub fn serve<M, R>(
    node: &Node,
    name: &str,
    function: impl Fn(View<M>) -> R + Send + Sync + 'static,
) -> Result<(), SpawnError>
where
    M: Message + Wire,
    R: Reply,
{
    let function = std::sync::Arc::new(function);
    let served = rpc::serve_at_most(node, name, THREADS, move |request| {
        let function = function.clone();
        async move {
            let called = tokio::task::spawn_blocking(move || function(request)).await;
            called.unwrap_or_else(|error| std::panic::resume_unwind(panic_of(error)))
        }
    });
    node.blocking().wait(served).map(drop)
}

/// Returns the panic with which a function ended, or a new one if the runtime ended first: both
/// leave the request without an answer.
fn panic_of(error: tokio::task::JoinError) -> Box<dyn std::any::Any + Send> {
    match error.try_into_panic() {
        Ok(panic) => panic,
        Err(error) => Box::new(error.to_string()),
    }
}

/// Calls functions: the twin of [`rpc::Client`]. Shared by reference between threads.
pub struct Client<M: Message, R: Reply> {
    client: rpc::Client<M, R>,
    blocking: Blocking,
}

impl<M: Message, R: Reply> Client<M, R> {
    /// Makes a client; see [`rpc::Client::new`].
    pub fn new(node: &Node) -> Self {
        Client { client: rpc::Client::new(node), blocking: node.blocking().clone() }
    }

    /// Makes a client whose calls wait this long; see [`rpc::Client::with_timeout`].
    pub fn with_timeout(node: &Node, timeout: Duration) -> Self {
        let client = rpc::Client::with_timeout(node, timeout);
        Client { client, blocking: node.blocking().clone() }
    }

    /// Calls the function at a path; see [`rpc::Client::call`].
    ///
    /// # Errors
    /// As of [`rpc::Client::call`].
    pub fn call(&self, server: &str, request: M) -> Result<R, CallError> {
        self.blocking.wait(self.client.call(server, request))
    }
}
