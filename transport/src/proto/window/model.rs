//! All interleavings of two mailboxes of which one is stuck: opening, windows, closing, reopening.
//!
//! The sender is the production [`SendQueue`] and its notices; the receiver's counts are the
//! production [`RecvWindow`], [`LinkRecvWindow`] and [`Inlets`]. The model's own are the senders'
//! tasks, the marks that make a report (as `link/receipt.rs` and `driver/mailboxes.rs` make them)
//! and two queues of records that lose nothing: credits are the other model's concern.
//!
//! Checked: while the receiver neither takes from the stuck mailbox nor closes it, the sender of
//! the live one gets everything sent, from every reachable state; an honest sender never breaks the
//! protocol; no room leaks; nothing reaches another opening than it was sent to; the exchange ends.

mod receiver;

use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rkyv::util::AlignedVec;

use super::{Count, Report, WindowSize};
use crate::open_request::{OpenRequest, Target};
use crate::proto::credit::Class;
use crate::proto::frame::{FrameReader, FrameWriter, Head};
use crate::proto::header::{RecordHeader, RecordKind};
use crate::proto::lanes::Entry;
use crate::proto::send_queue::{Filling, Notice, Room, SendQueue};

use receiver::Receiver;

/// The mailbox that the receiver does not take from, and its neighbour.
const STUCK: usize = 0;
const LIVE: usize = 1;

/// The part that is left out, to show that the model finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// BLOCKED is never sent.
    Silent,
    /// Reports are due at the full window only.
    LateReport,
    /// CLOSED gives nothing back to the link's window.
    ClosedKeeps,
    /// The link's window binds a mailbox with nothing outstanding, too.
    LinkBindsAll,
}

#[derive(Debug, Clone, Copy)]
struct Setting {
    window: WindowSize,
    link_bytes: u32,
    /// Bytes of the messages to the stuck and to the live mailbox.
    messages: [&'static [u32]; 2],
    /// How often each may close.
    closes: [u8; 2],
    /// Frames are written and reports made at any later time, not at once.
    lazy: bool,
    fault: Fault,
}

/// Where a sender waits: for the opening, or for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Opening(u32),
    Room(u32),
}

/// Larger messages are large ones, which small ones of other mailboxes overtake.
const EAGER_MAX: usize = 64;

/// No time passes in the model.
fn now() -> Instant {
    static NOW: OnceLock<Instant> = OnceLock::new();
    *NOW.get_or_init(crate::sync::some_moment)
}

/// The task that sends to one mailbox.
#[derive(Debug, Clone, Hash)]
struct Sender {
    request: Arc<OpenRequest>,
    /// Where it waits, while it does.
    waits_at: Option<At>,
    committed: usize,
}

/// A record on its way to the receiver.
#[derive(Debug, Clone, Hash)]
struct Flying {
    header: RecordHeader,
    payload: Vec<u8>,
    /// The sender's mailbox, of a message.
    mailbox: u32,
}

/// A record on its way back, or a message's fate, which travels in order with them.
#[derive(Debug, Clone, Hash)]
enum Returning {
    Record(RecordHeader, Vec<u8>),
    Fate(u32),
}

#[derive(Clone, Hash)]
struct State {
    out: SendQueue<()>,
    senders: [Sender; 2],
    forth: VecDeque<Flying>,
    back: VecDeque<Returning>,
    receiver: Receiver,
    closes: [u8; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A sender tries: it opens, commits or begins to wait.
    Attempt(usize),
    /// Waiting records are written into a frame.
    Transmit,
    /// The receiver reads the next record.
    Arrive,
    /// The sender's side reads the next record.
    Return,
    /// The live mailbox takes a message.
    Take,
    /// Marks become records.
    Report,
    /// A mailbox closes; its successor may be opened by the same name.
    Close(usize),
}

impl State {
    fn new(setting: &Setting) -> Self {
        let senders = ["stuck", "live"].map(|name| Sender {
            request: Arc::new(OpenRequest::new(Target::Name(name.to_owned()), 0)),
            waits_at: None,
            committed: 0,
        });
        State {
            out: SendQueue::new(setting.link_bytes, setting.window, EAGER_MAX),
            senders,
            forth: VecDeque::new(),
            back: VecDeque::new(),
            receiver: Receiver::new(setting),
            closes: setting.closes,
        }
    }

