//! Collectives: an exchange with all peers, and the operations of a server and its clients.
//!
//! In these operations each client sends its part to the server, which has the outcome when it has
//! all parts, and sends it to each: so all hear of a part that is of another collective. The
//! server has position 0, and its peer with index `i` position `i + 1`.

use std::sync::Arc;

use futures::future::{join, join_all};

use super::context::Context;
use super::packet::{Collective, Operation, Packet};
use super::peer::Peer;
use crate::failure::Failure;

/// A part, and its position.
pub(super) type Part = (usize, Vec<u8>);

/// Combines all parts, the server's own first, and returns the outcome for each of them.
type Combine<'a> = dyn FnOnce(&[Part]) -> Vec<Vec<u8>> + Send + 'a;

impl Context {
    /// Sends a message to all peers, and receives one of each: the parts, by index.
    ///
    /// # Errors
    /// There is no peer, one has ended, or is in another collective. The others have exchanged.
    pub(super) fn all_to_all(&self, bytes: &[u8]) -> Result<Vec<Part>, Failure> {
        let operation = Operation::new(Collective::AllToAll, bytes.len());
        let peers = self.all_peers()?;
        self.closing.wait(None, async {
            let _turn = self.turn.lock().await;
            let sends = peers.iter().map(|(index, peer)| send_part(*index, peer, operation, bytes));
            let receives = async {
                let mut parts = Vec::new();
                for (index, peer) in &peers {
                    parts.push(recv_part(*index, peer, operation).await.map(|it| (*index, it)));
                }
                parts
            };
            let (sent, parts) = join(join_all(sends), receives).await;
            let parts = parts.into_iter().collect::<Result<Vec<Part>, Failure>>()?;
            sent.into_iter().collect::<Result<(), Failure>>()?;
            Ok(parts)
        })
    }

    /// Does a collective of a server and its clients: returns what this context gets.
    ///
    /// # Errors
    /// There is no peer, one has ended, or is in another collective: all that live hear it.
    pub(super) fn together(
        &self,
        operation: Operation,
        bytes: &[u8],
        combine: Box<Combine<'_>>,
    ) -> Result<Vec<u8>, Failure> {
        let peers = self.all_peers()?;
        self.closing.wait(None, async {
            let _turn = self.turn.lock().await;
            if self.is_server() {
                return lead(&peers, operation, bytes, combine).await;
            }
            match &peers[..] {
                [(index, server)] => follow(*index, server, operation, bytes).await,
                _ => Err(Failure::invalid("a client with several servers has no one to lead this")),
            }
        })
    }

    fn all_peers(&self) -> Result<Vec<(usize, Arc<Peer>)>, Failure> {
        let peers = self.peers();
        if peers.is_empty() {
            return Err(Failure::invalid("there is no peer: connect or accept one first"));
        }
        Ok(peers)
    }
}

/// The server's side.
async fn lead(
    peers: &[(usize, Arc<Peer>)],
    operation: Operation,
    bytes: &[u8],
    combine: Box<Combine<'_>>,
) -> Result<Vec<u8>, Failure> {
    let mut parts = vec![(0, bytes.to_vec())];
    let mut failed = None;
    for (index, peer) in peers {
        match recv_part(*index, peer, operation).await {
            Ok(part) => parts.push((index + 1, part)),
            // The others are received, too, so that the next collective begins with its own parts.
            Err(failure) => failed = failed.or(Some(failure)),
        }
    }
    let mut outcomes = match &failed {
        None => combine(&parts).into_iter(),
        Some(_) => Vec::new().into_iter(),
    };
    let own = outcomes.next().unwrap_or_default();
    let packets = peers.iter().map(|_| match &failed {
        None => Packet::Outcome { bytes: outcomes.next().unwrap_or_default() },
        Some(failure) => Packet::Failed { why: format!("the server says: {}", failure.text) },
    });
    let packets: Vec<Packet> = packets.collect();
    let sends = peers.iter().zip(packets).map(|((_, peer), packet)| send(peer, packet));
    let sent: Result<(), Failure> = join_all(sends).await.into_iter().collect();
    if let Some(failure) = failed {
        return Err(failure);
    }
    sent.map(|()| own)
}

/// A client's side.
async fn follow(
    index: usize,
    server: &Peer,
    operation: Operation,
    bytes: &[u8],
) -> Result<Vec<u8>, Failure> {
    send_part(index, server, operation, bytes).await?;
    match recv(index, server).await? {
        Packet::Outcome { bytes } => Ok(bytes),
        Packet::Failed { why } => Err(Failure::failed(why)),
        Packet::Part { operation: other, .. } => Err(mismatch(index, operation, other)),
        _ => Err(violation(index)),
    }
}

async fn send_part(
    index: usize,
    peer: &Peer,
    operation: Operation,
    bytes: &[u8],
) -> Result<(), Failure> {
    let sent = send(peer, Packet::Part { operation, bytes: bytes.to_vec() }).await;
    sent.map_err(|failure| of_peer(index, failure))
}

async fn recv_part(index: usize, peer: &Peer, operation: Operation) -> Result<Vec<u8>, Failure> {
    match recv(index, peer).await? {
        Packet::Part { operation: other, bytes } if other == operation => Ok(bytes),
        Packet::Part { operation: other, .. } => Err(mismatch(index, operation, other)),
        Packet::Failed { why } => Err(Failure::failed(why)),
        _ => Err(violation(index)),
    }
}

async fn send(peer: &Peer, packet: Packet) -> Result<(), Failure> {
    let mut sender = peer.sender.lock().await;
    let sender = sender.as_mut().ok_or_else(Failure::closed)?;
    tokio::select! {
        biased;
        sent = sender.send(packet) => sent.map_err(|error| error.cause.into()),
        () = peer.closing.closed() => Err(Failure::closed()),
    }
}

async fn recv(index: usize, peer: &Peer) -> Result<Packet, Failure> {
    let mut receiver = peer.receiver.lock().await;
    let received = tokio::select! {
        received = receiver.recv() => received.map_err(Failure::from),
        () = peer.closing.closed() => Err(Failure::closed()),
    };
    received.map_err(|failure| of_peer(index, failure))
}

fn of_peer(index: usize, failure: Failure) -> Failure {
    Failure::new(failure.code, format!("peer {index}: {}", failure.text))
}

fn mismatch(index: usize, here: Operation, there: Operation) -> Failure {
    let (here, there) = (here.text(), there.text());
    Failure::failed(format!("this side called {here}, and peer {index} {there}"))
}

fn violation(index: usize) -> Failure {
    Failure::failed(format!("peer {index} sent what no peer of this version sends"))
}
