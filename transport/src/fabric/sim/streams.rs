//! All ports, dials and streams of a world.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::task::{Context, Poll, Waker};

use super::event::{Event, NodeId, PipeEnd, PipeId};
use super::link_model::nanos;
use super::physics::Physics;
use super::pipe::Pipe;
use super::rule::{On, Verdict};

/// All ports, dials and streams of a world.
#[derive(Debug, Default)]
pub(super) struct Streams {
    pub(super) pipes: BTreeMap<PipeId, Pipe>,
    ports: BTreeMap<String, Port>,
    dials: BTreeMap<u64, Dial>,
    /// Dials so far, from one node to another.
    dialled: BTreeMap<(NodeId, NodeId), u64>,
    made: u64,
    /// Addresses that are names, and where they lead.
    names: BTreeMap<String, Vec<String>>,
    /// Dials of addresses at which no node listens are not answered.
    pub(super) silent: bool,
}

#[derive(Debug)]
struct Port {
    /// Tells this port from a later one of the same address.
    id: u64,
    node: NodeId,
    backlog: VecDeque<Ends>,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Dial {
    from: NodeId,
    address: String,
    outcome: Option<io::Result<Ends>>,
    /// Its answer will come.
    answered: bool,
    arrived: bool,
    waker: Option<Waker>,
}

/// One node's ends of a stream.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) reads: PipeId,
    pub(super) writes: PipeId,
    pub(super) peer_address: String,
}

impl Streams {
    fn id(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// Makes `name` an address that leads to these.
    pub(super) fn set_name(&mut self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|&address| address.to_owned()).collect();
        self.names.insert(name.to_owned(), addresses);
    }

    /// Returns where an address leads that is a name.
    pub(super) fn resolve(&self, address: &str) -> Option<Vec<String>> {
        self.names.get(address).cloned()
    }

