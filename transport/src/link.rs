//! What the senders and the driver of one link share.
//!
//! - **LN-1 short locks**: under the state's lock there is no user code, no wake-up, no drop of a
//!   user's value and no log line.
//! - **LN-2 lines**: senders that wait at an outlet stand in line; only the first may commit; who
//!   leaves the line (by commit, error or drop) wakes the next.
//! - **LN-3 one end**: a link ends once, with one cause; then every waiter is woken, every pending
//!   ask fails and every message has its fate.
//!
//! What is not under a lock here, and why no order of events can hurt it:
//!
//! - `ended` is set under the state's lock and decides only there; a look without the lock saves
//!   the way to it, and whoever finds it not yet set looks again before it commits or waits.
//! - What wakes the driver and tells it of mailboxes is in [`marks`]. The driver registers before
//!   it looks (DR-3), and whoever gives it something to do, under a lock, wakes it after: so it
//!   sees one or the other. `awake`, which saves wake-ups, is set and taken back under the state's
//!   lock.
//! - The counters order nothing.

mod asks;
mod driver_side;
mod line;
mod marks;
mod receipt;
mod replier;
mod stats;
#[cfg(feature = "steps")]
mod steps;
mod view;
mod waits;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use parking_lot::Mutex;
use rkyv::util::AlignedVec;
use tokio::time::Instant;

use crate::cause::LinkCause;
use crate::confirm::{Confirmation, Confirms};
use crate::id::NodeId;
use crate::mailbox::{Accepted, OpenRequest};
use crate::memory::Gauge;
use crate::proto::header::RecordKind;
use crate::proto::lanes::Entry;
use crate::proto::outbound::{Outbound, Unopened};
use crate::steps::step;

use asks::Asks;
use line::Lines;
use marks::News;

pub(crate) use driver_side::Remains;
pub(crate) use marks::Dirty;
pub(crate) use receipt::InletEnd;
pub(crate) use stats::Counters;

pub use asks::{PendingReply, ReplyLoss};
pub use receipt::{CloseNotice, Receipt};
pub use replier::Replier;
pub use stats::LinkStats;
pub(crate) use view::Stall;
pub use view::{LinkView, Waiting};
pub use waits::WaitsFor;

/// One link, as its senders and its session see it.
pub(crate) struct Link {
    peer: NodeId,
    fabric: &'static str,
    /// Longest message the peer takes.
    message_max: usize,
    state: Mutex<State>,
    news: News,
    ended: AtomicBool,
    counters: Counters,
}

struct State {
    outbound: Outbound,
    asks: Asks,
    confirms: Confirms,
    lines: Lines,
    wishes: Wishes,
    /// What was committed waits for credits, since then.
    uncredited: Option<Instant>,
    /// Of the driver's pool.
    gauge: Gauge,
    /// The driver knows that there is something to do.
    awake: bool,
}

/// What the session wants of the driver.
#[derive(Default)]
pub(crate) struct Wishes {
    /// End with this cause.
    pub(crate) close: Option<LinkCause>,
    /// Say goodbye.
    pub(crate) leave: bool,
    /// Show that the link still carries frames.
    pub(crate) probe: bool,
}

/// A message as a sender gives it.
pub(crate) struct Outgoing<'a> {
    pub(crate) message: &'a Accepted,
    pub(crate) kind: SendKind,
    /// Its bytes, once there are any; taken when large.
    pub(crate) archive: Option<&'a mut AlignedVec<16>>,
}

/// What kind of message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendKind {
    Tell,
    /// A tell whose sender waits for its fate.
    ConfirmedTell,
    Ask {
        deadline_us: Option<u64>,
    },
    /// A signal, in the order of messages.
    Signal(u16),
    /// A signal, ahead of messages.
    UrgentSignal(u16),
}

