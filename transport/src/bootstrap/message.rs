//! What two proven nodes say to each other, and its bytes.

use std::fmt;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::id::{Incarnation, NodeId, NodeName};
use crate::limits;
use crate::proto::error::Refusal;
use crate::proto::fate::Refused;

use super::codec::{self, Malformed, Reader};
use super::rejection::Rejection;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// Who the sender is. The first message of each side, and only that.
    Hello(Hello),
    /// The lower-named node chose this connection for the link.
    Commit {
        /// The link's number; 0 is none.
        epoch: u64,
    },
    /// What the sender consumed of the last link.
    Resync(Resync),
    /// What the sender's queue pair needs from the peer's.
    Offer(OfferMade),
    /// The sender gives up this fabric, or this way to try it.
    Pass {
        /// The fabric.
        fabric: String,
        /// There is another way to try the same fabric.
        again: bool,
        /// Why, for the peer's log.
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
    /// The sender lives.
    Heartbeat(Beat),
    /// Where is this node?
    WhoIs(NodeName),
    /// It is there; no address: the sender does not know.
    Known {
        /// The node.
        name: NodeName,
        /// Where it can be dialled.
        addresses: Vec<String>,
    },
    /// The sender's side of the link ended.
    Bye(Parting),
    /// The sender does not want this connection, or no longer.
    Reject(Rejection),
}

/// Who a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Its name and run.
    pub(crate) node: NodeId,
    /// Where it can be dialled.
    pub(crate) addresses: Vec<String>,
    /// What it can carry a link over, best first.
    pub(crate) fabrics: Vec<String>,
    /// Its heartbeats.
    pub(crate) times: Times,
}

/// How often a node sends heartbeats, and how long it asks others to bear its silence.
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
    /// Which link; 0: the sender has nothing to say of any.
    pub(crate) epoch: u64,
    /// Frames, as the wrapping count.
    pub(crate) consumed: u32,
    /// Refusals: at most `RESYNC_REFUSALS_MAX`.
    pub(crate) refusals: Vec<Refused>,
    /// Whether another part follows.
    pub(crate) more: bool,
}

/// What a heartbeat asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beat {
    /// Nothing.
    Plain,
    /// An answer at once.
    Question,
    /// It is one.
    Answer,
    /// Nothing; the sender's end of the link stands still for now.
    Stalled,
    /// That nothing more is asked of the sender, whose node is shutting down.
    Leaving,
    /// That the link is closed, which the sender does not use: it begins nothing on it now.
    Idle,
    /// Nothing; the sender goes on using the link, which the other side would have closed.
    Busy,
}

/// How the sender's side of a link ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parting {
    /// It was lost.
    Lost,
    /// After a goodbye.
    Left,
    /// After a goodbye, for neither side used it.
    Idle,
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
                out.push(2);
                out.extend(epoch.to_le_bytes());
            }
            Message::Resync(resync) => resync.encode(&mut out),
            Message::Offer(offer) => offer.encode(&mut out),
            Message::Pass { fabric, again, reason } => {
                out.push(4);
                codec::put_text(&mut out, fabric);
                out.push(u8::from(*again));
                codec::put_text(&mut out, &reason.replace(char::is_control, " "));
            }
            Message::Ready { fabric } => {
                out.push(5);
                codec::put_text(&mut out, fabric);
            }
            Message::Heartbeat(beat) => out.extend([6, *beat as u8]),
            Message::WhoIs(name) => {
                out.push(7);
                codec::put_text(&mut out, name.as_str());
            }
            Message::Known { name, addresses } => {
                out.push(8);
                codec::put_text(&mut out, name.as_str());
                codec::put_texts(&mut out, addresses, codec::ADDRESSES_MAX);
            }
            Message::Bye(parting) => out.extend([9, *parting as u8]),
            Message::Reject(rejection) => out.extend([10, rejection.code()]),
            Message::Connected { fabric } => {
                out.push(12);
                codec::put_text(&mut out, fabric);
            }
        }
        out
    }

    /// Parses the bytes of one message.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let message = match reader.u8()? {
            1 => Message::Hello(Hello::decode(&mut reader)?),
            2 => Message::Commit { epoch: reader.u64()? },
            3 => Message::Offer(OfferMade::decode(&mut reader)?),
            4 => Message::Pass {
                fabric: reader.fabric_name()?,
                again: match reader.u8()? {
                    0 => false,
                    1 => true,
                    other => return Err(number("mark of another way", other)),
                },
                reason: reader.text("reason")?,
            },
            5 => Message::Ready { fabric: reader.fabric_name()? },
            6 => Message::Heartbeat(match reader.u8()? {
                0 => Beat::Plain,
                1 => Beat::Question,
                2 => Beat::Answer,
                3 => Beat::Stalled,
                4 => Beat::Leaving,
                5 => Beat::Idle,
                6 => Beat::Busy,
                other => return Err(number("kind of heartbeat", other)),
            }),
            7 => Message::WhoIs(reader.node_name()?),
            8 => Message::Known { name: reader.node_name()?, addresses: reader.addresses()? },
            9 => Message::Bye(match reader.u8()? {
                0 => Parting::Lost,
                1 => Parting::Left,
                2 => Parting::Idle,
                other => return Err(number("kind of end", other)),
            }),
            10 => Message::Reject(Rejection::from_code(reader.u8()?)?),
            11 => Message::Resync(Resync::decode(&mut reader)?),
            12 => Message::Connected { fabric: reader.fabric_name()? },
            other => return Err(Malformed::MessageKind(other)),
        };
        reader.finish()?;
        Ok(message)
    }
}

impl Hello {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(1);
        codec::put_text(out, self.node.name.as_str());
        out.extend(self.node.incarnation.0.to_le_bytes());
        out.extend(0u64.to_le_bytes());
        self.times.encode(out);
        codec::put_texts(out, &self.addresses, codec::ADDRESSES_MAX);
        codec::put_texts(out, &self.fabrics, codec::FABRICS_MAX);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let name = reader.node_name()?;
        let incarnation = Incarnation(reader.u128()?);
        // Feature bits: this version has none, and what it does not know it does not use.
        reader.u64()?;
        let times = Times::decode(reader)?;
        let addresses = reader.addresses()?;
        let fabrics = reader.list("number of fabrics", codec::FABRICS_MAX, Reader::fabric_name)?;
        Ok(Hello { node: NodeId { name, incarnation }, addresses, fabrics, times })
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
        out.push(11);
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
        let more = match reader.u8()? {
            0 => false,
            1 => true,
            other => return Err(number("mark of a part", other)),
        };
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
        out.push(3);
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

fn number(what: &'static str, value: impl Into<u64>) -> Malformed {
    Malformed::Number { what, value: value.into() }
}
