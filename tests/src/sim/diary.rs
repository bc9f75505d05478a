//! The logs of the nodes of a scenario, and their judgement. It knows nothing of the library's own
//! books.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use ringpost_history::{Books, Event, Fate, Origin, Verdict, Writer};
use ringpost_transport::host;

use super::message::Run;

/// Where a message goes: node and mailbox.
pub(super) type Lane = (usize, usize);

/// Returns true if tells to this mailbox are confirmed. A dead letter has no number, so fates of
/// other tells have none.
pub(super) fn is_confirmed(mailbox: usize) -> bool {
    mailbox.is_multiple_of(2)
}

/// The log of one run of a node, which has one stream to each mailbox of each other node. Clones
/// are the same log.
#[derive(Debug, Clone)]
pub(super) struct Diary {
    run: Run,
    names: Arc<[String]>,
    log: Arc<Mutex<Log>>,
}

#[derive(Debug)]
struct Log {
    writer: Writer<Vec<u8>>,
    /// The number that the next message of a lane has.
    next: BTreeMap<Lane, u64>,
    /// The run was killed: its remaining tasks write no more.
    killed: bool,
    faults: Vec<String>,
}

impl Diary {
    /// Starts a log. `names` has all nodes, each with this number of `mailboxes`.
    pub(super) fn start(run: Run, names: &[String], mailboxes: usize) -> Self {
        let me = run.node;
        let writer = Writer::start(Vec::new(), &names[me], run.number.into());
        let writer = writer.expect("a good name");
        let log = Log { writer, next: BTreeMap::new(), killed: false, faults: Vec::new() };
        let diary = Diary { run, names: names.into(), log: Arc::new(Mutex::new(log)) };
        for to in (0..names.len()).filter(|to| *to != me) {
            for mailbox in 0..mailboxes {
                let (node, stream) = (&names[to], diary.stream((to, mailbox)));
                let mailbox = format!("m{mailbox}");
                let event = Event::Stream { stream: &stream, node, mailbox: &mailbox };
                diary.log.lock().note(&event);
            }
        }
        diary
    }

    /// Returns the run whose log it is.
    pub(super) fn run(&self) -> Run {
        self.run
    }

    /// Notes that the message with the next number was committed; returns the number.
    pub(super) fn committed(&self, lane: Lane, ask: bool) -> u64 {
        let stream = self.stream(lane);
        let mut log = self.log.lock();
        let number = log.tried(lane, &stream, ask);
        log.note(&Event::Committed(&stream, number));
        number
    }

    /// Notes that the message with the next number was given back.
    pub(super) fn refused(&self, lane: Lane, ask: bool, cause: &str) {
        let stream = self.stream(lane);
        let mut log = self.log.lock();
        let number = log.tried(lane, &stream, ask);
        log.note(&Event::Refused(&stream, number, cause));
    }

    /// Notes the fate of a message, or without a number the fate of some message of the lane.
    pub(super) fn told(&self, lane: Lane, number: Option<u64>, fate: Fate<'_>) {
        self.log.lock().note(&Event::Fate(&self.stream(lane), number, fate));
    }

    /// Notes that the answer to an ask came.
    pub(super) fn answered(&self, lane: Lane, number: u64) {
        self.log.lock().note(&Event::Answered(&self.stream(lane), number));
    }

    /// Notes that a message came to this mailbox; `whole` says whether its bytes are right.
    pub(super) fn arrived(&self, mailbox: usize, from: Run, number: u64, whole: bool) {
        let Some(node) = self.names.get(from.node) else {
            return self.garbage(&format!("a message from node {}", from.node));
        };
        let (stream, run) = (self.stream((self.run.node, mailbox)), from.number.into());
        let origin = Origin { node, run, stream: &stream, number };
        let event = if whole { Event::Handled } else { Event::Damaged };
        self.log.lock().note(&event(&format!("m{mailbox}"), origin));
    }

    /// Notes something that cannot be of the scenario (SC-2).
    pub(super) fn garbage(&self, what: &str) {
        let mut log = self.log.lock();
        if !log.killed {
            log.faults.push(format!("SC-2: {what}"));
        }
    }

    /// Ends the log: the run is killed now.
    pub(super) fn kill(&self) {
        self.log.lock().killed = true;
    }

    fn stream(&self, (to, mailbox): Lane) -> String {
        format!("{}.m{mailbox}", self.names[to])
    }
}

impl Log {
    /// The number of the lane's next message, which is tried.
    fn tried(&mut self, lane: Lane, stream: &str, ask: bool) -> u64 {
        let next = self.next.entry(lane).or_default();
        let number = *next;
        *next += 1;
        let event = if ask { Event::Ask } else { Event::Try };
        self.note(&event(stream, number));
        number
    }

    fn note(&mut self, event: &Event<'_>) {
        if !self.killed {
            self.writer.note(event).expect("memory takes every event");
        }
    }
}

/// Ends all logs but the logs of killed runs, and judges them all. Returns the broken rules (SC-1
/// and SC-2), the judge's counts, and the logs.
pub(super) fn conclude(diaries: &[Diary]) -> (Vec<String>, Verdict, String) {
    let (mut books, mut faults, mut texts) = (Books::default(), Vec::new(), String::new());
    for Diary { run, names, log } in diaries {
        let mut log = log.lock();
        log.note(&Event::End);
        let file = format!("{}-{}.log", names[run.node], run.number);
        let text = log.writer.get_ref();
        books.read(&file, text.as_slice()).expect("the logs are well formed");
        texts.push_str(&format!("-- {file}\n{}", String::from_utf8_lossy(text)));
        faults.append(&mut log.faults);
    }
    let verdict = books.judge_arrivals();
    faults.extend(verdict.violations.iter().map(|violation| format!("SC-1: {violation}")));
    (faults, verdict, texts)
}

/// Returns a loss in the words of histories.
pub(super) fn told(fate: host::Fate) -> Fate<'static> {
    match fate {
        host::Fate::NotSent => Fate::NotSent,
        host::Fate::Refused(_) => Fate::Refused("closed"),
        _ => Fate::Unknown,
    }
}
