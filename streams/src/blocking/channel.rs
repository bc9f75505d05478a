//! Channels that block.

use std::fmt;
use std::time::Duration;

use ringpost::Peer;
use ringpost::spawn::SpawnError;
use ringpost::wire::Wire;

use super::node::{Blocking, Node};
use crate::channel;
use crate::end::{ConnectError, EndCause, SendError, debug_by_display};
use crate::frame::Received;

/// Accepts channels: the twin of [`channel::Listener`].
pub struct Listener<Tx: Wire, Rx: Wire> {
    listener: channel::Listener<Tx, Rx>,
    blocking: Blocking,
}

impl<Tx: Wire, Rx: Wire> Listener<Tx, Rx> {
    /// Binds a name of the node; see [`channel::Listener::bind`].
    ///
    /// # Errors
    /// As of [`channel::Listener::bind`].
    pub fn bind(node: &Node, name: &str) -> Result<Self, SpawnError> {
        let blocking = node.blocking().clone();
        let listener = blocking.wait(channel::Listener::bind(node, name))?;
        Ok(Listener { listener, blocking })
    }

    /// Waits for the next channel; see [`channel::Listener::accept`].
    ///
    /// # Errors
    /// As of [`channel::Listener::accept`].
    pub fn accept(&mut self) -> Result<(Channel<Tx, Rx>, Peer), EndCause> {
        let (channel, peer) = self.blocking.wait(self.listener.accept())?;
        Ok((Channel::new(channel, &self.blocking), peer))
    }
}

/// One end of a channel: the twin of [`channel::Channel`].
pub struct Channel<Tx: Wire, Rx: Wire> {
    sender: Sender<Tx>,
    receiver: Receiver<Rx>,
}

impl<Tx: Wire, Rx: Wire> Channel<Tx, Rx> {
    fn new(channel: channel::Channel<Tx, Rx>, blocking: &Blocking) -> Self {
        let (sender, receiver) = channel.split();
        let sender = Sender { sender, blocking: blocking.clone() };
        Channel { sender, receiver: Receiver { receiver, blocking: blocking.clone() } }
    }

    /// Connects to the listener at a path; see [`channel::Channel::connect`].
    ///
    /// # Errors
    /// As of [`channel::Channel::connect`].
    pub fn connect(node: &Node, path: &str) -> Result<Self, ConnectError> {
        let blocking = node.blocking();
        let channel = blocking.wait(channel::Channel::connect(node, path))?;
        Ok(Channel::new(channel, blocking))
    }

    /// Sends a message; see [`channel::Sender::send`].
    ///
    /// # Errors
    /// As of [`channel::Sender::send`].
    pub fn send(&mut self, message: Tx) -> Result<(), SendError<Tx>> {
        self.sender.send(message)
    }

    /// Receives the next message; see [`channel::Receiver::recv`].
    ///
    /// # Errors
    /// As of [`channel::Receiver::recv`].
    pub fn recv(&mut self) -> Result<Rx, EndCause> {
        self.receiver.recv()
    }

    /// Returns the two directions, for two threads.
    pub fn split(self) -> (Sender<Tx>, Receiver<Rx>) {
        (self.sender, self.receiver)
    }

    /// Ends the channel in order; see [`channel::Channel::close`].
    pub fn close(self) {
        self.sender.close();
    }
}

/// The direction of a channel that sends: the twin of [`channel::Sender`].
pub struct Sender<Tx: Wire> {
    sender: channel::Sender<Tx>,
    blocking: Blocking,
}

impl<Tx: Wire> Sender<Tx> {
    /// Sends a message; see [`channel::Sender::send`].
    ///
    /// # Errors
    /// As of [`channel::Sender::send`].
    pub fn send(&mut self, message: Tx) -> Result<(), SendError<Tx>> {
        self.blocking.wait(self.sender.send(message))
    }

    /// Sends a message if that needs no waiting; see [`channel::Sender::try_send`].
    ///
    /// # Errors
    /// As of [`channel::Sender::try_send`].
    pub fn try_send(&mut self, message: Tx) -> Result<(), SendError<Tx>> {
        self.sender.try_send(message)
    }

    /// Ends this direction in order; see [`channel::Sender::close`].
    pub fn close(self) {
        self.sender.close();
    }
}

/// The direction of a channel that receives: the twin of [`channel::Receiver`]. Also an iterator
/// over the messages, up to the end of the peer.
pub struct Receiver<Rx: Wire> {
    receiver: channel::Receiver<Rx>,
    blocking: Blocking,
}

/// No message was received in time.
#[derive(Clone, PartialEq, Eq)]
pub enum RecvError {
    /// Nothing came within the time. The channel is as it was.
    TimedOut,
    /// The peer has ended.
    Ended(EndCause),
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::TimedOut => f.write_str("no message came in time"),
            RecvError::Ended(cause) => cause.fmt(f),
        }
    }
}

impl std::error::Error for RecvError {}

debug_by_display!(RecvError);

impl<Rx: Wire> Receiver<Rx> {
    /// Receives the next message; see [`channel::Receiver::recv`].
    ///
    /// # Errors
    /// As of [`channel::Receiver::recv`].
    pub fn recv(&mut self) -> Result<Rx, EndCause> {
        self.blocking.wait(self.receiver.recv())
    }

    /// Receives the next message as it arrived; see [`channel::Receiver::recv_view`].
    ///
    /// # Errors
    /// As of [`channel::Receiver::recv_view`].
    pub fn recv_view(&mut self) -> Result<Received<Rx>, EndCause> {
        self.blocking.wait(self.receiver.recv_view())
    }

    /// Receives the next message, if one comes within the time.
    ///
    /// # Errors
    /// [`RecvError`].
    pub fn recv_timeout(&mut self, time: Duration) -> Result<Rx, RecvError> {
        match self.blocking.wait_for(Some(time), self.receiver.recv()) {
            Ok(received) => received.map_err(RecvError::Ended),
            Err(_) => Err(RecvError::TimedOut),
        }
    }
}

impl<Rx: Wire> Iterator for Receiver<Rx> {
    type Item = Rx;

    fn next(&mut self) -> Option<Rx> {
        self.recv().ok()
    }
}
