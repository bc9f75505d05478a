//! Two sides of a link with toy mailboxes, for the tests and the fuzz targets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use rkyv::util::AlignedVec;

mod lending;

use crate::memory::TailRoom;
use crate::note::{NOTE_BYTES, Note};
use crate::open_request::{Accepted, OpenRequest, Target};
use crate::proto::credit::CreditSettings;
use crate::proto::error::{OpenRefusal, Refusal, Violation};
use crate::proto::fate::What;
use crate::proto::frame::{FrameWriter, Head};
use crate::proto::header::{RecordHeader, RecordKind};
use crate::proto::inlet::Inlets;
use crate::proto::lanes::Entry;
use crate::proto::link::Transmit;
use crate::proto::link::{Arrival, Body, Event, LinkProtocol, Sizes};
use crate::proto::remote_mailbox::Description;
use crate::proto::send_queue::{Notice, Room, SendQueue};
use crate::proto::window::{Count, LinkRecvWindow, RecvWindow, WindowSize};

pub(crate) const FRAME_MAX: usize = 1024;
/// Longest tail of a frame.
const TAIL_MAX: usize = 1500;

/// A frame on its way.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) tail: Vec<u8>,
}
pub(crate) const LINK_WINDOW: u32 = 6000;
const WINDOW: WindowSize = WindowSize { messages: 4, bytes: 5000 };

/// The code of an answer that says that the mailbox had closed.
const CLOSED: u16 = 1;

/// Returns the bytes of message `n` to a mailbox.
pub(crate) fn body(mailbox: usize, n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + n * 31 + mailbox * 101) as u8).collect()
}

/// Returns the note that a message of these bytes has: one in five has one.
fn note_of(bytes: &[u8]) -> Option<Note> {
    let byte = bytes.first().copied().unwrap_or_default() ^ bytes.len() as u8;
    (bytes.len() % 5 == 3).then(|| Note::new([byte; NOTE_BYTES]))
}

/// Returns the type of message `n` to a mailbox: three messages in a row have the same type.
pub(crate) fn type_of(n: usize) -> u128 {
    n as u128 / 3 + 1
}

pub(crate) fn name(name: &str) -> Arc<OpenRequest> {
    Arc::new(OpenRequest::new(Target::Name(name.to_owned()), 0))
}

pub(crate) struct Toy {
    place: Option<(u32, u32)>,
    window: RecvWindow,
    /// The messages that were not taken, with the correlation of an ask.
    pub(crate) waiting: VecDeque<(Vec<u8>, Option<u64>)>,
    pub(crate) taken: Vec<Vec<u8>>,
    /// Messages that came with a note, and messages that came without theirs or with another.
    pub(crate) noted: usize,
    pub(crate) misnoted: usize,
    closed: bool,
}

pub(crate) struct Side {
    pub(crate) link: LinkProtocol,
    pub(crate) out: SendQueue<()>,
    pub(crate) now: Instant,
    /// Frames on their way to the other side.
    pub(crate) frames: VecDeque<Frame>,
    pub(crate) boxes: [Toy; 2],
    pub(crate) answers: Vec<Vec<u8>>,
    /// Asks that were not handled, because the mailbox had closed.
    pub(crate) unanswered: usize,
    pub(crate) refused: Vec<u128>,
    /// Numbers of delivered tells, among the tells that were to be confirmed.
    pub(crate) confirmed: Vec<u64>,
    pub(crate) notices: Vec<Notice>,
    /// Messages that a mailbox says it accepts.
    pub(crate) accepted: usize,
    inlets: Inlets<usize>,
    windows: LinkRecvWindow,
    peer_blocked: bool,
    plan: Plan,
    device: lending::Device,
}

/// The messages that are to be sent to each mailbox, and how many were.
#[derive(Default)]
struct Plan {
    left: [VecDeque<(Vec<u8>, bool)>; 2],
    sent: [usize; 2],
}