    fn steps(&self, setting: &Setting) -> Vec<Step> {
        let mut steps = Vec::new();
        for who in [STUCK, LIVE] {
            let sender = &self.senders[who];
            if sender.waits_at.is_none() && sender.committed < setting.messages[who].len() {
                steps.push(Step::Attempt(who));
            }
            if self.closes[who] > 0 && self.receiver.is_open(who) {
                steps.push(Step::Close(who));
            }
        }
        let choices = [
            (setting.lazy && !self.out.is_empty(), Step::Transmit),
            (!self.forth.is_empty(), Step::Arrive),
            (!self.back.is_empty(), Step::Return),
            (self.receiver.has_waiting(LIVE), Step::Take),
            (setting.lazy && self.receiver.is_dirty(), Step::Report),
        ];
        steps.extend(choices.into_iter().filter(|c| c.0).map(|c| c.1));
        steps
    }

    fn take(&mut self, step: Step, setting: &Setting) {
        self.do_step(step, setting);
        if !setting.lazy {
            if !self.out.is_empty() {
                self.transmit(setting);
            }
            self.receiver.report(&mut self.back);
        }
        for notice in self.out.take_notices() {
            let over = |at: At| match notice {
                Notice::Opened(outlet, _) | Notice::Found(outlet, _) => at == At::Opening(outlet),
                Notice::Room(mailbox) => at == At::Room(mailbox),
                Notice::LinkRoom => matches!(at, At::Room(_)),
                Notice::Ended { outlet, mailbox, .. } => {
                    at == At::Opening(outlet)
                        || mailbox.is_some_and(|mailbox| at == At::Room(mailbox))
                }
            };
            for sender in &mut self.senders {
                sender.waits_at = sender.waits_at.filter(|at| !over(*at));
            }
        }
        self.out.sweep();
    }

    fn do_step(&mut self, step: Step, setting: &Setting) {
        match step {
            Step::Attempt(who) => self.attempt(who, setting),
            Step::Transmit => self.transmit(setting),
            Step::Arrive => {
                let flying = self.forth.pop_front().expect("a record");
                let mailbox = (flying.header.kind == RecordKind::Tell).then_some(flying.mailbox);
                self.receiver.arrive(flying, &mut self.back);
                match mailbox {
                    Some(mailbox) if setting.lazy => self.back.push_back(Returning::Fate(mailbox)),
                    Some(mailbox) => self.out.settle(mailbox),
                    None => {}
                }
            }
            Step::Return => self.handle_return(setting),
            Step::Take => self.receiver.take(LIVE),
            Step::Report => self.receiver.report(&mut self.back),
            Step::Close(who) => {
                self.closes[who] -= 1;
                self.receiver.close(who);
            }
        }
    }

    fn attempt(&mut self, who: usize, setting: &Setting) {
        let sender = &mut self.senders[who];
        let bytes = setting.messages[who][sender.committed];
        let outlet = self.out.outlet(&sender.request, &mut 0);
        sender.waits_at = Some(At::Opening(outlet));
        let Some((mailbox, _)) = self.out.mailbox(outlet) else { return };
        sender.waits_at = Some(At::Room(mailbox));
        let bound = setting.fault == Fault::LinkBindsAll && self.out.binds_all(mailbox, bytes);
        let room = self.out.room(mailbox, bytes);
        self.out.say_blocked(mailbox, room);
        if room != Room::Yes || bound {
            return;
        }
        self.out.reserve(mailbox, bytes);
        let (kind, ordinal) = (RecordKind::Tell, who as u16);
        let entry = Entry { kind, mailbox, ordinal, correlation: 0, message: 0, deadline: None };
        let mut archive = AlignedVec::with_capacity(bytes as usize);
        archive.resize(bytes as usize, 0);
        self.out.commit(entry, None, &mut archive);
        sender.waits_at = None;
        sender.committed += 1;
    }

    fn transmit(&mut self, setting: &Setting) {
        let mut slot = [0; 2048];
        let mut writer = FrameWriter::new(&mut slot);
        let (mut mailboxes, mut dropped) = (VecDeque::new(), Vec::new());
        let mut sent =
            |sent: crate::proto::fate::Sent| mailboxes.extend(sent.each().map(|sent| sent.mailbox));
        self.out.fill(
            Class::Data,
            &mut Filling {
                writer: &mut writer,
                frame: 0,
                now: now(),
                sent: &mut sent,
                dropped: &mut dropped,
                class: None,
                messages: 0,
            },
        );
        let bytes = writer.finish(Head::default());
        let (head, mut reader) = FrameReader::new(&slot[..bytes], 0).expect("a frame");
        while let Some(record) = reader.read(head.records).expect("a record") {
            let header = record.header;
            if setting.fault == Fault::Silent && header.kind == RecordKind::Blocked {
                continue;
            }
            let is_message = header.kind == RecordKind::Tell;
            let mailbox = if is_message { mailboxes.pop_front().expect("its mailbox") } else { 0 };
            let payload = slot[record.payload].to_vec();
            self.forth.push_back(Flying { header, payload, mailbox });
        }
        assert!(dropped.is_empty(), "only asks are dropped");
    }

