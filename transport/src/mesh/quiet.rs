//! Whether frames still come on a link whose peer sends heartbeats.
//!
//! - **MS-11 stalled is not silent**: a link on which no frame comes is given up only while both
//!   drivers run. A side whose driver has not taken the last probe says so with its heartbeat, and
//!   draws no conclusion itself: the application of a node may block every thread, for as long as
//!   it likes. The senders of the other side then meet the windows and the credits.

use crate::limits;

/// Heartbeats before which no frame came.
#[derive(Default)]
pub(super) struct Quiet {
    frames: u64,
    beats: u32,
    /// The peer's driver does not run, as its last heartbeat says.
    peer_stalled: bool,
}

impl Quiet {
    /// A heartbeat of the peer says whether its driver runs.
    pub(super) fn hear(&mut self, stalled: bool) {
        self.peer_stalled = stalled;
    }

    /// A heartbeat is due; `frames` came so far. Whether that is too little for too long, where
    /// this side's own driver is not the one that is `stalled`.
    pub(super) fn beat(&mut self, frames: u64, stalled: bool) -> bool {
        let heard = frames != self.frames;
        self.frames = frames;
        self.beats = if heard || stalled || self.peer_stalled { 0 } else { self.beats + 1 };
        self.beats > limits::HEARTBEATS_MISSED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-11.
    #[test]
    fn a_link_is_silent_only_while_both_drivers_run() {
        let mut quiet = Quiet::default();
        assert!(!quiet.beat(1, false));
        let beats = |quiet: &mut Quiet| (1..).find(|_| quiet.beat(1, false));
        assert_eq!(beats(&mut quiet), Some(4));
        let mut quiet = Quiet::default();
        for _ in 0..2 {
            quiet.hear(true);
            assert!((0..100).all(|_| !quiet.beat(1, false)));
            quiet.hear(false);
            assert!((0..100).all(|_| !quiet.beat(1, true)));
        }
        assert_eq!(beats(&mut quiet), Some(4), "from the beginning, once both run");
    }
}
