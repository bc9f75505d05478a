//! Fates of messages that were put into frames.
//!
//! - **FA-2 refusals first**: a peer counts a frame as consumed only when every refusal it caused
//!   is in the same or an earlier frame; so an acknowledged message without a refusal was queued.
//!
//! Each message that was sent is refused, acknowledged, or still in flight when the link ends; the
//! last are in doubt until the peer says how much it [`Consumed`]. A side reports that after its
//! last frame was dispatched, with every refusal that the other side may not have read.

use std::collections::VecDeque;

use crate::proto::error::{Refusal, Violation};

/// A message in a frame that the peer has not yet reported consumed, or several alike that lie
/// behind each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The frame it ended in, by count.
    pub(crate) frame: u32,
    /// The place of its (last) record in that frame, or of the first one's.
    pub(crate) place: u16,
    /// Number of the messages.
    pub(crate) count: u16,
    pub(crate) mailbox: u32,
    pub(crate) what: What,
}

impl Sent {
    /// Returns each of the messages.
    pub(crate) fn each(self) -> impl Iterator<Item = Sent> {
        (0..self.count).map(move |n| Sent { place: self.place + n, count: 1, ..self })
    }
}

/// The kind of a message that was sent, as far as its fate goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A tell; `confirm` is the number of a sender that waits for its fate, or 0.
    Tell { message: u128, confirm: u64 },
    /// An ask: its answer is its fate, but where it crossed with the goodbye of the peer, which
    /// answers nothing any more and refuses it.
    Ask { correlation: u64 },
    /// A signal: no sender asks after its fate.
    Signal,
}

impl What {
    /// Returns the number of a tell's sender that waits for its fate; 0 is none.
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

/// The frames that one side consumed of a link that ended, and its refusals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Consumed {
    /// Frames that were dispatched, as the wrapping count.
    pub(crate) count: u32,
    /// The refusals of messages in them that the other side may not know of.
    pub(crate) refusals: Vec<Refused>,
}

/// Returns true if frame number `frame` is among the first `count`: they are at most half the
/// numbers apart.
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
        let meant = (frame.wrapping_sub(first), place);
        let after = self.sent.partition_point(|sent| key(sent) <= meant);
        let at = after.checked_sub(1).ok_or(Violation::Refusal)?;
        let sent = self.sent[at];
        let before = place.wrapping_sub(sent.place);
        if sent.frame != frame || before >= sent.count {
            return Err(Violation::Refusal);
        }
        let rest = Sent { place: place.wrapping_add(1), count: sent.count - before - 1, ..sent };
        match (before, rest.count) {
            (0, 0) => drop(self.sent.remove(at)),
            (0, _) => self.sent[at] = rest,
            (_, left) => {
                self.sent[at].count = before;
                if left > 0 {
                    self.sent.insert(after, rest);
                }
            }
        }
        Ok(Sent { place, count: 1, ..sent })
    }

    /// Takes out the next messages of the frames before `count`: they were delivered (FA-2).
    pub(crate) fn acknowledge(&mut self, count: u32) -> Option<Sent> {
        self.sent.pop_front_if(|first| is_before(first.frame, count))
    }

    /// Takes out all that is left when the link ends.
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
        let what = What::Signal;
        let sent = |frame: u32, place| Sent { frame, place, count: 1, mailbox: 0, what };
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
    #[test]
    fn one_of_several_alike_is_refused_once() {
        let what = What::Tell { message: 1, confirm: 0 };
        let sent = |place, count| Sent { frame: 9, place, count, mailbox: 0, what };
        for order in [[3, 5, 4, 6], [6, 5, 4, 3], [4, 3, 6, 5], [4, 6, 5, 3]] {
            let mut flight = InFlight::default();
            flight.push(sent(1, 1));
            flight.push(sent(3, 4));
            flight.push(sent(8, 2));
            for (n, place) in order.into_iter().enumerate() {
                assert_eq!(flight.refuse(9, place), Ok(sent(place, 1)));
                for refused in order[..=n].iter().copied().chain([0, 2, 7, 10]) {
                    assert_eq!(flight.refuse(9, refused), Err(Violation::Refusal));
                }
                assert_eq!(flight.refuse(8, place), Err(Violation::Refusal));
                let left: Vec<_> = flight.sent.iter().flat_map(|sent| sent.each()).collect();
                assert_eq!(left.len(), 7 - n - 1);
                assert!(left.is_sorted_by_key(|sent| sent.place));
            }
            assert_eq!(flight.end().collect::<Vec<_>>(), [sent(1, 1), sent(8, 2)]);
        }
    }
}
