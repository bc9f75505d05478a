//! The named actor that takes connections, and what its owner accepts from it.

use ringpost::spawn::SpawnError;
use ringpost::wire::Wire;
use ringpost::{Actor, ActorRef, Context, Handler, Node, Peer, Recipient, actor, handlers};
use tokio::sync::mpsc;

use crate::connection::{self, Kind, Parts};
use crate::end::ConnectError;
use crate::frame::{Connect, Connected};

/// Connections that wait to be accepted, at most. One more waits to be answered.
pub const BACKLOG: usize = 128;

/// A connection that was made, and the node at its other end.
type Made<Tx, Rx> = (Parts<Tx, Rx>, Peer);

/// Takes connections of one kind under a name. Dropped, it takes no more, and the connections that
/// were not accepted end.
pub(crate) struct Acceptor<Tx: Wire, Rx: Wire> {
    made: mpsc::Receiver<Made<Tx, Rx>>,
    desk: ActorRef<Desk<Tx, Rx>>,
}

impl<Tx: Wire, Rx: Wire> Acceptor<Tx, Rx> {
    pub(crate) async fn bind(node: &Node, name: &str, kind: Kind<Rx>) -> Result<Self, SpawnError> {
        let (sender, made) = mpsc::channel(BACKLOG);
        let desk = node.spawn(name, Desk { kind, made: sender }).await?;
        Ok(Acceptor { made, desk })
    }

    /// Waits for the next connection; `None` when the node is shutting down.
    pub(crate) async fn accept(&mut self) -> Option<Made<Tx, Rx>> {
        self.made.recv().await
    }
}

impl<Tx: Wire, Rx: Wire> Drop for Acceptor<Tx, Rx> {
    fn drop(&mut self) {
        self.made.close();
        // It is an actor of this node: that never fails.
        self.desk.request_stop().ok();
    }
}

/// The actor behind an acceptor.
struct Desk<Tx: Wire, Rx: Wire> {
    kind: Kind<Rx>,
    made: mpsc::Sender<Made<Tx, Rx>>,
}

#[actor(name = "ringpost_streams::Listener")]
impl<Tx: Wire, Rx: Wire> Actor for Desk<Tx, Rx> {}

#[handlers(Connect<Tx>)]
impl<Tx: Wire, Rx: Wire> Desk<Tx, Rx> {}

impl<Tx: Wire, Rx: Wire> Handler<Connect<Tx>> for Desk<Tx, Rx> {
    type Reply = Connected<Rx>;

    async fn handle(&mut self, msg: Connect<Tx>, cx: &mut Context<Self>) -> Connected<Rx> {
        let place = self.made.reserve().await.ok()?;
        let (parts, end) = connection::open(cx.node(), self.kind).await.ok()?;
        let peer = cx.node().peer(msg.to.address().node());
        parts.bind(msg.to);
        place.send((parts, peer));
        Some(end)
    }
}

/// Connects to the acceptor at a path: `"beta/orders"`, or `"orders"` on this node.
///
/// # Errors
/// [`ConnectError`].
pub(crate) async fn connect<Tx: Wire, Rx: Wire>(
    node: &Node,
    path: &str,
    kind: Kind<Rx>,
) -> Result<Parts<Tx, Rx>, ConnectError> {
    let desk = node.recipient(path).await.map_err(ConnectError::of_lookup)?;
    let desk: Recipient<Connect<Rx>, Connected<Tx>> = desk;
    let (parts, to) = connection::open(node, kind).await.map_err(ConnectError::Spawn)?;
    let mut unbound = Unbound(Some(parts));
    let connected = desk.ask(Connect { to }).await.map_err(ConnectError::of_ask)?;
    let peer = connected.ok_or(ConnectError::Closed)?;
    let parts = unbound.0.take().ok_or(ConnectError::Closed)?;
    parts.bind(peer);
    Ok(parts)
}

/// An end that has no peer yet: dropped, its actor ends.
struct Unbound<Tx: Wire, Rx: Wire>(Option<Parts<Tx, Rx>>);

impl<Tx: Wire, Rx: Wire> Drop for Unbound<Tx, Rx> {
    fn drop(&mut self) {
        if let Some(parts) = &self.0 {
            parts.notices.leave_reader(true, false);
            parts.notices.leave_writer();
        }
    }
}
