//! One side of the model: the production [`Ledger`], and around it what a link does with it.

use std::collections::VecDeque;

use super::super::{Class, CreditSettings, Ledger};

/// Where all counts start: every run passes the wrap-around.
const START: u32 = 0u32.wrapping_sub(3);

/// The lanes in which records wait; a probe is control that asks for an answer.
pub(super) const LANES: [(Class, bool); 4] =
    [(Class::Data, false), (Class::Reply, false), (Class::Control, false), (Class::Control, true)];

/// A mistake in growing, to show that the model finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// A ring grows whether or not its side may still say so.
    GrowsUntold,
    /// The owner of a ring counts its growth and does not say so.
    GrantLost,
    /// The peer takes a grant for one of twice as much.
    GrantTwice,
    /// A ring is said to have grown before its receives are posted.
    GrantBeforePost,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Flying {
    class: Class,
    count: u32,
    answer_now: bool,
    /// Slots that its GRANT adds.
    grant: u32,
    goodbye: bool,
}

/// The words of the end that a side has said and heard.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Goodbye {
    /// It may begin to leave at any time.
    may_leave: bool,
    pub(super) leave: bool,
    /// The frame with the goodbye.
    sent: Option<u32>,
    received: Option<u32>,
}

#[derive(Debug, Clone)]
pub(super) struct Side {
    pub(super) ledger: Ledger,
    pub(super) backlog: [u8; LANES.len()],
    /// Refusals to be written.
    pub(super) refusing: bool,
    /// An answer was sent although data waited, and no data since.
    answered: bool,
    /// Frames are dispatched at any time after they arrived, not at once.
    slow: bool,
    /// Frames on their way to the peer.
    pub(super) flying: VecDeque<Flying>,
    /// Receives with the queue pair, and those granted that are to follow.
    posted: u32,
    unposted: u32,
    /// Slots to which the ring may grow.
    ring_max: u32,
    /// Slots of which the peer is to be told.
    pub(super) grant: u32,
    pub(super) goodbye: Goodbye,
    fault: Fault,
}

impl Side {
    pub(super) fn new(settings: CreditSettings, backlog: [u8; LANES.len()]) -> Self {
        let (sent, received) = (START, START);
        let (acknowledged, consumed, reported) = (START, START, START);
        let answer_now = false;
        let ledger =
            Ledger { settings, sent, acknowledged, received, consumed, reported, answer_now };
        Side {
            ledger,
            backlog,
            refusing: false,
            answered: false,
            slow: false,
            flying: VecDeque::new(),
            posted: settings.ring,
            unposted: 0,
            ring_max: settings.ring,
            grant: 0,
            goodbye: Goodbye::default(),
            fault: Fault::None,
        }
    }

    /// Returns a side that may dispatch frames at any time after they arrived, if it is slow.
    pub(super) fn dispatching(self, slow: bool) -> Self {
        Side { slow, ..self }
    }

    /// Returns a side whose ring may grow, and that may leave.
    pub(super) fn growing(self, ring_max: u32, may_leave: bool, fault: Fault) -> Self {
        let goodbye = Goodbye { may_leave, ..self.goodbye };
        Side { ring_max, goodbye, fault, ..self }
    }

    pub(super) fn sendable(&self) -> impl Iterator<Item = usize> {
        let held = |class| class == Class::Reply && self.answered && self.backlog[0] > 0;
        let may_send = |class| self.ledger.may_send(class) && !held(class);
        let waits = |lane: &usize| self.backlog[*lane] > 0 && may_send(LANES[*lane].0);
        (0..LANES.len()).filter(waits).collect::<Vec<_>>().into_iter()
    }

    /// Sends a frame with one record of a lane, behind a GRANT that waits: all control is written
    /// first.
    pub(super) fn send_lane(&mut self, lane: usize) {
        self.backlog[lane] -= 1;
        let (class, answer_now) = LANES[lane];
        self.send(class, answer_now, false);
    }

    fn send(&mut self, class: Class, answer_now: bool, goodbye: bool) {
        assert!(self.goodbye.sent.is_none() || goodbye || class == Class::Credit, "LK-3");
        let grant = if class == Class::Credit { 0 } else { std::mem::take(&mut self.grant) };
        let count = self.ledger.post(class);
        self.refusing = false;
        match class {
            Class::Data => self.answered = false,
            Class::Reply => self.answered = self.backlog[0] > 0,
            Class::Control | Class::Credit => {}
        }
        self.flying.push_back(Flying { class, count, answer_now, grant, goodbye });
    }

    pub(super) fn has_backlog(&self) -> bool {
        self.backlog.iter().any(|left| *left > 0)
    }

    /// Returns true if a frame of a GRANT, a GOODBYE or both may be sent (LK-3).
    pub(super) fn may_send_last(&self) -> bool {
        let says = self.grant > 0 || (self.goodbye.leave && !self.has_backlog());
        says && self.goodbye.sent.is_none() && self.ledger.may_send(Class::Control)
    }

    pub(super) fn send_last(&mut self) {
        let goodbye = self.goodbye.leave && !self.has_backlog();
        if goodbye {
            self.goodbye.sent = Some(self.ledger.sent());
        }
        self.send(Class::Control, goodbye, goodbye);
    }

    pub(super) fn owes_credit(&self) -> bool {
        (self.refusing || self.ledger.credit_due()) && self.ledger.may_send(Class::Credit)
    }

    pub(super) fn send_credit(&mut self) {
        self.send(Class::Credit, false, false);
    }

