//! Notices: messages of one end of a connection to the other end that are no items.

use std::future::poll_fn;
use std::mem;
use std::task::Poll;

use futures::task::AtomicWaker;
use parking_lot::Mutex;

use crate::frame::Why;

/// Notices that wait to be sent. The owner of the end and its actor post them under the lock, which
/// is held for a moment. One task of the actor sends them.
#[derive(Default)]
pub(crate) struct Notices {
    posted: Mutex<Posted>,
    sender: AtomicWaker,
    /// It is the end of a byte stream.
    is_stream: bool,
}

/// Posted notices, and the halves that the owner has dropped.
#[derive(Default)]
struct Posted {
    reset: Option<Why>,
    read: bool,
    check: bool,
    fin: Option<bool>,
    /// A fin that was sent. It is posted again when a link is lost.
    fin_sent: Option<bool>,
    not_reading: bool,
    not_reading_sent: bool,
    is_writer_gone: bool,
    is_reader_gone: bool,
    /// The owner dropped the half that reads with items unread.
    is_unread: bool,
    /// The reset was sent, and nothing follows it.
    is_reset: bool,
}

/// One notice, and the end of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    Reset(Why),
    Read,
    Check,
    Fin {
        is_closed: bool,
    },
    NotReading,
    /// The owner has dropped both halves, and all notices are sent.
    Leave,
}

impl Notices {
    pub(crate) fn new(is_stream: bool) -> Self {
        Notices { is_stream, ..Notices::default() }
    }

    pub(crate) fn post_reset(&self, why: Why) {
        self.post(|posted| {
            posted.reset.get_or_insert(why);
        });
    }

    pub(crate) fn post_read(&self) {
        self.post(|posted| posted.read = true);
    }

    pub(crate) fn post_check(&self) {
        self.post(|posted| posted.check = true);
    }

    /// Posts all notices again that may have been lost with a link.
    pub(crate) fn repeat(&self) {
        self.post(|posted| {
            (posted.read, posted.check) = (true, true);
            posted.fin = posted.fin.or(posted.fin_sent);
            posted.not_reading |= posted.not_reading_sent;
        });
    }

    /// Posts the end of this direction. The first call counts.
    pub(crate) fn post_fin(&self, is_closed: bool) {
        self.post(|posted| {
            if posted.fin_sent.is_none() {
                posted.fin.get_or_insert(is_closed);
            }
        });
    }

    /// Notes that the owner has dropped the half that writes, and posts its end: of a stream in
    /// order, of a channel as dropped. A stream that a panic drops is reset.
    pub(crate) fn leave_writer(&self) {
        let is_panic = std::thread::panicking();
        self.post(|posted| {
            posted.is_writer_gone = true;
            let is_open = posted.fin.or(posted.fin_sent).is_none();
            if is_open && self.is_stream && is_panic {
                posted.reset.get_or_insert(Why::Dropped);
            } else if is_open {
                posted.fin = Some(self.is_stream);
            }
        });
    }

    /// Notes that the owner has dropped the half that reads. `is_open`: the peer had not ended.
    /// `is_unread`: items are dropped with it.
    pub(crate) fn leave_reader(&self, is_open: bool, is_unread: bool) {
        self.post(|posted| {
            (posted.is_reader_gone, posted.is_unread) = (true, is_unread);
            posted.not_reading = is_open;
        });
    }

    fn post(&self, change: impl FnOnce(&mut Posted)) {
        change(&mut self.posted.lock());
        self.sender.wake();
    }

    /// Returns true if both halves are dropped.
    pub(crate) fn is_left(&self) -> bool {
        let posted = self.posted.lock();
        posted.is_writer_gone && posted.is_reader_gone
    }

    /// Returns the next notice without waiting. `Read` and `Check` are taken out, since their
    /// numbers are read later; the others stay until [`sent`](Self::sent) is called.
    pub(crate) fn first(&self) -> Option<Notice> {
        let posted = &mut *self.posted.lock();
        let is_left = posted.is_writer_gone && posted.is_reader_gone;
        if is_left && posted.is_unread && self.is_stream {
            posted.reset.get_or_insert(Why::Dropped);
        }
        if posted.is_reset {
            return Some(Notice::Leave);
        }
        if mem::take(&mut posted.read) {
            return Some(Notice::Read);
        }
        if let Some(why) = posted.reset {
            return Some(Notice::Reset(why));
        }
        if let Some(is_closed) = posted.fin {
            return Some(Notice::Fin { is_closed });
        }
        if mem::take(&mut posted.check) {
            return Some(Notice::Check);
        }
        if is_left {
            return Some(Notice::Leave);
        }
        posted.not_reading.then_some(Notice::NotReading)
    }

    /// Removes a notice that was sent.
    pub(crate) fn sent(&self, notice: Notice) {
        let mut posted = self.posted.lock();
        match notice {
            Notice::Reset(_) => posted.is_reset = true,
            Notice::Fin { is_closed } => (posted.fin, posted.fin_sent) = (None, Some(is_closed)),
            Notice::NotReading => (posted.not_reading, posted.not_reading_sent) = (false, true),
            Notice::Read | Notice::Check | Notice::Leave => {}
        }
    }

    /// Waits for the next notice.
    pub(crate) async fn next(&self) -> Notice {
        self.wait(Self::first).await
    }

    /// Wakes the task that waits.
    pub(crate) fn wake(&self) {
        self.sender.wake();
    }

    /// Waits until `look` finds something. Called by one task of the actor at a time.
    pub(crate) async fn wait<T>(&self, look: impl Fn(&Self) -> Option<T>) -> T {
        poll_fn(|cx| {
            self.sender.register(cx.waker());
            look(self).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
