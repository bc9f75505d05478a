//! The state of a peer: its connection, the presence of its node, and the search for a link.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::task::Waker;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::cause::{LinkCause, NodeDown, NodeDownCause};
use crate::host::PeerEvent;
use crate::id::{Incarnation, NodeId, NodeName};
use crate::limits;
use crate::link::LinkStats;
use crate::mutants::planted;

use super::Peer;
use super::addresses::{Addresses, Target};
use super::backoff::Backoff;
use super::connection_state::ConnectionState;
use super::failed_ways::FailedWays;
use super::link_questions::LinkQuestions;
use super::upgrade_pause::UpgradePause;
use super::view::PeerState;
use super::waiters::Waiters;

/// The state of a peer, to this node's knowledge. Under the lock of the peer.
pub(in crate::mesh) struct State {
    pub(in crate::mesh) connection: ConnectionState,
    pub(in crate::mesh) presence: Presence,
    /// The state that its events have told.
    pub(super) told: Option<PeerState>,
    /// Time of its last sign of life on a link: waiting senders cannot use a node that answers and
    /// cannot be linked. This and all times of silences are by the clock of
    /// [`EventQueue::now`](crate::mesh::event_queue::EventQueue::now).
    pub(in crate::mesh) heard: Option<Instant>,
    /// The silence after which it is down, where it asked for a longer one on its last link than
    /// this node's own.
    pub(in crate::mesh) patience: Option<(Duration, OwnedSemaphorePermit)>,
    /// Time since when its link stands.
    pub(in crate::mesh) linked: Option<Instant>,
    /// The host of its last link, where that was closed without a goodbye.
    pub(super) closed_at: Option<IpAddr>,
    /// Counts of what links that ended have carried; `None` when there was none yet.
    pub(super) carried: Option<LinkStats>,
    /// Nodes that it is asked for on its link.
    pub(super) link_questions: LinkQuestions,
    pub(in crate::mesh) waiters: Waiters,
    pub(in crate::mesh) reach: Reach,
    pub(super) failed_ways: FailedWays,
    pub(in crate::mesh) upgrade_pause: UpgradePause,
    /// The fabric of which the log was told last that it was chosen, and whether it encrypts.
    pub(super) chosen: Option<(String, bool)>,
    /// The complaint about it that the log was told last.
    pub(super) complaint: Option<String>,
}

/// The presence of the node, to this node's knowledge.
pub(in crate::mesh) enum Presence {
    /// Nothing: it was never linked, or another run of it has answered that has no link yet.
    Unknown,
    /// This run was linked and is not reported down.
    Up(NodeId),
    /// As `Up`, but not missed: both sides closed the link because neither used it (MS-18).
    Idle(NodeId),
    /// It is down since then, and was not linked since (MS-4).
    Down(Instant, NodeDownCause),
}

/// The kind of a seed: which nodes it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mesh) enum SeedKind {
    /// It leads to others only, which may not know of this node if it does not dial them.
    Own,
    /// It leads to this node, too: all nodes find each other by it.
    Shared,
}

/// The search for a connection.
pub(in crate::mesh) struct Reach {
    /// Time since which a link is wanted.
    pub(in crate::mesh) wanted: Option<Instant>,
    /// Nodes it is to be asked for, which is idle, and the time since which a link to it is tried
    /// for that. Should that come to nothing it is no news (MS-15).
    pub(super) questions: BTreeMap<NodeName, Instant>,
    /// Time at which a question to it, which is idle, came to nothing: it may be gone.
    pub(super) doubted: Option<Instant>,
    /// Time at which idle peers were asked last where it is.
    pub(super) asked_idle: Option<Instant>,
    /// Addresses at which it was met last, each with the seed that leads there.
    pub(super) seeds: BTreeMap<(String, String), SeedKind>,
    /// A task reaches for it.
    pub(super) running: bool,
    /// Addresses at which it can be dialled.
    pub(in crate::mesh) addresses: Addresses,
    /// One of them was learned since the last round.
    pub(in crate::mesh) news: bool,
    /// The pauses between rounds.
    pub(super) backoff: Backoff,
    /// It was linked, is silent, and is dialled until then.
    pub(in crate::mesh) relink: Option<(Instant, OwnedSemaphorePermit)>,
    /// The outcome of the last attempts, in words.
    pub(in crate::mesh) last: String,
    /// The words last logged about it.
    pub(in crate::mesh) logged: String,
}

