//! One peer: its connection, or the search for one.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::bootstrap::{ADDRESSES_MAX, Message};
use crate::cause::{LinkCause, NodeDownCause};
use crate::host::PeerEvent;
use crate::id::{Incarnation, NodeId, NodeName};
use crate::link::{LinkHandle, LinkStats};
use crate::unresolved::Unresolved;

use super::connection_state::{Command, ConnectionState};
use super::event_queue::EventQueue;
use super::refusals::RefusalLog;
use super::view::{PeerView, Unlinked};
use super::waiters::Waiters;

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
}

/// The state of a peer, as far as it is known.
pub(super) struct State {
    pub(super) connection: ConnectionState,
    /// The run that was linked and is not reported down.
    pub(super) alive: Option<NodeId>,
    /// Time of its last sign of life on a link: a node that answers and cannot be linked is of no
    /// use to those that wait.
    pub(super) heard: Option<Instant>,
    /// Counts of what links that ended have carried; `None` when there was none yet.
    pub(super) carried: Option<LinkStats>,
    pub(super) waiters: Waiters,
    pub(super) reach: Reach,
    /// The complaint about it that the log was told last.
    complaint: Option<String>,
}

/// The search for a connection.
pub(super) struct Reach {
    /// Time since which a link is wanted.
    pub(super) wanted: Option<Instant>,
    /// Seeds at which it was met last (MS-12).
    seeds: Vec<String>,
    /// A task reaches for it.
    running: bool,
    /// Addresses at which it can be dialled.
    pub(super) addresses: Vec<String>,
    /// The outcome of the last attempt, in words.
    last: String,
}

/// The next step of the task that reaches for a peer.
pub(super) enum Plan {
    /// End: there is a link, or no sender wants one and the node is not missed.
    Stop,
    /// Wait: another connection is being made into a link.
    Wait(Option<Instant>),
    /// Try these addresses.
    Dial(Vec<String>, Option<Instant>),
}

impl Peer {
    pub(super) fn new(name: NodeName, events: Arc<EventQueue>) -> Self {
        let reach = Reach {
            wanted: None,
            seeds: Vec::new(),
            running: false,
            addresses: Vec::new(),
            last: "not dialled yet".into(),
        };
        let state = State {
            connection: ConnectionState::None,
            alive: None,
            heard: None,
            carried: None,
            waiters: Waiters::default(),
            reach,
            complaint: None,
        };
        let (unresolved, changed) = (Unresolved::new(), Notify::new());
        Peer {
            name,
            events,
            unresolved,
            changed,
            state: Mutex::new(state),
            link: ArcSwapOption::empty(),
        }
    }

    pub(crate) fn name(&self) -> &NodeName {
        &self.name
    }

    /// Returns the link there is now; it may have ended. Takes no lock, so one that stands since
    /// this very moment may not be seen: [`poll_link`](Self::poll_link) sees it.
    #[inline]
    pub(crate) fn link(&self) -> Guard<Option<Arc<LinkHandle>>> {
        self.link.load()
    }