/// How far an attempt to send came.
pub(crate) enum Attempt {
    /// It would be committed, were its bytes there.
    Ready,
    /// Committed.
    Committed(Awaited),
    /// Not yet; the waker is kept, if one was given.
    Wait(Wait),
    /// The link has ended.
    LinkEnded,
    /// It will not be sent.
    Failed(SendFailure),
}

/// What there is to wait for when a message is committed.
#[derive(Debug)]
pub enum Awaited {
    /// Nothing: it was a tell or a signal.
    Nothing,
    /// Its answer: it was an ask.
    Reply(PendingReply),
    /// Its fate: it was a tell to be confirmed.
    Fate(Confirmation),
}

/// What a sender waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Opening,
    Room,
}

/// Why a message cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendFailure {
    Unopened(Unopened),
    NotAccepted,
    SchemaMismatch,
    TooLarge { bytes: usize, limit: usize },
    TooManyAsks,
    Leaving,
}

impl Link {
    pub(crate) fn new(
        peer: NodeId,
        fabric: &'static str,
        message_max: usize,
        (outbound, gauge): (Outbound, Gauge),
    ) -> Arc<Self> {
        let state = State {
            outbound,
            asks: Asks::default(),
            confirms: Confirms::default(),
            lines: Lines::default(),
            wishes: Wishes::default(),
            uncredited: None,
            gauge,
            awake: true,
        };
        Arc::new(Link {
            peer,
            fabric,
            message_max,
            state: Mutex::new(state),
            news: News::new(),
            ended: AtomicBool::new(false),
            counters: Counters::default(),
        })
    }

