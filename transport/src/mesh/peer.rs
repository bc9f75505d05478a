//! One peer: its connection, or the search for one.

mod addresses;
mod asking;
mod backoff;
mod connection_guard;
mod connection_state;
mod failed_ways;
mod gone;
mod link_questions;
#[cfg(test)]
mod stand_in;
mod state;
mod upgrade_pause;
mod view;
mod waiters;

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::time::Instant;

use crate::bootstrap::{ADDRESSES_MAX, Message};
use crate::cause::NodeDown;
use crate::entropy::Entropy;
use crate::host::PeerEvent;
use crate::id::{Incarnation, NodeId, NodeName};
use crate::limits;
use crate::link::{LinkHandle, LinkStats};
use crate::log;
use crate::log_limiter::LogLimiter;
use crate::reach::{LendingRoom, PeerRoom};
use crate::unresolved::Unresolved;

use super::event_queue::EventQueue;

pub(super) use addresses::Target;
pub(super) use backoff::Backoff;
pub(super) use connection_guard::{ConnectionGuard, Unavailable};
pub(super) use connection_state::{Command, ConnectionState};
pub(super) use state::{NOT_DIALLED, Plan, Presence, Search, SeedKind};
use state::{State, total};
pub use view::{PeerState, PeerStatus, PeerView, Unlinked};

/// One peer: its link, or the search for one.
pub(crate) struct Peer {
    name: NodeName,
    pub(super) events: Arc<EventQueue>,
    /// Messages, reports and accounts that are left of the last link to it.
    pub(super) unresolved: Arc<Unresolved>,
    /// Wakes the task that reaches for this peer, when something changed for it.
    changed: Notify,
    pub(super) state: Mutex<State>,
    /// The link of its connection, for senders. Written under the state's lock.
    pub(super) link: ArcSwapOption<LinkHandle>,
    /// The bytes that its links lend and land.
    room: OnceLock<PeerRoom>,
    /// Held as long as a thread blocks that makes a queue pair for a link to it.
    pub(super) making: Arc<AsyncMutex<()>>,
}

impl Peer {
    pub(super) fn new(name: NodeName, events: Arc<EventQueue>) -> Self {
        let (unresolved, changed) = (Unresolved::new(), Notify::new());
        Peer {
            name,
            events,
            unresolved,
            changed,
            state: Mutex::new(State::new()),
            link: ArcSwapOption::empty(),
            room: OnceLock::new(),
            making: Arc::default(),
        }
    }

    /// Returns its part of the bytes that a node lends and lands, the same for each of its links.
    pub(super) fn lending_room(&self, node: &LendingRoom) -> PeerRoom {
        self.room.get_or_init(|| node.of_peer()).clone()
    }

    pub(crate) fn name(&self) -> &NodeName {
        &self.name
    }

    /// Returns a number that all messages of this peer have, and of no other peer.
    pub(crate) fn number(&self) -> usize {
        self.unresolved.signals().peer_number()
    }

    /// Returns the current link, which may have ended. Takes no lock, so a link that came up this
    /// very moment may be missed: [`poll_link`](Self::poll_link) sees it.
    #[inline]
    pub(crate) fn link(&self) -> Guard<Option<Arc<LinkHandle>>> {
        self.link.load()
    }

