//! The whole of a simulated world behind one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

use super::event::{Event, NodeId, PipeEnd};
use super::physics::{IdleWakes, Physics};
use super::queue_pair::{Cause, Phase};
use super::queue_pairs::QueuePairs;
use super::streams::Streams;
use crate::memory::Owner;

/// How often a world may be used before time must move on.
const USES_MAX: u64 = 10_000_000;

/// Everything there is.
pub(super) struct State {
    pub(super) seed: u64,
    /// How often the world was used since it last came to rest.
    pub(super) uses: u64,
    pub(super) physics: Physics,
    pub(super) queue_pairs: QueuePairs,
    pub(super) streams: Streams,
    /// How often each node has been killed.
    deaths: BTreeMap<NodeId, u32>,
    /// The owner of each node's memory, in each of its lives.
    owners: BTreeMap<Life, Owner>,
    /// Nodes that have lost their device.
    pub(super) no_device: BTreeSet<NodeId>,
    /// The events that wait for a path to be mended.
    held: Vec<Event>,
}

/// A node's name, in one of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Life {
    pub(super) node: NodeId,
    deaths: u32,
}

impl State {
    fn new(seed: u64) -> Self {
        State {
            seed,
            uses: 0,
            physics: Physics::new(seed),
            queue_pairs: QueuePairs::default(),
            streams: Streams::default(),
            deaths: BTreeMap::new(),
            owners: BTreeMap::new(),
            no_device: BTreeSet::new(),
            held: Vec::new(),
        }
    }

    /// Returns the present life of a node.
    pub(super) fn life(&mut self, name: &str) -> Life {
        let node = self.physics.node(name);
        Life { node, deaths: self.deaths.get(&node).copied().unwrap_or(0) }
    }

    /// Returns the owner of a node's memory in this life.
    pub(super) fn owner(&mut self, life: Life) -> Owner {
        *self.owners.entry(life).or_insert_with(Owner::new)
    }

    /// Returns true if a node still lives this life.
    pub(super) fn lives(&self, life: Life) -> bool {
        life.deaths == self.deaths.get(&life.node).copied().unwrap_or(0)
    }

    /// Ends a node's present life.
    pub(super) fn kill(&mut self, name: &str) {
        let node = self.physics.node(name);
        self.physics.log(format_args!("{name} is killed"));
        self.set_paused(name, false);
        *self.deaths.entry(node).or_insert(0) += 1;
        self.end_queue_pairs(node);
        self.streams.kill(&mut self.physics, node);
    }

    /// Takes a node's device away, or gives it back.
    pub(super) fn set_device(&mut self, name: &str, there: bool) {
        let node = self.physics.node(name);
        self.physics.log(format_args!("{name} has its device: {there}"));
        if there {
            self.no_device.remove(&node);
        } else if self.no_device.insert(node) {
            self.end_queue_pairs(node);
        }
    }

    /// All queue pairs of a node end; their peers find out when they send.
    fn end_queue_pairs(&mut self, node: NodeId) {
        for number in self.queue_pairs.between(node, None) {
            self.queue_pairs.sever(&mut self.physics, number);
            self.queue_pairs.fail(&mut self.physics, number, Cause::Outside);
        }
    }

    /// Stops the software of a node, or lets it go on.
    pub(super) fn set_paused(&mut self, name: &str, paused: bool) {
        let node = self.physics.node(name);
        self.physics.log(format_args!("{name} is paused: {paused}"));
        if paused {
            self.physics.paused.insert(node);
        } else if self.physics.paused.remove(&node) {
            self.queue_pairs.resume(&mut self.physics, node);
            self.streams.resume(&mut self.physics, node);
        }
    }

    /// Cuts or mends the way from one node to another. Bytes wait for the mending, frames are lost.
    pub(super) fn set_partitioned(&mut self, from: NodeId, to: NodeId, cut: bool) {
        self.physics.links.set_partitioned(from, to, cut);
        // The held events come before events that are still on their way.
        for event in std::mem::take(&mut self.held) {
            self.happen(event);
        }
    }

