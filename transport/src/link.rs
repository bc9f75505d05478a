//! What the senders and the driver of one link share.

use std::sync::Arc;

use rkyv::util::AlignedVec;

use crate::cause::LinkCause;

/// One link, as its senders and its session see it.
pub(crate) struct Link {}

impl Link {
    /// Ends the link; the driver drains it and reports `cause`.
    pub(crate) fn close(&self, _cause: LinkCause) {
        unimplemented!()
    }

    /// Starts the goodbye exchange: nothing new is committed, what was committed is sent, then both
    /// sides acknowledge everything and the link ends as [`LinkCause::Left`].
    pub(crate) fn goodbye(&self) {
        unimplemented!()
    }

    /// Called at each heartbeat: makes an idle link show that it still carries frames; the link
    /// ends as [`LinkCause::Silent`] when several probes in a row got nothing back.
    pub(crate) fn probe(&self) {
        unimplemented!()
    }

    /// What it has carried.
    pub(crate) fn stats(&self) -> LinkStats {
        unimplemented!()
    }
}

/// What a link, or all links to a node, have carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkStats {
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Messages and replies sent.
    pub messages_sent: u64,
    /// Messages and replies received.
    pub messages_received: u64,
    /// Bytes of frames sent.
    pub bytes_sent: u64,
    /// Bytes of frames received.
    pub bytes_received: u64,
    /// Frames sent that only returned credits.
    pub credit_frames_sent: u64,
    /// Times a sender had to wait for a window.
    pub window_stalls: u64,
    /// Times the link had to wait for credits.
    pub credit_stalls: u64,
    /// Messages that the peer refused.
    pub refusals: u64,
    /// Payloads that were copied out because few receive slots were spare.
    pub copied_out: u64,
}

/// The room a delivered message takes in its sender's window. Dropping it gives the room back.
pub struct Receipt {}

/// Where the answer to an ask goes. Dropped unused, the asker is told [`Replier::NO_REPLY`].
pub struct Replier {}

impl Replier {
    /// The code an asker gets when its replier was dropped.
    pub const NO_REPLY: u16 = 0xffff;

    /// Sends the answer. `archive` is left empty, its memory perhaps taken.
    pub fn send(self, _archive: &mut AlignedVec<16>) {
        unimplemented!()
    }

    /// Sends a code instead of an answer (not [`NO_REPLY`](Self::NO_REPLY)).
    pub fn fail(self, _code: u16) {
        unimplemented!()
    }
}

/// Tells a link that a mailbox closed, by being dropped.
pub struct CloseNotice(#[allow(dead_code, reason = "dropped for its effect")] Arc<Link>);
