//! The state of a node at one moment, for people and for programs that watch it.
//!
//! A snapshot takes the lock of each mailbox for a moment, and reads figures that actors keep
//! anyway; no actor is stopped for it. The figures are not from the same moment, but from moments
//! close to each other.

mod tree;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::address::{Address, AddressDisplay};
use crate::busy::{HandlerInfo, RunningHandler, age, held};
use crate::mailbox::Depth;
use crate::node::Node;
use crate::remote::PeerView;
use crate::resident::LocalActor;
use crate::shared::SharedMemoryTotals;
use crate::state::ActorState;
use crate::tally::RegistrationKind;
use crate::waits::{HandlerWaits, WaitEntry, WaitTarget};

pub use crate::waits::Awaits;
pub use tree::{Branch, SupervisionTree};

/// A node at one moment. Its parts are read one after the other, while the node runs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Snapshot {
    /// Other nodes, with their links, and senders that wait for them.
    pub peers: Vec<PeerView>,
    /// Bytes by which the receive rings and send slots of all links have grown: at most
    /// [`RingGrowth::bytes_max`](crate::net::RingGrowth::bytes_max). A ring that grew does not
    /// shrink while its link lives.
    pub ring_growth_bytes: u64,
    /// The totals of the shares of this node's regions.
    pub shared: SharedMemoryTotals,
    /// The handlers on this node that wait for actors.
    pub waits: Vec<WaitView>,
    /// The actors of this node, the fullest mailbox first; [`tree`](Snapshot::tree) returns them
    /// below their parents.
    pub actors: Vec<ActorView>,
}

/// An actor at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ActorView {
    /// The actor.
    pub address: Address,
    /// The name of its type; for a type with arguments (`Group<Note>`), its path in Rust.
    pub kind: &'static str,
    /// Its current state.
    pub state: ActorState,
    /// Its parent; `None` if it was spawned on the node, or its parent has ended first.
    pub parent: Option<Address>,
    /// The messages in its mailbox, and the senders that wait for room.
    pub mailbox: Depth,
    /// The message whose handler runs or waits, or the hook; `None` if there is neither.
    pub in_hand: Option<InHandView>,
    /// The number of its restarts, both after its own failures and together with other actors.
    pub restarts: u32,
    /// The number of timers that are set.
    pub timers: usize,
    /// The number of tasks that have not ended, or whose last step waits for the actor's turn.
    pub tasks: usize,
    /// The number of attached streams.
    pub streams: usize,
    /// The number of stashed messages.
    pub stashed: usize,
}

/// A handler or hook of this node that waits for an actor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitView {
    /// The actor that waits.
    pub actor: Address,
    /// The name of the message that it handles, or of the hook.
    pub handler: &'static str,
    /// The kind of the wait.
    pub what: Awaits,
    /// The actor that it waits for.
    pub whom: Address,
    /// The time that it has waited, as precise as [`InHandView::age`].
    pub age: Duration,
    /// The fabric of the link to that actor's node; `None` for this node, and while there is no
    /// link.
    pub link: Option<&'static str>,
}

/// A message whose handler runs or waits, or a hook (`on_start`, `on_stop`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InHandView {
    /// The name of the message, or of the hook.
    pub name: &'static str,
    /// The time that it has run and waited so far: never too low, and at most 250 ms too high.
    /// Starts are noted by a clock that is read at this interval, and at each snapshot. If no node
    /// of the process has a network, the clock is read once in 5 s, or in half of
    /// [`report_handlers_after`](crate::NodeBuilder::report_handlers_after), and the age may be too
    /// high by that time.
    pub age: Duration,
    /// The actors that it waits for, if any, and the kinds of waits: for an answer, room in a
    /// mailbox, a start, an end. [`Snapshot::waits`] has the parts.
    pub waits_for: Option<String>,
}

/// Shows an actor in one line, without figures that are zero.
impl fmt::Display for ActorView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ActorView { address, kind, state, mailbox, .. } = self;
        match address.name() {
            Some(_) => write!(f, "{address} ({kind}): {state}")?,
            None => write!(f, "{}: {state}", AddressDisplay { address, kind })?,
        }
        let waiting = mailbox.local + mailbox.remote;
        let figures = [
            (waiting, "message", " waiting"),
            (mailbox.senders, "sender", " waiting for room"),
            (self.restarts as usize, "restart", ""),
            (self.timers, "timer", ""),
            (self.tasks, "task", ""),
            (self.streams, "stream", ""),
            (self.stashed, "message", " put aside"),
        ];
        for (count, what, how) in figures.into_iter().filter(|(count, ..)| *count > 0) {
            let plural = if count == 1 { "" } else { "s" };
            write!(f, ", {count} {what}{plural}{how}")?;
        }
        if let Some(InHandView { name, age, waits_for }) = &self.in_hand {
            write!(f, ", {name} in hand for {:.1} s", age.as_secs_f64())?;
            if let Some(waits_for) = waits_for {
                write!(f, ", waits for {waits_for}")?;
            }
        }
        Ok(())
    }
}

