//! The messages of two proven nodes to each other, and their bytes.

use std::fmt;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::id::{Incarnation, NodeId, NodeName};
use crate::limits;
use crate::proto::error::Refusal;
use crate::proto::fate::Refused;
use crate::text;

use super::codec::{self, Malformed, Reader};
use super::rejection::Rejection;
use super::sharing::Sharing;

/// A message of a bootstrap connection, sealed by its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// Names the sender. The first message of each side, and no other.
    Hello(Hello),
    /// The lower-named node chose this connection for the link.
    Commit {
        /// The link's number; 0 is none.
        epoch: u64,
    },
    /// Tells what the sender consumed of the last link.
    Resync(Resync),
    /// Tells what the peer's queue pair needs to know of the sender's.
    Offer(OfferMade),
    /// The sender gives up this fabric, or this way to try it.
    Pass {
        /// The fabric.
        fabric: String,
        /// True if there is another way to try the same fabric.
        again: bool,
        /// The reason, for the peer's log.
        reason: String,
    },
    /// The sender's queue pair is connected: frames may be sent to it.
    Connected {
        /// The fabric.
        fabric: String,
    },
    /// Frames went through in both directions: the link stands, as far as the sender can see.
    Ready {
        /// The fabric.
        fabric: String,
    },
    /// Shows that the sender lives, and may ask for something.
    Heartbeat(Beat),
    /// Asks where this node can be dialled.
    WhoIs(NodeName),
    /// Answers WHO_IS; without an address if the sender knows none.
    Known {
        /// The node.
        name: NodeName,
        /// Where it can be dialled.
        addresses: Vec<String>,
    },
    /// Says something about shared memory.
    Sharing(Sharing),
    /// The sender's side of the link ended.
    Bye(Parting),
    /// The sender does not want this connection, or no longer.
    Reject(Rejection),
}

/// A node, as it names itself to its peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Its name and run.
    pub(crate) node: NodeId,
    /// The addresses at which it can be dialled.
    pub(crate) addresses: Vec<String>,
    /// The fabrics that it can carry a link over, best first.
    pub(crate) fabrics: Vec<String>,
    /// The times of its heartbeats.
    pub(crate) times: Times,
    /// Its abilities beyond the version: [`feature`]s, and bits that this node does not know.
    pub(crate) features: u64,
}

/// The feature bits of HELLO.
pub(crate) mod feature {
    /// It takes SHARING.
    pub(crate) const SHARED_MEMORY: u64 = 1;
    /// The abilities of this node.
    pub(crate) const ALL: u64 = SHARED_MEMORY;
}

/// The times of a node's heartbeats: how often it sends them, and how long it asks others to bear
/// its silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// Time between two heartbeats, within the limits; of two nodes the longer one counts.
    pub(crate) heartbeat: Duration,
    /// Silence after which others may take it for down: at least three heartbeats.
    pub(crate) down_after: Duration,
}

/// A fabric's offer, with numbers within the limits.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct OfferMade {
    /// The fabric.
    pub(crate) fabric: String,
    /// Receive slots posted: 8 to `RING_SLOTS_MAX`.
    pub(crate) ring_slots: u32,
    /// Bytes of each: `SLOT_BYTES_MIN` to `SLOT_BYTES_MAX`, a multiple of 16.
    pub(crate) slot_bytes: u32,
    /// Largest message taken, in bytes: 1 to `i32::MAX`.
    pub(crate) message_bytes_max: u32,
    /// Bytes that may wait in all mailboxes together: 1 to `i32::MAX`.
    pub(crate) link_window_bytes: u32,
    /// The fabric's own part: at most `OFFER_BYTES_MAX` bytes, with a part of the key of the data
    /// connection if that is sealed.
    pub(crate) queue_pair: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for OfferMade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The fabric's own part is secret: the token of a data connection, and its key.
        f.debug_struct("OfferMade").field("fabric", &self.fabric).finish_non_exhaustive()
    }
}

