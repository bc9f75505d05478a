//! The way back of an ask.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;

use rkyv::util::AlignedVec;
use tokio::time::Instant;

use super::LinkHandle;
use crate::steps::step;

/// The way of an answer to its asker. When it is dropped unused, the asker is told
/// [`Replier::NOT_BEGUN`], [`Replier::NO_REPLY`] or [`Replier::PANICKED`].
pub struct Replier {
    link: Arc<LinkHandle>,
    correlation: u64,
    /// The form in which the asker reads the answer.
    form: u8,
    begun: bool,
    used: bool,
}

impl Replier {
    /// The code an asker gets when its replier was dropped after the ask was begun.
    pub const NO_REPLY: u16 = 0xffff;
    /// The code an asker gets when the answer is larger than one of the two nodes takes.
    pub const TOO_LARGE: u16 = 0xfffe;
    /// The code an asker gets when its replier was dropped before the ask was begun.
    pub const NOT_BEGUN: u16 = 0xfffd;
    /// The code an asker gets when its ask was found too late to be begun.
    pub const LATE: u16 = 0xfffc;
    /// The code an asker gets when its ask was begun and the answer came too late to be sent.
    pub const EXPIRED: u16 = crate::proto::send_queue::REPLY_EXPIRED;
    /// The code an asker gets when a panic dropped its replier after the ask was begun.
    pub const PANICKED: u16 = 0xfffa;

    pub(crate) fn new(link: Arc<LinkHandle>, correlation: u64) -> Self {
        Replier { link, correlation, form: 0, begun: false, used: false }
    }

    /// Sets the form in which the asker reads the answer; 0, the newest, until then. For the layer
    /// above, which knows it of the ask's ordinal.
    pub fn set_form(&mut self, form: u8) {
        self.form = form;
    }

    /// Returns the form in which the asker reads the answer.
    pub fn form(&self) -> u8 {
        self.form
    }

    /// Marks the ask as begun at this time. Returns false when its asker has given up by then, as
    /// far as this node knows: then it must not be begun, and this is to be dropped.
    #[must_use]
    pub fn begin(&mut self, now: Instant) -> bool {
        // The asker was told when its link ended.
        self.begun = !self.link.has_ended() && {
            let asks = &mut self.link.state.lock().send_queue.open_asks;
            asks.is_wanted(self.correlation, now.into_std())
        };
        self.begun
    }

    /// Returns true if the asker has taken its ask back, or the link has ended: then the answer
    /// need not even be made. (An answer that is made too late is dropped before it is sent.)
    pub fn is_given_up(&self) -> bool {
        self.link.has_ended()
            || self.link.state.lock().send_queue.open_asks.is_cancelled(self.correlation)
    }

    /// Waits until the asker has taken its ask back, or the link has ended. Keeps the waker of the
    /// last poll until then, or until this is used or dropped.
    pub fn poll_given_up(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.link.state.lock();
        if self.link.has_ended() || !state.send_queue.open_asks.watch(self.correlation) {
            return Poll::Ready(());
        }
        let old = state.for_given_up.insert(self.correlation, cx.waker().clone());
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// Returns a function that returns true while the ask is not answered and its asker waits, as
    /// far as this node knows, even if this was used or dropped.
    pub fn watch(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let (link, correlation) = (self.link.clone(), self.correlation);
        move || {
            let now = Instant::now().into_std();
            !link.has_ended() && link.state.lock().send_queue.open_asks.is_awaited(correlation, now)
        }
    }

    /// Returns the time at which the asker gives up, by the clock of this node, if the ask has one.
    pub fn deadline(&self) -> Option<Instant> {
        let deadline = self.link.state.lock().send_queue.open_asks.deadline(self.correlation);
        deadline.map(Instant::from_std)
    }

    /// Waits until few enough bytes of answers to this peer wait to be sent: before that no ask of
    /// it is to be begun. Keeps the waker until then, or until the link ends.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.link.state.lock();
        if state.send_queue.takes_replies() || self.link.has_ended() {
            return Poll::Ready(());
        }
        if !state.for_replies.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.for_replies.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Sends the answer; takes the memory of a large archive. An answer that is larger than either
    /// node takes is replaced by [`TOO_LARGE`](Self::TOO_LARGE). Never waits: answers are bounded
    /// by the asks. So a layer that begins asks and answers them later may have an answer of any
    /// size waiting for each ask that it began before [there was no room](Self::poll_room).
    pub fn send(mut self, archive: &mut AlignedVec<16>) {
        if archive.len() > self.link.archive_max() {
            self.finish(Self::TOO_LARGE, &mut AlignedVec::new());
        } else {
            self.finish(0, archive);
        }
    }

    /// Sends a code instead of an answer: 1 to 0xfff9 mean what the layer above wants.
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
        let waited = state.for_given_up.remove(&self.correlation);
        state.send_queue.reply(self.correlation, code, archive);
        step!(ReplyCommitted);
        self.link.finish(state);
        drop(waited);
    }
}

impl Drop for Replier {
    fn drop(&mut self) {
        if !self.used {
            let code = match self.begun {
                true if thread::panicking() => Self::PANICKED,
                // Its asker is about to say the same: it may be dropped just because of that.
                true if self.deadline().is_some_and(|end| end <= Instant::now()) => Self::EXPIRED,
                true => Self::NO_REPLY,
                false => Self::NOT_BEGUN,
            };
            self.finish(code, &mut AlignedVec::new());
        }
    }
}

impl fmt::Debug for Replier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replier({:#x})", self.correlation)
    }
}
