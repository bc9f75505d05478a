//! The connection of two proven nodes: messages in, messages out.

use std::io;
use std::time::Duration;

use futures::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use crate::limits;
use crate::steps::step;
use crate::wire::Stream;

use super::failure::Failure;
use super::handshake::Handshake;
use super::message::{Hello, Message};
use super::rejection::Rejection;
use super::session::Session;

/// How long a peer may read nothing of a message: its socket takes many before it has to.
const SEND_TIMEOUT: Duration = Duration::from_secs(3);

/// A stream that carries sealed messages.
pub(crate) struct Channel {
    stream: Box<dyn Stream>,
    session: Session,
    /// A message was sealed and not wholly written: the peer could open nothing that came after it.
    cut: bool,
    by_other_secret: bool,
}

/// Carries a handshake over `stream`, of which `first` was read already. After a failure the peer
/// has been told as far as that needs no waiting.
///
/// # Errors
/// [`Failure`]: [`Rejection::TooSlow`] at the `deadline`, [`Rejection::Busy`] as soon as `give_way`
/// is ready.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub(crate) async fn meet(
    mut stream: Box<dyn Stream>,
    mut handshake: Handshake<'_>,
    first: &[u8],
    deadline: Instant,
    give_way: impl Future<Output = ()>,
) -> Result<(Channel, Hello), Failure> {
    let result = tokio::select! {
        biased;
        () = give_way => Err(Failure::Rejected(Rejection::Busy)),
        result = timeout_at(deadline, shake(&mut stream, &mut handshake, first)) => {
            result.unwrap_or(Err(Failure::Rejected(Rejection::TooSlow)))
        }
    };
    match result {
        Ok((session, hello)) => {
            let by_other_secret = handshake.by_other_secret();
            Ok((Channel { stream, session, cut: false, by_other_secret }, hello))
        }
        Err(failure) => {
            handshake.give_up(&failure);
            if let Some(output) = handshake.poll_output() {
                // A few bytes fit the socket's buffer; an unproven peer is not waited for.
                let _ = stream.write_all(&output).now_or_never();
            }
            let _ = stream.shutdown().now_or_never();
            Err(failure)
        }
    }
}

async fn shake(
    stream: &mut Box<dyn Stream>,
    handshake: &mut Handshake<'_>,
    first: &[u8],
) -> Result<(Session, Hello), Failure> {
    handshake.handle_bytes(first)?;
    let mut bytes = vec![0; limits::UNPROVEN_BYTES_MAX];
    loop {
        if let Some(output) = handshake.poll_output() {
            stream.write_all(&output).await?;
            step!(any handshake.sent());
        }
        if let Some(established) = handshake.poll_established() {
            return Ok(established);
        }
        let room = handshake.room();
        let length = stream.read(&mut bytes[..room]).await?;
        if length == 0 {
            return Err(Failure::Closed);
        }
        handshake.handle_bytes(&bytes[..length])?;
    }
}

impl Channel {
    /// Returns true if the peer dialled with a secret that this node only accepts.
    pub(crate) fn is_by_other_secret(&self) -> bool {
        self.by_other_secret
    }

    /// Returns where the other end is.
    pub(crate) fn peer_address(&self) -> String {
        self.stream.peer_address()
    }

    /// Returns what both sides know of this connection, and no other connection has.
    pub(crate) fn binding(&self) -> &[u8; 32] {
        self.session.binding()
    }

    /// Returns the next message. A rejection is an error, whenever it comes.
    ///
    /// # Errors
    /// [`Failure`], final.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn recv(&mut self) -> Result<Message, Failure> {
        loop {
            match self.session.poll_message()? {
                Some(Message::Reject(why)) => {
                    step!(RejectReceived);
                    return Err(Failure::RejectedByPeer(why));
                }
                Some(message) => {
                    step!(any message.received());
                    return Ok(message);
                }
                None => {}
            }
            let mut bytes = [0; 1024];
            match self.stream.read(&mut bytes).await? {
                0 => return Err(Failure::Closed),
                length => self.session.handle_bytes(&bytes[..length]),
            }
        }
    }

    /// Sends `message`. A peer that does not read for [`SEND_TIMEOUT`] is given up.
    ///
    /// # Errors
    /// [`Failure`], final.
    ///
    /// # Cancel safety
    /// None: when the future is dropped the channel can only be closed.
    pub(crate) async fn send(&mut self, message: &Message) -> Result<(), Failure> {
        step!(any message.due());
        self.cut = true;
        let bytes = self.session.seal(message);
        timeout(SEND_TIMEOUT, self.stream.write_all(&bytes))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        self.cut = false;
        step!(any message.sent());
        Ok(())
    }

    /// Sends `last` as far as that needs no waiting, and closes. After a message that was not
    /// wholly written it sends nothing: the peer would take that for a breach of the protocol.
    pub(crate) fn close(mut self, last: &Message) {
        if !self.cut {
            let bytes = self.session.seal(last);
            let _ = self.stream.write_all(&bytes).now_or_never();
            step!(any last.sent());
        }
        let _ = self.stream.shutdown().now_or_never();
    }
}