/// A part of what a node consumed of the last link to the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resync {
    /// The number of the link; 0 if the sender has nothing to say of any.
    pub(crate) epoch: u64,
    /// Frames, as the wrapping count.
    pub(crate) consumed: u32,
    /// Refusals: at most `RESYNC_REFUSALS_MAX`.
    pub(crate) refusals: Vec<Refused>,
    /// True if another part follows.
    pub(crate) more: bool,
}

/// The kind of a heartbeat, by its number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beat {
    /// Says that the sender lives.
    Plain = 0,
    /// Asks for an answer at once.
    Question = 1,
    /// Answers a question.
    Answer = 2,
    /// Says that the sender's end of the link stands still for now.
    Stalled = 3,
    /// Asks that nothing more be asked of the sender, whose node is shutting down.
    Leaving = 4,
    /// Asks that the link be closed, which the sender does not use: it begins nothing on it now.
    Idle = 5,
    /// Says that the sender goes on using the link, which the other side would have closed.
    Busy = 6,
    /// Asks that the link be closed, so that a better fabric can carry the next one: as IDLE, the
    /// sender begins nothing on it now.
    Better = 7,
}

/// The end of the sender's side of a link, by its number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parting {
    /// It was lost.
    Lost = 0,
    /// It ended after a goodbye.
    Left = 1,
    /// It ended after a goodbye, because neither side used it.
    Idle = 2,
}

/// The kinds of message, as the first byte of each says.
mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const COMMIT: u8 = 2;
    pub(super) const OFFER: u8 = 3;
    pub(super) const PASS: u8 = 4;
    pub(super) const READY: u8 = 5;
    pub(super) const HEARTBEAT: u8 = 6;
    pub(super) const WHO_IS: u8 = 7;
    pub(super) const KNOWN: u8 = 8;
    pub(super) const BYE: u8 = 9;
    pub(super) const REJECT: u8 = 10;
    pub(super) const RESYNC: u8 = 11;
    pub(super) const CONNECTED: u8 = 12;
    pub(super) const SHARING: u8 = 13;
}

