//! A simulated world: its nodes, faults, log and counters.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use super::event::Event;
use super::link_model::{LinkModel, nanos};
use super::physics::IdleWakes;
use super::queue::SimFabric;
use super::rule::{Counters, Rule};
use super::state::Shared;
use super::wire::SimWire;
use crate::entropy::Entropy;

/// A world of nodes on one virtual clock. All chance in it comes from its seed. Clones are the
/// same world.
#[derive(Clone)]
pub struct World(pub(super) Arc<Shared>);

impl World {
    /// The world of this seed, at instant 0. Its time passes under [`run`](super::run) only.
    pub fn new(seed: u64) -> Self {
        World(Shared::new(seed))
    }

    /// Returns a node's ends of the network. After [`kill_node`](Self::kill_node) the old ends are
    /// dead, and new ones are the node's next life.
    pub fn network(&self, node: &str) -> (Arc<SimWire>, Arc<SimFabric>) {
        let life = self.0.with(|state| state.life(node));
        let wire = SimWire::new(self.0.clone(), life);
        (Arc::new(wire), Arc::new(SimFabric::new(self.0.clone(), life)))
    }

    /// Returns a source of random numbers for a node, seeded by the world.
    pub fn entropy(&self) -> Entropy {
        Entropy::seeded(self.random())
    }

    /// Returns a random number of the world.
    pub fn random(&self) -> u64 {
        self.0.with(|state| state.physics.chance.u64(..))
    }