impl LinkProtocol {
    /// Returns the memory for a tail, with the tail in it; `None` for an empty one.
    pub(crate) fn room_for(
        &mut self,
        frame: &[u8],
        tail: &[u8],
    ) -> Result<Option<TailRoom>, Violation> {
        if tail.is_empty() {
            return Ok(None);
        }
        let mut room = self.tail_room(frame, tail.len())?;
        room.bytes_mut().copy_from_slice(tail);
        Ok(Some(room))
    }
}

impl Side {
    fn new(rings: u32) -> Self {
        let toy = || Toy {
            place: None,
            window: RecvWindow::new(WINDOW, Count::default()),
            waiting: VecDeque::new(),
            taken: Vec::new(),
            noted: 0,
            misnoted: 0,
            closed: false,
        };
        let credit = CreditSettings::new(rings, rings, 4).expect("they cannot stall");
        let (sizes, now) = (
            Sizes { frame_max: FRAME_MAX, message_max: 1 << 20, tail_max: TAIL_MAX },
            crate::sync::some_moment(),
        );
        Side {
            link: LinkProtocol::new(credit, sizes, Count::default(), now),
            now,
            out: SendQueue::new(LINK_WINDOW, WINDOW, LinkProtocol::eager_max(FRAME_MAX)),
            frames: VecDeque::new(),
            boxes: [toy(), toy()],
            answers: Vec::new(),
            unanswered: 0,
            confirmed: Vec::new(),
            refused: Vec::new(),
            notices: Vec::new(),
            accepted: 1,
            inlets: Inlets::new(),
            windows: LinkRecvWindow::new(LINK_WINDOW, Count::default()),
            peer_blocked: false,
            plan: Plan::default(),
            device: Default::default(),
        }
    }

    pub(crate) fn committed(&self, mailbox: usize) -> usize {
        self.plan.sent[mailbox]
    }

    /// Commits a message, unless its mailbox is not open or has no room.
    pub(crate) fn send(&mut self, to: &Arc<OpenRequest>, bytes: &[u8], kind: RecordKind) -> bool {
        let outlet = self.out.outlet(to, &mut 0);
        let Some((mailbox, _)) = self.out.mailbox(outlet) else { return false };
        let tells = &mut self.plan.sent[usize::from(*to == name("1"))];
        let note = note_of(bytes);
        let at_once = kind == RecordKind::Tell && note.is_none() && tells.is_multiple_of(2);
        if at_once && self.out.commit_at_once(mailbox, 0, type_of(*tells), bytes) {
            *tells += 1;
            return true;
        }
        let room = self.out.room(mailbox, bytes.len() as u32);
        self.out.say_blocked(mailbox, room);
        if room != Room::Yes {
            return false;
        }
        self.out.reserve(mailbox, bytes.len() as u32);
        let sent = &mut self.plan.sent[usize::from(*to == name("1"))];
        let message = type_of(*sent);
        *sent += 1;
        let ask = kind == RecordKind::Ask;
        let correlation = if ask { self.out.asks.insert(()).expect("few asks") } else { 0 };
        self.device.asked = ask.then_some(correlation).or(self.device.asked);
        let entry = Entry { kind, mailbox, ordinal: 0, correlation, message, deadline: None };
        let mut archive = AlignedVec::new();
        archive.extend_from_slice(bytes);
        self.out.commit(entry, note, &mut archive);
        true
    }

