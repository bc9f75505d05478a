//! State that the lives of a scenario share past the network: the judge has it, no node sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use ringpost_transport::fabric::sim::World;
use ringpost_transport::host::Target;

use super::diary::Lane;
use super::message::Run;
use super::plan::Plan;
use super::reached::Reached;

/// The world, the plan and the shared state of a scenario.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) seed: u64,
    pub(super) plan: Arc<Plan>,
    pub(super) world: World,
    pub(super) shared: Arc<Shared>,
}

/// SC-7: without faults, word that an asker gave up takes less virtual time than this: many times
/// what the slowest path needs for a full ring.
const WORD_NS: u64 = Duration::from_secs(1).as_nanos() as u64;

/// Identifies an ask: its sender, where it goes, and its number there.
pub(super) type AskId = (Run, Lane, u64);

/// One for each scenario. The scenario makes it; hosts, mailboxes and senders write into it.
#[derive(Debug)]
pub(super) struct Shared {
    /// The plan has no faults.
    calm: bool,
    /// The nodes are being shut down, so that links end.
    ending: AtomicBool,
    reached: Mutex<Reached>,
    faults: Mutex<Vec<String>>,
    /// The identity of each mailbox that is open.
    identities: Mutex<BTreeMap<Lane, Target>>,
    asks: Mutex<Asks>,
    /// The number under which each message was committed, by the mark in its bytes: a message that
    /// waits is written before it is known when it is committed.
    numbers: Mutex<Vec<Option<u64>>>,
}

#[derive(Debug, Default)]
struct Asks {
    /// When an asker gave up an ask.
    given_up: BTreeMap<AskId, u64>,
    begun: BTreeSet<AskId>,
    /// Asks whose asker was told that they were never begun.
    never_begun: BTreeSet<AskId>,
}

impl Shared {
    /// One for a kind of scenario that may reach these states.
    pub(super) fn new(calm: bool, states: impl IntoIterator<Item = State>) -> Self {
        let (ending, faults, identities, asks, numbers) = Default::default();
        let mut reached = Reached::default();
        states.into_iter().for_each(|state| reached.note(state.name(), 0));
        Shared { calm, ending, reached: Mutex::new(reached), faults, identities, asks, numbers }
    }

    /// Returns true if no link may be lost now (SC-5).
    pub(super) fn is_calm(&self) -> bool {
        self.calm && !self.ending.load(Ordering::Relaxed)
    }

    /// Returns true if a link may end now only because one of its nodes leaves (SC-9).
    pub(super) fn is_parting(&self) -> bool {
        self.calm && self.ending.load(Ordering::Relaxed)
    }

    /// From now on links end.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Gives a message the mark that its bytes carry.
    pub(super) fn mark(&self) -> u64 {
        let mut numbers = self.numbers.lock();
        numbers.push(None);
        numbers.len() as u64 - 1
    }

    /// The message with this mark was committed under this number.
    pub(super) fn committed(&self, mark: u64, number: u64) {
        self.numbers.lock()[mark as usize] = Some(number);
    }

    /// The number under which the message with this mark was committed.
    pub(super) fn number(&self, mark: u64) -> Option<u64> {
        self.numbers.lock().get(mark as usize).copied().flatten()
    }

    /// Notes that a state was reached, if it was.
    pub(super) fn reach_if(&self, was_reached: bool, state: State) {
        if was_reached {
            self.reach(state);
        }
    }

    /// Adds one to a state.
    pub(super) fn reach(&self, state: State) {
        self.reached.lock().note(state.name(), 1);
    }

    /// Adds to the rules that were broken.
    pub(super) fn fault(&self, what: String) {
        self.faults.lock().push(what);
    }

    /// A mailbox was opened, or closed.
    pub(super) fn identify(&self, lane: Lane, identity: Option<Target>) {
        let mut identities = self.identities.lock();
        match identity {
            Some(identity) => drop(identities.insert(lane, identity)),
            None => drop(identities.remove(&lane)),
        }
    }

    /// Returns the identity of a mailbox, as a reference in a message would have it.
    pub(super) fn identity(&self, lane: Lane) -> Option<Target> {
        self.identities.lock().get(&lane).cloned()
    }

