//! Messages of two linked nodes about memory that one of them shares: they connect a queue pair
//! for it, and name the keys under which it is reached.

use std::fmt;

use zeroize::Zeroizing;

use super::codec::{self, Malformed, Reader};
use crate::cause::NotShared;
use crate::fabric::one_sided::{Access, Key};
use crate::id::ShareId;
use crate::limits;
use crate::text;

/// A message about shared memory, as part of SHARING.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Asks the node that dialled, which begins, to connect a queue pair.
    Want,
    /// Tells what the peer's queue pair needs to know of the sender's; the first one is of the node
    /// that dialled.
    Offer {
        /// The number of the queue pair, higher than the number of the sender's last one.
        number: u32,
        /// The fabric's part, at most `OFFER_BYTES_MAX` bytes.
        queue_pair: Zeroizing<Vec<u8>>,
    },
    /// The sender's queue pair is connected: the peer may operate.
    Connected {
        /// Its number.
        number: u32,
        /// A word of the sender that the peer can read as a fence: the peer's earlier writes are in
        /// place when that read is done, and not before.
        fence: Option<Key>,
    },
    /// The sender has no queue pair, or none any more.
    Unable {
        /// Its number.
        number: u32,
        /// The reason, for an error of the peer.
        reason: String,
    },
    /// Asks for the key of shared memory.
    Ask(ShareId),
    /// Answers ASK.
    Granted {
        /// The memory.
        share: ShareId,
        /// The name by which the queue pair knows it.
        key: Key,
        /// Its size in bytes.
        bytes: u64,
        /// The access that the peer has.
        access: Access,
        /// The memory would also be shared for atomic operations, but another executor does them.
        is_elsewhere: bool,
    },
    /// Answers ASK: there is no access.
    Denied {
        /// The memory.
        share: ShareId,
        /// The reason.
        why: Denial,
    },
    /// The sender ends the sharing of this memory: the peer begins no more operations on it.
    Revoke(ShareId),
    /// Answers REVOKE, when no operation on the memory is under way.
    Revoked(ShareId),
    /// The sender is at an ASK that it has not answered.
    Later,
}

/// The reason why a peer has no access to the memory that it asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denial {
    NotShared(NotShared),
    /// The fabric cannot give it, for this reason.
    Unable(String),
}

/// The reasons in DENIED, from 1 on; 0 says that a text follows.
const NOT_SHARED: [NotShared; 3] = [NotShared::Unknown, NotShared::Revoked, NotShared::Expired];

/// The kinds, as the first byte says.
mod kind {
    pub(super) const WANT: u8 = 0;
    pub(super) const OFFER: u8 = 1;
    pub(super) const CONNECTED: u8 = 2;
    pub(super) const UNABLE: u8 = 3;
    pub(super) const ASK: u8 = 4;
    pub(super) const GRANTED: u8 = 5;
    pub(super) const DENIED: u8 = 6;
    pub(super) const REVOKE: u8 = 7;
    pub(super) const REVOKED: u8 = 8;
    pub(super) const LATER: u8 = 9;
}

/// The bit beside an access that says that another executor does the atomic operations.
const ELSEWHERE: u8 = 8;

/// The kinds of questions that the peer answers; the bound on unanswered ones is for each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    Ask,
    /// Counted separately, because the peer may take its time to let go of the memory.
    Revoke,
}

impl Question {
    /// Returns the message that asks it.
    pub(crate) fn about(self, share: ShareId) -> Sharing {
        match self {
            Question::Ask => Sharing::Ask(share),
            Question::Revoke => Sharing::Revoke(share),
        }
    }
}

impl Sharing {
    /// Returns true if it answers a question of the peer.
    pub(crate) fn is_answer(&self) -> bool {
        use Sharing::*;
        matches!(self, Granted { .. } | Denied { .. } | Revoked(_))
    }

    /// Returns true if it says that there is no queue pair.
    pub(crate) fn is_unable(&self) -> bool {
        matches!(self, Sharing::Unable { .. })
    }