    /// Returns true if a mailbox of the peer has closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.notices.iter().any(|notice| matches!(notice, Notice::Ended { .. }))
    }

    /// Sends the next planned message to a mailbox.
    fn send_next(&mut self, mailbox: usize) -> bool {
        let Some((bytes, ask)) = self.plan.left[mailbox].pop_front() else { return false };
        let kind = if ask { RecordKind::Ask } else { RecordKind::Tell };
        // A mailbox that closed is not opened again.
        let sent = !self.is_closed() && self.send(&name(&mailbox.to_string()), &bytes, kind);
        if !sent {
            self.plan.left[mailbox].push_front((bytes, ask));
        }
        sent
    }

    /// A mailbox takes a message, and answers an ask with its bytes.
    pub(crate) fn take(&mut self, mailbox: usize) -> bool {
        let toy = &mut self.boxes[mailbox];
        let Some((bytes, ask)) = toy.waiting.pop_front() else { return false };
        toy.window.take(Count { messages: 1, bytes: bytes.len() as u64 });
        if let Some(correlation) = ask {
            let mut archive = AlignedVec::new();
            archive.extend_from_slice(&bytes);
            self.out.reply(correlation, 0, &mut archive);
        }
        toy.taken.push(bytes);
        true
    }

    fn report_windows(&mut self) {
        for toy in &mut self.boxes {
            let due = toy.window.due(self.peer_blocked);
            if let (Some(place), true) = (toy.place, due && !toy.closed) {
                let report = toy.window.report(&mut self.windows).expect("one is due");
                self.link.report_window(place, report);
                self.peer_blocked = false;
            }
        }
    }

    fn handle(&mut self, event: Event<()>, frame: &[u8]) -> Result<(), Violation> {
        let bytes = |body: Body| match body {
            Body::Part(range) => frame[range].to_vec(),
            Body::Whole(bytes) => bytes.to_vec(),
            Body::Fetched(bytes) => bytes.to_vec(),
        };
        match event {
            Event::Tells(tells) => {
                for tell in tells.each(frame) {
                    self.handle(Event::Deliver(tell), frame)?;
                }
            }
            Event::Deliver(Arrival {
                at, mailbox, generation, correlation, note, body, ..
            }) => match self.inlets.find(mailbox, generation)? {
                None => match correlation {
                    Some(ask) => self.out.reply(ask, CLOSED, &mut AlignedVec::new()),
                    None => self.link.refuse(at, Refusal::Closed),
                },
                Some(toy) => {
                    let toy = &mut self.boxes[*toy];
                    toy.window.arrive(body.len() as u32, &mut self.windows)?;
                    let bytes = bytes(body);
                    toy.noted += usize::from(note.is_some());
                    toy.misnoted += usize::from(note != note_of(&bytes));
                    toy.waiting.push_back((bytes, correlation));
                }
            },
            Event::Reply { code: CLOSED, .. } => self.unanswered += 1,
            Event::Reply { body, .. } => self.answers.push(bytes(body)),
            Event::Open { correlation, request } => self.open(correlation, &request)?,
            Event::Blocked { mailbox, generation } => {
                if let Some(toy) = self.inlets.find(mailbox, generation)? {
                    self.boxes[*toy].window.block();
                }
            }
            Event::LinkBlocked => self.peer_blocked = true,
            Event::Refused(sent, Refusal::Closed) => {
                let What::Tell { message, .. } = sent.what else { return Err(Violation::Refusal) };
                self.refused.push(message);
                self.out.settle(sent.mailbox);
            }
            Event::Unsent(entry) => self.drop_entry(&entry),
            Event::Delivered(confirm) => self.confirmed.push(confirm),
            Event::Lent(lent) => self.device.wants(lent),
            Event::Signal { .. } | Event::Confirmed | Event::Granted(_) | Event::Goodbye => {}
        }
        Ok(())
    }

    /// A message is not sent.
    fn drop_entry(&mut self, entry: &Entry) {
        if entry.kind == RecordKind::Ask {
            self.out.asks.answer(entry.correlation);
            self.unanswered += 1;
        } else {
            self.refused.push(entry.message);
        }
        self.out.settle(entry.mailbox);
    }

    fn open(&mut self, correlation: u64, request: &OpenRequest) -> Result<(), Violation> {
        let Target::Name(name) = &request.target else { return Err(Violation::Opening) };
        let last = name.bytes().last().map_or(9, |digit| usize::from(digit.wrapping_sub(b'0')));
        let Some(toy) = self.boxes.get_mut(last).filter(|toy| !toy.closed) else {
            return self.link.open_refused(correlation, &OpenRefusal::NoSuchMailbox);
        };
        let place = *toy.place.get_or_insert_with(|| self.inlets.open_with(|_| last));
        let accepted = vec![Accepted { id: 1, layout: 2, reply: 3 }; self.accepted];
        let (window, carried) = (WINDOW, Count::default());
        self.link.opened(
            correlation,
            place,
            &Description { window, carried, id: 0, accepted }.encode(),
        )
    }
}

