//! What senders hand to a link: requests for mailboxes, committed messages, answers, signals.
//!
//! This is the part of the protocol that senders touch from their own tasks, so it is apart from
//! [`Link`](super::link::Link), which only the driver has. Whoever shares it locks it.
//!
//! - **OB-1 committed once**: a message is in exactly one lane from its commit until its last
//!   record is written; then it is in flight.
//! - **OB-2 room first**: a message is committed only while its port's window and the link's have
//!   room.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;

use rkyv::util::AlignedVec;

use super::header::{ALL_MAILBOXES, RecordHeader, RecordKind};
use super::lanes::{Bulk, Entry, Lane};
use super::outlet::{Description, Outlet, OutletState, Port, encode_request};
use super::window::{Count, SendWindow, WindowSize};
use crate::cause::{OpenRefusal, Violation};
use crate::limits;
use crate::mailbox::OpenRequest;
use crate::mutants::planted;

mod fill;
#[cfg(test)]
mod modelled;

pub(crate) use fill::Dropped;

/// Everything that waits to be put into frames, and the windows it had to pass.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Outbound {
    outlets: slab::Slab<Outlet>,
    by_request: HashMap<Arc<OpenRequest>, u32>,
    ports: slab::Slab<Port>,
    by_mailbox: HashMap<u32, u32>,
    link_window: LinkWindow,
    queues: Queues,
    openings: Openings,
    /// The most that is sent ahead to one mailbox.
    mailbox_window: WindowSize,
    /// Largest payload that goes into one record.
    eager_max: usize,
    notices: Vec<Notice>,
    /// Nothing new is committed.
    leaving: bool,
}

#[cfg_attr(test, derive(Clone, Hash))]
struct LinkWindow {
    window: SendWindow,
    blocked: bool,
}

/// OPENs on their way (at most [`limits::OPENS_MAX`]), and the outlets whose turn is yet to come.
#[derive(Default)]
#[cfg_attr(test, derive(Clone, Hash))]
struct Openings {
    unanswered: usize,
    waiting: VecDeque<u32>,
}

#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
struct Queues {
    control: VecDeque<(RecordHeader, Vec<u8>)>,
    replies: Lane,
    eager: Lane,
    bulk: VecDeque<Bulk>,
    bulk_replies: VecDeque<Bulk>,
    /// The fragmented message under way.
    current: Option<Bulk>,
    bulk_turn: bool,
}

/// Something that senders wait for has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The outlet is open, or may have room.
    Ready(u32),
    /// The outlet is gone; whoever waits at it is told why.
    Ended(u32, Unopened),
}

/// Why an outlet is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// The peer refused to open it.
    Refused(OpenRefusal),
    /// The mailbox closed.
    Closed,
}

impl Outbound {
    /// `eager_max` is the largest payload that fits one record of one frame.
    /// `mailbox_window` is the most that is sent ahead to one mailbox, whatever the peer allows.
    pub(crate) fn new(
        link_window_bytes: u32,
        mailbox_window: WindowSize,
        eager_max: usize,
    ) -> Self {
        let messages = limits::LINK_WINDOW_MESSAGES;
        let size = WindowSize { messages, bytes: link_window_bytes };
        Outbound {
            outlets: slab::Slab::new(),
            by_request: HashMap::new(),
            ports: slab::Slab::new(),
            by_mailbox: HashMap::new(),
            link_window: LinkWindow { window: SendWindow::new(size), blocked: false },
            queues: Queues::default(),
            openings: Openings::default(),
            mailbox_window,
            eager_max,
            notices: Vec::new(),
            leaving: false,
        }
    }

    /// The outlet of a request; opening begins when it is new (OU-1).
    pub(crate) fn outlet(&mut self, request: &Arc<OpenRequest>) -> u32 {
        if let Some(key) = self.by_request.get(request) {
            return *key;
        }
        let state = OutletState::Opening(Vec::new());
        let key = self.outlets.insert(Outlet { request: request.clone(), state }) as u32;
        self.by_request.insert(request.clone(), key);
        self.openings.waiting.push_back(key);
        self.send_opens();
        key
    }

    /// Sends the OPENs that may be sent now.
    fn send_opens(&mut self) {
        while self.openings.unanswered < limits::OPENS_MAX
            && let Some(key) = self.openings.waiting.pop_front()
        {
            let request = encode_request(&self.outlets[key as usize].request);
            let kind = RecordKind::Open;
            let header = RecordHeader { correlation: key.into(), ..RecordHeader::new(kind) };
            self.queues.control.push_back((header, request));
            self.openings.unanswered += 1;
        }
    }