    /// Returns true if the ring may grow now: by the rule of
    /// [`LinkProtocol::takes_control`](crate::proto::link::LinkProtocol::takes_control), but
    /// whether the peer is short or not.
    pub(super) fn may_grow(&self) -> bool {
        let told = self.grant == 0 && self.ledger.may_send(Class::Control);
        let takes_control = told && self.goodbye.sent.is_none();
        let room = self.unposted == 0 && self.ledger.ring() < self.ring_max;
        room && (takes_control || self.fault == Fault::GrowsUntold)
    }

    /// CR-6: posted and counted before it is told.
    pub(super) fn grow(&mut self) {
        let ring = self.ledger.ring();
        let more = ring.min(self.ring_max - ring);
        let late = self.fault == Fault::GrantBeforePost;
        *(if late { &mut self.unposted } else { &mut self.posted }) += more;
        self.ledger.grow(more);
        if self.fault != Fault::GrantLost {
            self.grant += more;
        }
    }

    /// Returns true if granted slots are not posted yet.
    pub(super) fn may_post(&self) -> bool {
        self.unposted > 0
    }

    pub(super) fn post(&mut self) {
        self.posted += std::mem::take(&mut self.unposted);
    }

    pub(super) fn may_leave(&self) -> bool {
        self.goodbye.may_leave && !self.goodbye.leave
    }

    pub(super) fn leave(&mut self) {
        self.goodbye.leave = true;
    }

    /// Returns true if something that arrived is to be dispatched.
    pub(super) fn may_dispatch(&self) -> bool {
        self.ledger.received != self.ledger.consumed
    }

    pub(super) fn dispatch(&mut self) {
        self.ledger.consume_to(self.ledger.consumed.wrapping_add(1));
        self.posted += 1;
    }

    /// Returns true if the frame could cause a refusal.
    pub(super) fn is_refusable(frame: &Flying) -> bool {
        frame.class == Class::Data
    }

    /// Reads a frame of the peer; it has a receive, as was checked of the state before.
    pub(super) fn arrive(&mut self, frame: &Flying, refused: bool) {
        let number = self.ledger.received();
        self.posted -= 1;
        self.ledger.arrive(frame.count, frame.answer_now).expect("an honest peer");
        let twice = self.fault == Fault::GrantTwice;
        let granted = if twice { 2 * frame.grant } else { frame.grant };
        if granted > 0 {
            self.ledger.grow_peer(granted).expect("an honest peer");
        }
        if frame.goodbye {
            self.goodbye.received = Some(number);
            self.goodbye.leave = true;
        }
        self.refusing |= refused;
        while !self.slow && self.may_dispatch() {
            self.dispatch();
        }
    }

    /// Returns true if the goodbye exchange is complete, as
    /// [`LinkProtocol::is_done`](crate::proto::link::LinkProtocol::is_done) has it.
    pub(super) fn is_done(&self) -> bool {
        let [acknowledged, reported] = self.goodbyes_over();
        acknowledged && reported
    }

    /// Returns whether this side's goodbye is acknowledged, and whether the peer's is reported.
    fn goodbyes_over(&self) -> [bool; 2] {
        let after = |count: u32, frame: u32| {
            let past = count.wrapping_sub(frame);
            past > 0 && past < u32::MAX / 2
        };
        let Goodbye { sent, received, .. } = self.goodbye;
        [
            sent.is_some_and(|frame| after(self.ledger.acknowledged, frame)),
            received.is_some_and(|frame| after(self.ledger.reported, frame)),
        ]
    }

    /// Adds everything that tells two states apart, without the absolute counts.
    pub(super) fn key(&self, peer: &Side, key: &mut Vec<u8>) {
        let Side { ledger, backlog, refusing, answered, flying, goodbye, .. } = self;
        let Side { posted, unposted, grant, .. } = self;
        key.extend(backlog);
        key.extend([ledger.in_flight() as u8, ledger.unreported() as u8]);
        key.push(ledger.received.wrapping_sub(ledger.consumed) as u8);
        key.extend([ledger.settings.ring, ledger.settings.peer_ring].map(|n| n as u8));
        key.extend([*posted, *unposted, *grant].map(|n| n as u8));
        let [acknowledged, reported] = self.goodbyes_over();
        let Goodbye { may_leave: _, leave, sent, received } = goodbye;
        let flags = [ledger.answer_now, *refusing, *leave, sent.is_some(), received.is_some()];
        let flags = flags.into_iter().chain([acknowledged, reported, *answered]);
        key.push(flags.fold(0, |bits, flag| bits << 1 | u8::from(flag)));
        key.push(flying.len() as u8);
        for frame in flying {
            let news = frame.count.wrapping_sub(peer.ledger.acknowledged) as u8;
            let flags = [frame.class == Class::Data, frame.answer_now, frame.goodbye];
            let flags = flags.into_iter().fold(0, |bits, flag| bits << 1 | u8::from(flag));
            key.extend([flags, news, frame.grant as u8]);
        }
    }

    /// CR-1 and CR-6: each count is where the peer's counts and the frames between say it is.
    pub(super) fn amiss(&self, peer: &Side) -> Option<&'static str> {
        let (ours, theirs) = (&self.ledger, &peer.ledger);
        let flying = self.flying.len() as u32;
        let told = peer.flying.back().map_or(ours.acknowledged, |frame| frame.count);
        let granted: u32 = peer.flying.iter().map(|frame| frame.grant).sum();
        let waiting = theirs.received.wrapping_sub(theirs.consumed);
        let known = ours.settings.peer_ring + granted + peer.grant;
        let checks = [
            (ours.sent.wrapping_sub(theirs.received) == flying, "frames are lost"),
            (told == theirs.reported, "CR-1: a report is lost"),
            (known == theirs.settings.ring || peer.fault == Fault::GrantLost, "CR-1: slots"),
            (peer.posted + peer.unposted + waiting == theirs.settings.ring, "CR-1: receives"),
            (flying <= peer.posted, "CR-6: a frame without a posted receive"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }
}
