//! The liveness of the runtime of the links, and of links whose peer sends heartbeats.
//!
//! - **MS-11 stalled is not silent**: a link on which no frame comes is given up only while both
//!   drivers run. A side whose driver has not taken the last probe says so with its heartbeat, and
//!   draws no conclusion itself: the application of a node may block every thread, for as long as
//!   it likes. The senders of the other side then meet the windows and the credits. A side probes
//!   at a heartbeat before which no frame came, and at no other: its own frames show it nothing.
//!
//! A node that was stopped itself must not take its own absence for the silence of its peers
//! (MS-4): the [clock](super::event_queue) by which silence is counted stands still while it does.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::cause::LinkCause;
use crate::limits;
use crate::log;
use crate::memory::buffer;

use super::meter;
use super::table::Table;

/// Looks of a node at itself of which one publishes its gauges: one look a second.
const LOOKS_PUBLISHED: u32 = 4;

/// Watches until the node closes.
pub(super) async fn watch(table: Arc<Table>) {
    table.events.clock().watch(true);
    watch_runtime(&table).await;
    table.events.clock().watch(false);
}

/// Watches the runtime of the links. When that is gone, the node closes: it could have no link any
/// more, and its heartbeats would say that it lives.
async fn watch_runtime(table: &Arc<Table>) {
    let mut closing = pin!(table.events.closing());
    let (mut looks, spare) = (0u32, buffer::Keeper::new());
    while let Some(mut sign) = table.tasks.sign() {
        // Counted, not taken from a clock: a process that stood still is not late.
        let mut late = Duration::ZERO;
        let ran = loop {
            table.events.look();
            if looks.is_multiple_of(LOOKS_PUBLISHED) {
                let alive = table.each(|peer| peer.is_alive().then_some(()));
                meter::count_nodes(*table.events.linked().borrow(), alive.len());
            }
            looks = looks.wrapping_add(1);
            table.events.host().liveness(late);
            spare.free_unused();
            tokio::select! {
                biased;
                () = &mut closing => return,
                ran = &mut sign => break ran,
                () = sleep(limits::LIVENESS_INTERVAL) => late += limits::LIVENESS_INTERVAL,
            }
        };
        if ran.is_err() {
            log::info!("the runtime that the node was started on is gone: the node closes");
            return table.abort(&LinkCause::Shutdown);
        }
        tokio::select! {
            biased;
            () = &mut closing => return,
            () = sleep(limits::LIVENESS_INTERVAL) => {}
        }
    }
    watch_clock(table).await;
}

/// Watches the clock alone: on a simulated network, where all runs on one thread. One without
/// heartbeats has no timer that comes again and again.
async fn watch_clock(table: &Table) {
    let interval = table.network.wire.heartbeat_interval().unwrap_or(limits::HEARTBEAT_INTERVAL);
    let mut closing = pin!(table.events.closing());
    if 2 * interval > limits::PAUSE_NOTICED {
        return table.events.clock().watch(false);
    }
    loop {
        table.events.look();
        tokio::select! {
            biased;
            () = &mut closing => return,
            () = sleep(interval) => {}
        }
    }
}

/// The liveness of one link: the heartbeats before which no frame came.
#[derive(Default)]
pub(super) struct LinkLiveness {
    frames: u64,
    beats: u32,
    /// The peer's driver does not run, as its last heartbeat says.
    peer_stalled: bool,
    /// This side's driver did not run before its last heartbeat.
    stalled: bool,
}

impl LinkLiveness {
    /// Records whether the peer's driver runs, as its heartbeat says.
    pub(super) fn hear(&mut self, stalled: bool) {
        self.peer_stalled = stalled;
    }

    /// Returns true if one of the two drivers did not run when that was looked at last.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled || self.peer_stalled
    }

    /// Records that `frames` came so far. Returns true if some came since the last heartbeat.
    pub(super) fn note_frames(&mut self, frames: u64) -> bool {
        std::mem::replace(&mut self.frames, frames) != frames
    }

    /// Records that a heartbeat is due. Returns true if no frame came for too long while neither
    /// driver was stalled; `stalled` is this side's.
    pub(super) fn beat(&mut self, heard: bool, stalled: bool) -> bool {
        self.stalled = stalled;
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
        let mut link = LinkLiveness::default();
        assert!(link.note_frames(1) && !link.note_frames(1) && !link.beat(true, false));
        let beats = |link: &mut LinkLiveness| (1..).find(|_| link.beat(false, false));
        assert_eq!(beats(&mut link), Some(4));
        let mut link = LinkLiveness::default();
        for _ in 0..2 {
            link.hear(true);
            assert!((0..100).all(|_| !link.beat(false, false)));
            link.hear(false);
            assert!((0..100).all(|_| !link.beat(false, true)));
        }
        assert_eq!(beats(&mut link), Some(4), "from the beginning, once both run");
    }
}