/// The words for a node of which no dial has failed since it was linked.
pub(in crate::mesh) const NOT_DIALLED: &str = "not dialled yet";

/// The words for a node that was not dialled since its link was idle.
const WAS_IDLE: &str = "not dialled since its link was idle";

/// The kind of search for a node that has no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mesh) enum Search {
    /// A sender that fails when the node is down.
    Sender,
    /// A sender, though the node is down: it is patient, or tried a short while ago.
    Down,
    /// No sender.
    Mesh,
}

/// The next step of the task that reaches for a peer.
pub(in crate::mesh) enum Plan {
    /// End: nothing is left to reach for.
    Stop,
    /// Wait: there is nothing to dial now. Look again then, or when something has changed.
    Wait(Option<Instant>),
    /// Try these names and addresses, when it is time for the next round, or at once if some are
    /// `news`; look again at the time `until`.
    Dial { targets: Vec<Target>, news: bool, until: Option<Instant> },
}

impl State {
    pub(super) fn new() -> Self {
        let reach = Reach {
            wanted: None,
            questions: BTreeMap::new(),
            doubted: None,
            asked_idle: None,
            seeds: BTreeMap::new(),
            running: false,
            addresses: Addresses::default(),
            news: false,
            backoff: Backoff::default(),
            relink: None,
            last: NOT_DIALLED.into(),
            logged: NOT_DIALLED.into(),
        };
        State {
            connection: ConnectionState::None,
            presence: Presence::Unknown,
            told: None,
            heard: None,
            patience: None,
            linked: None,
            closed_at: None,
            carried: None,
            link_questions: LinkQuestions::default(),
            waiters: Waiters::default(),
            reach,
            failed_ways: FailedWays::default(),
            upgrade_pause: UpgradePause::default(),
            chosen: None,
            complaint: None,
        }
    }

    /// Returns the run that is idle and, as far as is known, there.
    pub(super) fn resting(&self) -> Option<&NodeId> {
        match &self.presence {
            Presence::Idle(node) if self.reach.doubted.is_none() => Some(node),
            _ => None,
        }
    }

    /// Returns true if this run of it is idle and, as far as is known, there.
    pub(super) fn is_resting(&self, run: Incarnation) -> bool {
        self.resting().is_some_and(|node| node.incarnation == run)
    }

    /// Returns true if this node disconnected it, and nothing was sent to it since that linked it.
    pub(super) fn is_disconnected(&self) -> bool {
        matches!(self.presence, Presence::Down(_, NodeDownCause::Disconnected))
    }

    /// Queues an event of the peer `of`, whose state this is.
    pub(in crate::mesh) fn push(&mut self, of: &Peer, event: PeerEvent) {
        self.told = PeerState::after(self.told.take(), &event);
        of.events.push(event);
    }

    /// Queues the report that it is down. The fates of messages in doubt stay unknown.
    /// [`EventQueue::tell`](crate::mesh::event_queue::EventQueue::tell) has to follow without the
    /// lock.
    pub(in crate::mesh) fn report_down(&mut self, of: &Peer, peer: NodeId, cause: NodeDownCause) {
        self.patience = None;
        of.events.settle(&of.name, of.unresolved.give_up());
        self.push(of, PeerEvent::NodeDown { peer, cause });
    }

    /// Returns why and since when sends to it fail at once; `None` where they wait for a link.
    pub(super) fn down(&self, now: Instant) -> Option<NodeDown> {
        let Presence::Down(since, cause) = &self.presence else { return None };
        let down_ms = now.saturating_duration_since(*since).as_millis() as u64;
        Some(NodeDown { cause: cause.clone(), down_ms })
    }

    /// Records that it is down. Returns the wakers of failed waits, to be woken without a lock
    /// held.
    fn go_down(&mut self, cause: NodeDownCause, now: Instant) -> Vec<Waker> {
        self.presence = Presence::Down(now, cause.clone());
        self.waiters.fail(&NodeDown { cause, down_ms: 0 })
    }

    /// Records the outcome of the last attempt to reach it, also for the errors of failing sends.
    pub(super) fn note(&mut self, last: String) {
        if let Presence::Down(
            _,
            NodeDownCause::Silent { last: told, .. } | NodeDownCause::Gone { last: told },
        ) = &mut self.presence
        {
            told.clone_from(&last);
        }
        self.reach.last = last;
    }

