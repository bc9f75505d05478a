//! The state that the senders and the driver of one link share.
//!
//! - Under the state's lock there is no user code, no wake-up, no drop of a user's value and no log
//!   line.
//! - Senders to one mailbox that find no room wait in one line, and are granted room in its order,
//!   but for bursts (WQ-4). A sender that leaves (by commit, error or drop) gives granted room that
//!   it did not use to the next.
//! - A link ends once, with one cause; then every waiter is woken, every pending ask fails and
//!   every message has its fate.
//!
//! Some things are not under a lock here, and no order of events can hurt them:
//!
//! - `ended` is set under the state's lock and decides only there; a look without the lock saves
//!   the way to it, and a sender that finds it not yet set looks again before it commits or waits.
//! - The signals that wake the driver and tell it of mailboxes are in
//!   [`driver_signals`](crate::driver_signals). The driver registers before it looks (DR-3), and a
//!   task that gives it something to do, under a lock, wakes it after: so it sees one or the other.
//!   `awake`, which saves wake-ups, is set and taken back under the state's lock.
//! - The counters order nothing.

mod asks;
mod at_once;
mod driver_side;
mod grant;
mod outgoing;
mod receipt;
mod replier;
mod reserving;
mod resting;
mod sending;
mod stats;
#[cfg(test)]
pub(crate) mod tests;
mod view;
mod wait_queue;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::cause::LinkCause;
use crate::confirm::Confirms;
use crate::driver_signals::DriverSignals;
use crate::id::NodeId;
use crate::limits;
use crate::memory::{Gauge, Lease};
use crate::proto::loans::NotLent;
use crate::proto::send_queue::SendQueue;
use crate::reach::Reach;

use asks::ReplySlots;
use wait_queue::WaitQueue;

pub(crate) use asks::Asker;
pub(crate) use driver_side::{DroppedAsks, Unsettled};
pub(crate) use outgoing::{Hint, Outgoing};
pub(crate) use sending::Attempt;
pub(crate) use stats::{Carried, Counters};

pub use asks::{PendingReply, ReplyLoss};
pub use outgoing::{SendKind, Unsent};
pub use receipt::{CloseNotice, Receipt};
pub use replier::Replier;
pub use sending::Awaited;
pub use stats::{FetchStats, LinkStats, LoanStats, RingStats, WaitStats};
pub(crate) use view::Stall;
pub use view::{LinkView, Waiting};
pub(crate) use wait_queue::Line;
pub use wait_queue::WaitsFor;

/// One link, as its senders and its session see it.
pub(crate) struct LinkHandle {
    /// This handle, for callbacks.
    me: Weak<LinkHandle>,
    peer: NodeId,
    fabric: &'static str,
    encrypted: bool,
    /// Largest message that both nodes take, in bytes of what the user sends.
    message_bytes_max: u32,
    state: Mutex<State>,
    replies: Mutex<ReplySlots>,
    signals: Arc<DriverSignals>,
    /// The poster of frames for senders; set before the first sender comes. Weak, because senders
    /// keep an ended link alive and must not keep its queue pair and slots.
    poster: OnceLock<Weak<dyn Poster>>,
    ended: AtomicBool,
    counters: Counters,
    reach: Arc<Reach>,
}

/// The driver's queue pair, as senders may use it between its turns.
pub(crate) trait Poster: Send + Sync {
    /// Writes waiting messages into frames and posts them, if that is possible at once. Returns
    /// false when the driver has to be woken.
    fn try_post(&self, link: &LinkHandle) -> bool;
}

struct State {
    send_queue: SendQueue<Asker>,
    confirms: Confirms,
    waiting: WaitQueue,
    /// Mailboxes at which the first sender waits for the link's window, in the order of service.
    for_link: VecDeque<u32>,
    /// True for each mailbox, by its key, that is in `for_link`.
    is_for_link: Vec<bool>,
    /// Tasks that wait until fewer bytes of answers do.
    for_replies: Vec<Waker>,
    /// Tasks that wait until the asker gives up, by the correlation of its ask.
    for_given_up: HashMap<u64, Waker>,
    requests: DriverRequests,
    /// Time since which committed messages wait for credits.
    uncredited: Option<Instant>,
    /// The gauge of the driver's pool.
    gauge: Gauge,
    /// The peer's node is shutting down: nothing more is asked of it.
    peer_leaves: bool,
    /// Nothing is committed while both nodes say whether the link is to be closed (LN-5).
    resting: bool,
    /// The driver, or a sender that posts in its place, knows that there is something to do.
    awake: bool,
    /// The driver waits for credits for messages; everything else can be sent.
    starved: bool,
    /// All frames that were sent are consumed: the sender of the next message may post it.
    quiet: bool,
}

/// Requests of the session to the driver, and of the tasks that fetch for it.
#[derive(Default)]
pub(crate) struct DriverRequests {
    /// End with this cause.
    pub(crate) close: Option<LinkCause>,
    /// Say goodbye.
    pub(crate) leave: bool,
    /// Show that the link still carries frames.
    pub(crate) probe: bool,
    /// The ends of fetches, by the numbers of their loans.
    pub(crate) fetched: Vec<(u16, Result<Lease, NotLent>)>,
}

