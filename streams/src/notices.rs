//! Notices: messages of one end of a connection to the other end that are no items.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::frame::Why;

/// Notices that wait to be sent. The owner of the end and its actor post them under the lock, which
/// is held for a moment. A task sends them, which lives while there are some.
#[derive(Default)]
pub(crate) struct Notices {
    posted: Mutex<Posted>,
    /// It is the end of a byte stream.
    is_stream: bool,
}

/// Sends the notices of an end.
pub(crate) trait Courier: Send + Sync {
    /// Begins the task that sends them.
    fn begin(self: Arc<Self>);

    /// Returns true if the peer is on this other node, or may be. Without a name, on any other one.
    fn is_to(&self, node: Option<&str>) -> bool;

    /// Notes that a link to that node was lost, or that the node is about to leave.
    fn trouble(&self);
}

/// Posted notices, and the halves that the owner has dropped.
#[derive(Default)]
struct Posted {
    /// There while the actor lives.
    courier: Option<Arc<dyn Courier>>,
    /// It is known where the peer is.
    is_bound: bool,
    is_sending: bool,
    /// A link was lost since the last notice was taken, which may be lost with it.
    is_repeated: bool,
    watch: bool,
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

/// One notice, or what the actor itself is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The actor is to watch its peer from now on.
    Watch,
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

    /// Posts all notices again that may have been lost with a link, and a watch of the peer.
    pub(crate) fn repeat(&self) {
        self.post(|posted| {
            (posted.read, posted.check, posted.watch) = (true, true, true);
            posted.is_repeated = true;
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

    /// Notes that it is known where the peer is.
    pub(crate) fn bind(&self) {
        self.post(|posted| posted.is_bound = true);
    }

    /// Sets the courier that sends the notices; none when the actor ends.
    pub(crate) fn employ(&self, courier: Option<Arc<dyn Courier>>) {
        let mut before = courier;
        self.post(|posted| mem::swap(&mut posted.courier, &mut before));
    }

    fn post(&self, change: impl FnOnce(&mut Posted)) {
        let mut posted = self.posted.lock();
        change(&mut posted);
        let courier = posted.courier.clone().filter(|_| !posted.is_sending);
        posted.is_sending |= courier.is_some();
        drop(posted);
        if let Some(courier) = courier {
            courier.begin();
        }
    }

    /// Returns the next notice for the task that sends them. Without one the task ends, and the
    /// next post begins another.
    pub(crate) fn next(&self) -> Option<Notice> {
        let mut posted = self.posted.lock();
        let next = self.first_of(&mut posted);
        (posted.is_sending, posted.is_repeated) = (next.is_some(), false);
        next
    }

    /// Returns the next notice, for an actor that ends. `Read` and `Check` are taken out, since
    /// their numbers are read later; the others stay until [`sent`](Self::sent) is called.
    pub(crate) fn first(&self) -> Option<Notice> {
        let mut posted = self.posted.lock();
        posted.watch = false;
        self.first_of(&mut posted)
    }

    fn first_of(&self, posted: &mut Posted) -> Option<Notice> {
        let is_left = posted.is_writer_gone && posted.is_reader_gone;
        if !posted.is_bound {
            return is_left.then_some(Notice::Leave);
        }
        if mem::take(&mut posted.watch) {
            return Some(Notice::Watch);
        }
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
        if posted.not_reading {
            return Some(Notice::NotReading);
        }
        is_left.then_some(Notice::Leave)
    }

    /// Removes a notice that was sent.
    pub(crate) fn sent(&self, notice: Notice) {
        let mut posted = self.posted.lock();
        match notice {
            _ if posted.is_repeated => {}
            Notice::Reset(_) => posted.is_reset = true,
            Notice::Fin { is_closed } => (posted.fin, posted.fin_sent) = (None, Some(is_closed)),
            Notice::NotReading => (posted.not_reading, posted.not_reading_sent) = (false, true),
            Notice::Watch | Notice::Read | Notice::Check | Notice::Leave => {}
        }
    }
}
