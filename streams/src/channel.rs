//! Channels: typed messages both ways between two tasks, on one node or two.
//!
//! ```
//! use ringpost::prelude::*;
//! use ringpost_streams::channel::{Channel, Listener};
//! use ringpost_streams::EndCause;
//!
//! #[message]
//! #[derive(Debug, PartialEq)]
//! pub struct Order {
//!     pub item: String,
//!     pub count: u32,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let shop = Node::builder("shop").listen("127.0.0.1:0").start().await?;
//! let till = Node::builder("till").seeds(shop.addresses()).start().await?;
//! till.ready(1).await?;
//!
//! let mut listener = Listener::<u64, Order>::bind(&shop, "orders").await?;
//! let mut orders = Channel::<Order, u64>::connect(&till, "shop/orders").await?;
//! let (mut served, peer) = listener.accept().await?;
//! assert_eq!(peer.name(), "till");
//!
//! orders.send(Order { item: "tea".into(), count: 3 }).await?;
//! let order = served.recv_view().await?; // read where it arrived
//! served.send(u64::from(order.count.to_native()) * 250).await?;
//! assert_eq!(orders.recv().await?, 750);
//!
//! orders.close();
//! assert_eq!(served.recv().await, Err(EndCause::Closed));
//! # Ok(())
//! # }
//! ```

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;
use ringpost::spawn::SpawnError;
use ringpost::wire::Wire;
use ringpost::{Node, Peer};

use crate::connection::{Kind, Parts};
use crate::end::{ConnectError, EndCause, SendError};
use crate::frame::Received;
use crate::incoming::{Incoming, Limit};
use crate::listener::{self, Acceptor};
use crate::notices::Notices;
use crate::outgoing::Outgoing;

/// Messages that lie ready for the receiver of a channel, at most. Beyond them each end has a
/// mailbox of its node's capacity; of another node 8 MiB and one message wait in that at most,
/// unless its profile says otherwise.
pub const READY: usize = 16;

fn kind<Rx: Wire>() -> Kind<Rx> {
    Kind { limit: Limit::Items(READY), weigh: |_| Ok(0), is_stream: false }
}

/// Accepts channels under a name: their peers send `Rx`, and are sent `Tx`. Dropped, the name is
/// free again; channels that were accepted live on.
pub struct Listener<Tx: Wire, Rx: Wire>(Acceptor<Tx, Rx>);

impl<Tx: Wire, Rx: Wire> Listener<Tx, Rx> {
    /// Binds a name of the node. Channels connect to it by `"node/name"`.
    ///
    /// # Errors
    /// [`SpawnError`]: the name is taken or is none, or the node is shutting down.
    pub async fn bind(node: &Node, name: &str) -> Result<Self, SpawnError> {
        Acceptor::bind(node, name, kind()).await.map(Listener)
    }

    /// Waits for the next channel, and returns it with the node at its other end. At most
    /// [`BACKLOG`](crate::BACKLOG) channels wait to be accepted.
    ///
    /// # Errors
    /// [`EndCause::Shutdown`] when the node is shutting down.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn accept(&mut self) -> Result<(Channel<Tx, Rx>, Peer), EndCause> {
        let (parts, peer) = self.0.accept().await.ok_or(EndCause::Shutdown)?;
        Ok((Channel::new(parts), peer))
    }
}

/// One end of a channel, which sends `Tx` and receives `Rx`. Messages arrive in order, each once,
/// or the channel ends. Each direction has room of its own: a channel that nobody reads holds up
/// its own peer only.
///
/// Dropped, the channel ends as [`EndCause::Dropped`] for the peer, after the last message.
pub struct Channel<Tx: Wire, Rx: Wire> {
    sender: Sender<Tx>,
    receiver: Receiver<Rx>,
}

impl<Tx: Wire, Rx: Wire> Channel<Tx, Rx> {
    fn new(parts: Parts<Tx, Rx>) -> Self {
        let Parts { outgoing, incoming, notices } = parts;
        let sender = Sender { outgoing, notices: notices.clone() };
        Channel { sender, receiver: Receiver { incoming, notices } }
    }

    /// Connects to the [`Listener`] at a path: `"shop/orders"` on another node, or `"orders"` on
    /// this one. Waits for a link to that node as a look-up does, and for the answer as an ask.
    ///
    /// # Errors
    /// [`ConnectError`].
    ///
    /// # Cancel safety
    /// When the future is dropped there is no channel; the listener may accept a channel that has
    /// ended.
    pub async fn connect(node: &Node, path: &str) -> Result<Self, ConnectError> {
        listener::connect(node, path, kind()).await.map(Channel::new)
    }