impl Message {
    /// Returns its name, for errors.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Message::Hello(_) => "HELLO",
            Message::Commit { .. } => "COMMIT",
            Message::Resync(_) => "RESYNC",
            Message::Offer(_) => "OFFER",
            Message::Pass { .. } => "PASS",
            Message::Ready { .. } => "READY",
            Message::Connected { .. } => "CONNECTED",
            Message::Heartbeat(_) => "HEARTBEAT",
            Message::WhoIs(_) => "WHO_IS",
            Message::Known { .. } => "KNOWN",
            Message::Sharing(_) => "SHARING",
            Message::Bye(_) => "BYE",
            Message::Reject(_) => "REJECT",
        }
    }

    /// Returns its bytes. An offer's part of a key comes last: the buffer does not grow after it,
    /// so no other copy of it is left.
    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(64));
        match self {
            Message::Hello(hello) => hello.encode(&mut out),
            Message::Commit { epoch } => {
                out.push(kind::COMMIT);
                out.extend(epoch.to_le_bytes());
            }
            Message::Resync(resync) => resync.encode(&mut out),
            Message::Offer(offer) => offer.encode(&mut out),
            Message::Pass { fabric, again, reason } => {
                out.push(kind::PASS);
                codec::put_text(&mut out, fabric);
                out.push(u8::from(*again));
                codec::put_text(&mut out, &text::of_peer(reason, usize::MAX));
            }
            Message::Ready { fabric } => {
                out.push(kind::READY);
                codec::put_text(&mut out, fabric);
            }
            Message::Heartbeat(beat) => out.extend([kind::HEARTBEAT, *beat as u8]),
            Message::WhoIs(name) => {
                out.push(kind::WHO_IS);
                codec::put_text(&mut out, name.as_str());
            }
            Message::Known { name, addresses } => {
                out.push(kind::KNOWN);
                codec::put_text(&mut out, name.as_str());
                codec::put_texts(&mut out, addresses, codec::ADDRESSES_MAX);
            }
            Message::Sharing(sharing) => {
                out.push(kind::SHARING);
                sharing.encode(&mut out);
            }
            Message::Bye(parting) => out.extend([kind::BYE, *parting as u8]),
            Message::Reject(rejection) => out.extend([kind::REJECT, rejection.code()]),
            Message::Connected { fabric } => {
                out.push(kind::CONNECTED);
                codec::put_text(&mut out, fabric);
            }
        }
        out
    }

    /// Parses the bytes of one message.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let message = match reader.u8()? {
            kind::HELLO => Message::Hello(Hello::decode(&mut reader)?),
            kind::COMMIT => Message::Commit { epoch: reader.u64()? },
            kind::OFFER => Message::Offer(OfferMade::decode(&mut reader)?),
            kind::PASS => Message::Pass {
                fabric: reader.fabric_name()?,
                again: flag("mark of another way", reader.u8()?)?,
                reason: reader.text("reason")?,
            },
            kind::READY => Message::Ready { fabric: reader.fabric_name()? },
            kind::HEARTBEAT => Message::Heartbeat(Beat::of(reader.u8()?)?),
            kind::WHO_IS => Message::WhoIs(reader.node_name()?),
            kind::KNOWN => {
                Message::Known { name: reader.node_name()?, addresses: reader.addresses()? }
            }
            kind::BYE => Message::Bye(Parting::of(reader.u8()?)?),
            kind::REJECT => Message::Reject(Rejection::from_code(reader.u8()?)?),
            kind::RESYNC => Message::Resync(Resync::decode(&mut reader)?),
            kind::CONNECTED => Message::Connected { fabric: reader.fabric_name()? },
            kind::SHARING => Message::Sharing(Sharing::decode(&mut reader)?),
            other => return Err(Malformed::MessageKind(other)),
        };
        reader.finish()?;
        Ok(message)
    }
}

impl Beat {
    const ALL: [Beat; 8] = [
        Beat::Plain,
        Beat::Question,
        Beat::Answer,
        Beat::Stalled,
        Beat::Leaving,
        Beat::Idle,
        Beat::Busy,
        Beat::Better,
    ];

    fn of(code: u8) -> Result<Self, Malformed> {
        let beat = Beat::ALL.into_iter().find(|beat| *beat as u8 == code);
        beat.ok_or_else(|| number("kind of heartbeat", code))
    }
}

impl Parting {
    const ALL: [Parting; 3] = [Parting::Lost, Parting::Left, Parting::Idle];

    fn of(code: u8) -> Result<Self, Malformed> {
        let parting = Parting::ALL.into_iter().find(|parting| *parting as u8 == code);
        parting.ok_or_else(|| number("kind of end", code))
    }
}

impl Hello {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(kind::HELLO);
        codec::put_text(out, self.node.name.as_str());
        out.extend(self.node.incarnation.0.to_le_bytes());
        out.extend(self.features.to_le_bytes());
        self.times.encode(out);
        codec::put_texts(out, &self.addresses, codec::ADDRESSES_MAX);
        codec::put_texts(out, &self.fabrics, codec::FABRICS_MAX);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let name = reader.node_name()?;
        let incarnation = Incarnation(reader.u128()?);
        let features = reader.u64()?;
        let times = Times::decode(reader)?;
        let addresses = reader.addresses()?;
        let fabrics = reader.list("number of fabrics", codec::FABRICS_MAX, Reader::fabric_name)?;
        Ok(Hello { node: NodeId { name, incarnation }, addresses, fabrics, times, features })
    }
}

impl Default for Times {
    fn default() -> Self {
        Times { heartbeat: limits::HEARTBEAT_INTERVAL, down_after: limits::DOWN_AFTER }
    }
}