    /// Records that it answered: if it left, it is there again, and that is no longer the cause.
    pub(super) fn note_answer(&mut self, now: Instant) {
        if let Presence::Down(since, cause @ NodeDownCause::Left) = &mut self.presence {
            let silent_ms = now.saturating_duration_since(*since).as_millis() as u64;
            *cause = NodeDownCause::Silent { silent_ms, last: self.reach.last.clone() };
        }
    }

    /// Records that a link is wanted. Returns true if a task has to be started that makes one.
    pub(super) fn want(&mut self, now: Instant) -> bool {
        if self.reach.wanted.is_none() && matches!(self.presence, Presence::Idle(_)) {
            self.reach.begin_anew();
        }
        let first = *self.reach.wanted.get_or_insert(now);
        // A node that is down is dialled for as long as something is sent to it.
        let is_down = matches!(self.presence, Presence::Down(..));
        self.reach.wanted = Some(if is_down { now } else { first });
        self.reach.start()
    }

    /// Returns the time since when there is nothing of it, if that is counted: of a node that was
    /// linked the last sign of life, of others the first attempt to reach them.
    fn silent_since(&self) -> Option<Instant> {
        match self.presence {
            Presence::Up(_) => self.heard,
            Presence::Unknown | Presence::Idle(_) | Presence::Down(..) => self.reach.wanted,
        }
    }

    /// Returns the silence after which it is down: this node's `down_after`, or the peer's own if
    /// that is longer and there was a permit for it.
    fn down_after(&self, of: &Peer) -> Duration {
        self.patience.as_ref().map_or_else(|| of.events.down_after(), |(asked, _)| *asked)
    }

    /// Returns when it is down, or not dialled any more, unless there is a link before.
    pub(super) fn deadline(&self, of: &Peer) -> Option<Instant> {
        let down_after = self.down_after(of);
        let relink = self.reach.relink.as_ref().map(|(until, _)| *until);
        let asked = self.reach.questions.values().min().map(|since| *since + down_after);
        let silent = self.silent_since().map(|since| since + down_after);
        [silent, asked, relink].into_iter().flatten().min()
    }

    /// Marks it to be dialled for `RELINK_FOR` even if it is not wanted.
    pub(in crate::mesh) fn relink(&mut self, of: &Peer) {
        let until = of.events.now() + limits::RELINK_FOR;
        // A node without a known address takes no permit from a node that can be dialled.
        let is_known = self.reach.addresses.ever_known || !self.reach.seeds.is_empty();
        let permit = if is_known { of.events.relink() } else { None };
        let relink = permit.map(|permit| (until, permit));
        self.reach.relink = relink.filter(|_| !planted!(Forsaken));
    }

    /// Returns true if a sender waits for a link to it, or wanted one within `down_after`.
    pub(super) fn has_sender(&self) -> bool {
        self.waiters.count() > 0 || self.reach.wanted.is_some()
    }

    /// Returns the kind of search for it.
    pub(super) fn search(&self) -> Search {
        match (self.has_sender(), &self.presence) {
            (false, _) => Search::Mesh,
            (true, Presence::Down(..)) => Search::Down,
            (true, _) => Search::Sender,
        }
    }

    /// Returns true if a link to it is wanted, if only to ask it, or missed.
    pub(in crate::mesh) fn is_wanted(&self) -> bool {
        self.is_wanted_itself() || !self.reach.questions.is_empty()
    }

    /// Returns true if a link to it is wanted or missed, and not only to ask it for others.
    pub(super) fn is_wanted_itself(&self) -> bool {
        let is_missed = matches!(self.presence, Presence::Up(_));
        self.has_sender() || is_missed || self.reach.relink.is_some()
    }

    /// Records that it is down, or is not dialled any more, if it is time to (MS-4). Returns the
    /// wakers of the waits that failed.
    pub(in crate::mesh) fn expire(&mut self, of: &Peer, now: Instant) -> Vec<Waker> {
        let down_after = self.down_after(of);
        if !matches!(self.connection, ConnectionState::None) {
            return Vec::new();
        }
        self.reach.relink.take_if(|(until, _)| now >= *until);
        let questions = self.reach.questions.len();
        self.reach.questions.retain(|_, since| now < *since + down_after);
        if self.reach.questions.len() < questions && matches!(self.presence, Presence::Idle(_)) {
            self.reach.doubted = Some(now);
        }
        let Some(since) = self.silent_since().filter(|since| now >= *since + down_after) else {
            return Vec::new();
        };
        let silent_ms = now.saturating_duration_since(since).as_millis() as u64;
        let cause = NodeDownCause::Silent { silent_ms, last: self.reach.last.clone() };
        self.lose(of, cause, now)
    }

