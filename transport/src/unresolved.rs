//! Everything that is left of the last link to a peer: messages that this node sent on it and does
//! not know the fate of, its report of the peer's messages that it consumed, and the accounts of
//! the peer's messages that wait in mailboxes.
//!
//! - **PA-2 one after the other**: a link's driver starts when the one before has ended and both
//!   sides have heard each other's report on it. So nothing is dispatched on a link before the
//!   fates of the last one are known.
//!
//! Each message in doubt gets one fate: refused, delivered or not sent, by the peer's report on the
//! same link; or unknown, when the node is down or this one is closing before the report comes. The
//! report of this node is kept until the peer has heard it: until the next driver starts.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::accounts::Accounts;
use crate::cause::Fate;
use crate::confirm::Confirm;
use crate::driver_signals::DriverSignals;
use crate::mutants::planted;
use crate::open_request::OpenRequest;
use crate::proto::fate::{Consumed, Refused, is_before};

/// Everything that is not settled between this node and one peer.
pub(crate) struct Unresolved {
    state: Mutex<State>,
    /// Drivers that run.
    running: watch::Sender<usize>,
    /// The signals to the driver of whatever link there is.
    signals: Arc<DriverSignals>,
}

#[derive(Default)]
struct State {
    doubts: Doubts,
    report: Option<ConsumedReport>,
    accounts: Accounts,
    /// This node is closing: no report of a peer will be heard any more.
    closed: bool,
}

/// Messages in doubt, in the order they were sent.
#[derive(Default)]
struct Doubts {
    epoch: u64,
    /// The frame of the first one: the others are counted from it.
    base: u32,
    tells: BTreeMap<(u32, u16), UnackedTell>,
}

/// The report of what this node consumed of the link `epoch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsumedReport {
    pub(crate) epoch: u64,
    pub(crate) consumed: Consumed,
}

/// A tell that was committed to a link that ended.
#[derive(Debug)]
pub(crate) struct UnackedTell {
    /// The mailbox it was sent to.
    pub(crate) request: Arc<OpenRequest>,
    /// The identity of the message; 0 is a signal, whose fate is not reported.
    pub(crate) message: u128,
    /// Its sender, when it waits for the fate.
    pub(crate) confirm: Option<Confirm>,
}

/// Tells that have their fates; `Ok` is delivered.
pub(crate) type Settled = Vec<(UnackedTell, Result<(), Fate>)>;

impl Unresolved {
    pub(crate) fn new() -> Arc<Self> {
        let (running, signals) = (watch::Sender::new(0), Arc::new(DriverSignals::new()));
        Arc::new(Unresolved { state: Mutex::default(), running, signals })
    }

    /// Returns the signals to the driver of a link to this peer.
    pub(crate) fn signals(&self) -> &Arc<DriverSignals> {
        &self.signals
    }

    /// Records that a driver starts: the peer has heard the report on the last link. Returns the
    /// accounts that wait here of the peer; the driver brings them [back](Self::keep).
    pub(crate) fn begin(&self) -> Accounts {
        let mut state = self.state.lock();
        state.report = None;
        let mut accounts = mem::take(&mut state.accounts);
        drop(state);
        self.running.send_modify(|running| *running += 1);
        if planted!(FreshWindows) {
            return Accounts::default();
        }
        accounts.sweep();
        accounts
    }

    /// Returns true if no driver runs, which has the accounts then, and nothing of the peer's waits
    /// in mailboxes.
    pub(crate) fn nothing_waits(&self) -> bool {
        if *self.running.borrow() > 0 {
            return false;
        }
        let accounts = &mut self.state.lock().accounts;
        accounts.sweep();
        accounts.is_empty()
    }

    /// Keeps the accounts of the peer's messages that wait here, for its next link.
    pub(crate) fn keep(&self, accounts: Accounts) {
        self.state.lock().accounts = accounts;
    }

    /// Records that a driver has ended, with its messages in doubt, each with its frame and place,
    /// and its report. Returns the messages whose fate is known already.
    pub(crate) fn end(
        &self,
        epoch: u64,
        doubts: Vec<((u32, u16), UnackedTell)>,
        report: Option<Consumed>,
    ) -> Settled {
        let settled = {
            let mut state = self.state.lock();
            state.report = report.map(|consumed| ConsumedReport { epoch, consumed });
            let base = doubts.first().map_or(0, |((frame, _), _)| *frame);
            let from_base =
                |((frame, place), tell): (_, _)| ((u32::wrapping_sub(frame, base), place), tell);
            let tells = doubts.into_iter().map(from_base).collect();
            // There are none of an earlier link (PA-2).
            state.doubts = Doubts { epoch, base, tells };
            if state.closed { state.doubts.give_up() } else { Vec::new() }
        };
        self.running.send_modify(|running| *running -= 1);
        settled
    }