impl Node {
    /// Returns the current state of the node. Looks at each actor and each link, without stopping
    /// them, so it is too slow to call for every message.
    pub fn snapshot(&self) -> Snapshot {
        let holding = held(self.runtime().id());
        let holding = holding.into_iter().map(|held| ((held.id, held.token), held)).collect();
        let (actors, peers) = (self.residents().all(), self.peer_views());
        let waits = actors.iter().flat_map(|actor| self.waits_of(&**actor, &peers)).collect();
        let mut actors: Vec<_> = actors.iter().map(|actor| self.view(actor, &holding)).collect();
        actors.sort_by_key(|actor| std::cmp::Reverse(actor.mailbox.local + actor.mailbox.remote));
        Snapshot {
            peers,
            ring_growth_bytes: self.ring_growth_bytes(),
            shared: self.shared_totals().now(),
            waits,
            actors,
        }
    }

    fn view(&self, actor: &Arc<dyn LocalActor>, holding: &RunningHandlers) -> ActorView {
        let tally = actor.tally();
        let count = |what| tally.map_or(0, |tally| tally.get(what));
        let parent = tally.and_then(|tally| self.residents().by_id(tally.parent()?));
        ActorView {
            address: actor.address().clone(),
            kind: actor.kind().name,
            state: actor.state(),
            parent: parent.map(|parent| parent.address().clone()),
            mailbox: actor.intake().depth(),
            in_hand: self.in_hand(&**actor, holding),
            restarts: tally.map_or(0, |tally| tally.restarts()),
            timers: count(RegistrationKind::Timers),
            tasks: count(RegistrationKind::Tasks),
            streams: count(RegistrationKind::Streams),
            stashed: count(RegistrationKind::Stashed),
        }
    }

    /// Returns the waits of an actor's handler for other actors.
    fn waits_of(&self, actor: &dyn LocalActor, peers: &[PeerView]) -> Vec<WaitView> {
        let waits = actor.waits().lock();
        let Some(HandlerWaits { handler: Some(handler), actors, .. }) = waits.as_deref() else {
            return Vec::new();
        };
        let view = |wait: &WaitEntry| {
            let (whom, link) = match &wait.whom {
                WaitTarget::Near(id) => (self.residents().by_id(*id)?.address().clone(), None),
                WaitTarget::Far(address, _) => {
                    let peer = peers.iter().find(|peer| peer.name.as_str() == address.node());
                    (address.clone(), peer.and_then(|peer| Some(peer.link.as_ref()?.fabric)))
                }
            };
            let (actor, handler) = (actor.address().clone(), handler.what());
            Some(WaitView { actor, handler, what: wait.what, whom, age: age(wait.since), link })
        };
        actors.iter().filter_map(view).collect()
    }

    /// Returns the message or hook that an actor handles, if its handler waits or holds a thread.
    fn in_hand(&self, actor: &dyn LocalActor, holding: &RunningHandlers) -> Option<InHandView> {
        let waits =
            actor.waits().lock().as_ref().and_then(|waits| Some((waits.handler?, waits.since)));
        let held = holding.get(&(actor.id(), actor.token())).map(|held| (held.duty, held.since));
        // A handler that waited and runs again is in both; its age counts from the wait.
        let is_same =
            |waits: &(&'static HandlerInfo, u64)| held.is_none_or(|held| same(held.0, waits.0));
        let (duty, since) = waits.filter(is_same).or(held)?;
        let waits_for = if held.is_some() { None } else { self.residents().awaited_by(actor) };
        Some(InHandView { name: duty.what(), age: age(since), waits_for })
    }
}

/// The handlers and hooks that hold a thread, by number and token of their actors.
type RunningHandlers = HashMap<(u64, usize), RunningHandler>;

fn same(one: &'static HandlerInfo, other: &'static HandlerInfo) -> bool {
    one.what() == other.what()
}
