//! Shares of this node that the peer is granted, and what takes them back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::mem::{replace, take};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use super::aside::drop_aside;
use super::{Leftovers, Means, Reach, Stage, State, Terms};
use crate::bootstrap::{Denial, Question, Sharing};
use crate::cause::NotShared;
use crate::fabric::FabricError;
use crate::fabric::one_sided::{Executor, Grant, Granting};
use crate::id::ShareId;
use crate::limits;
use crate::mutants::planted;
use crate::shares::{Asking, Grantee, Holder, Piece, ShareHolder};
use crate::shield;

/// Shares of this node as far as the peer asked for them.
#[derive(Default)]
pub(super) struct Grants {
    /// The shares that it was granted.
    pub(super) granted: BTreeMap<ShareId, Granted>,
    /// The shares that it waits for, in turn, while another one is registered (RE-7).
    waiting: VecDeque<Waiting>,
    /// A device locks the memory of a share, or lets go of it again.
    is_registering: bool,
    /// The share that it is for, as long as the peer waits for that: neither the share nor the
    /// queue pair has ended.
    awaited: Option<Awaited>,
    /// Time at which the peer was last told that this side is at it.
    told: Option<Instant>,
    /// Shares that the peer is to let go of, and has not said so, those included that were taken
    /// back.
    unheard: BTreeSet<ShareId>,
    /// Shares that ended, in this order, and when. They are taken back after a while (RE-3).
    ended: VecDeque<(Instant, ShareId)>,
    /// A task takes them back.
    takes_back: bool,
}

/// A share that was asked for, and waits for its turn.
struct Waiting {
    share: ShareId,
    /// It was asked for again, for atomics.
    is_again: bool,
    /// Keeps the turn of its executor (SM-3).
    _asking: Option<Asking>,
}

/// A share whose memory a device is locking, and what keeps the place of an executor that is to ask
/// again (SM-3).
struct Awaited {
    share: ShareId,
    asking: Option<Asking>,
}

/// A share that the peer was granted. Dropping it takes no time (RE-7).
pub(super) struct Granted {
    /// `None` when it is being dropped. The grant ends before the share counts one holder less.
    held: Option<(Grant, Holder)>,
    terms: Terms,
    since: Instant,
    /// How long it is kept at least, though another executor is asked for (SM-3).
    kept: Duration,
    /// The peer is to let go of it; it may ask for it again (SM-3) unless it ends.
    is_recalled: bool,
    /// The share has ended (RE-3).
    has_ended: bool,
    /// It has asked for it again already: it has its answer when it has let go.
    is_asked_again: bool,
    runtime: Handle,
}

impl Granted {
    /// Takes a grant that it took a device so long to make.
    fn new(
        (grant, took): (Grant, Duration),
        holder: Holder,
        piece: &Piece,
        runtime: &Handle,
    ) -> Self {
        let &Piece { bytes, access, is_elsewhere, .. } = piece;
        let terms = Terms { key: grant.key(), bytes, access, is_elsewhere };
        let (held, runtime) = (Some((grant, holder)), runtime.clone());
        let kept = limits::EXECUTOR_KEPT.max(took * limits::EXECUTOR_KEPT_TIMES);
        Granted {
            held,
            terms,
            since: Instant::now(),
            kept,
            is_recalled: false,
            has_ended: false,
            is_asked_again: false,
            runtime,
        }
    }

    fn message(&self, share: ShareId) -> Sharing {
        let Terms { key, bytes, access, is_elsewhere } = self.terms;
        Sharing::Granted { share, key, bytes, access, is_elsewhere }
    }
}

impl Granted {
    /// Takes the grant out of it, to be dropped by the caller.
    pub(super) fn take(&mut self) -> Option<(Grant, Holder)> {
        self.held.take()
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        if let Some(held) = self.held.take()
            && held.0.is_slow()
        {
            drop_aside(&self.runtime, held);
        }
    }
}

impl Grants {
    /// Takes the grants that end with the queue pair, to be dropped without the lock. A grant that
    /// is still being registered is dropped when that is done.
    pub(super) fn leave(&mut self) -> BTreeMap<ShareId, Granted> {
        self.waiting.clear();
        self.awaited = None;
        self.unheard.clear();
        self.ended.clear();
        take(&mut self.granted)
    }