    /// Nothing is runnable: wakes the owners that sleep, once before the next event, where the
    /// world is to do this. Returns true if it woke some.
    pub(super) fn wake_idle(&mut self) -> bool {
        let State { physics, queue_pairs, .. } = self;
        let woken = physics.idle_wakes == IdleWakes::Next && queue_pairs.wake_idle(physics);
        if physics.idle_wakes != IdleWakes::Never {
            physics.idle_wakes = if woken { IdleWakes::Running } else { IdleWakes::Next };
        }
        woken
    }

    /// The next event happens, if there is one.
    pub(super) fn step(&mut self) {
        if let Some(event) = self.physics.next() {
            self.happen(event);
        }
    }

    /// This event happens, or is held until its path is mended.
    fn happen(&mut self, event: Event) {
        if self.is_cut_off(&event) {
            self.held.push(event);
            return;
        }
        let State { physics, queue_pairs, streams, .. } = self;
        match event {
            Event::Connected { number } => queue_pairs.settle(physics, number, Phase::Ready),
            Event::Refused { number } => {
                let refused = Phase::Refused(std::io::ErrorKind::ConnectionRefused);
                queue_pairs.settle(physics, number, refused);
            }
            Event::Arrive(frame) => queue_pairs.arrive(physics, frame),
            Event::RnrTimer { number } => queue_pairs.rnr_timer(physics, number),
            Event::Answer { number, index, error } => {
                queue_pairs.answered(physics, number, index, error);
            }
            Event::RetryOut { number, oldest } => queue_pairs.retry_out(physics, number, oldest),
            Event::PeerGone { number } => queue_pairs.peer_gone(physics, number),
            Event::Spurious { number } => {
                if let Some(qp) = queue_pairs.get(number) {
                    qp.done.notify(physics);
                }
            }
            Event::Bytes { pipe, bytes } => {
                if let Some(pipe) = streams.pipe(pipe) {
                    pipe.arrive(physics, &bytes);
                }
            }
            Event::Fin { pipe } => {
                if let Some(pipe) = streams.pipe(pipe) {
                    pipe.end(physics);
                }
            }
            Event::Break { pipe, end, kind } => {
                if let Some(pipe) = streams.pipe(pipe) {
                    pipe.break_end(physics, end, kind);
                }
            }
            Event::Dial { dial } => streams.dial_reaches(physics, dial),
            Event::Dialed { dial } => streams.dialed(physics, dial),
            Event::Wake(waker) => physics.wake(Some(waker)),
        }
    }

    /// Returns true if the path that this event comes by is cut.
    fn is_cut_off(&mut self, event: &Event) -> bool {
        let mut pipe = |pipe| self.streams.pipe(pipe).map(|pipe| (pipe.from, pipe.to));
        let back = |(from, to)| (to, from);
        let path = match event {
            Event::Bytes { pipe: id, .. }
            | Event::Fin { pipe: id }
            | Event::Break { pipe: id, end: PipeEnd::Reader, .. } => pipe(*id),
            Event::Break { pipe: id, end: PipeEnd::Writer, .. } => pipe(*id).map(back),
            Event::Dial { dial } => self.streams.dial_path(*dial),
            Event::Dialed { dial } => self.streams.dial_path(*dial).map(back),
            _ => None,
        };
        path.is_some_and(|(from, to)| self.physics.links.partitioned(from, to))
    }
}

/// A world's state, shared by its ends.
pub(super) struct Shared(Mutex<State>);

impl Shared {
    /// Returns a new world.
    pub(super) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Shared(Mutex::new(State::new(seed))))
    }

    /// Does something to the world, then wakes the tasks that it concerns.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let (result, wakes) = self.with_wakes(act);
        wakes.into_iter().for_each(Waker::wake);
        result
    }

    /// Does something to the world; the caller wakes the tasks that it concerns.
    pub(super) fn with_wakes<R>(&self, act: impl FnOnce(&mut State) -> R) -> (R, Vec<Waker>) {
        let mut state = self.0.lock();
        state.uses += 1;
        if state.uses == USES_MAX {
            let seed = state.seed;
            drop(state);
            panic!("seed {seed}: a task spins and so stops the time of its world");
        }
        let result = act(&mut state);
        (result, state.physics.take_wakes())
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}
