//! Two proven nodes: messages are sealed and opened, in order, each once.

use snow::TransportState;
use zeroize::Zeroizing;

use crate::noise::{SessionKeys, TAG_BYTES};

use super::codec::{Kind, Malformed, record, take_record};
use super::message::Message;

/// The keys of one connection and what arrived on it.
pub(crate) struct Session {
    keys: SessionKeys,
    /// The hash of the handshake, which no other connection has.
    binding: [u8; 32],
    incoming: Vec<u8>,
}

impl Session {
    pub(super) fn new(keys: TransportState, binding: [u8; 32], incoming: Vec<u8>) -> Self {
        Session { keys: SessionKeys::new(keys), binding, incoming }
    }

    /// Returns the hash of the handshake: both sides have the same, and no other connection has it.
    pub(super) fn binding(&self) -> &[u8; 32] {
        &self.binding
    }

    /// Returns the bytes that carry `message`. They have to be sent in the order they were made.
    pub(super) fn seal(&mut self, message: &Message) -> Vec<u8> {
        let plain = message.encode();
        let mut sealed = vec![0; plain.len() + TAG_BYTES];
        let length = self
            .keys
            .write_message(&plain, &mut sealed)
            .expect("fewer than 2^64 messages, each shorter than Noise's limit");
        record(Kind::Sealed, &sealed[..length])
    }

    /// Takes in bytes of the connection.
    pub(super) fn handle_bytes(&mut self, bytes: &[u8]) {
        self.incoming.extend_from_slice(bytes);
    }

    /// Returns the next message, when it is there as a whole.
    ///
    /// # Errors
    /// [`Malformed`] is final: the connection has to be given up.
    pub(super) fn poll_message(&mut self) -> Result<Option<Message>, Malformed> {
        match take_record(&mut self.incoming)? {
            None => Ok(None),
            Some((Kind::Sealed, sealed)) => self.open(&sealed).map(Some),
            Some((other, _)) => Err(Malformed::Record(other as u8)),
        }
    }

    /// Opens the body of a sealed record.
    pub(super) fn open(&mut self, sealed: &[u8]) -> Result<Message, Malformed> {
        // An offer holds a part of a key. With room for the tag the cipher needs no other buffer.
        let mut plain = Zeroizing::new(vec![0; sealed.len()]);
        let length = self.keys.read_message(sealed, &mut plain).map_err(|_| Malformed::Seal)?;
        Message::decode(&plain[..length])
    }
}