    /// Returns true if a device locks memory, or lets go of it, for a share that was asked for.
    #[cfg(test)]
    pub(super) fn is_registering(&self) -> bool {
        self.is_registering
    }

    /// Returns how many shares wait for a device that registers another one.
    #[cfg(test)]
    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if the peer may do atomics on a share.
    #[cfg(test)]
    pub(super) fn is_any_atomic(&self) -> bool {
        self.granted.values().any(|granted| granted.terms.access.atomic)
    }

    /// Returns true if a waiting share may have its turn.
    fn has_turn(&self) -> bool {
        !self.is_registering && self.unheard.len() <= limits::ENDS_UNHEARD_MAX
    }

    /// Returns true if the peer waits for an answer.
    pub(super) fn is_asked(&self) -> bool {
        !self.waiting.is_empty() || self.awaited.is_some()
    }
}

impl State {
    /// Answers a peer that asks for a share of this node.
    pub(super) fn heed_ask(&mut self, reach: &Arc<Reach>, means: &Arc<Means>, share: ShareId) {
        if !self.answer_again(means, share) {
            self.answer(reach, means, (share, false));
        }
    }

    /// Grants the peer a share of this node that it asked for, if there is such a one; `is_again`,
    /// if it asked again for atomics. Without a queue pair, the peer soon hears of that, and asks
    /// again (RE-1).
    fn answer(
        &mut self,
        reach: &Arc<Reach>,
        means: &Arc<Means>,
        (share, is_again): (ShareId, bool),
    ) {
        let Stage::Connected(pair) = &mut self.stage else { return };
        let grants = &mut self.grants;
        // An ended share is not found, even if the peer still holds it.
        if means.shares.not_shared(share).is_some() {
            return self.deny(share);
        }
        let executor = pair.one_sided.executor();
        // (Not opened before its turn: the executor of its atomics would let go of them, SM-3.)
        if !grants.has_turn() {
            // If it is being registered or waits already, its answer is to come.
            let is_it = grants.awaited.as_ref().is_some_and(|it| it.share == share);
            if !is_it && grants.waiting.iter().all(|it| it.share != share) {
                let _asking = means.shares.wait_for(share, &executor, is_again);
                grants.waiting.push_back(Waiting { share, is_again, _asking });
            }
            return;
        }
        let opened = means.shares.open_for(share, &executor, &(reach.clone() as _));
        let Some((piece, holder)) = opened else {
            return self.deny(share);
        };
        let is_elsewhere = piece.is_elsewhere;
        match pair.one_sided.grant(&piece.memory, piece.at, piece.bytes, piece.access) {
            Granting::Done(made) => {
                let made = made.map(|grant| (grant, Duration::ZERO));
                let made = made.map(|grant| Granted::new(grant, holder, &piece, &means.own));
                if is_again && is_elsewhere {
                    // It has its place among the waiting executors (SM-3).
                    means.shares.wait_for(share, &executor, true);
                    self.recalls.push((share, executor));
                }
                self.note_granted(share, made);
            }
            Granting::Slow(make) => {
                let waits = is_elsewhere.then(|| means.shares.wait_for(share, &executor, is_again));
                grants.is_registering = true;
                grants.awaited = Some(Awaited { share, asking: waits.flatten() });
                let (reach, means) = (reach.clone(), means.clone());
                let runtime = means.own.clone();
                runtime.spawn_blocking(move || {
                    // Whatever comes of it, the next one has its turn.
                    let lost = || Err(FabricError::Connect(io::Error::other("it panicked")));
                    let begun = Instant::now();
                    let made = shield::run(make).unwrap_or_else(lost);
                    let made = made.map(|grant| (grant, begun.elapsed()));
                    let made = made.map(|grant| Granted::new(grant, holder, &piece, &means.own));
                    reach.note_registered(&means, made);
                });
            }
        }
    }

