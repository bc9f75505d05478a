//! A toy network that keeps every promise: senders, wires, mailboxes, kills, lost links.

use std::collections::VecDeque;

use fastrand::Rng;

const SENDERS: [&str; 2] = ["a", "b"];
const RECEIVERS: [&str; 2] = ["x", "y"];
const MAILBOXES: [&str; 2] = ["in", "out"];

/// A node's run, by the place of its log.
struct Node {
    name: &'static str,
    run: u64,
    log: usize,
}

struct Stream {
    sender: usize,
    run: u64,
    log: usize,
    receiver: usize,
    mailbox: usize,
    name: String,
    /// If true, the sender learns the fate of each message, otherwise only how many were lost.
    named: bool,
    next: u64,
}

#[derive(Clone, Copy)]
struct Message {
    stream: usize,
    number: u64,
    ask: bool,
    /// Its sender was told its end.
    ended: bool,
}

struct Toy {
    rng: Rng,
    logs: Vec<Vec<String>>,
    senders: Vec<Node>,
    receivers: Vec<Node>,
    streams: Vec<Stream>,
    messages: Vec<Message>,
    /// By sender and receiver: sent, and not delivered.
    wires: [[VecDeque<usize>; 2]; 2],
    /// By sender and receiver: delivered, and not acknowledged; asks: not answered.
    unacknowledged: [[Vec<usize>; 2]; 2],
    /// By receiver and mailbox.
    mailboxes: [[VecDeque<usize>; 2]; 2],
}

/// The logs of a random history.
pub(crate) fn history(seed: u64) -> Vec<Vec<String>> {
    let mut toy = Toy {
        rng: Rng::with_seed(seed),
        logs: Vec::new(),
        senders: Vec::new(),
        receivers: Vec::new(),
        streams: Vec::new(),
        messages: Vec::new(),
        wires: Default::default(),
        unacknowledged: Default::default(),
        mailboxes: Default::default(),
    };
    for name in RECEIVERS {
        let log = toy.log(name, 1);
        toy.receivers.push(Node { name, run: 1, log });
    }
    for (sender, name) in SENDERS.into_iter().enumerate() {
        let log = toy.log(name, 1);
        toy.senders.push(Node { name, run: 1, log });
        toy.open_streams(sender);
    }
    for _ in 0..toy.rng.usize(50..1200) {
        toy.step();
    }
    toy.finish();
    toy.logs
}

impl Toy {
    fn log(&mut self, name: &str, run: u64) -> usize {
        self.logs.push(vec![format!("history 1 {name} {run}")]);
        self.logs.len() - 1
    }

    fn open_streams(&mut self, sender: usize) {
        let Node { run, log, .. } = self.senders[sender];
        for (receiver, node) in RECEIVERS.into_iter().enumerate() {
            for (mailbox, name) in MAILBOXES.into_iter().enumerate() {
                let stream = format!("{node}.{name}");
                self.logs[log].push(format!("stream {stream} {node} {name}"));
                let named = self.rng.bool();
                let next = self.rng.u64(0..1000);
                let name = stream;
                self.streams.push(Stream {
                    sender,
                    run,
                    log,
                    receiver,
                    mailbox,
                    name,
                    named,
                    next,
                });
            }
        }
    }

    fn step(&mut self) {
        let (sender, receiver) = (self.rng.usize(0..2), self.rng.usize(0..2));
        match self.rng.u32(0..1000) {
            0..400 => self.send(sender),
            400..650 => drop(self.carry(sender, receiver)),
            650..900 => {
                let mailbox = self.rng.usize(0..2);
                self.handle(receiver, mailbox);
            }
            900..970 => self.acknowledge(sender, receiver),
            970..985 => self.lose_link(sender, receiver),
            985..990 => self.kill_receiver(receiver),
            990..994 => self.kill_sender(sender),
            _ => {
                let mailbox = self.rng.usize(0..2);
                self.close(receiver, mailbox);
            }
        }
    }

    fn send(&mut self, sender: usize) {
        let run = self.senders[sender].run;
        let open = |stream: &Stream| stream.sender == sender && stream.run == run;
        let streams: Vec<usize> =
            (0..self.streams.len()).filter(|i| open(&self.streams[*i])).collect();
        let index = streams[self.rng.usize(0..streams.len())];
        let stream = &mut self.streams[index];
        stream.next += self.rng.u64(1..3);
        let (number, log, receiver) = (stream.next, stream.log, stream.receiver);
        let about = format!("{} {number}", stream.name);
        let ask = self.rng.u32(0..6) == 0;
        self.logs[log].push(format!("{} {about}", if ask { "ask" } else { "try" }));
        if self.rng.u32(0..10) == 0 {
            self.logs[log].push(format!("refused {about} no room"));
            return;
        }
        if !ask || self.rng.bool() {
            self.logs[log].push(format!("committed {about}"));
        }
        self.wires[sender][receiver].push_back(self.messages.len());
        self.messages.push(Message { stream: index, number, ask, ended: false });
    }

