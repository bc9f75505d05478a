//! Connecting to other nodes within a time limit: clients, and links that a program makes and ends.

use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use ringpost_transport::id::{NodeId, NodeName};

use super::{Node, NodeBuilder, StartError};
use crate::remote::{ConnectCause, ConnectError};

/// The time for the shutdown of a node that could not be connected: it has no actors and no links.
const GOODBYE: Duration = Duration::from_secs(1);

impl Node {
    /// Returns a builder for a client of the node at `address`: a node that does not listen,
    /// invents its name when it starts, and has that address as its [seed](NodeBuilder::seeds). If
    /// its process is killed, it is down [`down_after`](crate::net::Profile::down_after) its last
    /// sign of life, 8 s by default: it has no address that could refuse a connection.
    ///
    /// ```no_run
    /// # async fn call() -> Result<(), ringpost::BoxError> {
    /// use ringpost::Node;
    ///
    /// let (node, server) = Node::client("127.0.0.1:7700").connect().await?;
    /// println!("{} is linked to {}", node.name(), server.name());
    /// # Ok(())
    /// # }
    /// ```
    pub fn client(address: impl Into<String>) -> NodeBuilder {
        NodeBuilder::new(None).seeds([address])
    }

    /// Connects this node to the node at `address`. Boxes the future, like the start of a node.
    pub(crate) fn connecting(
        &self,
        address: String,
    ) -> BoxFuture<'_, Result<NodeId, ConnectError>> {
        Box::pin(async move {
            let Some(remote) = &self.core.remote else {
                return Err(ConnectError::no_network(address));
            };
            remote.connect(&address, self.core.connect_timeout).await
        })
    }

    /// Ends the link to the node of this name in order: messages that were sent are handed over,
    /// and both sides say goodbye. The other node has 5 s for that. Returns false if it is not
    /// linked.
    ///
    /// Then each node is down for the other: for this one with the cause
    /// [`Disconnected`](crate::net::NodeDownCause::Disconnected), for the other one with
    /// [`Left`](crate::net::NodeDownCause::Left). Their pending asks of each other fail. This
    /// node's seeds do not link the other node again. The next message in either direction does,
    /// and so does [`connect`](Self::connect), or a seed of the other node that leads here.
    ///
    /// # Cancel safety
    /// The goodbye goes on if the future is dropped.
    pub async fn disconnect(&self, peer: &str) -> bool {
        match (&self.core.remote, NodeName::new(peer)) {
            (Some(remote), Ok(name)) => remote.disconnect(&name).await,
            _ => false,
        }
    }

    /// Connects to the first of these addresses that answers.
    async fn connect_first(&self, addresses: Vec<String>) -> Result<NodeId, ConnectError> {
        let mut running: FuturesUnordered<_> =
            addresses.into_iter().map(|address| self.connecting(address)).collect();
        let mut failed: Option<ConnectError> = None;
        while let Some(outcome) = running.next().await {
            match outcome {
                Ok(peer) => return Ok(peer),
                Err(error) if error.cause == ConnectCause::NameTaken => return Err(error),
                // A permanent error says more than a temporary one.
                Err(error) if failed.as_ref().is_none_or(ConnectError::is_retryable) => {
                    failed = Some(error);
                }
                Err(_) => {}
            }
        }
        Err(failed.unwrap_or_else(ConnectError::no_address))
    }
}

impl NodeBuilder {
    /// Starts the node and connects it to the first of its seeds that answers.
    pub(crate) async fn start_connected(self) -> Result<(Node, NodeId), StartError> {
        let seeds = self.seeds.clone();
        let node = self.start().await?;
        match Box::pin(node.connect_first(seeds)).await {
            Ok(peer) => Ok((node, peer)),
            Err(error) => {
                node.shutdown(GOODBYE).await;
                Err(error.into())
            }
        }
    }
}