impl Times {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend((self.heartbeat.as_millis() as u32).to_le_bytes());
        out.extend((self.down_after.as_millis() as u64).to_le_bytes());
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let heartbeat = Duration::from_millis(reader.u32()?.into());
        let bounds = limits::HEARTBEAT_INTERVAL_MIN..=limits::HEARTBEAT_INTERVAL_MAX;
        if !bounds.contains(&heartbeat) {
            return Err(number("time between heartbeats", heartbeat.as_millis() as u64));
        }
        let down_after = Duration::from_millis(reader.u64()?);
        if down_after < heartbeat * limits::HEARTBEATS_MISSED_MAX {
            return Err(number("time of silence", down_after.as_millis() as u64));
        }
        Ok(Times { heartbeat, down_after })
    }
}

impl Resync {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(kind::RESYNC);
        out.extend(self.epoch.to_le_bytes());
        out.extend(self.consumed.to_le_bytes());
        out.push(u8::from(self.more));
        out.extend((self.refusals.len() as u16).to_le_bytes());
        for Refused { frame, place, refusal } in &self.refusals {
            out.extend(frame.to_le_bytes());
            out.extend(place.to_le_bytes());
            out.extend((*refusal as u16).to_le_bytes());
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let epoch = reader.u64()?;
        let consumed = reader.u32()?;
        let more = flag("mark of a part", reader.u8()?)?;
        let count = reader.u16()?;
        if usize::from(count) > limits::RESYNC_REFUSALS_MAX {
            return Err(number("number of refusals", count));
        }
        let mut refusals = Vec::with_capacity(count.into());
        for _ in 0..count {
            let (frame, place, code) = (reader.u32()?, reader.u16()?, reader.u16()?);
            let refusal = Refusal::of(code).map_err(|_| number("kind of refusal", code))?;
            refusals.push(Refused { frame, place, refusal });
        }
        Ok(Resync { epoch, consumed, refusals, more })
    }
}

impl OfferMade {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(kind::OFFER);
        codec::put_text(out, &self.fabric);
        out.extend(self.ring_slots.to_le_bytes());
        out.extend(self.slot_bytes.to_le_bytes());
        out.extend(self.message_bytes_max.to_le_bytes());
        out.extend(self.link_window_bytes.to_le_bytes());
        out.extend((self.queue_pair.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.queue_pair);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let fabric = reader.fabric_name()?;
        let ring_slots = reader.u32()?;
        let slot_bytes = reader.u32()?;
        let message_bytes_max = reader.u32()?;
        let link_window_bytes = reader.u32()?;
        let length = reader.u16()?;
        if usize::from(length) > limits::OFFER_BYTES_MAX {
            return Err(number("length of a queue pair's offer", length));
        }
        let queue_pair = Zeroizing::new(reader.bytes(length.into())?.to_vec());
        if !(limits::RING_SLOTS_MIN..=limits::RING_SLOTS_MAX).contains(&ring_slots) {
            return Err(number("number of ring slots", ring_slots));
        }
        if !(limits::SLOT_BYTES_MIN..=limits::SLOT_BYTES_MAX).contains(&slot_bytes)
            || !slot_bytes.is_multiple_of(limits::PAYLOAD_ALIGN as u32)
        {
            return Err(number("slot size", slot_bytes));
        }
        if !(1..=i32::MAX as u32).contains(&message_bytes_max) {
            return Err(number("size limit of messages", message_bytes_max));
        }
        if !(1..=i32::MAX as u32).contains(&link_window_bytes) {
            return Err(number("window of a link", link_window_bytes));
        }
        Ok(OfferMade {
            fabric,
            ring_slots,
            slot_bytes,
            message_bytes_max,
            link_window_bytes,
            queue_pair,
        })
    }
}

/// Returns the flag that a byte stands for.
fn flag(what: &'static str, byte: u8) -> Result<bool, Malformed> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(number(what, other)),
    }
}

fn number(what: &'static str, value: impl Into<u64>) -> Malformed {
    Malformed::Number { what, value: value.into() }
}