    /// Tells the sender of a message its end, if it still lives.
    fn tell(&mut self, message: usize, end: &str) {
        let Message { stream, number, ask, ended } = self.messages[message];
        let Stream { sender, run, log, ref name, named, .. } = self.streams[stream];
        if ended || self.senders[sender].run != run {
            return;
        }
        let line = match end {
            "answered" => format!("answered {name} {number}"),
            _ if named || ask => format!("fate {name} {number} {end}"),
            "delivered" => return,
            _ => format!("fate {name} ? {end}"),
        };
        self.logs[log].push(line);
        self.messages[message].ended = true;
    }

    /// One message from the wire to its mailbox.
    fn carry(&mut self, sender: usize, receiver: usize) -> Option<usize> {
        let message = self.wires[sender][receiver].pop_front()?;
        let stream = &self.streams[self.messages[message].stream];
        self.mailboxes[receiver][stream.mailbox].push_back(message);
        self.unacknowledged[sender][receiver].push(message);
        Some(message)
    }

    fn handle(&mut self, receiver: usize, mailbox: usize) {
        let Some(message) = self.mailboxes[receiver][mailbox].pop_front() else { return };
        let Message { stream, number, ask, .. } = self.messages[message];
        let Stream { sender, run, name, .. } = &self.streams[stream];
        let (node, box_name) = (self.senders[*sender].name, MAILBOXES[mailbox]);
        let line = format!("handled {box_name} {node} {run} {name} {number}");
        self.logs[self.receivers[receiver].log].push(line);
        if ask {
            // Now and then its patience ends before the answer comes.
            let end = if self.rng.u32(0..10) == 0 { "unknown" } else { "answered" };
            self.tell(message, end);
        }
    }

    fn acknowledge(&mut self, sender: usize, receiver: usize) {
        let mut all = std::mem::take(&mut self.unacknowledged[sender][receiver]);
        // An ask waits for its answer, whatever was acknowledged.
        all.retain(|message| {
            let ask = self.messages[*message].ask;
            if !ask {
                self.tell(*message, "delivered");
            }
            ask && !self.messages[*message].ended
        });
        self.unacknowledged[sender][receiver] = all;
    }

    fn lose_link(&mut self, sender: usize, receiver: usize) {
        // Messages that arrived may have been acknowledged just before the link was lost.
        if self.rng.bool() {
            self.acknowledge(sender, receiver);
        }
        for message in std::mem::take(&mut self.unacknowledged[sender][receiver]) {
            self.tell(message, "unknown");
        }
        let wire = std::mem::take(&mut self.wires[sender][receiver]);
        let left = self.rng.usize(0..=wire.len());
        for (at, message) in wire.into_iter().enumerate() {
            self.tell(message, if at < left { "unknown" } else { "not-sent" });
        }
    }

    fn kill_receiver(&mut self, receiver: usize) {
        self.mailboxes[receiver].iter_mut().for_each(VecDeque::clear);
        for sender in 0..SENDERS.len() {
            self.lose_link(sender, receiver);
        }
        let Node { name, run, .. } = self.receivers[receiver];
        let log = self.log(name, run + 1);
        self.receivers[receiver] = Node { name, run: run + 1, log };
    }

    fn kill_sender(&mut self, sender: usize) {
        let Node { name, run, .. } = self.senders[sender];
        for receiver in 0..RECEIVERS.len() {
            // Some messages on the wire still arrive.
            while self.rng.bool() && self.carry(sender, receiver).is_some() {}
            self.wires[sender][receiver].clear();
            self.unacknowledged[sender][receiver].clear();
        }
        let log = self.log(name, run + 1);
        self.senders[sender] = Node { name, run: run + 1, log };
        self.open_streams(sender);
    }

    fn close(&mut self, receiver: usize, mailbox: usize) {
        let line = format!("closed {}", MAILBOXES[mailbox]);
        self.logs[self.receivers[receiver].log].push(line);
        for message in std::mem::take(&mut self.mailboxes[receiver][mailbox]) {
            if self.messages[message].ask {
                self.tell(message, "refused closed");
            }
        }
    }

    /// All arrives, is handled and acknowledged, and all end in order.
    fn finish(&mut self) {
        for sender in 0..SENDERS.len() {
            for receiver in 0..RECEIVERS.len() {
                while self.carry(sender, receiver).is_some() {}
                for mailbox in 0..MAILBOXES.len() {
                    while !self.mailboxes[receiver][mailbox].is_empty() {
                        self.handle(receiver, mailbox);
                    }
                }
                self.acknowledge(sender, receiver);
            }
        }
        for node in self.senders.iter().chain(&self.receivers) {
            self.logs[node.log].push("end".into());
        }
    }
}
