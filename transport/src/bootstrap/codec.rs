//! Records, which follow the prefaces on a bootstrap connection: a kind, a length and a body; and
//! the numbers and texts in messages: little-endian, every length checked.

use crate::id::NodeName;
use crate::limits;
use crate::text;
use crate::wire::PrefaceError;

/// Longest address, in bytes.
pub(crate) const ADDRESS_BYTES_MAX: usize = 255;
/// Most addresses of one node.
pub(crate) const ADDRESSES_MAX: usize = 8;
/// Longest name of a fabric, in bytes.
pub(super) const FABRIC_NAME_BYTES_MAX: usize = 32;
/// Most fabrics of one node.
pub(super) const FABRICS_MAX: usize = 8;

/// How bytes from a peer break the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// The connection does not begin as one between nodes does.
    #[error("{0}")]
    Preface(PrefaceError),
    /// It begins as a data connection, which carries frames.
    #[error("a data connection where nodes meet")]
    NotBootstrap,
    /// More arrived before the proof than a proof needs.
    #[error("too many bytes before the proof")]
    TooMuch,
    /// A record says it is longer than a record can be.
    #[error("a record of {0} bytes")]
    RecordTooLong(usize),
    /// A record of a kind that does not exist or does not belong here.
    #[error("an unexpected record of kind {0}")]
    Record(u8),
    /// A handshake message of the wrong length, or with a useless key.
    #[error("a bad handshake message")]
    HandshakeMessage,
    /// A sealed record that was not sealed by the peer, or not as the next one.
    #[error("a record that was not sealed by the peer")]
    Seal,
    /// A message of a kind that does not exist.
    #[error("an unknown message of kind {0}")]
    MessageKind(u8),
    /// A message that does not belong here.
    #[error("an unexpected {0} message")]
    Unexpected(&'static str),
    /// A message that ends too early.
    #[error("a message that ends too early")]
    Truncated,
    /// A message with bytes after its end.
    #[error("{0} bytes after the end of a message")]
    Trailing(usize),
    /// A text that is too short, too long, or has characters it may not have.
    #[error("a bad {0}")]
    Text(&'static str),
    /// A number that it may not be.
    #[error("a bad {what}: {value}")]
    Number {
        /// Which.
        what: &'static str,
        /// Its value.
        value: u64,
    },
}

/// Takes a message apart.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    /// Checks that nothing is left.
    pub(super) fn finish(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Trailing(self.0.len())) }
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn u128(&mut self) -> Result<u128, Malformed> {
        self.array().map(u128::from_le_bytes)
    }

    /// Returns a length byte and that much UTF-8 without control characters.
    pub(super) fn text(&mut self, what: &'static str) -> Result<String, Malformed> {
        let length = self.u8()?;
        let bytes = self.bytes(length.into())?;
        let text = str::from_utf8(bytes).map_err(|_| Malformed::Text(what))?;
        if text.chars().any(text::is_control) {
            return Err(Malformed::Text(what));
        }
        Ok(text.into())
    }

    pub(super) fn node_name(&mut self) -> Result<NodeName, Malformed> {
        NodeName::new(&self.text("node name")?).map_err(|_| Malformed::Text("node name"))
    }

    pub(super) fn fabric_name(&mut self) -> Result<String, Malformed> {
        let name = self.text("fabric name")?;
        if name.is_empty() || name.len() > FABRIC_NAME_BYTES_MAX {
            return Err(Malformed::Text("fabric name"));
        }
        Ok(name)
    }

    pub(super) fn addresses(&mut self) -> Result<Vec<String>, Malformed> {
        self.list("number of addresses", ADDRESSES_MAX, |reader| {
            let address = reader.text("address")?;
            if address.is_empty() { Err(Malformed::Text("address")) } else { Ok(address) }
        })
    }

    pub(super) fn list<T>(
        &mut self,
        what: &'static str,
        max: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.u8()?;
        if usize::from(count) > max {
            return Err(Malformed::Number { what, value: count.into() });
        }
        (0..count).map(|_| read(self)).collect()
    }
}

/// Appends a length byte and as much of `text` as 255 bytes hold.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(u8::MAX.into())];
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a count byte and that many texts: `max` at most.
pub(super) fn put_texts(out: &mut Vec<u8>, texts: &[String], max: usize) {
    let texts = &texts[..texts.len().min(max)];
    out.push(texts.len() as u8);
    for text in texts {
        put_text(out, text);
    }
}

/// Bytes before the body of a record: its kind, a zero and its length.
const HEADER_BYTES: usize = 4;
/// Longest body of a record.
pub(super) const BODY_BYTES_MAX: usize = limits::UNPROVEN_BYTES_MAX - HEADER_BYTES;

/// The content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message of the Noise handshake.
    Handshake = 1,
    /// A rejection in plain, before the sender could seal anything for this peer.
    Rejection = 2,
    /// A sealed message.
    Sealed = 3,
}

/// Returns the bytes of a record.
pub(super) fn record(kind: Kind, body: &[u8]) -> Vec<u8> {
    debug_assert!(body.len() <= BODY_BYTES_MAX);
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    out.extend([kind as u8, 0]);
    out.extend((body.len() as u16).to_le_bytes());
    out.extend_from_slice(body);
    out
}

/// Takes the first record off `incoming`, when it is there as a whole.
pub(super) fn take_record(incoming: &mut Vec<u8>) -> Result<Option<(Kind, Vec<u8>)>, Malformed> {
    let Some((&[kind, zero, low, high], _)) = incoming.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let kind = match (kind, zero) {
        (1, 0) => Kind::Handshake,
        (2, 0) => Kind::Rejection,
        (3, 0) => Kind::Sealed,
        (other, _) => return Err(Malformed::Record(other)),
    };
    let length = usize::from(u16::from_le_bytes([low, high]));
    if length > BODY_BYTES_MAX {
        return Err(Malformed::RecordTooLong(length));
    }
    if incoming.len() < HEADER_BYTES + length {
        return Ok(None);
    }
    let body = incoming[HEADER_BYTES..HEADER_BYTES + length].to_vec();
    incoming.drain(..HEADER_BYTES + length);
    Ok(Some((kind, body)))
}