    /// Answers a peer that asks again for a share that it was granted, as it does if it wants
    /// atomics and was not granted them (SM-3). Returns true if it has its answer, or will have it
    /// when it has let go of the share.
    fn answer_again(&mut self, means: &Means, share: ShareId) -> bool {
        let Stage::Connected(pair) = &self.stage else { return false };
        let Some(granted) = self.grants.granted.get_mut(&share) else { return false };
        if granted.has_ended {
            self.deny(share);
            return true;
        }
        let executor = pair.one_sided.executor();
        let may_do_more = granted.terms.is_elsewhere && means.shares.is_free_for(share, &executor);
        if may_do_more || granted.is_recalled {
            granted.is_asked_again = true;
            self.tell_to_let_go(share);
        } else {
            self.outbox.push_back(granted.message(share));
            if granted.terms.is_elsewhere {
                self.recalls.push((share, executor));
            }
        }
        true
    }

    /// Takes note that the peer has let go of a share, if it was told to. (Otherwise it speaks of
    /// an earlier queue pair, or of a share that it does not have.) Returns the grant.
    pub(super) fn heed_revoked(
        &mut self,
        reach: &Arc<Reach>,
        means: &Arc<Means>,
        share: ShareId,
    ) -> Option<Granted> {
        if !self.grants.unheard.remove(&share) {
            return None;
        }
        self.note_answer(Question::Revoke);
        let granted = self.grants.granted.remove(&share);
        if granted.as_ref().is_some_and(|granted| granted.is_asked_again) {
            if let Stage::Connected(pair) = &self.stage {
                let executor = pair.one_sided.executor();
                // Another executor came first: this one waits for its turn (SM-3).
                if !means.shares.is_free_for(share, &executor) {
                    self.recalls.push((share, executor));
                }
            }
            self.answer(reach, means, (share, true));
        }
        self.answer_waiting(reach, means);
        granted
    }

    /// Tells the peer, once, to let go of a share that it was granted.
    fn tell_to_let_go(&mut self, share: ShareId) {
        let Some(granted) = self.grants.granted.get_mut(&share) else { return };
        if !replace(&mut granted.is_recalled, true) {
            self.grants.unheard.insert(share);
            self.ask(Question::Revoke, share);
        }
    }

    /// Answers the ASKs that wait, as long as they have their turn.
    fn answer_waiting(&mut self, reach: &Arc<Reach>, means: &Arc<Means>) {
        while self.grants.has_turn()
            && let Some(Waiting { share, is_again, _asking }) = self.grants.waiting.pop_front()
        {
            self.answer(reach, means, (share, is_again));
        }
    }

    /// Takes a grant back that the peer has not let go of.
    fn take_back(&mut self, share: ShareId) -> Option<Granted> {
        let granted = self.grants.granted.remove(&share)?;
        if granted.is_asked_again && !planted!(SilentTakeBack) {
            self.deny(share);
        }
        Some(granted)
    }

    /// Tells the peer why a share has ended, or never was one.
    fn deny(&mut self, share: ShareId) {
        let why = self.means.as_ref().and_then(|means| means.shares.not_shared(share));
        let why = Denial::NotShared(why.unwrap_or(NotShared::Revoked));
        self.outbox.push_back(Sharing::Denied { share, why });
    }

    fn note_granted(&mut self, share: ShareId, made: Result<Granted, FabricError>) {
        self.outbox.push_back(match made {
            Ok(granted) => {
                let message = granted.message(share);
                self.grants.granted.insert(share, granted);
                message
            }
            Err(error) => Sharing::Denied { share, why: Denial::Unable(error.to_string()) },
        });
    }

    /// Takes a registered grant, and returns it if it is not wanted any more.
    fn take_registered(
        &mut self,
        means: &Means,
        made: Result<Granted, FabricError>,
    ) -> Option<Granted> {
        let (Some(awaited), Stage::Connected(pair)) = (self.grants.awaited.take(), &self.stage)
        else {
            return made.ok();
        };
        let Awaited { share, asking } = awaited;
        if let Some(_asking) = asking {
            // The peer has to ask again: the time in which it may begins now.
            let executor = pair.one_sided.executor();
            means.shares.wait_for(share, &executor, true);
            self.recalls.push((share, executor));
        }
        self.note_granted(share, made);
        None
    }

    /// Tells a peer that waits for an answer that this side is at it, now and then (RE-7). Returns
    /// true if it does.
    pub(super) fn reassure(&mut self) -> bool {
        let is_told = |since: Instant| since.elapsed() < limits::ONE_SIDED_PATIENCE / 4;
        // (An unsent LATER says as much.)
        let says = self.outbox.iter().any(|said| matches!(said, Sharing::Later));
        let is_told = says || self.grants.told.is_some_and(is_told);
        let tells = self.grants.is_asked() && !is_told;
        if tells {
            self.grants.told = Some(Instant::now());
            self.outbox.push_back(Sharing::Later);
        }
        tells
    }
}