    /// An asker gave up an ask that it had sent.
    pub(super) fn give_up(&self, ask: AskId, now: u64) {
        self.asks.lock().given_up.insert(ask, now);
    }

    /// An asker was told that its ask was never begun.
    pub(super) fn never_begun(&self, ask: AskId) {
        self.asks.lock().never_begun.insert(ask);
    }

    /// SC-7: a receiver begins an ask; `near` says that it is on its asker's own node, which
    /// knows at once what the asker does.
    pub(super) fn begin(&self, ask: AskId, now: u64, near: bool) {
        let mut asks = self.asks.lock();
        if !asks.begun.insert(ask) {
            self.fault(format!("SC-7: {ask:?} was begun twice"));
        }
        let Some(given_up) = asks.given_up.get(&ask) else { return };
        let late = now - given_up;
        drop(asks);
        if (near && late > 0) || (self.is_calm() && late > WORD_NS) {
            let (from, (to, mailbox), number) = ask;
            self.fault(format!(
                "SC-7: ask {number} of {from:?} to mailbox {mailbox} of node {to} was begun \
                 {} us after its asker gave it up",
                late / 1_000
            ));
        }
    }

    /// Ends the scenario: adds the states that were reached, and returns the broken rules.
    pub(super) fn conclude(&self, reached: &mut Reached) -> Vec<String> {
        reached.add(&self.reached.lock());
        let mut faults = std::mem::take(&mut *self.faults.lock());
        let asks = self.asks.lock();
        faults.extend(asks.never_begun.intersection(&asks.begun).map(|ask| {
            format!("SC-7: {ask:?} was begun, and its asker was told that it never was")
        }));
        faults
    }
}

/// States that are hard to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    AskExpired,
    AskDropped,
    AskSkipped,
    AskAnswered,
    AskNeverBegun,
    AskLost,
    LargeReply,
    StoodStill,
    RelinkBesideWaiting,
    RelinkBesideFull,
    LargeBesideSmall,
    Crowd,
    TwoReferences,
    ByIdentity,
    LookUp,
    TellDropped,
    DownAtOnce,
    DownWaitedFor,
}

impl State {
    /// The states that random scenarios may reach.
    pub(super) const OF_TRAFFIC: [State; 15] = [
        State::AskExpired,
        State::AskDropped,
        State::AskSkipped,
        State::LargeReply,
        State::StoodStill,
        State::RelinkBesideWaiting,
        State::RelinkBesideFull,
        State::LargeBesideSmall,
        State::Crowd,
        State::TwoReferences,
        State::ByIdentity,
        State::LookUp,
        State::TellDropped,
        State::DownAtOnce,
        State::DownWaitedFor,
    ];

    /// The states that dialogues may reach.
    pub(super) const OF_DIALOGUES: [State; 7] = [
        State::AskExpired,
        State::AskDropped,
        State::AskAnswered,
        State::AskNeverBegun,
        State::AskLost,
        State::LargeReply,
        State::StoodStill,
    ];

    fn name(self) -> &'static str {
        match self {
            State::AskExpired => "ask given up at its deadline",
            State::AskDropped => "ask dropped before its answer",
            State::AskSkipped => "ask skipped: its deadline passed where it waited",
            State::AskAnswered => "ask answered",
            State::AskNeverBegun => "ask whose asker was told that it was never begun",
            State::AskLost => "ask whose fate its asker was not told",
            State::LargeReply => "reply of more than a slot",
            State::StoodStill => "receiver stood still",
            State::RelinkBesideWaiting => "relink while messages of the peer wait",
            State::RelinkBesideFull => "relink beside a mailbox that the peer has filled",
            State::DownAtOnce => "send to a node that is down failed at once",
            State::DownWaitedFor => "send waited for a node that was down, and went there",
            State::TellDropped => "tell given up while it waited",
            State::LargeBesideSmall => "message of more than a slot among small ones",
            State::Crowd => "ten senders wait for one mailbox",
            State::TwoReferences => "senders wait by two references to one mailbox",
            State::LookUp => "look-up found which mailbox has a name or an identity",
            State::ByIdentity => "message by the identity of its mailbox",
        }
    }
}
