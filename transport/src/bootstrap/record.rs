//! What follows the prefaces on a bootstrap connection: records of a kind and a length (BS-2).

use super::codec::Malformed;
use crate::limits;

const HEADER_BYTES: usize = 4;
/// Longest body of a record.
pub(super) const BODY_BYTES_MAX: usize = limits::UNPROVEN_BYTES_MAX - HEADER_BYTES;

/// What a record carries.
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