    /// Appends its bytes. An offer comes last: the buffer does not grow after it.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let put = |out: &mut Vec<u8>, kind: u8, share: &ShareId| {
            out.push(kind);
            out.extend(share.0.to_le_bytes());
        };
        match self {
            Sharing::Want => out.push(kind::WANT),
            Sharing::Offer { number, queue_pair } => {
                out.push(kind::OFFER);
                out.extend(number.to_le_bytes());
                out.extend((queue_pair.len() as u16).to_le_bytes());
                out.extend_from_slice(queue_pair);
            }
            Sharing::Connected { number, fence } => {
                out.push(kind::CONNECTED);
                out.extend(number.to_le_bytes());
                out.push(u8::from(fence.is_some()));
                if let Some(key) = fence {
                    put_key(out, key);
                }
            }
            Sharing::Unable { number, reason } => {
                out.push(kind::UNABLE);
                out.extend(number.to_le_bytes());
                codec::put_text(out, &text::of_peer(reason, usize::MAX));
            }
            Sharing::Ask(share) => put(out, kind::ASK, share),
            Sharing::Granted { share, key, bytes, access, is_elsewhere } => {
                put(out, kind::GRANTED, share);
                put_key(out, key);
                out.extend(bytes.to_le_bytes());
                out.push(access.bits() | (u8::from(*is_elsewhere) * ELSEWHERE));
            }
            Sharing::Denied { share, why } => {
                put(out, kind::DENIED, share);
                match why {
                    Denial::NotShared(why) => out.push(1 + *why as u8),
                    Denial::Unable(reason) => {
                        out.push(0);
                        codec::put_text(out, &text::of_peer(reason, usize::MAX));
                    }
                }
            }
            Sharing::Revoke(share) => put(out, kind::REVOKE, share),
            Sharing::Revoked(share) => put(out, kind::REVOKED, share),
            Sharing::Later => out.push(kind::LATER),
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match reader.u8()? {
            kind::WANT => Sharing::Want,
            kind::OFFER => {
                let (number, length) = (reader.u32()?, reader.u16()?);
                if usize::from(length) > limits::OFFER_BYTES_MAX {
                    return Err(bad("length of a queue pair's offer", length));
                }
                let queue_pair = Zeroizing::new(reader.bytes(length.into())?.to_vec());
                Sharing::Offer { number, queue_pair }
            }
            kind::CONNECTED => {
                let number = reader.u32()?;
                let fence = match reader.u8()? {
                    0 => None,
                    1 => Some(key(reader)?),
                    other => return Err(bad("whether there is a fence", other)),
                };
                Sharing::Connected { number, fence }
            }
            kind::UNABLE => {
                Sharing::Unable { number: reader.u32()?, reason: reader.text("reason")? }
            }
            kind::ASK => Sharing::Ask(ShareId(reader.u128()?)),
            kind::GRANTED => {
                let share = ShareId(reader.u128()?);
                let key = key(reader)?;
                let (bytes, bits) = (reader.u64()?, reader.u8()?);
                let is_elsewhere = bits & ELSEWHERE != 0;
                let access = Access::from_bits(bits & !ELSEWHERE);
                let access = access.filter(|access| !(access.atomic && is_elsewhere));
                let access = access.ok_or_else(|| bad("access", bits))?;
                Sharing::Granted { share, key, bytes, access, is_elsewhere }
            }
            kind::DENIED => {
                let share = ShareId(reader.u128()?);
                let why = match usize::from(reader.u8()?) {
                    0 => Denial::Unable(reader.text("reason")?),
                    nth => {
                        let why = NOT_SHARED.get(nth - 1).copied();
                        Denial::NotShared(why.ok_or_else(|| bad("reason for DENIED", nth as u64))?)
                    }
                };
                Sharing::Denied { share, why }
            }
            kind::REVOKE => Sharing::Revoke(ShareId(reader.u128()?)),
            kind::REVOKED => Sharing::Revoked(ShareId(reader.u128()?)),
            kind::LATER => Sharing::Later,
            other => return Err(bad("kind of message about shared memory", other)),
        })
    }
}

fn put_key(out: &mut Vec<u8>, key: &Key) {
    out.extend(key.number.to_le_bytes());
    out.extend(key.base.to_le_bytes());
}

fn key(reader: &mut Reader<'_>) -> Result<Key, Malformed> {
    Ok(Key { number: reader.u32()?, base: reader.u64()? })
}

fn bad(what: &'static str, value: impl Into<u64>) -> Malformed {
    Malformed::Number { what, value: value.into() }
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Offers and keys are secret, and so are the numbers of shares.
        f.write_str(match self {
            Sharing::Want => "Want",
            Sharing::Offer { .. } => "Offer",
            Sharing::Connected { .. } => "Connected",
            Sharing::Unable { .. } => "Unable",
            Sharing::Ask(_) => "Ask",
            Sharing::Granted { .. } => "Granted",
            Sharing::Denied { .. } => "Denied",
            Sharing::Revoke(_) => "Revoke",
            Sharing::Revoked(_) => "Revoked",
            Sharing::Later => "Later",
        })
    }
}