impl Reach {
    /// Takes the result of registering memory, and goes on with the next share. A grant that is not
    /// wanted any more is given back first, by this thread.
    fn note_registered(self: &Arc<Self>, means: &Arc<Means>, made: Result<Granted, FabricError>) {
        let unwanted = self.state.lock().take_registered(means, made);
        drop(unwanted.map(|mut granted| granted.take()));
        {
            let mut state = self.state.lock();
            state.grants.is_registering = false;
            state.answer_waiting(self, means);
        }
        self.recall_for_peer(means);
        self.outgoing.notify_one();
    }

    /// Makes other executors let go of shares on which the peer wants atomics (SM-3).
    pub(super) fn recall_for_peer(&self, means: &Means) {
        let recalls = take(&mut self.state.lock().recalls);
        recalls.iter().for_each(|(share, executor)| means.shares.recall(*share, executor));
    }

    /// Takes back, in time, the grants that the peer has to give back (RE-3). No other task is
    /// waited for: an ended share is not reached for longer, whatever the peer says, or its program
    /// does.
    fn take_back_in_time(&self, means: &Means) {
        let this = self.this.clone();
        means.own.spawn(async move {
            while let Some(due) = this.upgrade().and_then(|reach| reach.take_back_late()) {
                sleep_until(due).await;
            }
        });
    }

    /// Takes back the grants of shares that ended long ago. Returns when the next one is due, if
    /// there is one: without one the task that calls this ends.
    fn take_back_late(&self) -> Option<Instant> {
        let (mut over, mut due) = (BTreeMap::new(), None);
        let leftovers = {
            let state = &mut *self.state.lock();
            while let Some(&(ended, share)) = state.grants.ended.front() {
                let at = ended + limits::REVOKE_PATIENCE;
                if at > Instant::now() {
                    due = Some(at);
                    break;
                }
                state.grants.ended.pop_front();
                if !planted!(KeptAfterEnd) {
                    over.extend(state.take_back(share).map(|granted| (share, granted)));
                }
            }
            state.grants.takes_back = due.is_some();
            Leftovers::of_grants(over, state.means.as_ref())
        };
        if !leftovers.granted.is_empty() {
            self.outgoing.notify_one();
        }
        drop(leftovers);
        due
    }
}

impl Grantee for Reach {
    /// Tells the peer that this share of this node ends (RE-3).
    fn revoke(&self, share: ShareId) {
        let begins = {
            let state = &mut *self.state.lock();
            if let Some(granted) = state.grants.granted.get_mut(&share) {
                if !replace(&mut granted.has_ended, true) {
                    state.grants.ended.push_back((Instant::now(), share));
                }
                state.tell_to_let_go(share);
                let takes_back = replace(&mut state.grants.takes_back, true);
                state.means.clone().filter(|_| !takes_back)
            } else if state.grants.awaited.take_if(|it| it.share == share).is_some() {
                state.deny(share);
                None
            } else if let Some(at) = state.grants.waiting.iter().position(|it| it.share == share) {
                state.grants.waiting.remove(at);
                state.deny(share);
                None
            } else {
                return;
            }
        };
        if let Some(means) = begins {
            self.take_back_in_time(&means);
        }
        self.outgoing.notify_one();
    }

    fn recall(&self, share: ShareId, executor: &Executor) {
        {
            let state = &mut *self.state.lock();
            let Stage::Connected(pair) = &state.stage else { return };
            let Some(granted) = state.grants.granted.get_mut(&share) else { return };
            let is_own = pair.one_sided.executor() == *executor || !granted.terms.access.atomic;
            if is_own || granted.since.elapsed() < granted.kept {
                return;
            }
            state.tell_to_let_go(share);
        }
        self.outgoing.notify_one();
    }

    fn holder(&self, share: ShareId) -> Option<ShareHolder> {
        let state = self.state.lock();
        let granted = state.grants.granted.get(&share)?;
        let (node, access) = (state.means.as_ref()?.peer.clone(), granted.terms.access);
        Some(ShareHolder { node, access, since: granted.since })
    }
}
