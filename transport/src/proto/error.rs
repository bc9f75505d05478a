//! The errors of the protocol: the breaches that end a link, and the refusals that travel on it.

use std::sync::Arc;

use crate::limits::KIND_NAME_BYTES_MAX;
use crate::text;

/// A breach of the protocol by a peer. The link ends; the node lives on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A frame's header does not describe the bytes that arrived.
    #[error("malformed frame")]
    Frame,
    /// Its bootstrap connection carried what does not belong there.
    #[error("malformed message on the bootstrap connection")]
    Bootstrap,
    /// A record does not fit its frame, or is of no known kind.
    #[error("malformed record")]
    Record,
    /// A frame arrived for which no credit was given.
    #[error("more frames than credits")]
    CreditOverrun,
    /// The count of consumed frames went back, or passed the frames sent.
    #[error("impossible count of consumed frames")]
    Count,
    /// More was sent to a mailbox, or over the link, than its window.
    #[error("more messages than the window")]
    WindowOverrun,
    /// More was reported taken than was sent.
    #[error("impossible window report")]
    WindowReport,
    /// A mailbox or a message of it that was never opened.
    #[error("unknown mailbox or message")]
    Unknown,
    /// A fragment out of place, or a message longer than allowed.
    #[error("impossible fragment")]
    Fragment,
    /// A loan of a message, or an answer to one, that makes no sense.
    #[error("impossible loan")]
    Loan,
    /// An OPEN, or an answer to an OPEN, that makes no sense.
    #[error("malformed or unexpected opening")]
    Opening,
    /// A refusal of something that was not sent.
    #[error("refusal of an unknown message")]
    Refusal,
    /// The first frame was not a full-sized CONFIRM, or a later one was.
    #[error("unexpected confirmation")]
    Confirm,
    /// Something after the goodbye.
    #[error("messages after the goodbye")]
    Goodbye,
    /// The peer keeps asking and takes no answers.
    #[error("too many unanswered requests")]
    Flood,
}

crate::debug_by_display!(Violation);

/// The cause for which a message that arrived was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u16)]
pub enum Refusal {
    /// The mailbox is closed.
    Closed = 1,
}

impl Refusal {
    /// Reads the number that a REFUSAL carries.
    pub(crate) fn of(code: u16) -> Result<Self, Violation> {
        if code == 1 { Ok(Refusal::Closed) } else { Err(Violation::Refusal) }
    }
}

/// The cause for which a mailbox could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OpenRefusal {
    /// There is none of that name or identity.
    NoSuchMailbox,
    /// There is one, of another kind.
    WrongKind {
        /// The name of its kind. Of a longer one about the first [`KIND_NAME_BYTES_MAX`] bytes
        /// reach the peer.
        found: Arc<str>,
    },
}

impl OpenRefusal {
    /// Returns the number and the payload of an OPEN_REFUSED.
    pub(crate) fn encode(&self) -> (u16, &[u8]) {
        match self {
            OpenRefusal::NoSuchMailbox => (1, &[]),
            OpenRefusal::WrongKind { found } => {
                let cut = found.floor_char_boundary(KIND_NAME_BYTES_MAX);
                (2, &found.as_bytes()[..cut])
            }
        }
    }

    /// Reads the number and the payload of an OPEN_REFUSED.
    pub(crate) fn decode(code: u16, payload: &[u8]) -> Result<Self, Violation> {
        match code {
            1 => Ok(OpenRefusal::NoSuchMailbox),
            2 if payload.len() <= KIND_NAME_BYTES_MAX => {
                let found = std::str::from_utf8(payload).map_err(|_| Violation::Opening)?;
                let found = text::of_peer(found, KIND_NAME_BYTES_MAX).into();
                Ok(OpenRefusal::WrongKind { found })
            }
            _ => Err(Violation::Opening),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn refusals_survive_the_wire_and_long_names_are_cut_between_characters(
            name in "[a-z\u{fc}:]{0,200}",
        ) {
            let refusal = OpenRefusal::WrongKind { found: name.as_str().into() };
            let (code, payload) = refusal.encode();
            let Ok(OpenRefusal::WrongKind { found }) = OpenRefusal::decode(code, payload) else {
                panic!("{refusal:?} is not read back");
            };
            prop_assert!(name.starts_with(&*found));
            prop_assert!(found.len() == name.len() || found.len() + 2 > KIND_NAME_BYTES_MAX);
            let (code, payload) = OpenRefusal::NoSuchMailbox.encode();
            prop_assert_eq!(OpenRefusal::decode(code, payload), Ok(OpenRefusal::NoSuchMailbox));
        }

        #[test]
        fn hostile_refusals_are_errors_not_panics(
            code in 0_u16..4, bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let read = OpenRefusal::decode(code, &bytes);
            let is_name =
                bytes.len() <= KIND_NAME_BYTES_MAX && std::str::from_utf8(&bytes).is_ok();
            prop_assert_eq!(read.is_ok(), code == 1 || (code == 2 && is_name));
        }
    }
}