pub(crate) struct Pair {
    pub(crate) sides: [Side; 2],
}

impl Pair {
    pub(crate) fn new() -> Self {
        Pair::with_rings(8)
    }

    /// Creates two sides whose rings have `rings` slots.
    pub(crate) fn with_rings(rings: u32) -> Self {
        Pair { sides: [Side::new(rings), Side::new(rings)] }
    }

    /// Two sides that have had each other's confirmation.
    pub(crate) fn confirmed() -> Self {
        let mut pair = Pair::new();
        pair.exchange();
        pair
    }

    pub(crate) fn plan(&mut self, sizes: &[[Vec<(usize, bool)>; 2]; 2]) {
        for (side, sizes) in self.sides.iter_mut().zip(sizes) {
            for (mailbox, sizes) in sizes.iter().enumerate() {
                let messages = sizes.iter().enumerate();
                side.plan.left[mailbox] =
                    messages.map(|(n, s)| (body(mailbox, n, s.0), s.1)).collect();
            }
        }
    }

    pub(crate) fn transmit(&mut self, by: usize) -> bool {
        let side = &mut self.sides[by];
        side.report_windows();
        side.lend();
        let (mut slot, mut dropped) = ([0; FRAME_MAX], Vec::new());
        let transmit = side.link.poll_transmit(&mut side.out, &mut slot, &mut dropped, side.now);
        for entry in dropped {
            side.drop_entry(&entry);
        }
        side.notices.extend(side.out.take_notices());
        side.out.sweep();
        let Some(Transmit { bytes, tail, .. }) = transmit else { return side.end_registering() };
        let tail = tail.map_or(Vec::new(), |tail| tail.to_vec());
        side.frames.push_back(Frame { bytes: slot[..bytes].to_vec(), tail });
        true
    }

    /// A side reads the next frame, if there is one.
    pub(crate) fn receive(&mut self, side: usize) -> Result<bool, Violation> {
        let Some(frame) = self.sides[1 - side].frames.pop_front() else { return Ok(false) };
        self.receive_frame(side, &frame).map(|()| true)
    }

    pub(crate) fn receive_bytes(&mut self, side: usize, frame: &[u8]) -> Result<(), Violation> {
        self.receive_frame(side, &Frame { bytes: frame.to_vec(), tail: Vec::new() })
    }

    pub(crate) fn receive_frame(&mut self, side: usize, frame: &Frame) -> Result<(), Violation> {
        let side = &mut self.sides[side];
        let mut events = Vec::new();
        let Frame { bytes: frame, tail } = frame;
        let room = side.link.room_for(frame, tail)?;
        side.link.handle_frame((frame, room), &mut side.out, &mut events, side.now)?;
        drop(side.out.take_returned());
        side.notices.extend(side.out.take_notices());
        for event in events {
            side.handle(event, frame)?;
        }
        side.out.sweep();
        side.link.handle_dispatched();
        Ok(())
    }

    /// A side reads a frame of one record that its peer did not send.
    pub(crate) fn inject(
        &mut self,
        side: usize,
        header: RecordHeader,
        payload: usize,
        more_consumed: u32,
    ) -> Result<(), Violation> {
        self.inject_bytes(side, header, &vec![0; payload], more_consumed)
    }