    /// Virtual time since the world began, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.0.with(|state| state.physics.now)
    }

    /// Adds a line to the log, unless the scenario has ended.
    pub fn log(&self, line: &str) {
        self.0.with(|state| state.physics.log(format_args!("{line}")));
    }

    /// Returns all lines so far, each after its instant in nanoseconds. Every run of the same
    /// scenario with the same seed gives the same text, even if asked for later: the log ends with
    /// the scenario, since the remaining tasks are dropped in any order.
    pub fn log_text(&self) -> String {
        self.0.with(|state| state.physics.log_text().to_owned())
    }

    /// Returns the last `lines` lines of the log, or all if there are fewer.
    pub fn log_tail(&self, lines: usize) -> String {
        self.0.with(|state| {
            let all: Vec<&str> = state.physics.log_text().lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        })
    }

    /// Returns its seed.
    pub fn seed(&self) -> u64 {
        self.0.with(|state| state.seed)
    }

    /// Returns the counts of events so far.
    pub fn counters(&self) -> Counters {
        self.0.with(|state| state.physics.counters)
    }

    /// Sets how fast all paths are that have no model of their own.
    pub fn set_links(&self, model: LinkModel) {
        self.0.with(|state| state.physics.links.set_usual(model));
    }

    /// Sets how fast the path from one node to another is; the way back is another path.
    pub fn set_link(&self, from: &str, to: &str, model: LinkModel) {
        self.0.with(|state| {
            let (from, to) = (state.physics.node(from), state.physics.node(to));
            state.physics.links.set(from, to, model);
        });
    }

    /// Sets how often nodes send heartbeats on links that begin from now on. A heartbeat makes the
    /// driver of its link look for work; with none in the whole run, a lost wake-up shows as a wait
    /// without an end.
    pub fn set_heartbeat_interval(&self, interval: Duration) {
        self.0.with(|state| state.physics.heartbeat_interval = Some(interval));
    }

    /// From now on wakes the tasks that wait for a completion whenever nothing else can run, for
    /// nothing, as a fabric may (PV-8). They find nothing to do unless an earlier wake-up was lost:
    /// the frames that they then post are counted ([`Counters::overdue`]).
    pub fn wake_when_idle(&self) {
        self.0.with(|state| state.physics.idle_wakes = IdleWakes::Next);
    }

    /// Adds a rule about frames, dials or bytes from now on, after the existing rules.
    pub fn add_rule(&self, rule: Rule) {
        self.0.with(|state| state.physics.rules.push(rule));
    }

    /// Removes all rules.
    pub fn clear_rules(&self) {
        self.0.with(|state| state.physics.rules.clear());
    }

    /// Makes `name` an address, `host:port`, that leads to these from now on, as a name in DNS
    /// does.
    pub fn set_name(&self, name: &str, addresses: &[&str]) {
        self.0.with(|state| {
            state.physics.log(format_args!("{name} leads to {addresses:?}"));
            state.streams.set_name(name, addresses);
        });
    }

    /// From now on dials of addresses at which no node listens get no answer, as if the host were
    /// switched off; before, they are refused.
    pub fn silence_dead_addresses(&self) {
        self.0.with(|state| state.streams.silent = true);
    }

    /// Ends a node's life: its queue pairs, streams and ports are gone, at once for itself; its
    /// peers' streams end or are reset, and their queue pairs find out when they send. Tasks of it
    /// that still run can listen, dial and open no more.
    pub fn kill_node(&self, node: &str) {
        self.0.with(|state| state.kill(node));
    }

    /// Cuts the path of all present queue pairs between two nodes. Both ends find out when they
    /// send.
    pub fn sever_data(&self, a: &str, b: &str) {
        self.0.with(|state| {
            let (a, b) = (state.physics.node(a), state.physics.node(b));
            for number in state.queue_pairs.between(a, Some(b)) {
                state.queue_pairs.sever(&mut state.physics, number);
            }
        });
    }

    /// Resets all present streams between two nodes.
    pub fn sever_streams(&self, a: &str, b: &str) {
        self.0.with(|state| {
            let (a, b) = (state.physics.node(a), state.physics.node(b));
            state.streams.sever(&mut state.physics, a, b);
        });
    }

    /// Nothing passes between two nodes until they are [mended](Self::mend): frames are lost,
    /// bytes of streams and dials wait.
    pub fn partition(&self, a: &str, b: &str) {
        self.partition_one_way(a, b);
        self.partition_one_way(b, a);
    }

    /// The same in one direction only.
    pub fn partition_one_way(&self, from: &str, to: &str) {
        self.set_partitioned(from, to, true);
    }

    /// Ends a partition, in both directions.
    pub fn mend(&self, a: &str, b: &str) {
        self.mend_one_way(a, b);
        self.mend_one_way(b, a);
    }

    /// Ends a partition in one direction.
    pub fn mend_one_way(&self, from: &str, to: &str) {
        self.set_partitioned(from, to, false);
    }

    fn set_partitioned(&self, from: &str, to: &str, cut: bool) {
        self.0.with(|state| {
            let what = if cut { "cut off from" } else { "heard by" };
            state.physics.log(format_args!("{from} is {what} {to}"));
            let (from, to) = (state.physics.node(from), state.physics.node(to));
            state.set_partitioned(from, to, cut);
        });
    }

    /// Stops a node as a debugger does, until it is [resumed](Self::resume): its device and its
    /// kernel go on (frames find its receives and are acknowledged, bytes and dials arrive), but
    /// it sees nothing of it, and nothing that it posts, writes or dials leaves. Its tasks run on
    /// as far as they wait for timers only.
    pub fn pause(&self, node: &str) {
        self.0.with(|state| state.set_paused(node, true));
    }

    /// Resumes a paused node.
    pub fn resume(&self, node: &str) {
        self.0.with(|state| state.set_paused(node, false));
    }

    /// Takes a node's device away: its queue pairs fail, and it can open none until the device is
    /// [given back](Self::return_device). Its streams go on.
    pub fn lose_device(&self, node: &str) {
        self.0.with(|state| state.set_device(node, false));
    }

    /// Gives a node a device again.
    pub fn return_device(&self, node: &str) {
        self.0.with(|state| state.set_device(node, true));
    }

    /// Returns how many queue pairs of one node are connected to some of the other and not in the
    /// error state; the same both ways, as long as neither side ended one.
    pub fn connections(&self, node: &str, peer: &str) -> usize {
        self.0.with(|state| {
            let (node, peer) = (state.physics.node(node), state.physics.node(peer));
            state.queue_pairs.connected(node, peer)
        })
    }

    /// Waits until this much virtual time has passed, to the nanosecond. (Tokio's own timers go by
    /// milliseconds.)
    pub async fn sleep(&self, time: Duration) {
        let deadline = self.now() + nanos(time);
        let sleeper = Arc::new(Sleeper::default());
        let mut asked = false;
        poll_fn(|cx| {
            *sleeper.0.lock() = Some(cx.waker().clone());
            self.0.with(|state| {
                if state.physics.now >= deadline {
                    return Poll::Ready(());
                }
                if !std::mem::replace(&mut asked, true) {
                    state.physics.at(deadline, Event::Wake(sleeper.clone().into()));
                }
                Poll::Pending
            })
        })
        .await;
    }
}

/// The waker of a sleep: wakes the task that polled last.
#[derive(Default)]
struct Sleeper(Mutex<Option<Waker>>);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        let waker = self.0.lock().take();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.with(|s| write!(f, "World(seed {}, {} ns)", s.seed, s.physics.now))
    }
}

/// Returns true if a line of the log tells of a single frame, or of some bytes of a stream: most
/// lines do.
pub fn is_of_frame(line: &str) -> bool {
    let said = line.split_once(' ').map_or(line, |(_, said)| said);
    ["qp ", "pipe "].iter().any(|begin| said.starts_with(begin))
}