    /// Sends a message; see [`Sender::send`].
    ///
    /// # Errors
    /// [`SendError`], with the message.
    ///
    /// # Cancel safety
    /// As of [`Sender::send`].
    pub async fn send(&mut self, message: Tx) -> Result<(), SendError<Tx>> {
        self.sender.send(message).await
    }

    /// Sends a message if that needs no waiting; see [`Sender::try_send`].
    ///
    /// # Errors
    /// [`SendError`], with the message.
    pub fn try_send(&mut self, message: Tx) -> Result<(), SendError<Tx>> {
        self.sender.try_send(message)
    }

    /// Receives the next message; see [`Receiver::recv`].
    ///
    /// # Errors
    /// [`EndCause`], after the last message.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn recv(&mut self) -> Result<Rx, EndCause> {
        self.receiver.recv().await
    }

    /// Receives the next message as it arrived; see [`Receiver::recv_view`].
    ///
    /// # Errors
    /// [`EndCause`], after the last message.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn recv_view(&mut self) -> Result<Received<Rx>, EndCause> {
        self.receiver.recv_view().await
    }

    /// Returns the two directions, for two tasks. The connection is over when both are dropped.
    pub fn split(self) -> (Sender<Tx>, Receiver<Rx>) {
        (self.sender, self.receiver)
    }

    /// Ends the channel in order, and does not wait: the peer receives the sent messages, and then
    /// [`EndCause::Closed`]. Messages that were not received here are dropped.
    pub fn close(self) {
        self.sender.close();
    }
}

/// The direction of a channel that sends. Dropped, the peer receives [`EndCause::Dropped`] after
/// the last message.
pub struct Sender<Tx: Wire> {
    outgoing: Arc<Outgoing<Tx>>,
    notices: Arc<Notices>,
}

impl<Tx: Wire> Sender<Tx> {
    /// Sends a message, when the peer has room for it. `Ok` says that it is on its way: the peer
    /// receives it, unless the connection ends otherwise than in order.
    ///
    /// # Errors
    /// [`SendError`], with the message: nothing was sent. Only
    /// [`SendCause::Ended`](crate::SendCause::Ended) says so of all others, too.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, nothing was sent; the message is dropped with it.
    pub async fn send(&mut self, message: Tx) -> Result<(), SendError<Tx>> {
        self.outgoing.send(message).await
    }

    /// Sends a message if that needs no waiting.
    ///
    /// # Errors
    /// As of [`send`](Self::send); [`SendCause::Full`](crate::SendCause::Full) where that would
    /// wait, also for the first message.
    pub fn try_send(&mut self, message: Tx) -> Result<(), SendError<Tx>> {
        self.outgoing.try_send(message)
    }

    /// Waits until nothing can be sent any more, and returns why. While more than [`READY`]
    /// messages of the peer are unread here, it sees only that the peer's end is gone, and not that
    /// the peer has dropped its receiver.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn closed(&mut self) -> EndCause {
        let broken = poll_fn(|cx| self.outgoing.poll_broken(cx));
        let Ok(peer) = self.outgoing.peer() else { return broken.await };
        tokio::select! {
            biased;
            cause = broken => cause,
            exit = peer.wait_stopped() => EndCause::Gone(exit),
        }
    }

    /// Ends this direction in order, and does not wait: the peer receives [`EndCause::Closed`]
    /// after the last message.
    pub fn close(self) {
        self.notices.post_fin(true);
    }
}

impl<Tx: Wire> Drop for Sender<Tx> {
    fn drop(&mut self) {
        self.notices.leave_writer();
    }
}

/// The direction of a channel that receives: also a stream of its messages, up to the end of the
/// peer. Dropped, what the peer sends fails with [`EndCause::NotReading`].
pub struct Receiver<Rx: Wire> {
    incoming: Arc<Incoming<Rx>>,
    notices: Arc<Notices>,
}

impl<Rx: Wire> Receiver<Rx> {
    /// Receives the next message.
    ///
    /// # Errors
    /// [`EndCause`]: how the peer ended, after its last message; again in each later call.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn recv(&mut self) -> Result<Rx, EndCause> {
        Ok(self.recv_view().await?.to_owned())
    }

    /// Receives the next message as it arrived, without a copy of it.
    ///
    /// # Errors
    /// As of [`recv`](Self::recv).
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn recv_view(&mut self) -> Result<Received<Rx>, EndCause> {
        poll_fn(|cx| self.incoming.poll_take(cx)).await
    }
}

impl<Rx: Wire> Stream for Receiver<Rx> {
    type Item = Received<Rx>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Received<Rx>>> {
        Poll::Ready(ready!(self.incoming.poll_take(cx)).ok())
    }
}

impl<Rx: Wire> Drop for Receiver<Rx> {
    fn drop(&mut self) {
        let (is_open, is_unread) = self.incoming.close();
        self.notices.leave_reader(is_open, is_unread);
    }
}
