//! The messages of a connection.

use std::fmt;
use std::ops::Deref;

use ringpost::region::RemoteRegion;
use ringpost::wire::Wire;
use ringpost::{Recipient, View, message};

use crate::end::EndCause;

/// A message from the actor at one end of a connection to the actor at the other end.
#[message(name = "ringpost_streams::Frame")]
pub(crate) enum Frame<T> {
    /// A message of the user. The first one has the number 0.
    Item { number: u64, item: T },
    /// The sender sends no more items: `number` of them came before.
    Fin { number: u64, is_closed: bool },
    /// The sender takes no more items.
    NotReading,
    /// The connection has failed at the sender.
    Reset { why: Why },
    /// The numbers of bytes and items that the sender's program has read.
    Read { bytes: u64, items: u64 },
    /// The number of items that the sender has sent, over all links. The receiver reports with
    /// [`Read`](Frame::Read) at once when its program has read `report_at` bytes.
    Check { sent: u64, report_at: u64 },
    /// The answer to a [`Chunk::Offer`] with this number: the memory that its bytes are to be
    /// written to; `None` where they are to be sent.
    Answer { number: u64, memory: Option<RemoteRegion<u8>> },
}

/// Why an end resets its connection.
#[message(name = "ringpost_streams::Why")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its program dropped it with bytes unread.
    Dropped,
    /// Items were lost with a link.
    Lost,
    /// The other end broke the protocol.
    Violation,
}

impl ArchivedWhy {
    /// Returns how the connection ended for the end that is told this.
    pub(crate) fn cause(&self) -> EndCause {
        match self {
            ArchivedWhy::Dropped => EndCause::Dropped,
            ArchivedWhy::Lost => EndCause::Lost,
            ArchivedWhy::Violation => EndCause::Violation("the peer says so of this end"),
        }
    }
}

/// Asks a listener for a connection. `to` is the end of the connecting side.
#[message(name = "ringpost_streams::Connect")]
pub(crate) struct Connect<Tx: Wire> {
    pub(crate) to: Recipient<Frame<Tx>>,
}

/// The answer of a listener: its own end, or `None` where it is closed.
pub(crate) type Connected<Rx> = Option<Recipient<Frame<Rx>>>;

/// A part of a stream.
#[message(name = "ringpost_streams::Chunk")]
pub(crate) enum Chunk {
    /// Bytes.
    Bytes(Vec<u8>),
    /// So many bytes follow. The receiver answers whether they are to be written to its memory.
    Offer(u64),
    /// So many bytes lie in the memory of the last answer.
    Placed(u64),
}

/// A message that is read where it arrived, as a [`View`] is. Dereferences to the archived form of
/// `T`. It owns its bytes, and may be kept and moved to other tasks; it may hold a receive buffer
/// as long as it lives.
pub struct Received<T: Wire>(View<Frame<T>>);

impl<T: Wire> Received<T> {
    /// Takes a frame that is an item.
    pub(crate) fn new(frame: View<Frame<T>>) -> Self {
        debug_assert!(matches!(&*frame, ArchivedFrame::Item { .. }));
        Received(frame)
    }

    /// Returns the number of the item.
    pub(crate) fn number(&self) -> u64 {
        match &*self.0 {
            ArchivedFrame::Item { number, .. } => number.to_native(),
            _ => unreachable!("it was made of an item"),
        }
    }

    /// Returns the message itself; references to actors in it are bound to this node.
    pub fn to_owned(&self) -> T {
        match self.0.to_owned() {
            Frame::Item { item, .. } => item,
            _ => unreachable!("it was made of an item"),
        }
    }

    /// Copies the message out of the receive buffer, so that the buffer returns to its link.
    pub fn detach(self) -> Self {
        Received(self.0.detach())
    }
}

// The message lies in a buffer of its own.
impl<T: Wire> Unpin for Received<T> {}

impl<T: Wire> Deref for Received<T> {
    type Target = T::Archived;

    fn deref(&self) -> &T::Archived {
        match &*self.0 {
            ArchivedFrame::Item { item, .. } => item,
            _ => unreachable!("it was made of an item"),
        }
    }
}

impl<T: Wire<Archived: fmt::Debug>> fmt::Debug for Received<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