    /// A side reads an OPENED that its peer did not send, of a mailbox that takes one message.
    pub(crate) fn inject_opened(&mut self, side: usize, header: RecordHeader, more_consumed: u32) {
        let accepted = vec![Accepted { id: 1, layout: 2, reply: 3 }];
        let (window, carried) = (WINDOW, Count::default());
        let description = Description { window, carried, id: 0, accepted }.encode();
        self.inject_bytes(side, header, &description, more_consumed).expect("an answer");
    }

    fn inject_bytes(
        &mut self,
        side: usize,
        header: RecordHeader,
        payload: &[u8],
        more_consumed: u32,
    ) -> Result<(), Violation> {
        let mut slot = [0; FRAME_MAX];
        let mut writer = FrameWriter::new(&mut slot);
        writer.push(header, payload);
        let consumed = self.sides[side].link.frames_sent().wrapping_add(more_consumed);
        let bytes = writer.finish(Head { consumed, ..Head::default() });
        self.receive_bytes(side, &slot[..bytes])
    }

    /// A side reads a frame of no records: its peer has consumed the first `consumed` frames.
    pub(crate) fn acknowledge(&mut self, side: usize, consumed: u32) {
        let mut slot = [0; FRAME_MAX];
        let bytes = FrameWriter::new(&mut slot).finish(Head { consumed, ..Head::default() });
        self.receive_bytes(side, &slot[..bytes]).expect("an honest count");
    }

    /// One step that the number chooses.
    pub(crate) fn step(&mut self, choice: u8) -> bool {
        let (side, mailbox) = (usize::from(choice & 1), usize::from(choice >> 1 & 1));
        if choice & 16 != 0 && self.fetch(side) {
            return true;
        }
        match choice >> 2 & 3 {
            0 => self.sides[side].send_next(mailbox),
            1 => self.transmit(side),
            2 => self.receive(side).expect("an honest peer"),
            _ => self.sides[side].take(mailbox),
        }
    }

    /// Doubles the receive ring of a side whose peer is short of credits, as its driver does.
    pub(crate) fn grow(&mut self, side: usize) -> bool {
        let link = &mut self.sides[side].link;
        let grows = link.takes_control() && link.take_shortage();
        if grows {
            link.grow(link.ring());
        }
        grows
    }

    /// Frames go both ways until there are none.
    pub(crate) fn exchange(&mut self) {
        while (0..2).fold(false, |any, side| {
            let sent = self.transmit(side);
            let received = self.receive(side).expect("an honest peer");
            let fetched = self.fetch(side);
            any | sent | received | fetched
        }) {}
    }

    /// Everything that is planned happens.
    pub(crate) fn settle(&mut self) {
        while (0..32).fold(false, |any, choice| self.step(choice) | any) {}
        let stuck = |side: &Side| side.plan.left.iter().any(|plan| !plan.is_empty());
        assert!(
            !self.sides.iter().any(|side| stuck(side) && !side.is_closed()),
            "a sender waits for ever"
        );
    }

    pub(crate) fn open(&mut self, side: usize, mailbox: &str) {
        self.sides[side].out.outlet(&name(mailbox), &mut 0);
        self.exchange();
    }

    /// A mailbox closes; messages that wait in it were delivered and count as taken.
    pub(crate) fn close(&mut self, side: usize, mailbox: usize) {
        while self.sides[side].take(mailbox) {}
        let side = &mut self.sides[side];
        let toy = &mut side.boxes[mailbox];
        toy.closed = true;
        let Some((index, generation)) = toy.place else { return };
        side.inlets.close(index);
        toy.window.close(&mut side.windows);
        let kind = RecordKind::Closed;
        let header = RecordHeader { mailbox: index, generation, ..RecordHeader::new(kind) };
        side.link.control(header);
    }

    pub(crate) fn leave(&mut self) {
        for side in &mut self.sides {
            side.link.leave();
        }
        self.exchange();
    }
}