    /// Opens a port.
    pub(super) fn listen(&mut self, node: NodeId, address: &str) -> io::Result<u64> {
        if self.ports.contains_key(address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let id = self.id();
        let port = Port { id, node, backlog: VecDeque::new(), waker: None };
        self.ports.insert(address.to_owned(), port);
        Ok(id)
    }

    /// Returns the next connection of a port.
    pub(super) fn accept(
        &mut self,
        physics: &Physics,
        address: &str,
        id: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Ends>> {
        let Some(port) = self.ports.get_mut(address).filter(|port| port.id == id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let paused = physics.paused.contains(&port.node);
        match port.backlog.pop_front_if(|_| !paused) {
            Some(ends) => Poll::Ready(Ok(ends)),
            None => {
                port.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Closes a port; a dialler that waited to be accepted sees the connection end.
    pub(super) fn close_port(&mut self, physics: &mut Physics, address: &str, id: u64) {
        if self.ports.get(address).is_some_and(|port| port.id == id)
            && let Some(port) = self.ports.remove(address)
        {
            physics.wake(port.waker);
            for ends in port.backlog {
                self.drop_ends(physics, ends.reads, ends.writes);
            }
        }
    }

    /// Starts to dial.
    pub(super) fn dial(&mut self, physics: &mut Physics, from: NodeId, address: String) -> u64 {
        let dial = self.id();
        let to = self.ports.get(&address).map_or(from, |port| port.node);
        let at = physics.after_latency(from, to);
        physics.log(format_args!("dial {dial} of {address} by {}", physics.name(from)));
        let index = self.dialled.entry((from, to)).or_default();
        let verdict = physics.judge(On::Dials, (from, to), *index);
        *index += 1;
        let (outcome, answered) = (None, verdict != Verdict::Unanswered);
        let waiting = Dial { from, address, outcome, answered, arrived: false, waker: None };
        self.dials.insert(dial, waiting);
        match verdict {
            Verdict::Pass | Verdict::Unanswered => physics.at(at, Event::Dial { dial }),
            Verdict::Delay(delay) => physics.at(at + nanos(delay), Event::Dial { dial }),
            Verdict::Drop => {}
            Verdict::Fail(_) | Verdict::Kill => {
                if let Some(waiting) = self.dials.get_mut(&dial) {
                    waiting.outcome = Some(Err(io::ErrorKind::ConnectionRefused.into()));
                }
                let at = physics.after_latency(from, to);
                physics.at(at, Event::Dialed { dial });
            }
        }
        dial
    }

    /// Returns the outcome of a dial.
    pub(super) fn poll_dial(
        &mut self,
        physics: &Physics,
        dial: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Ends>> {
        let Some(waiting) = self.dials.get_mut(&dial) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        };
        if waiting.arrived
            && !physics.paused.contains(&waiting.from)
            && let Some(outcome) = waiting.outcome.take()
        {
            self.dials.remove(&dial);
            return Poll::Ready(outcome);
        }
        waiting.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Gives a dial up.
    pub(super) fn drop_dial(&mut self, physics: &mut Physics, dial: u64) {
        if let Some(Dial { outcome: Some(Ok(ends)), .. }) = self.dials.remove(&dial) {
            self.drop_ends(physics, ends.reads, ends.writes);
        }
    }

    /// Returns from which node to which a dial goes, if the other one listens there.
    pub(super) fn dial_path(&self, dial: u64) -> Option<(NodeId, NodeId)> {
        let waiting = self.dials.get(&dial)?;
        Some((waiting.from, self.ports.get(&waiting.address)?.node))
    }

    /// A dial reaches its address.
    pub(super) fn dial_reaches(&mut self, physics: &mut Physics, dial: u64) {
        let Some(waiting) = self.dials.get(&dial) else { return };
        let (from, address) = (waiting.from, waiting.address.clone());
        let Some(to) = self.ports.get(&address).map(|port| port.node) else {
            if self.silent {
                return;
            }
            return self.dial_fails(physics, dial, io::ErrorKind::ConnectionRefused);
        };
        let between = |pipe: &Pipe| [(from, to), (to, from)].contains(&(pipe.from, pipe.to));
        let crossed = self.pipes.values().any(|pipe| between(pipe) && pipe.is_open());
        physics.counters.crossed_dials += u64::from(crossed);
        let (there, back) = (self.id(), self.id());
        self.pipes.insert(there, Pipe::new(from, to));
        self.pipes.insert(back, Pipe::new(to, from));
        let dialer = format!("{}:{}", physics.name(from), 40_000 + dial);
        if let Some(port) = self.ports.get_mut(&address) {
            port.backlog.push_back(Ends { reads: there, writes: back, peer_address: dialer });
            physics.wake(port.waker.take());
        }
        let at = physics.after_latency(to, from);
        if let Some(waiting) = self.dials.get_mut(&dial) {
            if waiting.answered {
                physics.at(at, Event::Dialed { dial });
            }
            waiting.outcome = Some(Ok(Ends { reads: back, writes: there, peer_address: address }));
        }
    }

    /// The answer reaches the dialler.
    pub(super) fn dialed(&mut self, physics: &mut Physics, dial: u64) {
        if let Some(waiting) = self.dials.get_mut(&dial) {
            waiting.arrived = true;
            physics.wake(waiting.waker.take());
        }
    }

    fn dial_fails(&mut self, physics: &mut Physics, dial: u64, kind: io::ErrorKind) {
        if let Some(waiting) = self.dials.get_mut(&dial) {
            waiting.outcome = Some(Err(kind.into()));
        }
        self.dialed(physics, dial);
    }

    /// One direction of a stream.
    pub(super) fn pipe(&mut self, pipe: PipeId) -> Option<&mut Pipe> {
        self.pipes.get_mut(&pipe)
    }

    /// A node lets go of its ends of a stream.
    pub(super) fn drop_ends(&mut self, physics: &mut Physics, reads: PipeId, writes: PipeId) {
        if self.pipes.get_mut(&reads).is_some_and(|pipe| pipe.drop_reader(physics, reads)) {
            self.pipes.remove(&reads);
        }
        if self.pipes.get_mut(&writes).is_some_and(|pipe| pipe.drop_writer(physics, writes)) {
            self.pipes.remove(&writes);
        }
    }

    /// Resets the streams between two nodes: each end finds out within its own time.
    pub(super) fn sever(&mut self, physics: &mut Physics, a: NodeId, b: NodeId) {
        for (&pipe, direction) in &self.pipes {
            if (direction.from, direction.to) == (a, b) || (direction.from, direction.to) == (b, a)
            {
                physics.log(format_args!("pipe {pipe} is severed"));
                for end in [PipeEnd::Reader, PipeEnd::Writer] {
                    let at = physics.after_latency(a, b);
                    let kind = io::ErrorKind::ConnectionReset;
                    physics.at(at, Event::Break { pipe, end, kind });
                }
            }
        }
    }

    /// The software of a node goes on after a pause: all that waits looks again.
    pub(super) fn resume(&mut self, physics: &mut Physics, node: NodeId) {
        self.pipes.values_mut().for_each(|pipe| pipe.resume(physics, node));
        for port in self.ports.values_mut().filter(|port| port.node == node) {
            physics.wake(port.waker.take());
        }
        for dial in self.dials.values_mut().filter(|dial| dial.from == node) {
            physics.wake(dial.waker.take());
        }
    }

    /// A node dies: its own ends break now, its peers see an end or a reset, its ports are gone
    /// and its dials are refused.
    pub(super) fn kill(&mut self, physics: &mut Physics, node: NodeId) {
        let kind = io::ErrorKind::ConnectionReset;
        for (&pipe, direction) in &mut self.pipes {
            if direction.from == node {
                direction.break_end(physics, PipeEnd::Writer, kind);
                if physics.one_in(2) {
                    direction.finish(physics, pipe);
                } else {
                    let at = physics.after_latency(node, direction.to);
                    physics.at(at, Event::Break { pipe, end: PipeEnd::Reader, kind });
                }
            }
            if direction.to == node {
                direction.break_end(physics, PipeEnd::Reader, kind);
                let at = physics.after_latency(node, direction.from);
                physics.at(at, Event::Break { pipe, end: PipeEnd::Writer, kind });
            }
        }
        let ports: Vec<_> = self
            .ports
            .iter()
            .filter(|(_, port)| port.node == node)
            .map(|(address, port)| (address.clone(), port.id))
            .collect();
        for (address, id) in ports {
            self.close_port(physics, &address, id);
        }
        let dials: Vec<_> =
            self.dials.iter().filter(|(_, dial)| dial.from == node).map(|(id, _)| *id).collect();
        for dial in dials {
            let outcome = self.dials.get_mut(&dial).and_then(|dial| dial.outcome.take());
            if let Some(Ok(ends)) = outcome {
                self.drop_ends(physics, ends.reads, ends.writes);
            }
            self.dial_fails(physics, dial, io::ErrorKind::ConnectionRefused);
        }
    }
}
