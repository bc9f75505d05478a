//! The whole of a simulated world behind one lock.

use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

use super::carry::QueuePairs;
use super::event::{Event, NodeId, PipeId};
use super::physics::Physics;
use super::queue_pair::{Cause, Phase};
use super::streams::Streams;

/// Everything there is.
pub(super) struct State {
    pub(super) seed: u64,
    pub(super) physics: Physics,
    pub(super) queue_pairs: QueuePairs,
    pub(super) streams: Streams,
    /// How often each node has been killed.
    deaths: Vec<(NodeId, u32)>,
    /// What waits for a path to be mended.
    held: Vec<((NodeId, NodeId), Event)>,
}

/// A node's name, in one of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) node: NodeId,
    deaths: u32,
}

impl State {
    fn new(seed: u64) -> Self {
        State {
            seed,
            physics: Physics::new(seed),
            queue_pairs: QueuePairs::default(),
            streams: Streams::default(),
            deaths: Vec::new(),
            held: Vec::new(),
        }
    }

    /// The present life of a node.
    pub(super) fn life(&mut self, name: &str) -> Life {
        let node = self.physics.node(name);
        let deaths = self.deaths.iter().find(|(dead, _)| *dead == node);
        Life { node, deaths: deaths.map_or(0, |(_, deaths)| *deaths) }
    }

    /// Whether a node still lives this life.
    pub(super) fn lives(&self, life: Life) -> bool {
        let deaths = self.deaths.iter().find(|(dead, _)| *dead == life.node);
        life.deaths == deaths.map_or(0, |(_, deaths)| *deaths)
    }

    /// Ends a node's present life.
    pub(super) fn kill(&mut self, name: &str) {
        let node = self.physics.node(name);
        self.physics.log(format_args!("{name} is killed"));
        match self.deaths.iter_mut().find(|(dead, _)| *dead == node) {
            Some((_, deaths)) => *deaths += 1,
            None => self.deaths.push((node, 1)),
        }
        for number in self.queue_pairs.between(node, None) {
            self.queue_pairs.sever(&mut self.physics, number);
            self.queue_pairs.fail(&mut self.physics, number, Cause::Outside);
        }
        self.streams.kill(&mut self.physics, node);
    }

    /// Cuts or mends the path between two nodes. Bytes wait for the mending, frames are lost.
    pub(super) fn set_partitioned(&mut self, a: NodeId, b: NodeId, cut: bool) {
        self.physics.links.set_partitioned(a, b, cut);
        self.physics.links.set_partitioned(b, a, cut);
        if !cut {
            let (mended, held) = std::mem::take(&mut self.held)
                .into_iter()
                .partition(|(path, _)| *path == (a, b) || *path == (b, a));
            self.held = held;
            let mended: Vec<_> = mended;
            for ((from, to), event) in mended {
                let now = self.physics.now;
                let latency = super::link_model::nanos(self.physics.links.model(from, to).latency);
                self.physics.at(now + latency, event);
            }
        }
    }

    /// The next event happens. False if there is none.
    pub(super) fn step(&mut self) -> bool {
        let Some(event) = self.physics.next() else { return false };
        if let Some(path) = self.stuck(&event) {
            self.held.push((path, event));
            return true;
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
            Event::Ack { number, index } => queue_pairs.answered(physics, number, index, None),
            Event::Nak { number, index, status } => {
                queue_pairs.answered(physics, number, index, Some(status));
            }
            Event::RetryOut { number } => queue_pairs.retry_out(physics, number),
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
        true
    }

    /// The path that must be mended before this event can happen, if there is one.
    fn stuck(&mut self, event: &Event) -> Option<(NodeId, NodeId)> {
        let path = match event {
            Event::Bytes { pipe, .. } | Event::Fin { pipe } => self.path(*pipe)?,
            Event::Dial { dial } => self.streams.dial_path(*dial)?,
            _ => return None,
        };
        self.physics.links.partitioned(path.0, path.1).then_some(path)
    }

    fn path(&mut self, pipe: PipeId) -> Option<(NodeId, NodeId)> {
        self.streams.pipe(pipe).map(|pipe| (pipe.from, pipe.to))
    }
}

/// A world's state, shared by its ends.
pub(super) struct Shared(Mutex<State>);

impl Shared {
    /// A new world.
    pub(super) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Shared(Mutex::new(State::new(seed))))
    }

    /// Does something to the world, then wakes whom that concerns.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let (result, wakes) = self.with_wakes(act);
        wakes.into_iter().for_each(Waker::wake);
        result
    }

    /// Does something to the world; the caller wakes whom that concerns.
    pub(super) fn with_wakes<R>(&self, act: impl FnOnce(&mut State) -> R) -> (R, Vec<Waker>) {
        let mut state = self.0.lock();
        let result = act(&mut state);
        (result, state.physics.take_wakes())
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}
