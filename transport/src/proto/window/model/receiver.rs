//! The receiver's side of the model.

use std::collections::VecDeque;

use super::{Fault, Flying, Returning, Setting};
use crate::open_request::Target;
use crate::proto::header::{ALL_MAILBOXES, RecordHeader, RecordKind};
use crate::proto::inlet::Inlets;
use crate::proto::remote_mailbox::{Description, decode_request};
use crate::proto::window::{Count, LinkRecvWindow, RecvWindow, WindowSize};

/// One opening of a mailbox, as its receipts keep it.
#[derive(Debug, Clone, Hash)]
struct End {
    mailbox: usize,
    place: (u32, u32),
    window: RecvWindow,
    /// Bytes of the messages that were not taken.
    waiting: VecDeque<u32>,
    closed: bool,
    marked: bool,
}

fn one(bytes: u32) -> Count {
    Count { messages: 1, bytes: bytes.into() }
}

#[derive(Debug, Clone)]
pub(super) struct Receiver {
    size: WindowSize,
    late: bool,
    inlets: Inlets<usize>,
    /// Every opening there ever was.
    ends: Vec<End>,
    /// The opening of each mailbox.
    open: [Option<usize>; 2],
    link_window: LinkRecvWindow,
    peer_blocked: bool,
    dirty_windows: Vec<u32>,
    dirty_closed: Vec<(u32, u32)>,
}

impl std::hash::Hash for Receiver {
    fn hash<H: std::hash::Hasher>(&self, to: &mut H) {
        (&self.inlets, &self.ends, self.open, &self.link_window).hash(to);
        (self.peer_blocked, &self.dirty_windows, &self.dirty_closed).hash(to);
    }
}

impl Receiver {
    pub(super) fn new(setting: &Setting) -> Self {
        Receiver {
            size: setting.window,
            late: setting.fault == Fault::LateReport,
            inlets: Inlets::new(),
            ends: Vec::new(),
            open: [None; 2],
            link_window: LinkRecvWindow::new(setting.link_bytes, Count::default()),
            peer_blocked: false,
            dirty_windows: Vec::new(),
            dirty_closed: Vec::new(),
        }
    }

    pub(super) fn is_open(&self, mailbox: usize) -> bool {
        self.open[mailbox].is_some()
    }

