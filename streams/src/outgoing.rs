//! The way from an end of a connection to the other end.

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};

use parking_lot::{Mutex, MutexGuard};
use ringpost::region::RemoteRegion;
use ringpost::wire::Wire;
use ringpost::{Cause, Recipient, TellError};

use crate::end::{EndCause, SendCause, SendError};
use crate::frame::Frame;

/// The way to the peer, shared by the owner's half that writes and the actor.
///
/// An item gets its number and is committed under the lock of `sent`. So a count that is read after
/// a link was lost includes every item that was committed to that link. It is sent to the peer over
/// the next link, and the peer finds out whether an item is missing.
pub(crate) struct Outgoing<T: Wire> {
    peer: OnceLock<Recipient<Frame<T>>>,
    sent: Mutex<Sent>,
    read_bytes: AtomicU64,
    read_items: AtomicU64,
    /// The number of read bytes that `sync` waits for.
    pub(crate) report_at: AtomicU64,
    state: Mutex<State>,
}

/// Counts of committed items.
#[derive(Default)]
pub(crate) struct Sent {
    pub(crate) items: u64,
    pub(crate) bytes: u64,
}

#[derive(Default)]
struct State {
    broken: Option<EndCause>,
    writer: Option<Waker>,
    offer: Offer,
}

/// The last offer of bytes for the peer's memory.
#[derive(Default)]
enum Offer {
    #[default]
    None,
    /// The item with this number.
    Made(u64),
    /// `None` where the bytes are to be sent.
    Answered(Option<RemoteRegion<u8>>),
}

impl<T: Wire> Outgoing<T> {
    pub(crate) fn new() -> Self {
        Outgoing {
            peer: OnceLock::new(),
            sent: Mutex::default(),
            read_bytes: AtomicU64::new(0),
            read_items: AtomicU64::new(0),
            report_at: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// Notes where the peer is. The first call counts.
    pub(crate) fn bind(&self, peer: Recipient<Frame<T>>) {
        self.peer.get_or_init(|| peer);
    }

    /// Returns the way to the peer: there from when its owner has this.
    pub(crate) fn peer(&self) -> Result<&Recipient<Frame<T>>, EndCause> {
        self.peer.get().ok_or(EndCause::Shutdown)
    }

    /// Locks the counts, to commit an item or to read them.
    pub(crate) fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock()
    }

    /// Returns how many bytes and items the peer's program has read.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.read_bytes.load(Ordering::Acquire), self.read_items.load(Ordering::Acquire))
    }

    /// Takes the peer's report of the bytes and items that its program has read.
    ///
    /// # Errors
    /// [`EndCause::Violation`] if more is read than was sent.
    pub(crate) fn note_read(&self, bytes: u64, items: u64) -> Result<(), EndCause> {
        let sent = self.sent.lock();
        if bytes > sent.bytes || items > sent.items {
            return Err(EndCause::Violation("the peer has read more than was sent"));
        }
        drop(sent);
        self.read_bytes.fetch_max(bytes, Ordering::Release);
        self.read_items.fetch_max(items, Ordering::Release);
        let writer = self.state.lock().writer.take();
        if let Some(waker) = writer {
            waker.wake();
        }
        Ok(())
    }

    /// Notes that the item with this number is an offer, before it is sent.
    pub(crate) fn note_offer(&self, number: u64) {
        self.state.lock().offer = Offer::Made(number);
    }

    /// Takes the peer's answer to an offer. One to an earlier offer is left out.
    ///
    /// # Errors
    /// [`EndCause::Violation`] if the memory is not the peer's own.
    pub(crate) fn answer(
        &self,
        number: u64,
        memory: Option<RemoteRegion<u8>>,
    ) -> Result<(), EndCause> {
        let peer = self.peer()?.address().node();
        if memory.as_ref().is_some_and(|memory| memory.node() != peer || memory.is_empty()) {
            return Err(EndCause::Violation("the peer named memory that is not its own, or none"));
        }
        self.settle(|made| (made == number).then_some(memory));
        Ok(())
    }

    /// Declines the offer, since its answer may have been lost with a link.
    pub(crate) fn decline(&self) {
        self.settle(|_| Some(None));
    }