    /// Waits for a link, having one made when there is none; fails when the node is down (MS-4).
    /// `ticket` is the caller's place among those that wait; give the same one to each poll.
    pub(crate) fn poll_link(
        &self,
        ticket: &mut Option<u64>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Arc<LinkHandle>, NodeDownCause>> {
        let waker = cx.waker().clone();
        let mut state = self.state.lock();
        let outcome = if let Some(link) = state.connection.link() {
            Ok(link.clone())
        } else if let Some(cause) = ticket.and_then(|ticket| state.waiters.failed(ticket)) {
            Err(cause)
        } else if self.events.is_closing() {
            Err(NodeDownCause::Shutdown)
        } else {
            if state.waiters.count() == 0 {
                // A wait that was given up is over: this one has its whole time.
                state.reach.wanted = None;
            }
            let old = state.waiters.wait(ticket, waker);
            let start = state.reach.want(Instant::now());
            drop(state);
            drop(old);
            self.reach(start);
            return Poll::Pending;
        };
        let old = ticket.take().and_then(|ticket| state.waiters.remove(ticket));
        drop(state);
        drop(old);
        Poll::Ready(outcome)
    }

    /// Gives up a place among those that wait.
    pub(crate) fn forget(&self, ticket: u64) {
        let old = self.state.lock().waiters.remove(ticket);
        drop(old);
    }

    /// Has a link made when there is none, without waiting.
    pub(crate) fn want_link(&self) {
        let start = {
            let mut state = self.state.lock();
            if state.connection.link().is_some() || self.events.is_closing() {
                return;
            }
            state.reach.want(Instant::now())
        };
        self.reach(start);
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

    /// Returns what it looks like now; `None` when it has no link, is not missed, and no sender
    /// waits for it.
    pub(super) fn view(&self) -> Option<PeerView> {
        let (link, run, waiting, last) = {
            let state = self.state.lock();
            let link = state.connection.link().cloned();
            (link, state.alive.clone(), state.waiters.count(), state.reach.last.clone())
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
        let mut addresses = self.state.lock().reach.targets();
        addresses.truncate(ADDRESSES_MAX);
        addresses
    }

    /// Records where it can be dialled, as another node says.
    pub(super) fn learn(&self, addresses: Vec<String>) {
        {
            let known = &mut self.state.lock().reach.addresses;
            for address in addresses {
                if known.len() < ADDRESSES_MAX && !known.contains(&address) {
                    known.push(address);
                }
            }
        }
        self.changed.notify_one();
    }

    /// Records that it was met at this seed, which is tried, too, when it is reached for.
    pub(super) fn met_at_seed(&self, address: &str) {
        let seeds = &mut self.state.lock().reach.seeds;
        if !seeds.iter().any(|seed| seed == address) {
            seeds.push(address.into());
        }
    }

    /// Records that another node was met at this seed.
    pub(super) fn left_seed(&self, address: &str) {
        self.state.lock().reach.seeds.retain(|seed| seed != address);
    }

    /// Returns true if a seed has to be dialled at which this run of it was met: that run has no
    /// link, and nothing is done to get one.
    pub(super) fn is_missing(&self, run: Incarnation) -> bool {
        let state = self.state.lock();
        match &state.connection {
            ConnectionState::None => !state.reach.running,
            ConnectionState::Joining(_) => false,
            ConnectionState::Linked(owner, _) => owner.incarnation != run,
        }
    }

    /// Returns how many complaints of this cause went without a warning since the last one, if this
    /// one is to be a warning: if it differs from the last one about this peer, for it is met again
    /// at each dial, and if the log takes one (MS-13).
    pub(super) fn warns(
        &self,
        complaint: &str,
        log: &RefusalLog,
        cause: &'static str,
    ) -> Option<u64> {
        let last = &mut self.state.lock().complaint;
        if last.as_deref() == Some(complaint) {
            return None;
        }
        let suppressed = log.admit(cause, Instant::now())?;
        *last = Some(complaint.into());
        Some(suppressed)
    }

    /// Records that nothing is amiss any more.
    pub(super) fn is_well(&self) {
        self.state.lock().complaint = None;
    }

    /// Records that it gave a sign of life on its link.
    pub(super) fn heard(&self) {
        self.state.lock().heard = Some(Instant::now());
    }

    /// Records what the last attempt to reach it met, and logs it when it is news.
    pub(super) fn note(&self, last: String) {
        let new = last != self.state.lock().reach.last;
        if new {
            tracing::info!(peer = %self.name, last, "not reached");
            self.state.lock().reach.last = last;
        }
    }

    /// Waits until something changed that a plan depends on.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns true if it was linked and is only missed now.
    pub(super) fn is_missed(&self) -> bool {
        self.state.lock().alive.is_some()
    }

    /// Returns true if nothing is known of it that could be missed, nothing is done to reach it,
    /// and nothing of it waits in mailboxes, which would be counted afresh (AC-1, MS-9).
    pub(super) fn is_idle(&self) -> bool {
        let State { connection, alive, reach, .. } = &*self.state.lock();
        let reached_for = !reach.seeds.is_empty() || reach.running || reach.wanted.is_some();
        let unknown = matches!(connection, ConnectionState::None) && alive.is_none();
        unknown && !reached_for && self.unresolved.nothing_waits()
    }

    /// Returns what to do to reach it now. Reports it down when it is time to (MS-4).
    pub(super) fn plan(&self, now: Instant) -> Plan {
        let (plan, wakers) = {
            let mut state = self.state.lock();
            let wakers = self.expire(&mut state, now);
            let until = state.deadline(self.events.down_after());
            let wanted = state.reach.wanted.is_some() || state.alive.is_some();
            let plan = match &state.connection {
                ConnectionState::None if wanted && !self.events.is_closing() => {
                    Plan::Dial(state.reach.targets(), until)
                }
                ConnectionState::Joining(_) if !self.events.is_closing() => Plan::Wait(until),
                _ => {
                    state.reach.running = false;
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
        let wakers = self.state.lock().waiters.fail(&NodeDownCause::Shutdown);
        wakers.into_iter().for_each(Waker::wake);
        self.events.settle(&self.name, self.unresolved.close());
        self.events.tell();
    }

    /// Queues the report that it is down. The fates of messages in doubt stay unknown. To be called
    /// under the lock; [`EventQueue::tell`] has to follow without it.
    pub(super) fn report_down(&self, peer: NodeId, cause: NodeDownCause) {
        self.events.settle(&self.name, self.unresolved.give_up());
        self.events.push(PeerEvent::NodeDown { peer, cause });
    }

    /// Has a task reach for it if `start` says that there is none; otherwise that task looks again.
    pub(super) fn reach(&self, start: bool) {
        if start {
            self.events.want(&self.name);
        } else {
            self.changed.notify_one();
        }
    }

    fn expire(&self, state: &mut State, now: Instant) -> Vec<Waker> {
        if matches!(state.connection, ConnectionState::Linked(..)) {
            return Vec::new();
        }
        let last = state.reach.last.clone();
        let heard = state.heard;
        let silent = |since: Option<Instant>| {
            let down = now.saturating_duration_since(since?) >= self.events.down_after();
            let silence = now.saturating_duration_since(heard.or(since)?);
            let silent_ms = silence.as_millis() as u64;
            down.then(|| NodeDownCause::Silent { silent_ms, last: last.clone() })
        };
        if let Some(cause) = silent(state.missed_since())
            && let Some(peer) = state.alive.take()
        {
            self.report_down(peer, cause);
        }
        let mut cause = silent(state.waiting_since());
        if cause.is_some() {
            let first = state.waiters.since();
            if first > state.reach.wanted {
                // The first wait was given up; those that go on began later, and have their time.
                state.reach.wanted = first;
                cause = silent(state.waiting_since());
            }
        }
        let Some(cause) = cause else { return Vec::new() };
        state.reach.wanted = None;
        state.waiters.fail(&cause)
    }
}

impl State {
    /// Returns the time since when those that wait for a link have heard nothing.
    fn waiting_since(&self) -> Option<Instant> {
        self.reach.wanted.map(|wanted| self.heard.map_or(wanted, |heard| heard.max(wanted)))
    }

    /// Returns the time since when nothing was heard of a node that is not reported down.
    fn missed_since(&self) -> Option<Instant> {
        self.alive.as_ref().and(self.heard)
    }

    /// Returns when there is something to report.
    fn deadline(&self, down_after: Duration) -> Option<Instant> {
        [self.waiting_since(), self.missed_since()]
            .into_iter()
            .flatten()
            .min()
            .map(|t| t + down_after)
    }

    /// Records that the link to `node`, a run of the peer `of`, ended. Returns true if a task has
    /// to be started that reaches for it.
    pub(super) fn ended(&mut self, node: &NodeId, cause: &LinkCause, of: &Peer) -> bool {
        if let ConnectionState::Linked(_, link) =
            std::mem::replace(&mut self.connection, ConnectionState::None)
        {
            self.carried = Some(total(self.carried, link.stats()));
            of.link.store(None);
        }
        of.events.push(PeerEvent::LinkDown { peer: node.clone(), cause: cause.clone() });
        if of.events.is_closing() {
            return false;
        }
        if *cause == LinkCause::Left
            && let Some(peer) = self.alive.take()
        {
            of.report_down(peer, NodeDownCause::Left);
        }
        // A sender that saw the link's end before this was known may wait for another one already.
        (*cause != LinkCause::Left || self.reach.wanted.is_some()) && self.reach.start()
    }
}

impl Reach {
    /// Records that a link is wanted. Returns true if a task has to be started that makes one.
    fn want(&mut self, now: Instant) -> bool {
        self.wanted.get_or_insert(now);
        self.start()
    }

    /// Returns where to dial it: what it says itself comes first.
    fn targets(&self) -> Vec<String> {
        let mut targets = self.addresses.clone();
        targets.extend(self.seeds.iter().filter(|seed| !self.addresses.contains(seed)).cloned());
        targets
    }

    fn start(&mut self) -> bool {
        !std::mem::replace(&mut self.running, true)
    }
}

fn total(earlier: Option<LinkStats>, mut stats: LinkStats) -> LinkStats {
    stats += earlier.unwrap_or_default();
    stats
}

#[cfg(test)]
impl Peer {
    /// Returns a peer that no task reaches for.
    pub(crate) fn stand_in(name: &str, host: Arc<dyn crate::host::Host>) -> Arc<Self> {
        let (events, _) = EventQueue::new(host, Duration::from_secs(8));
        Arc::new(Peer::new(NodeName::new(name).expect("a good name"), events))
    }

    /// Gives it this link, or none.
    pub(crate) fn set_link(&self, link: Option<Arc<LinkHandle>>) {
        let (commands, _) = tokio::sync::mpsc::unbounded_channel();
        let owner = super::connection_state::Owner { incarnation: Incarnation(1), commands };
        let linked = |link: &Arc<LinkHandle>| ConnectionState::Linked(owner, link.clone());
        self.state.lock().connection = link.as_ref().map_or(ConnectionState::None, linked);
        self.link.store(link);
    }
}
