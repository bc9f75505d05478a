//! Sizes and windows of a node's links.

use std::time::Duration;

use crate::limits;
use crate::mutants::planted;

/// Sizes and windows of a node's links. Start from [`Profile::default`] or [`Profile::small`] and
/// change single fields; the profile is checked when the node starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Receive slots posted for each peer from the start: 8 to 4,096; 16 by default.
    pub ring_slots: u32,
    /// How far rings may grow.
    pub ring_growth: RingGrowth,
    /// Bytes of one slot, headers included: 2 KiB to 1 MiB, a multiple of 16; 8,448 by default.
    pub slot_bytes: u32,
    /// Slots that data never takes: at least 1, at most a quarter of the ring; 4 by default.
    pub credit_reserve: u32,
    /// Largest message, in bytes of what the user sends: 1 to 1 GiB, 64 MiB by default; larger ones
    /// to other nodes are refused where they are sent. (Its archive may be larger by 256 bytes and
    /// a thousandth.) The smaller setting of two nodes counts. A message larger than a window is
    /// sent when nothing of this node waits in its mailbox.
    pub message_bytes_max: u32,
    /// Messages that one peer may have waiting in one mailbox: 1 to 2^20, 2,048 by default. Four
    /// times as many on a long path, while the program takes all that comes.
    pub mailbox_window_messages: u32,
    /// Bytes that one peer may have waiting in one mailbox: 1 to 2^31 - 1, 8 MiB by default. Four
    /// times as many on a long path, like the messages.
    pub mailbox_window_bytes: u32,
    /// Bytes that one peer may have waiting in all mailboxes of this node: 1 to 2^31 - 1, 64 MiB by
    /// default.
    pub link_window_bytes: u32,
    /// Links that nodes at one address may have dialled to this one: 1 to 2^20, 1,024 by default.
    /// An IPv6 network of 64 bits counts as one address, and so do all nodes behind one NAT. Links
    /// that this node dials do not count.
    pub links_per_source_max: u32,
    /// Time between two heartbeats on each link: 250 ms to 60 s, 1 s by default. Of two nodes the
    /// longer one counts. A link ends when its peer is silent for three of them, and within five if
    /// both nodes run but the path carries no frames, in one direction or both.
    pub heartbeat_interval: Duration,
    /// Silence after which a node is reported down: at least 3 s and three heartbeats, at most a
    /// year; 8 s by default. Peers are told: of two nodes' values the longer one counts, but a
    /// peer's value as 10 minutes at most.
    pub down_after: Duration,
    /// True, the default: a node is down at once when its connection was closed without a goodbye
    /// and its host then refuses a new one at each address of the node. False: after `down_after`.
    /// Set it to false where proxies, port forwards, firewalls that reject, or address translation
    /// may refuse connections to nodes that live.
    pub down_when_refused: bool,
    /// Time after which a link closes that nothing uses: 1 s to a year; with `None`, the default,
    /// none does. Both nodes have to want it: the longer one counts. A link is used that carries
    /// messages, and one on which a sender, an ask or a wait for an end waits. Reserved room keeps
    /// a link, too; a reference does not. Links are kept to seeds that do not lead to this node,
    /// too, and to nodes that name no address. The other node is not down then, and linked again
    /// when something is sent to it, so each must be able to dial the others. If it shuts down
    /// after the link has closed, this node is not told, and another node may take its name.
    pub idle_close: Option<Duration>,
    /// How long the driver of a link polls for more after messages were carried, before it sleeps
    /// and has to be woken: up to 1 ms; zero, the default, never. Meanwhile other tasks of its
    /// runtime run, but the processor takes no rest; a link on which nothing is sent does not poll.
    /// Links over RDMA poll their device; links over TCP have the runtime poll its sockets. With
    /// fewer cores than threads that want them it makes messages slower. The peer need not do the
    /// same.
    pub spin: Duration,
    /// The large messages that this node lends to others, and reads from them.
    pub lending: Lending,
    /// The core, as the system counts from 0, on which the drivers of all links run, on a thread of
    /// their own that stays on it; `None`, the default: they run on the runtime that the node was
    /// started on. So they get on while the application keeps its threads busy, but each message
    /// wakes a thread. On Linux, and not on a simulated network.
    pub pinned_to: Option<usize>,
}

