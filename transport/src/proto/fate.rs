//! What became of messages that were put into frames.
//!
//! - **FA-1 one fate**: each message that was sent is refused, acknowledged, or still in flight
//!   when the link ends; the last are in doubt until the peer says what it [`Consumed`].
//! - **FA-2 refusals first**: a peer counts a frame as consumed only when every refusal it caused
//!   is in the same or an earlier frame; so what is acknowledged and was not refused, was queued.
//! - **FA-3 final report**: a side reports what it consumed of a link after its last frame was
//!   dispatched, with every refusal that the other side may not have read.

use std::collections::VecDeque;

use crate::proto::error::{Refusal, Violation};

/// A message in a frame that the peer has not yet reported consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The frame it ended in, by count.
    pub(crate) frame: u32,
    /// The place of its (last) record in that frame.
    pub(crate) place: u16,
    pub(crate) mailbox: u32,
    pub(crate) what: What,
}

/// What was sent, as far as its fate goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A tell; `confirm` is the number of a sender that waits for its fate, or 0.
    Tell { message: u128, confirm: u64 },
    /// An ask: its answer is its fate.
    Ask,
    /// A signal: nobody asks after it.
    Signal,
}

impl What {
    /// The number of a tell's sender that waits for its fate; 0 is none.
    pub(crate) fn confirm(self) -> u64 {
        if let What::Tell { confirm, .. } = self { confirm } else { 0 }
    }
}

/// A message that arrived and was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The frame it ended in, by count.
    pub(crate) frame: u32,
    /// The place of its (last) record in that frame.
    pub(crate) place: u16,
    pub(crate) refusal: Refusal,
}

/// What one side consumed of a link that ended (FA-3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Consumed {
    /// Frames that were dispatched, as the wrapping count.
    pub(crate) count: u32,
    /// What was refused of them, as far as the other side may not know.
    pub(crate) refusals: Vec<Refused>,
}

/// Whether frame number `frame` is among the first `count`: they are at most half the numbers
/// apart.
pub(crate) fn is_before(frame: u32, count: u32) -> bool {
    (1..=u32::MAX / 2).contains(&count.wrapping_sub(frame))
}

/// Messages in flight, in the order they were sent.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    sent: VecDeque<Sent>,
}

impl InFlight {
    pub(crate) fn push(&mut self, sent: Sent) {
        self.sent.push_back(sent);
    }

    /// Takes out the message that ended in record `place` of frame `frame`.
    pub(crate) fn refuse(&mut self, frame: u32, place: u16) -> Result<Sent, Violation> {
        let first = self.sent.front().ok_or(Violation::Refusal)?.frame;
        let key = |sent: &Sent| (sent.frame.wrapping_sub(first), sent.place);
        let at = self
            .sent
            .binary_search_by_key(&(frame.wrapping_sub(first), place), key)
            .map_err(|_| Violation::Refusal)?;
        self.sent.remove(at).ok_or(Violation::Refusal)
    }

    /// Takes out the next message of the frames before `count`: it was delivered (FA-2).
    pub(crate) fn acknowledge(&mut self, count: u32) -> Option<Sent> {
        self.sent.pop_front_if(|first| is_before(first.frame, count))
    }

    /// All that is left when the link ends.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = Sent> {
        self.sent.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn fates_across_the_wrap_of_the_count() {
        let mut flight = InFlight::default();
        let sent = |frame: u32, place| Sent { frame, place, mailbox: 0, what: What::Signal };
        for (frame, place) in [(u32::MAX - 1, 0), (u32::MAX, 0), (u32::MAX, 3), (0, 1), (1, 0)] {
            flight.push(sent(frame, place));
        }
        assert_eq!(flight.refuse(u32::MAX, 1), Err(Violation::Refusal));
        assert_eq!(flight.refuse(0, 1), Ok(sent(0, 1)));
        assert_eq!(flight.refuse(0, 1), Err(Violation::Refusal));
        assert_eq!(flight.acknowledge(u32::MAX - 1), None);
        let mut acknowledged = Vec::new();
        while let Some(sent) = flight.acknowledge(1) {
            acknowledged.push((sent.frame, sent.place));
        }
        assert_eq!(acknowledged, [(u32::MAX - 1, 0), (u32::MAX, 0), (u32::MAX, 3)]);
        assert_eq!(flight.end().count(), 1);
    }
}