    fn handle_return(&mut self, setting: &Setting) {
        let out = &mut self.out;
        match self.back.pop_front().expect("a record") {
            Returning::Fate(mailbox) => out.settle(mailbox),
            Returning::Record(header, payload) => match header.kind {
                RecordKind::Opened => out.handle_opened(&header, &payload).expect("honest"),
                RecordKind::Closed => {
                    let lost = out.outstanding_at(header.mailbox);
                    out.handle_closed((header.mailbox, header.generation), 0, &[]).expect("honest");
                    for entry in out.take_unsendable() {
                        out.settle(entry.mailbox);
                    }
                    if setting.fault == Fault::ClosedKeeps {
                        out.forget_release(lost);
                    }
                }
                _ => {
                    let taken = Count { messages: header.total, bytes: header.correlation };
                    let report = Report { taken, doublings: header.ordinal };
                    out.handle_window(header.mailbox, header.generation, report).expect("honest");
                }
            },
        }
    }

    /// Returns true if the link's window is the sum of its mailboxes.
    fn leaks(&self) -> bool {
        let (link, mailboxes) = self.out.outstanding();
        link != mailboxes
    }

    /// Checks the state when nothing more can happen, except that a mailbox closes.
    fn check_rest(&self) {
        assert_eq!(self.out.uses(), 0, "every message has its fate");
        let (_, mailboxes) = self.out.outstanding();
        let there = self.receiver.unreported();
        assert_eq!(mailboxes, there, "no room is lost between the two sides");
    }