/// How far the receive rings of a node may grow; part of [`Profile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingGrowth {
    /// Receive slots to which a ring may grow, while a peer has more to send than it has slots for
    /// and the path is idle for it: at least `ring_slots`, at most 4,096. More than 1 MiB only
    /// where the path is so long that they help. 1,024 by default.
    pub slots_max: u32,
    /// Bytes by which all rings of a node together may grow, each by at most as much as it leaves
    /// for others; with 0 none does. 256 MiB by default.
    pub bytes_max: u64,
}

impl Default for RingGrowth {
    fn default() -> Self {
        RingGrowth { slots_max: limits::RING_SLOTS_GROWN, bytes_max: limits::RING_GROWTH_BYTES_MAX }
    }
}

/// The large messages that a node lends, and that it reads from others instead of having them sent
/// in parts; part of [`Profile`]. Peers need not have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lending {
    /// Bytes from which a message stays in the memory of its sender, registered with the device,
    /// until the receiver's device has read it from there: 4 KiB to 4 GiB - 1. `None`, the default:
    /// 128 KiB on links over RDMA, and never on others, where parts in frames are faster. Where
    /// memory cannot be registered large messages go in parts, too.
    pub from: Option<u32>,
    /// Bytes of messages that this node lends at one time, over all links: registered, and so
    /// locked, until their receivers have read them. To one peer it lends as much as it leaves to
    /// others, or all that is left where that has none, and 72 MiB over one link at most. What
    /// finds no room goes in parts; with 0 this node never lends. 256 MiB by default.
    pub lent_bytes_max: u64,
    /// Bytes of memory in which messages land that this node reads from the memory of their
    /// senders, over all links: registered, and so locked, while a message is read or handled, and
    /// for ten seconds after. A peer has as much as it leaves to others, or all that is left where
    /// it has none, and 96 MiB at most; a message that finds no room comes in parts. With 0
    /// this node never reads from others, and all come in parts. 256 MiB by default.
    pub landing_bytes_max: u64,
}

impl Default for Lending {
    fn default() -> Self {
        Lending {
            from: None,
            lent_bytes_max: limits::LENT_BY_NODE_MAX,
            landing_bytes_max: limits::LANDING_OF_NODE_MAX,
        }
    }
}

impl Lending {
    /// Lends nothing, and reads nothing from others: all large messages go in parts.
    pub fn never() -> Self {
        Lending { from: None, lent_bytes_max: 0, landing_bytes_max: 0 }
    }
}

impl Default for Profile {
    fn default() -> Self {
        Profile {
            ring_slots: limits::RING_SLOTS,
            ring_growth: RingGrowth::default(),
            slot_bytes: limits::SLOT_BYTES,
            credit_reserve: limits::CREDIT_RESERVE,
            message_bytes_max: limits::MESSAGE_BYTES_MAX,
            mailbox_window_messages: limits::MAILBOX_WINDOW_MESSAGES,
            mailbox_window_bytes: limits::MAILBOX_WINDOW_BYTES,
            link_window_bytes: limits::LINK_WINDOW_BYTES,
            links_per_source_max: limits::LINKS_PER_SOURCE_MAX,
            heartbeat_interval: limits::HEARTBEAT_INTERVAL,
            down_after: limits::DOWN_AFTER,
            down_when_refused: true,
            idle_close: None,
            spin: Duration::ZERO,
            lending: Lending::default(),
            pinned_to: None,
        }
    }
}

/// A profile that cannot work.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {value}, but must be {must}")]
pub struct InvalidProfile {
    /// Which setting.
    pub what: &'static str,
    /// Its value; of a time with its unit.
    pub value: String,
    /// The condition that it has to meet.
    pub must: String,
}

crate::debug_by_display!(InvalidProfile);

impl Profile {
    /// Half the slot size, for machines with little lockable memory.
    pub fn small() -> Self {
        Profile { slot_bytes: limits::SLOT_BYTES_SMALL, ..Profile::default() }
    }

    /// Links that spin for 20 us after each message, for answers within microseconds: on machines
    /// that have a core to spare for that. All else as by default.
    pub fn latency() -> Self {
        Profile { spin: limits::SPIN, ..Profile::default() }
    }