    /// Records that its process is gone, if it is missed.
    pub(super) fn lose_gone(&mut self, of: &Peer) -> Vec<Waker> {
        let is_missed = matches!(self.presence, Presence::Up(_));
        if !is_missed || !matches!(self.connection, ConnectionState::None) {
            return Vec::new();
        }
        let cause = NodeDownCause::Gone { last: self.reach.last.clone() };
        self.lose(of, cause, of.events.now())
    }

    /// Records that it is down, and has it dialled for a while. Returns the wakers of the waits
    /// that failed.
    fn lose(&mut self, of: &Peer, cause: NodeDownCause, now: Instant) -> Vec<Waker> {
        self.reach.wanted = None;
        if matches!(self.presence, Presence::Down(..)) {
            return Vec::new();
        }
        if let Some(node) = self.presence.up().cloned() {
            self.report_down(of, node, cause.clone());
            self.relink(of);
        }
        self.go_down(cause, now)
    }

    /// Records that the link to `node`, a run of the peer `of`, ended. Returns true if a task has
    /// to be started that reaches for it, and the wakers of the waits that failed.
    pub(in crate::mesh) fn ended(
        &mut self,
        node: &NodeId,
        cause: &LinkCause,
        of: &Peer,
    ) -> (bool, Vec<Waker>) {
        let was_idle = *cause == LinkCause::Idle;
        if let ConnectionState::Linked(owner, link) =
            std::mem::replace(&mut self.connection, ConnectionState::None)
        {
            self.carried = Some(total(self.carried, link.stats()));
            of.link.store(None);
            self.closed_at = owner.host.filter(|_| *cause == LinkCause::Closed);
            self.patience = if was_idle { None } else { of.events.patience(owner.asked) };
            // The last sign of life of a slow node may be older than `down_after`: its silence
            // counts from now, so that it is dialled for that long.
            let slow = self.patience.is_none() && owner.asked > of.events.down_after();
            if slow && *cause != LinkCause::Silent {
                self.heard = self.heard.max(Some(of.events.now()));
            }
        }
        let lived = self.linked.take().map(|since| since.elapsed()).unwrap_or_default();
        // A link that rested did not fail, however short it was.
        let rested = was_idle || *cause == LinkCause::Better;
        self.reach.backoff.link_ended(if rested { limits::LINK_SETTLED } else { lived });
        if was_idle && !planted!(MissedIdle) {
            self.presence = Presence::Idle(node.clone());
            self.reach.doubted = None;
            (self.reach.last, self.reach.logged) = (WAS_IDLE.into(), WAS_IDLE.into());
        }
        self.push(of, PeerEvent::LinkDown { peer: node.clone(), cause: cause.clone() });
        if of.events.is_closing() {
            return (false, Vec::new());
        }
        let mut wakers = Vec::new();
        let down = match cause {
            LinkCause::Left => Some(NodeDownCause::Left),
            LinkCause::Disconnected => Some(NodeDownCause::Disconnected),
            _ => None,
        };
        if let (Some(cause), Some(peer)) = (down, self.presence.up().cloned()) {
            self.report_down(of, peer, cause.clone());
            self.reach.wanted = None;
            // A sender that saw the link's end before this was known may wait already.
            wakers = self.go_down(cause, of.events.now());
        }
        (self.is_wanted() && self.reach.start(), wakers)
    }
}

impl Presence {
    /// Returns the run that was linked and is not reported down.
    pub(in crate::mesh) fn up(&self) -> Option<&NodeId> {
        match self {
            Presence::Up(node) | Presence::Idle(node) => Some(node),
            Presence::Unknown | Presence::Down(..) => None,
        }
    }
}

impl Reach {
    /// Returns where to dial it, the seeds where it was met last.
    pub(super) fn targets(&self) -> Vec<Target> {
        self.addresses.targets(self.seeds.keys().map(|(address, _)| address))
    }

    pub(in crate::mesh) fn start(&mut self) -> bool {
        !std::mem::replace(&mut self.running, true)
    }

    /// Forgets the pauses of earlier dials: they are of no account for a node whose last link did
    /// not fail, and which is tried now for another cause.
    pub(super) fn begin_anew(&mut self) {
        self.backoff = Backoff::default();
    }
}

/// Returns what the links to a peer have carried, the last one included.
pub(super) fn total(earlier: Option<LinkStats>, mut stats: LinkStats) -> LinkStats {
    stats += earlier.unwrap_or_default();
    stats
}
