//! The other end of a connection of a context.

use std::sync::Arc;

use ringpost::Node;
use ringpost::region::RemoteRegion;
use ringpost_streams::channel::{Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::packet::Packet;
use crate::driver::Closing;
use crate::line::{CLOSE_WITHIN, Line};
use crate::ready::{Ready, Token};

/// Peers of a context at a time.
pub(super) const PEERS_MAX: usize = 64;

/// A peer that has connected and was not accepted yet.
pub(super) struct Arrival {
    pub(super) peer: Peer,
    pub(super) _token: Token,
}

/// Another context that this one is connected to.
pub(super) struct Peer {
    pub(super) line: Line,
    pub(super) sender: tokio::sync::Mutex<Option<Sender<Packet>>>,
    pub(super) receiver: tokio::sync::Mutex<Receiver<Packet>>,
    pub(super) memory: RemoteRegion<u8>,
    /// Ends the calls on this peer.
    pub(super) closing: Closing,
    pub(super) _place: OwnedSemaphorePermit,
}

/// The things of a context that its connections use.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) node: Node,
    pub(super) shared: RemoteRegion<u8>,
    pub(super) places: Arc<Semaphore>,
    pub(super) ready: Arc<Ready>,
}

impl Peer {
    /// Ends the connection; the peer still receives all messages.
    pub(super) async fn close(&self) {
        self.closing.close();
        self.line.close(CLOSE_WITHIN).await;
        if let Some(sender) = self.sender.lock().await.take() {
            sender.close();
        }
    }
}
