//! The way back of an ask.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use rkyv::util::AlignedVec;

use super::Link;
use super::receipt::link_id;
use crate::steps::step;

/// The way back of one ask, made by the driver when the ask arrives. The layer above calls
/// [`begin`](Self::begin) when it begins the ask, and then [`send`](Self::send) or
/// [`fail`](Self::fail). Dropped without either, the asker gets [`NOT_BEGUN`](Self::NOT_BEGUN) or,
/// after `begin`, [`NO_REPLY`](Self::NO_REPLY).
pub struct Replier {
    link: Arc<Link>,
    correlation: u64,
    begun: bool,
    used: bool,
}

impl Replier {
    /// The code an asker gets when its ask was begun and ended without an answer.
    pub const NO_REPLY: u16 = 0xffff;
    /// The code an asker gets when the answer is larger than its node takes.
    pub const TOO_LARGE: u16 = 0xfffe;
    /// The code an asker gets when its ask was dropped before it was begun.
    pub const NOT_BEGUN: u16 = 0xfffd;
    /// The code for an ask that is found after its deadline, and so is never begun. The layer above
    /// gives it to [`fail`](Self::fail).
    pub const LATE: u16 = 0xfffc;

    pub(crate) fn new(link: Arc<Link>, correlation: u64) -> Self {
        Replier { link, correlation, begun: false, used: false }
    }

    /// Marks the ask as begun: from now on it counts as one that may have been handled. Returns
    /// false when the asker is known to have gone; then the ask must not be handled.
    pub fn begin(&mut self) -> bool {
        self.begun = true;
        true
    }

    /// Returns false when the asker is known to have gone: an answer need not be written.
    pub fn is_wanted(&self) -> bool {
        true
    }

    /// Waits until the link has room for the answer; to be called before [`begin`](Self::begin).
    /// `Pending` keeps the waker of `cx`. An ask whose link has ended never waits.
    pub fn poll_room(&self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Returns a number that no other living link of this process has.
    pub fn link_id(&self) -> u64 {
        link_id(&self.link)
    }

    /// Sends the answer; a large archive's memory is taken. One that is larger than the asker takes
    /// is replaced by [`TOO_LARGE`](Self::TOO_LARGE). Never waits: answers are bounded by the asks.
    pub fn send(mut self, archive: &mut AlignedVec<16>) {
        if archive.len() > self.link.message_max {
            self.finish(Self::TOO_LARGE, &mut AlignedVec::new());
        } else {
            self.finish(0, archive);
        }
    }

    /// Sends a code instead of an answer: 1 to 0xfffb mean what the layer above wants.
    pub fn fail(mut self, code: u16) {
        debug_assert!(code != 0, "0 is an answer");
        self.finish(code, &mut AlignedVec::new());
    }

    fn finish(&mut self, code: u16, archive: &mut AlignedVec<16>) {
        self.used = true;
        let mut state = self.link.state.lock();
        if self.link.has_ended() {
            return;
        }
        state.outbound.reply(self.correlation, code, archive);
        step!(ReplyCommitted);
        let wake = self.link.rouse(&mut state);
        drop(state);
        if wake {
            self.link.news.wake();
        }
    }
}

impl Drop for Replier {
    fn drop(&mut self) {
        if !self.used {
            let code = if self.begun { Self::NO_REPLY } else { Self::NOT_BEGUN };
            self.finish(code, &mut AlignedVec::new());
        }
    }
}

impl fmt::Debug for Replier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replier({:#x})", self.correlation)
    }
}
