//! What an end of a connection still has to tell its peer, apart from items.

use std::future::poll_fn;
use std::mem;
use std::task::Poll;

use futures::task::AtomicWaker;
use parking_lot::Mutex;

use crate::frame::Why;

/// The debts of one end to its peer. Incurred by its owner and its actor under the lock, which is
/// held for a moment; paid by the actor's one task, in the order of [`Debt`].
#[derive(Default)]
pub(crate) struct Care {
    owed: Mutex<Owed>,
    payer: AtomicWaker,
    /// It is the end of a byte stream.
    is_stream: bool,
}

/// What is owed, and which halves the owner has dropped.
#[derive(Default)]
struct Owed {
    reset: Option<Why>,
    read: bool,
    check: bool,
    fin: Option<bool>,
    /// The fin that is paid: it is owed again when a link is lost.
    fin_paid: Option<bool>,
    not_reading: bool,
    not_reading_paid: bool,
    is_writer_gone: bool,
    is_reader_gone: bool,
    /// The half that reads was dropped with something unread.
    is_unread: bool,
    /// It is paid: nothing follows.
    is_reset: bool,
}

/// One debt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Debt {
    Reset(Why),
    Read,
    Check,
    Fin { is_closed: bool },
    NotReading,
    /// Everything is paid, and the connection is over at this end.
    Leave,
}

impl Care {
    pub(crate) fn new(is_stream: bool) -> Self {
        Care { is_stream, ..Care::default() }
    }

    pub(crate) fn owe_reset(&self, why: Why) {
        self.owe(|owed| {
            owed.reset.get_or_insert(why);
        });
    }

    pub(crate) fn owe_read(&self) {
        self.owe(|owed| owed.read = true);
    }

    pub(crate) fn owe_check(&self) {
        self.owe(|owed| owed.check = true);
    }

    /// Has the peer told again what may have been lost with a link, and how much was sent.
    pub(crate) fn owe_again(&self) {
        self.owe(|owed| {
            (owed.read, owed.check) = (true, true);
            owed.fin = owed.fin.or(owed.fin_paid);
            owed.not_reading |= owed.not_reading_paid;
        });
    }

    /// Has the peer told that nothing follows. The first call counts.
    pub(crate) fn owe_fin(&self, is_closed: bool) {
        self.owe(|owed| {
            if owed.fin_paid.is_none() {
                owed.fin.get_or_insert(is_closed);
            }
        });
    }

    /// Notes that the owner has dropped the half that writes. A stream that is dropped ends in
    /// order, and a channel with the word that it was dropped; unless it is a panic that drops it.
    pub(crate) fn leave_writer(&self) {
        let is_panic = std::thread::panicking();
        self.owe(|owed| {
            owed.is_writer_gone = true;
            let is_open = owed.fin.or(owed.fin_paid).is_none();
            if is_open && self.is_stream && is_panic {
                owed.reset.get_or_insert(Why::Dropped);
            } else if is_open {
                owed.fin = Some(self.is_stream);
            }
        });
    }

    /// Notes that the owner has dropped the half that reads. `is_open` says that more might have
    /// come, and `is_unread` that something had.
    pub(crate) fn leave_reader(&self, is_open: bool, is_unread: bool) {
        self.owe(|owed| {
            (owed.is_reader_gone, owed.is_unread) = (true, is_unread);
            owed.not_reading = is_open;
        });
    }

    fn owe(&self, change: impl FnOnce(&mut Owed)) {
        change(&mut self.owed.lock());
        self.payer.wake();
    }

    /// Returns true if both halves are dropped.
    pub(crate) fn is_left(&self) -> bool {
        let owed = self.owed.lock();
        owed.is_writer_gone && owed.is_reader_gone
    }

    /// Returns the next debt without waiting. What a later debt of the kind would say better is
    /// taken out; the others stay until they are [`paid`](Self::paid).
    pub(crate) fn first(&self) -> Option<Debt> {
        let owed = &mut *self.owed.lock();
        let is_left = owed.is_writer_gone && owed.is_reader_gone;
        if is_left && owed.is_unread && self.is_stream {
            owed.reset.get_or_insert(Why::Dropped);
        }
        if owed.is_reset {
            return Some(Debt::Leave);
        }
        if mem::take(&mut owed.read) {
            return Some(Debt::Read);
        }
        if let Some(why) = owed.reset {
            return Some(Debt::Reset(why));
        }
        if let Some(is_closed) = owed.fin {
            return Some(Debt::Fin { is_closed });
        }
        if mem::take(&mut owed.check) {
            return Some(Debt::Check);
        }
        if is_left {
            return Some(Debt::Leave);
        }
        owed.not_reading.then_some(Debt::NotReading)
    }

    pub(crate) fn paid(&self, debt: Debt) {
        let mut owed = self.owed.lock();
        match debt {
            Debt::Reset(_) => owed.is_reset = true,
            Debt::Fin { is_closed } => (owed.fin, owed.fin_paid) = (None, Some(is_closed)),
            Debt::NotReading => (owed.not_reading, owed.not_reading_paid) = (false, true),
            Debt::Read | Debt::Check | Debt::Leave => {}
        }
    }

    /// Waits for a debt.
    pub(crate) async fn next(&self) -> Debt {
        self.wait(Self::first).await
    }

    /// Has the waiting task look again.
    pub(crate) fn wake(&self) {
        self.payer.wake();
    }

    /// Waits until `look` finds something. Called by one task of the actor at a time.
    pub(crate) async fn wait<T>(&self, look: impl Fn(&Self) -> Option<T>) -> T {
        poll_fn(|cx| {
            self.payer.register(cx.waker());
            look(self).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