    fn is_served(&self, setting: &Setting) -> bool {
        self.senders[LIVE].committed == setting.messages[LIVE].len()
    }
}

/// Collects the hashed bytes: the exact state, not a digest of it.
#[derive(Default)]
struct Exactly(Vec<u8>);

impl Hasher for Exactly {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
    fn write_u32(&mut self, n: u32) {
        compact(&mut self.0, n.into());
    }
    fn write_u64(&mut self, n: u64) {
        compact(&mut self.0, n);
    }
    fn write_usize(&mut self, n: usize) {
        compact(&mut self.0, n as u64);
    }
    fn finish(&self) -> u64 {
        0
    }
}

/// Seven bits to a byte, the last without the mark.
fn compact(to: &mut Vec<u8>, mut n: u64) {
    while n > 0x7f {
        to.push(n as u8 | 0x80);
        n >>= 7;
    }
    to.push(n as u8);
}

fn key(state: &State) -> Box<[u8]> {
    let mut exactly = Exactly::default();
    state.hash(&mut exactly);
    exactly.0.into()
}

/// A setting with more is not worth its time.
const STATES_MAX: usize = 3_000_000;

struct Explored {
    states: usize,
    /// The fault that was found, and the shortest way there.
    wrong: Option<(&'static str, Vec<Step>)>,
}

fn explore(setting: &Setting) -> Explored {
    let start = State::new(setting);
    let mut known = HashMap::from([(key(&start), 0u32)]);
    let mut came: Vec<(u32, Step)> = vec![(0, Step::Report)];
    let mut waiting = VecDeque::from([start]);
    let mut edges: Vec<Vec<u32>> = Vec::new();
    while let Some(state) = waiting.pop_front() {
        let here = edges.len() as u32;
        let ended =
            |wrong| Explored { states: known.len(), wrong: Some((wrong, way_to(here, &came))) };
        if state.leaks() {
            return ended("room leaks");
        }
        let steps = state.steps(setting);
        if steps.iter().all(|step| matches!(step, Step::Close(_))) {
            if !state.is_served(setting) {
                return ended("starved");
            }
            if setting.fault == Fault::None {
                state.check_rest();
            }
        }
        assert!(known.len() < STATES_MAX, "too many states: {setting:?}");
        let mut out = Vec::with_capacity(steps.len());
        for step in steps {
            let mut after = state.clone();
            after.take(step, setting);
            let new = known.len() as u32;
            let id = *known.entry(key(&after)).or_insert(new);
            if id == new {
                waiting.push_back(after);
                came.push((here, step));
            }
            out.push(id);
        }
        edges.push(out);
    }
    assert!(is_finite(&edges), "an endless exchange: {setting:?}");
    Explored { states: edges.len(), wrong: None }
}

fn way_to(mut at: u32, came: &[(u32, Step)]) -> Vec<Step> {
    let mut way = Vec::new();
    while at != 0 {
        let (from, step) = came[at as usize];
        way.push(step);
        at = from;
    }
    way.reverse();
    way
}

/// Returns true if there is no cycle: a topological order reaches every state. With it, that every
/// state at rest serves the live mailbox means that every state leads there.
fn is_finite(edges: &[Vec<u32>]) -> bool {
    let mut before = vec![0u32; edges.len()];
    for to in edges.iter().flatten() {
        before[*to as usize] += 1;
    }
    let mut ready: Vec<usize> = (0..edges.len()).filter(|i| before[*i] == 0).collect();
    let mut ordered = 0;
    while let Some(at) = ready.pop() {
        ordered += 1;
        for to in &edges[at] {
            before[*to as usize] -= 1;
            if before[*to as usize] == 0 {
                ready.push(*to as usize);
            }
        }
    }
    ordered == edges.len()
}

#[rustfmt::skip]
const SETTINGS: [Setting; 9] = [
    // The link's window does not bind.
    setting((1, 64), AMPLE, [&[16; 2], &[16; 3]], [1, 0]),
    setting((2, 64), AMPLE, [&[16; 2], &[16; 3]], [0, 1]),
    setting((3, 40), AMPLE, [&[16], &[16, 32, 16]], [0, 1]),
    // The stuck mailbox holds all of it.
    setting((2, 64), 32, [&[16; 3], &[16; 3]], [1, 0]),
    setting((3, 64), 32, [&[16, 32], &[16, 32, 16]], [0, 1]),
    // A message alone is larger than every window.
    setting((2, 64), 32, [&[128, 16], &[16, 128, 16]], [1, 0]),
    Setting { lazy: true, ..setting((1, 64), 16, [&[16], &[16; 2]], [1, 0]) },
    // A small message to an idle mailbox overtakes a large message that fills the link's window.
    Setting { lazy: true, ..setting((2, 128), 96, [&[16, 80], &[16]], [0, 0]) },
    Setting { lazy: true, ..setting((1, 64), AMPLE, [&[16], &[16; 2]], [0, 1]) },
];

const AMPLE: u32 = 1 << 20;

const fn setting(
    (messages, bytes): (u32, u32),
    link_bytes: u32,
    sizes: [&'static [u32]; 2],
    closes: [u8; 2],
) -> Setting {
    let window = WindowSize { messages, bytes };
    Setting { window, link_bytes, messages: sizes, closes, lazy: false, fault: Fault::None }
}

/// WI-1 to WI-3, OB-2, OU-3, IN-1; and each of the faults starves the live mailbox.
#[test]
fn model_of_windows_and_openings() {
    let mut states = 0;
    for setting in &SETTINGS {
        let found = explore(setting);
        println!("model window {}: {} states, nobody starved", name(setting), found.states);
        assert_eq!(found.wrong, None, "{setting:?}");
        states += found.states;
    }
    println!("model window: {states} states in {} settings", SETTINGS.len());
    let mixed = setting((3, 40), AMPLE, [&[16], &[16, 32, 16]], [0, 0]);
    let link = setting((2, 64), 32, [&[16; 2], &[16; 3]], [1, 0]);
    for (fault, setting) in [
        (Fault::Silent, mixed),
        (Fault::LateReport, mixed),
        (Fault::ClosedKeeps, Setting { messages: [&[16; 2], &[16; 3]], closes: [0, 1], ..link }),
        (Fault::LinkBindsAll, link),
    ] {
        let setting = Setting { fault, ..setting };
        let found = explore(&setting);
        let (wrong, way) = found.wrong.expect("the fault is found");
        println!("model window {} with {fault:?}: {wrong} after {way:?}", name(&setting));
    }
}

fn name(setting: &Setting) -> String {
    let Setting { window, link_bytes, messages, closes, lazy, .. } = setting;
    let WindowSize { messages: most, bytes } = window;
    format!(
        "{most} and {bytes} B, link {link_bytes} B, {messages:?}, closes {closes:?}, lazy {lazy}"
    )
}