    fn settle(&self, answer: impl FnOnce(u64) -> Option<Option<RemoteRegion<u8>>>) {
        let mut state = self.state.lock();
        let Offer::Made(number) = state.offer else { return };
        let Some(answer) = answer(number) else { return };
        state.offer = Offer::Answered(answer);
        let writer = state.writer.take();
        drop(state);
        if let Some(waker) = writer {
            waker.wake();
        }
    }

    /// Waits for the answer to the last offer.
    pub(crate) fn poll_answer(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<RemoteRegion<u8>>, EndCause>> {
        // First the waker, then the look.
        let broken = self.poll_broken(cx);
        let offer = &mut self.state.lock().offer;
        match mem::take(offer) {
            Offer::Answered(answer) => Poll::Ready(Ok(answer)),
            made => {
                *offer = made;
                broken.map(Err)
            }
        }
    }

    /// Returns why nothing can be sent any more; `None` where it can.
    pub(crate) fn broken(&self) -> Option<EndCause> {
        self.state.lock().broken.clone()
    }

    /// Fails all later sends. The first cause counts.
    pub(crate) fn break_off(&self, cause: EndCause) {
        let mut state = self.state.lock();
        state.broken.get_or_insert(cause);
        let writer = state.writer.take();
        drop(state);
        if let Some(waker) = writer {
            waker.wake();
        }
    }

    /// Waits until no item can be sent any more. It keeps the one waker of the writer, which each
    /// report of the peer wakes, too.
    pub(crate) fn poll_broken(&self, cx: &mut Context<'_>) -> Poll<EndCause> {
        let mut state = self.state.lock();
        if let Some(cause) = &state.broken {
            return Poll::Ready(cause.clone());
        }
        if !state.writer.as_ref().is_some_and(|writer| writer.will_wake(cx.waker())) {
            state.writer = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Sends an item when there is room, or a link again.
    pub(crate) async fn send(&self, item: T) -> Result<(), SendError<T>> {
        let item = match self.try_send(item) {
            Err(SendError { message, cause: SendCause::Full }) => message,
            settled => return settled,
        };
        let peer = match self.peer() {
            Ok(peer) => peer,
            Err(cause) => return Err(SendError { message: item, cause: SendCause::Ended(cause) }),
        };
        // The owner has one task that sends at a time, so the number stays.
        let number = self.sent().items;
        let mut told = pin!(peer.tell(Frame::Item { number, item }));
        let told = poll_fn(|cx| {
            let mut sent = self.sent();
            let told = ready!(told.as_mut().poll(cx));
            sent.items += u64::from(told.is_ok());
            Poll::Ready(told)
        });
        told.await.map_err(|error| self.unsent(error))
    }

    /// Sends an item if that needs no waiting.
    pub(crate) fn try_send(&self, item: T) -> Result<(), SendError<T>> {
        let ended = |message, cause| Err(SendError { message, cause: SendCause::Ended(cause) });
        if let Some(cause) = self.broken() {
            return ended(item, cause);
        }
        let peer = match self.peer() {
            Ok(peer) => peer,
            Err(cause) => return ended(item, cause),
        };
        let mut sent = self.sent();
        let told = peer.try_tell(Frame::Item { number: sent.items, item });
        sent.items += u64::from(told.is_ok());
        told.map_err(|error| self.unsent(error))
    }

    /// Returns the item of a frame that was not sent, and notes the end of the connection where
    /// that is why.
    fn unsent(&self, error: TellError<Frame<T>>) -> SendError<T> {
        let Frame::Item { item: message, .. } = error.message else {
            unreachable!("only items are sent by the owner");
        };
        let cause = match EndCause::of_unsent(&error.cause) {
            Some(cause) => {
                self.break_off(cause);
                SendCause::Ended(self.broken().unwrap_or(EndCause::Shutdown))
            }
            None if can_wait(&error.cause) => SendCause::Full,
            None => SendCause::Refused(error.cause),
        };
        SendError { message, cause }
    }
}

/// Returns true if `tell` would wait where `try_tell` has failed.
pub(crate) fn can_wait(cause: &Cause) -> bool {
    matches!(cause, Cause::MailboxFull | Cause::Opening | Cause::LinkDown)
}