    /// The fabric that carries it.
    pub(crate) fn fabric(&self) -> &'static str {
        self.fabric
    }

    /// Whether the link has ended. Who sees this waits for another link, or for the news that there
    /// will be none.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends the link; the driver drains it and reports `cause`, unless it ended before.
    pub(crate) fn close(&self, cause: LinkCause) {
        self.wish(|wishes| wishes.close = Some(wishes.close.take().unwrap_or(cause)));
    }

    /// Starts the goodbye exchange: nothing new is committed, what was committed is sent, then both
    /// sides acknowledge everything and the link ends as [`LinkCause::Left`].
    pub(crate) fn goodbye(&self) {
        self.wish(|wishes| wishes.leave = true);
    }

    /// Called at each heartbeat: makes the link show that it still carries frames. Whether the
    /// driver has not run since the last call.
    pub(crate) fn probe(&self) -> bool {
        self.wish(|wishes| std::mem::replace(&mut wishes.probe, true))
    }

    fn wish<T>(&self, wish: impl FnOnce(&mut Wishes) -> T) -> T {
        let mut state = self.state.lock();
        let answer = wish(&mut state.wishes);
        state.awake = true;
        drop(state);
        self.news.wake();
        answer
    }

    /// What it has carried.
    pub(crate) fn stats(&self) -> LinkStats {
        self.counters.read()
    }

    /// One step of a send: checks everything, and commits when the bytes are given. `place` is the
    /// sender's place in the outlet's line between steps.
    pub(crate) fn attempt(
        self: &Arc<Self>,
        request: &Arc<OpenRequest>,
        outgoing: Outgoing<'_>,
        place: &mut Option<usize>,
        waker: Option<&Waker>,
    ) -> Attempt {
        let mut next = None;
        // LN-1: wake-ups are collected under the lock and done after it.
        let mut state = self.state.lock();
        let attempt = self.attempt_locked(&mut state, request, outgoing, place, waker);
        if !matches!(attempt, Attempt::Wait(_) | Attempt::Ready) {
            next = place.take().and_then(|key| state.leave(key, &self.counters));
        }
        let wake = self.rouse(&mut state);
        let retired = state.lines.take_retired();
        drop(state);
        drop(retired);
        if let Some(next) = next {
            next.wake();
        }
        if wake {
            self.news.wake();
        }
        attempt
    }

    fn attempt_locked(
        self: &Arc<Self>,
        state: &mut State,
        request: &Arc<OpenRequest>,
        outgoing: Outgoing<'_>,
        place: &mut Option<usize>,
        waker: Option<&Waker>,
    ) -> Attempt {
        if self.has_ended() {
            return Attempt::LinkEnded;
        }
        if state.outbound.is_leaving() {
            return Attempt::Failed(SendFailure::Leaving);
        }
        if let SendKind::UrgentSignal(signal) = outgoing.kind {
            return self.signal_locked(state, request, signal, place, waker);
        }
        let outlet = match place.map(|key| state.lines.turn(key, waker)) {
            None => {
                let outlet = state.outbound.outlet(request);
                if !state.lines.is_empty(outlet) {
                    return self.wait(state, outlet, Wait::Room, place, waker);
                }
                outlet
            }
            Some(line::Turn::Ended(why)) => return Attempt::Failed(SendFailure::Unopened(why)),
            Some(line::Turn::NotYet) => return Attempt::Wait(Wait::Room),
            Some(line::Turn::First(outlet)) => outlet,
        };
        // OU-2: nothing goes to a mailbox before what it accepts is known.
        let Some((port, opened)) = state.outbound.port(outlet) else {
            return self.wait(state, outlet, Wait::Opening, place, waker);
        };
        let ordinal = match outgoing.kind {
            SendKind::Signal(signal) | SendKind::UrgentSignal(signal) => signal,
            SendKind::Tell | SendKind::ConfirmedTell | SendKind::Ask { .. } => {
                match find(&opened.accepted, outgoing.message, outgoing.kind) {
                    Ok(ordinal) => ordinal,
                    Err(failure) => return Attempt::Failed(failure),
                }
            }
        };
        let Outgoing { message, kind, archive } = outgoing;
        let Some(archive) = archive else { return Attempt::Ready };
        if archive.len() > self.message_max {
            let (bytes, limit) = (archive.len(), self.message_max);
            return Attempt::Failed(SendFailure::TooLarge { bytes, limit });
        }
        if !state.outbound.has_room(port, archive.len() as u32) {
            return self.wait(state, outlet, Wait::Room, place, waker);
        }
        let Some((entry, awaited)) = self.entry(state, port, (ordinal, message.id), kind) else {
            return Attempt::Failed(SendFailure::TooManyAsks);
        };
        state.outbound.commit(entry, archive);
        step!(any kind.committed());
        Attempt::Committed(awaited)
    }

    /// A signal ahead of messages: it waits for the opening only, beside the line.
    fn signal_locked(
        &self,
        state: &mut State,
        request: &Arc<OpenRequest>,
        signal: u16,
        place: &mut Option<usize>,
        waker: Option<&Waker>,
    ) -> Attempt {
        if let Some(key) = *place
            && let line::Turn::Ended(why) = state.lines.turn(key, waker)
        {
            return Attempt::Failed(SendFailure::Unopened(why));
        }
        let outlet = state.outbound.outlet(request);
        if let Some((port, _)) = state.outbound.port(outlet) {
            state.outbound.signal(port, signal);
            return Attempt::Committed(Awaited::Nothing);
        }
        if let (None, Some(waker)) = (&place, waker) {
            *place = Some(state.lines.watch(outlet, waker.clone()));
        }
        Attempt::Wait(Wait::Opening)
    }

    /// The entry of a message, and what there is to wait for.
    fn entry(
        self: &Arc<Self>,
        state: &mut State,
        port: u32,
        (ordinal, message): (u16, u128),
        kind: SendKind,
    ) -> Option<(Entry, Awaited)> {
        let entry = |kind, correlation, deadline_us| Entry {
            kind,
            port,
            ordinal,
            correlation,
            message,
            deadline_us,
        };
        Some(match kind {
            SendKind::Ask { deadline_us } => {
                let (correlation, answer) = state.asks.insert()?;
                let reply = PendingReply::new(self.clone(), correlation, answer);
                (entry(RecordKind::Ask, correlation, deadline_us), Awaited::Reply(reply))
            }
            SendKind::Tell => (entry(RecordKind::Tell, 0, None), Awaited::Nothing),
            SendKind::ConfirmedTell => {
                let (number, fate) = state.confirms.insert();
                (entry(RecordKind::Tell, number, None), Awaited::Fate(fate))
            }
            SendKind::Signal(_) | SendKind::UrgentSignal(_) => {
                (Entry { message: 0, ..entry(RecordKind::Signal, 1, None) }, Awaited::Nothing)
            }
        })
    }

    fn wait(
        &self,
        state: &mut State,
        outlet: u32,
        wait: Wait,
        place: &mut Option<usize>,
        waker: Option<&Waker>,
    ) -> Attempt {
        if let Some(waker) = waker {
            match place {
                Some(key) => state.lines.keep(*key, waker),
                None => {
                    let for_what = waits::waits_for(&state.outbound, outlet);
                    *place = Some(state.lines.join(outlet, waker.clone(), for_what));
                }
            }
            if wait == Wait::Room {
                Counters::add(&self.counters.window_stalls, 1);
            }
        }
        Attempt::Wait(wait)
    }

    /// Gives up a place in a line.
    pub(crate) fn forget(&self, place: usize) {
        let mut state = self.state.lock();
        let next = state.leave(place, &self.counters);
        let retired = state.lines.take_retired();
        drop(state);
        drop(retired);
        if let Some(next) = next {
            next.wake();
        }
    }

    /// Opens a mailbox and waits for its end: ready when it is closed or was refused.
    pub(crate) fn await_end(
        &self,
        request: &Arc<OpenRequest>,
        place: &mut Option<usize>,
        waker: &Waker,
    ) -> Result<Option<Unopened>, LinkEnded> {
        let mut state = self.state.lock();
        if self.has_ended() {
            *place = None;
            return Err(LinkEnded);
        }
        let ended = match place {
            Some(key) => match state.lines.turn(*key, Some(waker)) {
                line::Turn::Ended(why) => {
                    state.lines.leave(*key);
                    *place = None;
                    Some(why)
                }
                line::Turn::NotYet | line::Turn::First(_) => None,
            },
            None => {
                let outlet = state.outbound.outlet(request);
                *place = Some(state.lines.watch(outlet, waker.clone()));
                None
            }
        };
        let wake = self.rouse(&mut state);
        let retired = state.lines.take_retired();
        drop(state);
        drop(retired);
        if wake {
            self.news.wake();
        }
        Ok(ended)
    }

    /// Whether the driver is to be woken: once per batch.
    fn rouse(&self, state: &mut State) -> bool {
        if state.awake || state.outbound.is_empty() {
            return false;
        }
        state.awake = true;
        true
    }
}

impl State {
    /// Gives up a place in a line, and counts how long it was waited there; who is first now is to
    /// be woken.
    fn leave(&mut self, place: usize, counters: &Counters) -> Option<Waker> {
        let next = self.lines.leave(place);
        for (for_what, waited) in self.lines.drain_waited() {
            counters.waited(for_what, waited);
        }
        next
    }
}

/// The link ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkEnded;

/// The ordinal of a message among those a mailbox accepts.
fn find(all: &[Accepted], message: &Accepted, kind: SendKind) -> Result<u16, SendFailure> {
    let at = all.iter().position(|a| a.id == message.id).ok_or(SendFailure::NotAccepted)?;
    let asked = matches!(kind, SendKind::Ask { .. });
    if all[at].layout != message.layout || (asked && all[at].reply != message.reply) {
        return Err(SendFailure::SchemaMismatch);
    }
    Ok(at as u16)
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link(to {} over {})", self.peer.name, self.fabric)
    }
}