    /// Waits for a link, and has one made when there is none. Fails when the node is down (MS-4),
    /// unless the caller is `patient`. `ticket` is the place in the wait queue: pass the same one
    /// to each poll.
    pub(crate) fn poll_link(
        &self,
        ticket: &mut Option<u64>,
        patient: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Arc<LinkHandle>, NodeDown>> {
        let waker = cx.waker().clone();
        let mut state = self.state.lock();
        let (outcome, start) = if let Some(link) = state.connection.link() {
            (Ok(link.clone()), None)
        } else if let Some(down) = ticket.and_then(|ticket| state.waiters.failed(ticket)) {
            (Err(down), None)
        } else if self.events.is_closing() {
            (Err(self.events.node_down()), None)
        } else {
            let now = self.events.now();
            let start = state.want(now);
            let Some(down) = self.down(&state, now).filter(|_| !patient) else {
                let old = state.waiters.wait(ticket, waker, patient);
                drop(state);
                drop(old);
                self.reach(start);
                return Poll::Pending;
            };
            (Err(down), Some(start))
        };
        let old = ticket.take().and_then(|ticket| state.waiters.remove(ticket));
        drop(state);
        drop(old);
        start.into_iter().for_each(|start| self.reach(start));
        Poll::Ready(outcome)
    }

    /// Returns true if this node is closing.
    pub(crate) fn is_closing(&self) -> bool {
        self.events.is_closing()
    }

    /// Gives up a place in the wait queue.
    pub(crate) fn forget(&self, ticket: u64) {
        let old = self.state.lock().waiters.remove(ticket);
        drop(old);
    }

    /// Starts making a link when there is none, without waiting. Returns why and since when the
    /// node is down, if it is.
    pub(crate) fn want_link(&self) -> Option<NodeDown> {
        let (start, down) = {
            let mut state = self.state.lock();
            if state.connection.link().is_some() {
                return None;
            }
            if self.events.is_closing() {
                return Some(self.events.node_down());
            }
            let now = self.events.now();
            (state.want(now), self.down(&state, now))
        };
        self.reach(start);
        down
    }

    /// Returns why sends to it fail at once; `None` where they wait for a link.
    fn down(&self, state: &State, now: Instant) -> Option<NodeDown> {
        state.down(now).or_else(|| self.refused(state))
    }

    /// Returns the node and the link to it, if it is up.
    pub(super) fn linked(&self) -> Option<(NodeId, Arc<LinkHandle>)> {
        match &self.state.lock().connection {
            ConnectionState::Linked(owner, link) => {
                let node = NodeId { name: self.name.clone(), incarnation: owner.incarnation };
                Some((node, link.clone()))
            }
            _ => None,
        }
    }

    /// Returns what all links to it have carried; `None` when there was none.
    pub(super) fn stats(&self) -> Option<LinkStats> {
        let state = self.state.lock();
        match &state.connection {
            ConnectionState::Linked(_, link) => Some(total(state.carried, link.stats())),
            _ => state.carried,
        }
    }

    /// Returns a snapshot of it; `None` if it has no link, is not missed or idle, and has no
    /// sender.
    pub(super) fn view(&self) -> Option<PeerView> {
        let (link, run, waiting, last) = {
            let state = self.state.lock();
            let link = state.connection.link().cloned();
            (link, state.presence.up().cloned(), state.waiters.count(), state.reach.last.clone())
        };
        (link.is_some() || run.is_some() || waiting > 0).then(|| PeerView {
            name: self.name.clone(),
            run,
            carried: self.stats().unwrap_or_default(),
            unlinked: link.is_none().then_some(Unlinked { senders: waiting, last }),
            link: link.map(|link| link.view()),
        })
    }

    /// Sends `message` to it, if there is a link.
    pub(super) fn send(&self, message: Message) {
        let connection = self.state.lock().connection.clone();
        if let ConnectionState::Linked(owner, _) = connection {
            let _ = owner.commands.send(Command::Send(message));
        }
    }

    /// Returns where it can be dialled; as many as one node tells another.
    pub(super) fn addresses(&self) -> Vec<String> {
        let targets = self.state.lock().reach.targets();
        targets.into_iter().map(|target| target.name).take(ADDRESSES_MAX).collect()
    }

    /// Records where it can be dialled, as another node at `teller` says.
    pub(super) fn learn(&self, addresses: &[String], teller: &str) {
        {
            let reach = &mut self.state.lock().reach;
            // If no task reaches for it, the news does not shorten the next task's first pause.
            reach.news |= reach.addresses.tell(addresses, teller) && reach.running;
        }
        self.changed.notify_one();
    }

    /// Records that it was met where this seed leads, which is tried, too, when it is reached for.
    pub(super) fn met_at_seed(&self, seed: &str, address: &str, kind: SeedKind) {
        self.state.lock().reach.seeds.insert((address.into(), seed.into()), kind);
    }

    /// Records that this seed leads to another node there, or does not lead there any more.
    pub(super) fn left_seed(&self, seed: &str, address: &str) {
        self.state.lock().reach.seeds.remove(&(address.into(), seed.into()));
    }

    /// Returns true if a seed has to be dialled at which this run of it was met: that run has no
    /// link, nothing is done to get one, and it is not idle, nor was it disconnected.
    pub(super) fn is_missing(&self, run: Incarnation) -> bool {
        let state = self.state.lock();
        match &state.connection {
            ConnectionState::None => {
                !state.reach.running && !state.is_resting(run) && !state.is_disconnected()
            }
            ConnectionState::Joining(_) => false,
            ConnectionState::Linked(owner, _) => owner.incarnation != run,
        }
    }

    /// Returns true if this run of it is linked or idle.
    pub(super) fn is_met(&self, run: Incarnation) -> bool {
        let state = self.state.lock();
        match &state.connection {
            ConnectionState::Linked(owner, _) => owner.incarnation == run,
            ConnectionState::None | ConnectionState::Joining(_) => state.is_resting(run),
        }
    }

    /// Returns true if it was met last at a seed of its own. Its link is kept, however idle: other
    /// nodes find this one by it.
    pub(super) fn is_kept(&self) -> bool {
        self.state.lock().reach.seeds.values().any(|kind| *kind == SeedKind::Own)
    }

    /// Returns true if it is linked or idle.
    pub(super) fn is_ready(&self) -> bool {
        let state = self.state.lock();
        let linked = matches!(state.connection, ConnectionState::Linked(..));
        linked || matches!(state.presence, Presence::Idle(_))
    }

    /// Returns the kind of search for it, after a round of dials; `None` when there is a
    /// connection, and when it is only to be asked for others.
    pub(super) fn search(&self) -> Option<Search> {
        let state = self.state.lock();
        let is_sought =
            matches!(state.connection, ConnectionState::None) && state.is_wanted_itself();
        is_sought.then(|| state.search())
    }

    /// Returns true if its last link was closed because neither side used it, nothing was sent to
    /// it since, and no question to it came to nothing.
    pub(super) fn rests(&self) -> bool {
        self.state.lock().resting().is_some()
    }

    /// Returns how many complaints of this cause went without a warning since the last one, if this
    /// one is to be a warning: if it differs from the last one about this peer, for it is met again
    /// at each dial, and if the log takes one.
    pub(super) fn admit_complaint(
        &self,
        complaint: &str,
        log: &LogLimiter,
        cause: &'static str,
    ) -> Option<u64> {
        let state = &mut *self.state.lock();
        let last = &mut state.complaint;
        if last.as_deref() == Some(complaint) {
            return None;
        }
        let suppressed = log.admit(cause, Instant::now())?;
        *last = Some(complaint.into());
        state.chosen = None;
        Some(suppressed)
    }

    /// Records that nothing is amiss any more. Returns true if the fabric that was chosen is
    /// another one than the log was told last.
    pub(super) fn clear_complaint(&self, fabric: &str, encrypted: bool) -> bool {
        let mut state = self.state.lock();
        state.complaint = None;
        let told = state.chosen.as_ref();
        told.is_none_or(|(last, was)| last != fabric || *was != encrypted)
    }

    /// Records that the log was told of this fabric.
    pub(super) fn note_fabric(&self, fabric: &str, encrypted: bool) {
        self.state.lock().chosen = Some((fabric.to_owned(), encrypted));
    }

    /// Records that it gave a sign of life on its link.
    pub(super) fn note_heard(&self) {
        self.state.lock().heard = Some(self.events.now());
    }

    /// Records that its node said that it is leaving.
    pub(super) fn note_leaving(&self) {
        {
            let mut state = self.state.lock();
            let Some(peer) = state.presence.up().cloned() else { return };
            state.push(self, PeerEvent::NodeLeaving { peer });
        }
        self.events.tell();
    }

    /// Returns what its events have told of it; `None` when it was never linked.
    pub(super) fn told(&self) -> Option<PeerState> {
        self.state.lock().told.clone()
    }

    /// Returns where the node is that told this name of it; `None` for one of the user's.
    pub(super) fn teller(&self, target: &str) -> Option<String> {
        self.state.lock().reach.addresses.teller(target)
    }

    /// Records that it was reached by this name or address.
    pub(super) fn reached_at(&self, target: &str) {
        self.state.lock().reach.addresses.good(target);
    }

    /// Records that it was not reached by this name or address; `stale` if another node is there.
    pub(super) fn not_reached_at(&self, target: &str, stale: bool) {
        let addresses = &mut self.state.lock().reach.addresses;
        if stale { addresses.forget(target) } else { addresses.failed(target) }
    }

    /// Records that it answered: if it left, it is there again, and that is no longer the cause.
    pub(super) fn note_answered(&self) {
        self.state.lock().note_answer(self.events.now());
    }

    /// Records what the last attempts to reach it met.
    pub(super) fn note(&self, last: String) {
        self.state.lock().note(last);
    }

    /// Records that it answered, but that there is no link.
    pub(super) fn note_answer(&self, last: String) {
        let mut state = self.state.lock();
        state.note_answer(self.events.now());
        state.note(last);
    }

    /// Logs what the last attempts to reach it met, if that is news.
    pub(super) fn log_failures(&self) {
        let last = {
            let reach = &self.state.lock().reach;
            if reach.last == reach.logged {
                return;
            }
            reach.last.clone()
        };
        if !self.events.admit_line("nodes not reached") {
            // It is still to be named.
            return log::debug!(peer = %self.name, last, "a node is not reached");
        }
        {
            let reach = &mut self.state.lock().reach;
            // A link since then has made the next failure news again.
            if reach.last == last {
                reach.logged.clone_from(&last);
            }
        }
        log::info!(peer = %self.name, last, "a node is not reached: it is dialled again");
    }

    /// Returns true if the first sender that wants it came a short while ago.
    pub(super) fn is_wanted_lately(&self) -> bool {
        let lately = |since: Instant| self.events.now() < since + limits::WANTED_BACKOFF_MAX;
        self.state.lock().reach.wanted.is_some_and(lately)
    }

    /// Returns the pause before the next round of dials, a short one if there is `haste`.
    pub(super) fn pause(&self, entropy: &Entropy, haste: bool) -> Duration {
        self.state.lock().reach.backoff.pause(entropy, haste)
    }

    /// Returns true if a sender waits for a link to it, or wanted one a short while ago.
    pub(super) fn has_sender(&self) -> bool {
        self.state.lock().has_sender()
    }

    /// Returns true if it is to be dialled without a pause, because it is met for the first time.
    /// After a link was lost both sides dial, and should not do it at the same moment; and a link
    /// that did not live long is not made again at once.
    pub(super) fn is_new(&self) -> bool {
        let state = self.state.lock();
        !matches!(state.presence, Presence::Up(_)) && state.reach.backoff.is_new()
    }

    /// Returns true if it is missed and not down.
    pub(super) fn is_missed(&self) -> bool {
        matches!(self.state.lock().presence, Presence::Up(_))
    }

    /// Returns true if it is linked, idle, or missed and not down.
    pub(super) fn is_alive(&self) -> bool {
        self.state.lock().presence.up().is_some()
    }

    /// Waits until something changed that a plan depends on.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns true if it has no link and is not missed, nothing is done to reach it,
    /// and nothing of it waits in mailboxes, or in the memory that it landed in, which would be
    /// counted afresh (AC-1, MS-9, ME-11).
    pub(super) fn is_forgettable(&self) -> bool {
        let State { connection, presence, reach, .. } = &*self.state.lock();
        let reached_for = !reach.seeds.is_empty() || reach.running || reach.wanted.is_some();
        let linked = !matches!(connection, ConnectionState::None);
        let missed = matches!(presence, Presence::Up(_));
        let landed = self.room.get().is_some_and(|room| !room.is_unused());
        !linked && !missed && !reached_for && !landed && self.unresolved.nothing_waits()
    }

    /// Returns what to do to reach it now. Reports it down when it is time to (MS-4).
    pub(super) fn plan(&self) -> Plan {
        let (plan, wakers) = {
            let mut state = self.state.lock();
            let wakers = state.expire(self, self.events.now());
            let until = state.deadline(self);
            let until = until.map(|until| self.events.clock().real(until));
            let plan = match &state.connection {
                ConnectionState::None if state.is_wanted() && !self.events.is_closing() => {
                    let news = std::mem::take(&mut state.reach.news);
                    Plan::Dial { targets: state.reach.targets(), news, until }
                }
                // It tells when it is over (MS-4).
                ConnectionState::Joining(_) if !self.events.is_closing() => Plan::Wait(None),
                _ => {
                    (state.reach.running, state.reach.news) = (false, false);
                    Plan::Stop
                }
            };
            (plan, wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
        self.events.tell();
        plan
    }

    /// Tells all that wait that no link will come any more: this node is closing.
    pub(super) fn close(&self) {
        let wakers = self.state.lock().waiters.fail_all(&self.events.node_down());
        wakers.into_iter().for_each(Waker::wake);
        self.events.settle(&self.name, self.unresolved.close());
        self.events.tell();
    }

    /// Asks for a task that reaches for it if `start` is set; otherwise wakes the running task.
    pub(super) fn reach(&self, start: bool) {
        if start {
            self.events.want(&self.name);
        } else {
            self.changed.notify_one();
        }
    }
}