impl LinkHandle {
    pub(crate) fn new(
        peer: NodeId,
        (fabric, encrypted): (&'static str, bool),
        message_bytes_max: u32,
        signals: Arc<DriverSignals>,
        (send_queue, gauge): (SendQueue<Asker>, Gauge),
    ) -> Arc<Self> {
        let state = State {
            send_queue,
            confirms: Confirms::default(),
            waiting: WaitQueue::default(),
            for_link: VecDeque::new(),
            is_for_link: Vec::new(),
            for_replies: Vec::new(),
            for_given_up: HashMap::new(),
            requests: DriverRequests::default(),
            uncredited: None,
            gauge,
            peer_leaves: false,
            resting: false,
            awake: true,
            starved: false,
            quiet: false,
        };
        Arc::new_cyclic(|me| LinkHandle {
            me: me.clone(),
            peer,
            fabric,
            encrypted,
            message_bytes_max,
            state: Mutex::new(state),
            replies: Mutex::default(),
            signals,
            poster: OnceLock::new(),
            ended: AtomicBool::new(false),
            counters: Counters::default(),
            reach: Reach::new(),
        })
    }

    /// Returns the one-sided access beside it.
    pub(crate) fn reach(&self) -> &Arc<Reach> {
        &self.reach
    }

    /// Returns the node that it leads to.
    pub(crate) fn peer(&self) -> &NodeId {
        &self.peer
    }

    /// Sets the `poster` by which senders post. Called once.
    pub(crate) fn set_poster(&self, poster: Weak<dyn Poster>) {
        self.poster.get_or_init(|| poster);
    }

    /// Returns the fabric that carries it.
    pub(crate) fn fabric(&self) -> &'static str {
        self.fabric
    }

    /// Returns the longest archive that both nodes take, in bytes.
    fn archive_max(&self) -> usize {
        limits::archive_bytes_max(self.message_bytes_max) as usize
    }

    /// Returns true if the link has ended. A task that sees this waits for another link, or for the
    /// news that there will be none.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends the link; the driver drains it and reports `cause`, unless it ended before.
    pub(crate) fn close(&self, cause: LinkCause) {
        self.request(|requests| requests.close = Some(requests.close.take().unwrap_or(cause)));
    }

    /// Starts the goodbye exchange: nothing new is committed, committed messages are sent, then
    /// both sides acknowledge everything and the link ends as [`LinkCause::Left`].
    pub(crate) fn goodbye(&self) {
        self.request(|requests| requests.leave = true);
    }

    /// Commits no further ask, because the peer's node is shutting down; committed asks are
    /// answered. Wakes all that wait. Returns false when this was known.
    pub(crate) fn peer_leaves(&self) -> bool {
        let mut state = self.state.lock();
        let first = !std::mem::replace(&mut state.peer_leaves, true);
        if first {
            state.waiting.wake_all();
        }
        self.finish(state);
        first
    }

    /// Makes the link show that it still carries frames; called at each heartbeat before which none
    /// came. Returns true if the driver has not run since the last call.
    pub(crate) fn probe(&self) -> bool {
        self.request(|requests| std::mem::replace(&mut requests.probe, true))
    }

    fn request<T>(&self, change: impl FnOnce(&mut DriverRequests) -> T) -> T {
        let mut state = self.state.lock();
        let answer = change(&mut state.requests);
        state.awake = true;
        drop(state);
        self.signals.wake();
        answer
    }

    /// Returns the statistics of the link.
    pub(crate) fn stats(&self) -> LinkStats {
        self.counters.read()
    }

    /// Ends a use of the state: acts on its consequences, releases the lock, and then does the work
    /// that must not be done under it.
    #[inline]
    fn finish(&self, state: MutexGuard<'_, State>) {
        // Most messages: the driver is awake already and no sender is to be told.
        if !state.awake || state.starved || state.has_news() {
            self.finish_with_news(state, true);
        }
    }

    /// Ends a use of the state as [`finish`](Self::finish) does, by the driver itself, which need
    /// not be woken.
    #[inline]
    fn finish_as_driver(&self, state: MutexGuard<'_, State>) {
        if state.has_news() {
            self.finish_with_news(state, false);
        }
    }

    fn finish_with_news(&self, mut state: MutexGuard<'_, State>, rouse: bool) {
        if state.send_queue.has_news() {
            state.act_on_notices();
        }
        let idle = !state.awake && !state.send_queue.is_empty();
        let wake = rouse && (idle || (state.starved && state.send_queue.has_urgent()));
        state.awake |= wake;
        state.starved &= !wake;
        // Later senders find the driver awake, and their messages go with the next frames.
        let post = wake && std::mem::take(&mut state.quiet);
        let mut wakers = (Vec::new(), Vec::new());
        if state.waiting.has_news() {
            for (for_what, waited) in state.waiting.drain_waited() {
                self.counters.waited(for_what, waited);
            }
            wakers = state.waiting.take_wakers();
        }
        let put_off = state.waiting.is_any_put_off();
        drop(state);
        // The driver first: a foreign waker may panic.
        if (wake && !(post && self.try_post())) || put_off {
            self.signals.wake();
        }
        let (woken, retired) = wakers;
        drop(retired);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Returns true if its queue pair and slots are still there.
    #[cfg(test)]
    pub(crate) fn has_memory(&self) -> bool {
        self.poster.get().is_some_and(|poster| poster.strong_count() > 0)
    }

    /// Posts waiting messages in the driver's place. Returns false when the driver has to be woken.
    fn try_post(&self) -> bool {
        let poster = self.poster.get().and_then(Weak::upgrade);
        poster.is_some_and(|poster| poster.try_post(self))
    }
}

impl State {
    /// Returns true if a use of it made something possible that is yet to be acted on.
    #[inline]
    fn has_news(&self) -> bool {
        self.send_queue.has_news() || self.waiting.has_news()
    }
}

impl fmt::Debug for LinkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinkHandle(to {} over {})", self.peer.name, self.fabric)
    }
}