    fn open_answered(&mut self) {
        self.openings.unanswered -= 1;
        self.send_opens();
    }

    /// The port of an outlet, once it is open.
    pub(crate) fn port(&self, outlet: u32) -> Option<(u32, &Port)> {
        match self.outlets.get(outlet as usize)?.state {
            OutletState::Opening(_) => None,
            OutletState::Open(port) => Some((port, self.ports.get(port as usize)?)),
        }
    }

    /// OB-2; where there is no room, has the peer told that somebody waits.
    pub(crate) fn has_room(&mut self, port: u32, bytes: u32) -> bool {
        let port = &mut self.ports[port as usize];
        let mailbox_room = port.window.room(bytes);
        let link_room = port.window.is_idle() || self.link_window.window.room(bytes);
        if planted!(SilentBlock) {
            return mailbox_room && link_room;
        }
        if !mailbox_room && !port.blocked {
            port.blocked = true;
            self.queues.control.push_back((blocked(port.index, port.generation), Vec::new()));
        }
        if !link_room && !self.link_window.blocked {
            self.link_window.blocked = true;
            self.queues.control.push_back((blocked(ALL_MAILBOXES, 0), Vec::new()));
        }
        mailbox_room && link_room
    }

    /// OB-1: commits a message for which there [`is room`](Self::has_room). A large one takes the
    /// memory of `archive`; a small one is copied.
    pub(crate) fn commit(&mut self, entry: Entry, archive: &mut AlignedVec<16>) {
        let bytes = archive.len() as u32;
        let port = &mut self.ports[entry.port as usize];
        port.window.send(bytes);
        self.link_window.window.send(bytes);
        port.uses += 1;
        let behind = port.bulk > 0 && !planted!(Overtaking);
        if archive.len() <= self.eager_max && !behind {
            self.queues.eager.push(entry, archive);
            return;
        }
        port.bulk += 1;
        let mark = self.queues.eager.mark();
        self.queues.bulk.push_back(Bulk { entry, body: mem::take(archive), mark, sent: 0 });
    }

    /// Queues an answer: the archive, or a code.
    pub(crate) fn reply(&mut self, correlation: u64, code: u16, archive: &mut AlignedVec<16>) {
        let kind = RecordKind::Reply;
        let entry =
            Entry { kind, port: 0, ordinal: code, correlation, message: 0, deadline_us: None };
        if archive.len() <= self.eager_max {
            self.queues.replies.push(entry, archive);
        } else {
            let body = mem::take(archive);
            self.queues.bulk_replies.push_back(Bulk { entry, body, mark: 0, sent: 0 });
        }
    }

    /// Sends a signal ahead of messages.
    pub(crate) fn signal(&mut self, port: u32, signal: u16) {
        let port = &self.ports[port as usize];
        let header = RecordHeader {
            mailbox: port.index,
            generation: port.generation,
            ordinal: signal,
            ..RecordHeader::new(RecordKind::Signal)
        };
        self.queues.control.push_back((header, Vec::new()));
    }

    /// A part of the description of an opened mailbox arrived.
    pub(crate) fn handle_opened(
        &mut self,
        header: &RecordHeader,
        part: &[u8],
    ) -> Result<(), Violation> {
        let key = header.correlation;
        let outlet = self.outlets.get_mut(key as usize).ok_or(Violation::Opening)?;
        let OutletState::Opening(bytes) = &mut outlet.state else {
            return Err(Violation::Opening);
        };
        if bytes.len() + part.len() > Description::BYTES_MAX {
            return Err(Violation::Opening);
        }
        bytes.extend_from_slice(part);
        if header.more {
            return Ok(());
        }
        let description = Description::decode(bytes)?;
        let request = outlet.request.clone();
        let port = match self.by_mailbox.get(&header.mailbox) {
            Some(port) if self.ports[*port as usize].generation == header.generation => *port,
            Some(_) => return Err(Violation::Opening),
            None => self.insert_port(header, request, description),
        };
        if let Some(outlet) = self.outlets.get_mut(key as usize) {
            outlet.state = OutletState::Open(port);
        }
        self.ports[port as usize].outlets.push(key as u32);
        self.notices.push(Notice::Ready(key as u32));
        self.open_answered();
        Ok(())
    }

    fn insert_port(
        &mut self,
        header: &RecordHeader,
        request: Arc<OpenRequest>,
        description: Description,
    ) -> u32 {
        let window = WindowSize {
            messages: description.window.messages.min(self.mailbox_window.messages),
            bytes: description.window.bytes.min(self.mailbox_window.bytes),
        };
        let port = self.ports.insert(Port {
            request,
            outlets: Vec::new(),
            index: header.mailbox,
            generation: header.generation,
            accepted: description.accepted.into(),
            window: SendWindow::new(window),
            bulk: 0,
            blocked: false,
            closed: false,
            uses: 0,
        }) as u32;
        self.by_mailbox.insert(header.mailbox, port);
        port
    }

