//! Messages of two linked nodes about memory that one of them shares: they name the keys under
//! which it is reached.

use std::fmt;

use super::codec::{self, Malformed, Reader};
use crate::cause::NotShared;
use crate::fabric::one_sided::{Access, Key};
use crate::id::ShareId;
use crate::text;

/// A message about shared memory, as part of SHARING.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Names a word of the sender that the peer can read as a fence: the peer's earlier writes are
    /// in place when that read is done, and not before. Comes before the first GRANTED, if it does.
    Fence(Key),
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
    pub(super) const FENCE: u8 = 0;
    pub(super) const ASK: u8 = 1;
    pub(super) const GRANTED: u8 = 2;
    pub(super) const DENIED: u8 = 3;
    pub(super) const REVOKE: u8 = 4;
    pub(super) const REVOKED: u8 = 5;
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

    /// Appends its bytes.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let put = |out: &mut Vec<u8>, kind: u8, share: &ShareId| {
            out.push(kind);
            out.extend(share.0.to_le_bytes());
        };
        match self {
            Sharing::Fence(key) => {
                out.push(kind::FENCE);
                put_key(out, key);
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
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match reader.u8()? {
            kind::FENCE => Sharing::Fence(key(reader)?),
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
        // Keys are secret, and so are the numbers of shares.
        f.write_str(match self {
            Sharing::Fence(_) => "Fence",
            Sharing::Ask(_) => "Ask",
            Sharing::Granted { .. } => "Granted",
            Sharing::Denied { .. } => "Denied",
            Sharing::Revoke(_) => "Revoke",
            Sharing::Revoked(_) => "Revoked",
        })
    }
}