    pub(super) fn has_waiting(&self, mailbox: usize) -> bool {
        self.open[mailbox].is_some_and(|end| !self.ends[end].waiting.is_empty())
    }

    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty_windows.is_empty() || !self.dirty_closed.is_empty()
    }

    /// Returns what the sender does not know to be taken, in all mailboxes.
    pub(super) fn unreported(&self) -> Count {
        let (mut sum, mut counted) = (Count::default(), Count::default());
        for (_, end) in self.inlets.iter() {
            let count = self.ends[*end].window.unreported();
            sum.add(count.messages, count.bytes);
            let count = self.ends[*end].window.in_link();
            counted.add(count.messages, count.bytes);
        }
        assert_eq!(counted, self.link_window.outstanding, "the link's window is the sum");
        sum
    }

    pub(super) fn take(&mut self, mailbox: usize) {
        let end = self.open[mailbox].expect("open");
        let bytes = self.ends[end].waiting.pop_front().expect("a message");
        self.ends[end].window.take(one(bytes));
        self.mark(end);
    }

    pub(super) fn close(&mut self, mailbox: usize) {
        let end = self.open[mailbox].take().expect("open");
        self.ends[end].closed = true;
        for bytes in std::mem::take(&mut self.ends[end].waiting) {
            self.ends[end].window.take(one(bytes));
            self.mark(end);
        }
        self.dirty_closed.push(self.ends[end].place);
    }

    fn mark(&mut self, end: usize) {
        let end = &mut self.ends[end];
        let news = end.window.news();
        let due = if self.late {
            news.messages >= self.size.messages || news.bytes >= self.size.bytes.into()
        } else {
            end.window.due(self.peer_blocked)
        };
        if due && !end.marked {
            end.marked = true;
            self.dirty_windows.push(end.place.0);
        }
    }

    pub(super) fn arrive(&mut self, flying: Flying, back: &mut VecDeque<Returning>) {
        let Flying { header, payload, .. } = flying;
        match header.kind {
            RecordKind::Open => {
                let request = decode_request(&payload).expect("honest");
                let name = Target::Name("stuck".to_owned());
                back.push_back(self.open(usize::from(request.target != name), header.correlation));
            }
            RecordKind::Blocked if header.mailbox == ALL_MAILBOXES => {
                self.peer_blocked = true;
                for end in self.inlets.iter().map(|(_, end)| *end).collect::<Vec<_>>() {
                    self.mark(end);
                }
            }
            RecordKind::Blocked => {
                let found = self.inlets.find(header.mailbox, header.generation).expect("honest");
                if let Some(end) = found.copied() {
                    self.ends[end].window.block();
                    self.mark(end);
                }
            }
            _ => self.deliver(&header, payload.len() as u32),
        }
    }

    fn open(&mut self, mailbox: usize, correlation: u64) -> Returning {
        let end = self.open[mailbox].unwrap_or_else(|| {
            let end = self.ends.len();
            let place = self.inlets.open_with(|_| end);
            let window = RecvWindow::new(self.size, Count::default());
            let waiting = VecDeque::new();
            self.ends.push(End { mailbox, place, window, waiting, closed: false, marked: false });
            end
        });
        self.open[mailbox] = Some(end);
        let (mailbox, generation) = self.ends[end].place;
        let kind = RecordKind::Opened;
        let header = RecordHeader { correlation, mailbox, generation, ..RecordHeader::new(kind) };
        let (window, carried, accepted) = (self.size, Count::default(), Vec::new());
        Returning::Record(header, Description { window, carried, id: 0, accepted }.encode())
    }

    fn deliver(&mut self, header: &RecordHeader, bytes: u32) {
        let place = (header.mailbox, header.generation);
        let Some(end) = self.inlets.find(place.0, place.1).expect("honest").copied() else {
            return;
        };
        let to = &mut self.ends[end];
        assert_eq!((to.mailbox, to.place), (header.ordinal.into(), place), "another opening's");
        to.window.arrive(bytes, &mut self.link_window).expect("honest");
        if to.closed {
            // Refused by the mailbox: its receipt is dropped at once.
            to.window.take(one(bytes));
            self.mark(end);
        } else {
            to.waiting.push_back(bytes);
        }
    }

    pub(super) fn report(&mut self, back: &mut VecDeque<Returning>) {
        for place in std::mem::take(&mut self.dirty_closed) {
            let (end, generation) = self.inlets.close(place.0).expect("open until now");
            assert_eq!(generation, place.1);
            self.ends[end].window.close(&mut self.link_window);
            self.ends[end].window = RecvWindow::new(self.size, Count::default());
            let header = RecordHeader {
                mailbox: place.0,
                generation: place.1,
                ..RecordHeader::new(RecordKind::Closed)
            };
            back.push_back(Returning::Record(header, Vec::new()));
        }
        for index in std::mem::take(&mut self.dirty_windows) {
            let Some(end) = self.inlets.at(index).copied() else { continue };
            let end = &mut self.ends[end];
            end.marked = false;
            let Some(report) = end.window.report(&mut self.link_window) else { continue };
            self.peer_blocked = false;
            let header = RecordHeader {
                mailbox: end.place.0,
                generation: end.place.1,
                correlation: report.taken.bytes,
                ordinal: report.doublings,
                total: report.taken.messages,
                ..RecordHeader::new(RecordKind::Window)
            };
            back.push_back(Returning::Record(header, Vec::new()));
        }
    }
}