    /// The peer refused to open a mailbox.
    pub(crate) fn handle_open_refused(
        &mut self,
        correlation: u64,
        refusal: OpenRefusal,
    ) -> Result<(), Violation> {
        let opening = self.outlets.get(correlation as usize);
        if !opening.is_some_and(|outlet| matches!(outlet.state, OutletState::Opening(_))) {
            return Err(Violation::Opening);
        }
        self.end_outlet(correlation as u32, Unopened::Refused(refusal));
        self.open_answered();
        Ok(())
    }

    fn end_outlet(&mut self, key: u32, why: Unopened) {
        if let Some(outlet) = self.outlets.try_remove(key as usize) {
            self.by_request.remove(&outlet.request);
            self.notices.push(Notice::Ended(key, why));
        }
    }

    /// A mailbox of the peer closed (OU-3). What was outstanding is off the link's window; what
    /// was committed is refused when it arrives, or dropped where it waits.
    pub(crate) fn handle_closed(&mut self, index: u32, generation: u32) -> Result<(), Violation> {
        let Some(key) = self.by_mailbox.remove(&index) else { return Err(Violation::Unknown) };
        let port = &mut self.ports[key as usize];
        if port.generation != generation {
            return Err(Violation::Unknown);
        }
        port.closed = true;
        let outstanding = port.window.outstanding();
        port.window.release(outstanding);
        for outlet in mem::take(&mut port.outlets) {
            self.end_outlet(outlet, Unopened::Closed);
        }
        self.free_port(key);
        self.release_link(outstanding);
        Ok(())
    }

    /// The peer reports what was taken from a mailbox; after its CLOSED it has no more to report.
    pub(crate) fn handle_window(
        &mut self,
        index: u32,
        generation: u32,
        taken: Count,
    ) -> Result<(), Violation> {
        let key = *self.by_mailbox.get(&index).ok_or(Violation::Unknown)?;
        let port = &mut self.ports[key as usize];
        if port.generation != generation {
            return Err(Violation::Unknown);
        }
        let news = port.window.report(taken)?;
        if news == Count::default() {
            return Ok(());
        }
        port.blocked = false;
        if !planted!(SkippedWake) {
            self.notify_port(key);
        }
        self.release_link(news);
        Ok(())
    }

    fn notify_port(&mut self, key: u32) {
        let outlets = &self.ports[key as usize].outlets;
        self.notices.extend(outlets.iter().map(|outlet| Notice::Ready(*outlet)));
    }

    fn release_link(&mut self, count: Count) {
        self.link_window.window.release(count);
        if self.link_window.blocked && count.messages > 0 {
            self.link_window.blocked = false;
            let all = self.outlets.iter().map(|(key, _)| Notice::Ready(key as u32));
            self.notices.extend(all);
        }
    }

    /// One message of the port has its fate, or was dropped.
    pub(crate) fn settle(&mut self, port: u32) {
        self.ports[port as usize].uses -= 1;
        self.free_port(port);
    }

    fn free_port(&mut self, key: u32) {
        let port = &self.ports[key as usize];
        if port.closed && port.uses == 0 {
            self.ports.remove(key as usize);
        }
    }

    /// The request of an outlet.
    pub(crate) fn request(&self, outlet: u32) -> Option<&OpenRequest> {
        self.outlets.get(outlet as usize).map(|outlet| &*outlet.request)
    }

    /// Whether the link's window has room.
    pub(crate) fn link_has_room(&self, bytes: u32) -> bool {
        self.link_window.window.room(bytes)
    }

    /// Messages and answers that are in no frame yet.
    pub(crate) fn queued(&self) -> usize {
        let q = &self.queues;
        let large = q.bulk.len() + q.bulk_replies.len() + q.current.iter().count();
        q.eager.len() + q.replies.len() + large
    }

    /// The request that first opened a port.
    pub(crate) fn request_of(&self, port: u32) -> Arc<OpenRequest> {
        self.ports[port as usize].request.clone()
    }

    /// What senders are to be told since the last call.
    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        mem::take(&mut self.notices)
    }

    /// From now on nothing new is committed.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
    }

    /// Whether [`leave`](Self::leave) was called.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving
    }
}

fn blocked(mailbox: u32, generation: u32) -> RecordHeader {
    RecordHeader { mailbox, generation, ..RecordHeader::new(RecordKind::Blocked) }
}
