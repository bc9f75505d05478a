//! The way back of an ask.

use std::fmt;
use std::sync::Arc;

use rkyv::util::AlignedVec;

use super::Link;
use crate::steps::step;

/// Where the answer to an ask goes. Dropped unused, the asker is told [`Replier::NO_REPLY`].
pub struct Replier {
    link: Arc<Link>,
    correlation: u64,
    used: bool,
}

impl Replier {
    /// The code an asker gets when its replier was dropped.
    pub const NO_REPLY: u16 = 0xffff;
    /// The code an asker gets when the answer is larger than its node takes.
    pub const TOO_LARGE: u16 = 0xfffe;

    pub(crate) fn new(link: Arc<Link>, correlation: u64) -> Self {
        Replier { link, correlation, used: false }
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

    /// Sends a code instead of an answer: 1 to 0xfffd mean what the layer above wants.
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
            self.finish(Self::NO_REPLY, &mut AlignedVec::new());
        }
    }
}

impl fmt::Debug for Replier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replier({:#x})", self.correlation)
    }
}
