//! Mailboxes of the peer, as their senders see them.
//!
//! An [`Outlet`] is a request for a mailbox, by name or identity, and how far it got. A
//! [`RemoteMailbox`] is a mailbox of the peer that is open. Two outlets that the peer answers with
//! the same mailbox share one `RemoteMailbox`, and so its window and its order.
//!
//! - **OU-3 gone is gone**: after CLOSED a mailbox takes nothing more; what waited for it is told.
//!
//! While a request is being opened or is open, it is not sent again, except for a look-up: its OPEN
//! is written after it began, so that it finds the mailbox of that time. Nothing is sent to a
//! mailbox before it is known which messages it accepts.
//!
//! When a sender that waits for nothing tried an opening and it was refused, each later try is told
//! so until an opening succeeds. As many refusals are kept as mailboxes may be opened at once; the
//! oldest gives way.

use std::sync::Arc;

use super::header::{u32_at, u64_at, u128_at};
use super::window::{Count, SendWindow, WindowSize};
use crate::close_reason::CloseReason;
use crate::id::Incarnation;
use crate::limits;
use crate::open_request::{Accepted, OpenRequest, Target};
use crate::proto::error::Violation;

/// A request for a mailbox, and how far it got.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, Hash))]
pub(crate) struct Outlet {
    pub(crate) request: Arc<OpenRequest>,
    pub(crate) state: OpenState,
    /// A sender that does not wait found it closed: it looks again.
    pub(crate) tried: bool,
    /// It is of look-ups alone, and gone when it is answered.
    pub(crate) is_look_up: bool,
}

/// The state of a request.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, Hash))]
pub(crate) enum OpenState {
    /// OPEN was not written yet: the peer has nothing to answer.
    Unasked,
    /// OPEN was written; these bytes of the description have come.
    Opening(Vec<u8>),
    /// It is open, at this mailbox.
    Open(u32),
}

/// An opened mailbox of the peer.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, Hash))]
pub(crate) struct RemoteMailbox {
    pub(crate) request: Arc<OpenRequest>,
    /// The outlets that turned out to be this mailbox.
    pub(crate) outlets: Vec<u32>,
    /// Its identity on the peer, with that run of it.
    pub(crate) id: u64,
    pub(crate) index: u32,
    pub(crate) generation: u32,
    pub(crate) accepted: Arc<[Accepted]>,
    pub(crate) window: SendWindow,
    /// Signals ahead of messages that wait to be written; few, each once.
    pub(crate) urgent: Vec<u16>,
    /// Messages of this mailbox in the bulk queue: while there are any, all go there (order).
    pub(crate) bulk: u32,
    /// The peer was told that this mailbox waits.
    pub(crate) blocked: bool,
    /// The mailbox is closed (OU-3).
    pub(crate) closed: bool,
    /// Why, as the peer said.
    pub(crate) end: CloseReason,
    /// Messages with room reserved, queued or without a fate, and urgent signals; the mailbox stays
    /// until there are none.
    pub(crate) uses: u32,
}

/// The description of a mailbox that OPENED carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) window: WindowSize,
    /// Messages and bytes that wait there from earlier links (WI-4).
    pub(crate) carried: Count,
    /// The identity of the mailbox, with the run of its node.
    pub(crate) id: u64,
    pub(crate) accepted: Vec<Accepted>,
}

const HEAD: usize = 32;
const ROW: usize = 48;

impl Description {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + ROW * self.accepted.len());
        out.extend_from_slice(&self.window.messages.to_le_bytes());
        out.extend_from_slice(&self.window.bytes.to_le_bytes());
        out.extend_from_slice(&(self.accepted.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.carried.messages.to_le_bytes());
        out.extend_from_slice(&self.carried.bytes.to_le_bytes());
        out.extend_from_slice(&self.id.to_le_bytes());
        for row in &self.accepted {
            for number in [row.id, row.layout, row.reply] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        out
    }

    /// Most bytes a description may have.
    pub(crate) const BYTES_MAX: usize = HEAD + ROW * limits::ACCEPTED_MAX;

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let (head, rows) = bytes.split_first_chunk::<HEAD>().ok_or(Violation::Opening)?;
        let window = WindowSize { messages: u32_at(head, 0), bytes: u32_at(head, 4) };
        let count = u32_at(head, 8) as usize;
        let carried = Count { messages: u32_at(head, 12), bytes: u64_at(head, 16) };
        let id = u64_at(head, 24);
        if rows.len() != count.saturating_mul(ROW) || window.messages == 0 {
            return Err(Violation::Opening);
        }
        let accepted = rows
            .chunks_exact(ROW)
            .map(|row| Accepted {
                id: u128_at(row, 0),
                layout: u128_at(row, 16),
                reply: u128_at(row, 32),
            })
            .collect();
        Ok(Description { window, carried, id, accepted })
    }
}

/// Returns the payload of OPEN: the expected kind, then the target.
pub(crate) fn encode_request(request: &OpenRequest) -> Vec<u8> {
    let mut out = request.kind.to_le_bytes().to_vec();
    match &request.target {
        Target::Name(name) => {
            out.push(0);
            out.extend_from_slice(name.as_bytes());
        }
        Target::Identity { incarnation, id } => {
            out.push(1);
            out.extend_from_slice(&incarnation.0.to_le_bytes());
            out.extend_from_slice(&id.to_le_bytes());
        }
    }
    out
}

/// Reads the payload of OPEN.
pub(crate) fn decode_request(bytes: &[u8]) -> Result<OpenRequest, Violation> {
    let (kind, rest) = bytes.split_first_chunk::<16>().ok_or(Violation::Opening)?;
    let (tag, rest) = rest.split_first().ok_or(Violation::Opening)?;
    let target = match (tag, rest.len()) {
        (0, 1..=limits::MAILBOX_NAME_BYTES_MAX) => {
            let name = std::str::from_utf8(rest).map_err(|_| Violation::Opening)?;
            Target::Name(name.to_owned())
        }
        (1, 24) => {
            Target::Identity { incarnation: Incarnation(u128_at(rest, 0)), id: u64_at(rest, 16) }
        }
        _ => return Err(Violation::Opening),
    };
    Ok(OpenRequest::new(target, u128::from_le_bytes(*kind)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_survive_the_wire(
            name in "[a-zé/]{1,40}", kind: u128, incarnation: u128, id: u64,
        ) {
            let identity = Target::Identity { incarnation: Incarnation(incarnation), id };
            for target in [Target::Name(name), identity] {
                let request = OpenRequest::new(target, kind);
                let bytes = encode_request(&request);
                prop_assert_eq!(decode_request(&bytes), Ok(request));
                prop_assert!(decode_request(&bytes[..16]).is_err());
            }
        }

        #[test]
        fn descriptions_survive_the_wire(
            rows in proptest::collection::vec(any::<[u128; 3]>(), 0..9), id: u64,
        ) {
            let accepted =
                rows.iter().map(|r| Accepted { id: r[0], layout: r[1], reply: r[2] }).collect();
            let window = WindowSize { messages: 3, bytes: 9 };
            let carried = Count { messages: 2, bytes: 1 << 33 };
            let description = Description { window, carried, id, accepted };
            let bytes = description.encode();
            prop_assert_eq!(Description::decode(&bytes), Ok(description));
            for cut in 0..bytes.len() {
                prop_assert!(Description::decode(&bytes[..cut]).is_err());
            }
        }

        #[test]
        fn hostile_openings_are_errors_not_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let _ = decode_request(&bytes);
            let _ = Description::decode(&bytes);
        }
    }
}
