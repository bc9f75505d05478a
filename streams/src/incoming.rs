//! Items that came to an end of a connection and wait for its owner.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};

use parking_lot::Mutex;
use ringpost::wire::Wire;
use tokio::task::coop;

use crate::end::EndCause;
use crate::frame::Received;

/// How much may wait in an [`Incoming`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    /// A number of items. The actor waits with the next item, and its senders wait with it.
    Items(usize),
    /// A number of bytes, and [`ITEM_COST`] for each item. The peer itself keeps to this limit.
    Bytes(u64),
}

/// Bytes that each message counts in the window of a stream, apart from its own bytes.
pub const ITEM_COST: u64 = 512;

/// Items on their way from the actor of an end to its owner, in order, and then the end of the
/// peer. One side is the actor's alone (`offer`, `end`), the other one the owner's (`take`,
/// `close`).
pub(crate) struct Incoming<T: Wire> {
    state: Mutex<State<T>>,
    limit: Limit,
    /// The numbers of bytes and whole items that the owner has read.
    pub(crate) read_bytes: AtomicU64,
    pub(crate) read_items: AtomicU64,
    /// The number of read bytes that the peer waits for.
    report_at: AtomicU64,
}

struct State<T: Wire> {
    items: VecDeque<(Received<T>, u64)>,
    /// The sum of the costs of the items.
    cost: u64,
    end: Option<EndCause>,
    /// The owner takes nothing any more.
    is_closed: bool,
    reader: Option<Waker>,
    /// The actor, where it waits for room.
    feeder: Option<Waker>,
}

impl<T: Wire> Incoming<T> {
    pub(crate) fn new(limit: Limit) -> Self {
        let state = State {
            items: VecDeque::new(),
            cost: 0,
            end: None,
            is_closed: false,
            reader: None,
            feeder: None,
        };
        Incoming {
            state: Mutex::new(state),
            limit,
            read_bytes: AtomicU64::new(0),
            read_items: AtomicU64::new(0),
            report_at: AtomicU64::new(0),
        }
    }

    /// Waits for room, and hands over an item that counts `bytes`. The item is dropped if the owner
    /// takes none any more.
    ///
    /// # Errors
    /// [`EndCause::Violation`] where the peer has sent more than it may.
    pub(crate) async fn offer(&self, item: Received<T>, bytes: u64) -> Result<(), EndCause> {
        let mut item = Some(item);
        poll_fn(|cx| self.poll_offer(&mut item, bytes, cx)).await
    }

    fn poll_offer(
        &self,
        item: &mut Option<Received<T>>,
        bytes: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), EndCause>> {
        let state = &mut *self.state.lock();
        let cost = bytes + ITEM_COST;
        if state.is_closed || state.end.is_some() {
            return Poll::Ready(Ok(()));
        }
        match self.limit {
            Limit::Items(most) if state.items.len() >= most => {
                state.feeder = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Limit::Bytes(most) if state.cost + cost > most => {
                let cause = EndCause::Violation("more bytes came than the window allows");
                return Poll::Ready(Err(cause));
            }
            _ => {}
        }
        state.items.extend(item.take().map(|item| (item, cost)));
        state.cost += cost;
        if let Some(waker) = state.reader.take() {
            waker.wake();
        }
        Poll::Ready(Ok(()))
    }

    /// Notes that no item follows. The first cause counts.
    pub(crate) fn end(&self, cause: EndCause) {
        let mut state = self.state.lock();
        state.end.get_or_insert(cause);
        let wakers = [state.reader.take(), state.feeder.take()];
        drop(state);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Drops all items, and later ones. The cause replaces an earlier one.
    pub(crate) fn discard(&self, cause: EndCause) {
        let mut state = self.state.lock();
        state.end = Some(cause);
        state.cost = 0;
        let items = mem::take(&mut state.items);
        let feeder = state.feeder.take();
        drop(state);
        drop(items);
        feeder.into_iter().for_each(Waker::wake);
    }

    /// Returns true if no item follows.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().end.is_some()
    }

    /// Takes the next item; the end of the peer after the last one, again and again.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Result<Received<T>, EndCause>> {
        // A task that only takes lets others run now and then.
        let turn = ready!(coop::poll_proceed(cx));
        let state = &mut *self.state.lock();
        if let Some((item, cost)) = state.items.pop_front() {
            turn.made_progress();
            state.cost -= cost;
            if let Some(waker) = state.feeder.take() {
                waker.wake();
            }
            return Poll::Ready(Ok(item));
        }
        match &state.end {
            Some(cause) => Poll::Ready(Err(cause.clone())),
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Drops all items, also later ones. Returns whether the peer had not ended, and whether items
    /// are dropped.
    pub(crate) fn close(&self) -> (bool, bool) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let (items, feeder) = (mem::take(&mut state.items), state.feeder.take());
        state.cost = 0;
        let is_open = state.end.is_none();
        drop(state);
        if let Some(waker) = feeder {
            waker.wake();
        }
        (is_open, !items.is_empty())
    }

    /// Adds to the numbers that the owner has read. Returns true if the peer waits for that.
    pub(crate) fn note_read(&self, bytes: u64, items: u64) -> bool {
        self.read_items.fetch_add(items, Ordering::SeqCst);
        let before = self.read_bytes.fetch_add(bytes, Ordering::SeqCst);
        let report_at = self.report_at.load(Ordering::SeqCst);
        (before + 1..=before + bytes).contains(&report_at)
    }

    /// Notes the number of read bytes that the peer waits for. Returns true if it is reached.
    pub(crate) fn set_report_at(&self, bytes: u64) -> bool {
        // The owner adds first and looks then, so one of the two sees what the other did.
        self.report_at.store(bytes, Ordering::SeqCst);
        bytes > 0 && self.read_bytes.load(Ordering::SeqCst) >= bytes
    }
}