    /// Checks every setting and how they go together.
    ///
    /// # Errors
    /// [`InvalidProfile`] about the first setting that cannot work.
    pub fn validate(&self) -> Result<(), InvalidProfile> {
        let between = |what, value: u32, low: u32, high: u32| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(InvalidProfile { what, value: value.to_string(), must: format!("{low} to {high}") })
        };
        between("ring_slots", self.ring_slots, 8, limits::RING_SLOTS_MAX)?;
        let grown = self.ring_growth.slots_max;
        between("ring_growth.slots_max", grown, self.ring_slots, limits::RING_SLOTS_MAX)?;
        between("slot_bytes", self.slot_bytes, limits::SLOT_BYTES_MIN, limits::SLOT_BYTES_MAX)?;
        if !self.slot_bytes.is_multiple_of(limits::PAYLOAD_ALIGN as u32) {
            return Err(InvalidProfile {
                what: "slot_bytes",
                value: self.slot_bytes.to_string(),
                must: "a multiple of 16".into(),
            });
        }
        between("credit_reserve", self.credit_reserve, 1, self.ring_slots / 4)?;
        between("message_bytes_max", self.message_bytes_max, 1, limits::MESSAGE_BYTES_MOST)?;
        between("mailbox_window_messages", self.mailbox_window_messages, 1, 1 << 20)?;
        between("mailbox_window_bytes", self.mailbox_window_bytes, 1, i32::MAX as u32)?;
        between("link_window_bytes", self.link_window_bytes, 1, i32::MAX as u32)?;
        between("links_per_source_max", self.links_per_source_max, 1, 1 << 20)?;
        if let Some(from) = self.lending.from {
            between("lending.from", from, limits::LEND_FROM_MIN, u32::MAX)?;
        }
        self.validate_times()
    }

    fn validate_times(&self) -> Result<(), InvalidProfile> {
        let Profile { heartbeat_interval: heartbeat, down_after, .. } = *self;
        let shown = |time: Duration| match time {
            Duration::ZERO => "0s".into(),
            limits::DOWN_AFTER_MAX => "a year".into(),
            time => format!("{time:?}"),
        };
        let between = |what, value: Duration, (low, high): (Duration, Duration), why: &str| {
            if (low..=high).contains(&value) || planted!(UncheckedSilence) {
                return Ok(());
            }
            let must = format!("{} to {}{why}", shown(low), shown(high));
            Err(InvalidProfile { what, value: shown(value), must })
        };
        let bounds = (limits::HEARTBEAT_INTERVAL_MIN, limits::HEARTBEAT_INTERVAL_MAX);
        between("heartbeat_interval", heartbeat, bounds, "")?;
        let silence = heartbeat * limits::HEARTBEATS_MISSED_MAX;
        let bounds = (limits::DOWN_AFTER_MIN.max(silence), limits::DOWN_AFTER_MAX);
        let why = format!(": no less than three heartbeats of {heartbeat:?}");
        between("down_after", down_after, bounds, &why)?;
        between("spin", self.spin, (Duration::ZERO, limits::SPIN_MAX), "")?;
        let bounds = (limits::IDLE_CLOSE_MIN, limits::DOWN_AFTER_MAX);
        let why = ": without it no idle link closes";
        self.idle_close.map_or(Ok(()), |idle| between("idle_close", idle, bounds, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time that no clock can add up would end the task that redials a lost node.
    #[test]
    fn a_silence_longer_than_any_clock_is_refused() {
        let profile = |down_after| Profile { down_after, ..Profile::default() };
        for (down_after, sound) in [
            (Duration::from_millis(2_999), false),
            (Duration::from_secs(3), true),
            (limits::DOWN_AFTER_MAX, true),
            (Duration::MAX, false),
        ] {
            assert_eq!(profile(down_after).validate().is_ok(), sound, "{down_after:?}");
        }
    }

    #[test]
    fn heartbeats_are_bounded_and_a_node_is_not_down_before_three_were_missed() {
        let profile = |heartbeat, down_after| Profile {
            heartbeat_interval: Duration::from_millis(heartbeat),
            down_after: Duration::from_millis(down_after),
            ..Profile::default()
        };
        for (heartbeat, down_after, sound) in [
            (249, 8_000, false),
            (250, 3_000, true),
            (250, 2_999, false),
            (10_000, 30_000, true),
            (60_000, 180_000, true),
            (60_001, 200_000, false),
        ] {
            let result = profile(heartbeat, down_after).validate();
            assert_eq!(result.is_ok(), sound, "{heartbeat} {down_after}");
        }
        let error = profile(10_000, 8_000).validate().unwrap_err().to_string();
        let text =
            "down_after is 8s, but must be 30s to a year: no less than three heartbeats of 10s";
        assert_eq!(error, text);
        let idle = Profile { idle_close: Some(Duration::ZERO), ..Profile::default() };
        let error = idle.validate().unwrap_err().to_string();
        assert_eq!(
            error,
            "idle_close is 0s, but must be 1s to a year: without it no idle link closes"
        );
    }
}