    /// Waits until no driver runs (PA-2).
    ///
    /// # Cancel safety
    /// May be called again.
    pub(crate) async fn idle(&self) {
        // The sender lives as long as this.
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Returns the report on the last link, for the peer.
    pub(crate) fn report(&self) -> Option<ConsumedReport> {
        self.state.lock().report.clone()
    }

    /// Records that the peer refused these messages of the link `epoch`.
    pub(crate) fn refused(&self, epoch: u64, refused: &[Refused]) -> Settled {
        let doubts = &mut self.state.lock().doubts;
        let mut settled = Vec::new();
        for Refused { frame, place, refusal } in refused {
            let key = (frame.wrapping_sub(doubts.base), *place);
            // A message that was refused on the link itself is not in doubt.
            if doubts.epoch == epoch
                && let Some(tell) = doubts.tells.remove(&key)
            {
                settled.push((tell, Err(Fate::Refused(*refusal))));
            }
        }
        settled
    }

    /// Records that the peer has said all: it consumed `count` frames of the link `epoch`; `None`:
    /// it has no report on any.
    pub(crate) fn consumed(&self, report: Option<(u64, u32)>) -> Settled {
        let doubts = &mut self.state.lock().doubts;
        let base = doubts.base;
        let Some((_, count)) = report.filter(|(epoch, _)| *epoch == doubts.epoch) else {
            return doubts.give_up();
        };
        let fate = |frame: u32| {
            if is_before(base.wrapping_add(frame), count) { Ok(()) } else { Err(Fate::NotSent) }
        };
        let tells = mem::take(&mut doubts.tells);
        tells.into_iter().map(|((frame, _), tell)| (tell, fate(frame))).collect()
    }

    /// Records that the node is down: no report of it will come.
    pub(crate) fn give_up(&self) -> Settled {
        if planted!(LostDoubts) {
            self.state.lock().doubts.tells.clear();
        }
        self.state.lock().doubts.give_up()
    }

    /// Records that this node is closing: all messages in doubt, now and later, stay unknown.
    pub(crate) fn close(&self) -> Settled {
        let mut state = self.state.lock();
        state.closed = true;
        state.doubts.give_up()
    }
}

impl Doubts {
    fn give_up(&mut self) -> Settled {
        let tells = mem::take(&mut self.tells).into_values();
        tells.map(|tell| (tell, Err(Fate::Unknown))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Refusal;
    use crate::open_request::Target;

    const FIRST: u32 = u32::MAX - 1;

    fn tell(message: u128) -> UnackedTell {
        let request = OpenRequest::new(Target::Name("m".into()), 0);
        UnackedTell { request: Arc::new(request), message, confirm: None }
    }

    /// Four messages in doubt, in three frames across the wrap of the count.
    fn unresolved() -> Arc<Unresolved> {
        let unresolved = Unresolved::new();
        unresolved.begin();
        let doubts = [(FIRST, 0), (u32::MAX, 0), (u32::MAX, 3), (0, 1)];
        let doubts = (1..).zip(doubts).map(|(n, at)| (at, tell(n))).collect();
        let report = Consumed { count: 7, refusals: Vec::new() };
        assert!(unresolved.end(5, doubts, Some(report)).is_empty());
        unresolved
    }

    fn fates(settled: Settled) -> Vec<(u128, Result<(), Fate>)> {
        settled.into_iter().map(|(tell, fate)| (tell.message, fate)).collect()
    }

    /// At or below the count delivered, above it not sent, refused if the report says so.
    #[test]
    fn the_report_of_the_peer_decides() {
        let unresolved = unresolved();
        let refused = |place| Refused { frame: u32::MAX, place, refusal: Refusal::Closed };
        // Of another link, the same one twice, and of a message that is not in doubt.
        assert!(unresolved.refused(4, &[refused(3)]).is_empty());
        let closed = Err(Fate::Refused(Refusal::Closed));
        assert_eq!(
            fates(unresolved.refused(5, &[refused(3), refused(3), refused(9)])),
            [(3, closed)]
        );
        let rest = fates(unresolved.consumed(Some((5, 0))));
        assert_eq!(rest, [(1, Ok(())), (2, Ok(())), (4, Err(Fate::NotSent))]);
        assert!(unresolved.consumed(Some((5, 0))).is_empty() && unresolved.give_up().is_empty());
    }

    #[test]
    fn without_a_report_on_the_same_link_it_stays_unknown() {
        for report in [None, Some((4, 0))] {
            let fates = fates(unresolved().consumed(report));
            assert_eq!(fates, [1, 2, 3, 4].map(|n| (n, Err(Fate::Unknown))));
        }
        assert_eq!(unresolved().give_up().len(), 4);
        let closed = Unresolved::new();
        assert!(closed.close().is_empty());
        closed.begin();
        assert_eq!(fates(closed.end(1, vec![((0, 0), tell(8))], None)), [(8, Err(Fate::Unknown))]);
    }

    /// PA-2.
    #[tokio::test]
    async fn the_report_is_kept_until_the_next_driver_starts() {
        let unresolved = unresolved();
        unresolved.idle().await;
        assert_eq!(
            unresolved.report().map(|report| (report.epoch, report.consumed.count)),
            Some((5, 7))
        );
        assert!(unresolved.nothing_waits());
        unresolved.begin();
        assert!(!unresolved.nothing_waits(), "the driver knows");
        assert_eq!(unresolved.report(), None);
        let mut idle = Box::pin(unresolved.idle());
        assert!(futures::poll!(&mut idle).is_pending());
        unresolved.end(6, Vec::new(), None);
        idle.await;
    }
}
