//! The queue of everything that senders hand to a link: requests for mailboxes, committed messages,
//! answers, signals.
//!
//! This is the part of the protocol that senders touch from their own tasks, so it is apart from
//! [`LinkProtocol`](super::link::LinkProtocol), which only the driver has. It is locked by the code
//! that shares it.
//!
//! - **OB-2 room first**: room for a message is reserved in its mailbox's window and in the link's
//!   before it is committed, and given back when it is not committed after all.
//!
//! A message is in exactly one lane from its commit until its last record is written; then it is in
//! flight. It leaves its lane unwritten when its mailbox closes
//! ([`take_unsendable`](SendQueue::take_unsendable)) or, an ask, when its asker gives up. The
//! windows bound messages. The open asks bound answers, and the code that makes them bounds their
//! bytes: it asks [`takes_replies`](SendQueue::takes_replies) first. The pending asks bound
//! cancellations, and the mailboxes bound signals and openings.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;

use rkyv::util::AlignedVec;

use super::asks::{OpenAsks, PendingAsks, Written};
use super::header::{ALL_MAILBOXES, RecordHeader, RecordKind};
use super::lanes::{Bulk, Entry, Lane};
use super::loans::Loans;
use super::remote_mailbox::{Outlet, RemoteMailbox};
use super::window::{Count, Report, SendWindow, WindowSize};
use crate::limits;
use crate::mutants::planted;
use crate::note::Note;
use crate::open_request::OpenRequest;
use crate::proto::error::{OpenRefusal, Violation};

mod fill;
mod lending;
#[cfg(test)]
mod modelled;
mod opening;

pub(crate) use fill::{Fence, Filling, REPLY_EXPIRED};
use opening::{ByRequest, Refused};

/// Everything that waits to be put into frames, and the windows it had to pass. `W` is the waiter
/// for an answer.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct SendQueue<W> {
    outlets: slab::Slab<Outlet>,
    by_request: ByRequest,
    mailboxes: slab::Slab<RemoteMailbox>,
    by_mailbox: HashMap<u32, u32>,
    link_window: LinkWindow,
    queues: Queues,
    openings: Openings,
    refused: Refused,
    /// A mailbox closed, and something that is not written may wait for it.
    closing: bool,
    /// Asks of this side.
    pub(crate) asks: PendingAsks<W>,
    /// Asks of the peer.
    pub(crate) open_asks: OpenAsks,
    /// The most that is sent ahead to one mailbox.
    mailbox_window: WindowSize,
    /// Largest payload that goes into one record.
    eager_max: usize,
    notices: Vec<Notice>,
    /// Mailboxes that closed and have nothing without a fate: to be [swept](SendQueue::sweep).
    freed: Vec<u32>,
    /// Nothing new is committed.
    leaving: bool,
}

#[derive(Default)]
#[cfg_attr(test, derive(Clone, Hash))]
struct LinkWindow {
    window: SendWindow,
    /// Messages and bytes that waited at the peer from earlier links when this one began; and the
    /// part of them that was reported taken from mailboxes that were not open then.
    carried: Count,
    unopened: Count,
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
    /// Signals ahead of messages, each once: the mailbox, and the signal.
    signals: VecDeque<(u32, u16)>,
    /// Asks that were sent and whose askers have given up.
    cancels: VecDeque<u64>,
    replies: Lane,
    eager: Lane,
    bulk: VecDeque<Bulk>,
    /// Large messages that were ever queued.
    bulk_count: u64,
    bulk_replies: VecDeque<Bulk>,
    /// The large message and the large answer under way.
    message: Option<Bulk>,
    reply: Option<Bulk>,
    loans: Loans,
    /// An answer is lent next, if one waits for that.
    lends_reply: bool,
    /// Bytes of answers that wait.
    reply_bytes: usize,
    /// Frames in a row that had small answers and no message, although messages waited.
    answered: u8,
    turn: Turn,
}

/// The queue that is served first in the next frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Turn {
    #[default]
    Small,
    Messages,
    Replies,
}

/// A notice that something happened for which senders wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The outlet is open, at this mailbox.
    Opened(u32, u32),
    /// The look-up found this mailbox; its outlet is to be [taken out](SendQueue::end_look_up).
    Found(u32, u32),
    /// The mailbox may have room.
    Room(u32),
    /// The link's window may have room.
    LinkRoom,
    /// The outlet is gone, and its mailbox if it was open: the peer refused to open it, or the
    /// mailbox closed.
    Ended { outlet: u32, mailbox: Option<u32>, refusal: Option<OpenRefusal> },
}

/// The answer to whether a message may be committed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    Yes,
    /// The mailbox's window is full.
    NotInMailbox,
    /// The link's window is full.
    NotInLink,
}

impl<W> SendQueue<W> {
    /// Creates an empty queue. `eager_max` is the largest payload that fits one record of one
    /// frame. `mailbox_window` is the most that is sent ahead to one mailbox, whatever the peer
    /// allows.
    pub(crate) fn new(
        link_window_bytes: u32,
        mailbox_window: WindowSize,
        eager_max: usize,
    ) -> Self {
        let messages = limits::LINK_WINDOW_MESSAGES;
        let size = WindowSize { messages, bytes: link_window_bytes };
        let window = SendWindow::new(size, Count::default());
        SendQueue {
            outlets: slab::Slab::new(),
            by_request: ByRequest::default(),
            mailboxes: slab::Slab::new(),
            by_mailbox: HashMap::new(),
            link_window: LinkWindow { window, ..LinkWindow::default() },
            queues: Queues::default(),
            openings: Openings::default(),
            refused: Refused::default(),
            closing: false,
            asks: PendingAsks::default(),
            open_asks: OpenAsks::default(),
            mailbox_window,
            eager_max,
            notices: Vec::new(),
            freed: Vec::new(),
            leaving: false,
        }
    }

    /// Returns whether a message of `bytes` may be committed to the mailbox now (OB-2).
    pub(crate) fn room(&self, mailbox: u32, bytes: u32) -> Room {
        let window = &self.mailboxes[mailbox as usize].window;
        if !window.room(bytes) {
            Room::NotInMailbox
        } else if !window.is_idle() && !self.link_window.window.room(bytes) {
            Room::NotInLink
        } else {
            Room::Yes
        }
    }

    /// Returns how many more messages a mailbox that is open may have outstanding, if they are
    /// small enough.
    pub(crate) fn messages_left(&self, mailbox: u32) -> u32 {
        self.mailboxes.get(mailbox as usize).map_or(0, |mailbox| mailbox.window.messages_left())
    }

    /// Returns true if nothing is outstanding at a mailbox that is open.
    pub(crate) fn is_idle(&self, mailbox: u32) -> bool {
        self.mailboxes.get(mailbox as usize).is_some_and(|mailbox| mailbox.window.is_idle())
    }

    /// Tells the peer, once, that a sender waits for this room.
    pub(crate) fn say_blocked(&mut self, mailbox: u32, lacking: Room) {
        let mailbox = &mut self.mailboxes[mailbox as usize];
        let (said, header) = match lacking {
            Room::Yes => return,
            Room::NotInMailbox => {
                (&mut mailbox.blocked, blocked(mailbox.index, mailbox.generation))
            }
            Room::NotInLink => (&mut self.link_window.blocked, blocked(ALL_MAILBOXES, 0)),
        };
        if !std::mem::replace(said, true) && !planted!(SilentBlock) {
            self.queues.control.push_back((header, Vec::new()));
        }
    }

    /// Reserves the room of a message for which [there is some](Self::room).
    pub(crate) fn reserve(&mut self, mailbox: u32, bytes: u32) {
        let mailbox = &mut self.mailboxes[mailbox as usize];
        mailbox.window.send(bytes);
        mailbox.uses += 1;
        self.link_window.window.send(bytes);
    }

    /// Gives back the room that was reserved for a message that is not committed.
    pub(crate) fn release(&mut self, key: u32, bytes: u32) {
        self.unreserve(key, bytes);
        self.settle(key);
    }

    fn unreserve(&mut self, key: u32, bytes: u32) {
        let mailbox = &mut self.mailboxes[key as usize];
        // Messages outstanding at a mailbox that closed are off both windows already.
        if !mailbox.closed {
            mailbox.window.unsend(bytes);
            self.link_window.window.unsend(bytes);
            self.notices.push(Notice::Room(key));
            if self.link_window.blocked {
                self.notices.push(Notice::LinkRoom);
            }
        }
    }

    /// Commits a message whose room [was reserved](Self::reserve). A large one takes the memory of
    /// `archive`; a small one is copied. One with a note goes the way of large ones.
    pub(crate) fn commit(
        &mut self,
        entry: Entry,
        note: Option<Note>,
        archive: &mut AlignedVec<16>,
    ) {
        let mailbox = &mut self.mailboxes[entry.mailbox as usize];
        let behind = mailbox.bulk > 0 && !planted!(Overtaking);
        let is_small = archive.len() <= self.eager_max;
        if is_small && !behind && note.is_none() {
            self.queues.eager.push(entry, (mailbox.index, mailbox.generation), archive);
            return;
        }
        mailbox.bulk += 1;
        let mark = self.queues.eager.mark();
        let (copied, number) = (is_small && note.is_some(), self.queues.bulk_count);
        let lending = self.queues.loans.lending(archive.len());
        let bulk = Bulk::new((entry, note), archive, copied);
        self.queues.bulk.push_back(Bulk { mark, number, lending, ..bulk });
        self.queues.bulk_count += 1;
    }

    /// Commits a small tell whose sender does not wait for its fate, if there is room (OB-2) and no
    /// large message before it. Returns false, with nothing done, if not.
    #[inline(always)]
    pub(crate) fn commit_at_once(
        &mut self,
        key: u32,
        ordinal: u16,
        message: u128,
        archive: &[u8],
    ) -> bool {
        let mailbox = &mut self.mailboxes[key as usize];
        let (window, link_window) = (&mut mailbox.window, &mut self.link_window.window);
        let bytes = archive.len() as u32;
        if archive.len() > self.eager_max
            || (mailbox.bulk > 0 && !planted!(Overtaking))
            || !window.room(bytes)
            || !(window.is_idle() || link_window.room(bytes))
        {
            return false;
        }
        window.send(bytes);
        link_window.send(bytes);
        mailbox.uses += 1;
        let place = (mailbox.index, mailbox.generation);
        self.queues.eager.push_tell((key, ordinal, message), place, archive);
        true
    }

    /// Queues an answer: the archive, or a code.
    pub(crate) fn reply(&mut self, correlation: u64, code: u16, archive: &mut AlignedVec<16>) {
        self.open_asks.answer(correlation);
        let kind = RecordKind::Reply;
        let entry =
            Entry { kind, mailbox: 0, ordinal: code, correlation, message: 0, deadline: None };
        self.queues.reply_bytes += archive.len();
        if archive.len() <= self.eager_max {
            self.queues.replies.push(entry, (0, 0), archive);
        } else {
            let lending = self.queues.loans.lending(archive.len());
            let bulk = Bulk::new((entry, None), archive, false);
            self.queues.bulk_replies.push_back(Bulk { lending, ..bulk });
        }
    }

    /// Returns true while fewer than [`limits::REPLY_BYTES_MAX`] bytes of answers wait: further
    /// asks may be begun.
    pub(crate) fn takes_replies(&self) -> bool {
        self.queues.reply_bytes < limits::REPLY_BYTES_MAX || planted!(EndlessReplies)
    }

    /// Gives an ask up: if it was written, tells the peer by CANCEL. Returns true if it was not
    /// written, and never will be.
    pub(crate) fn give_up(&mut self, correlation: u64) -> bool {
        let written = self.asks.give_up(correlation);
        if written == Some(Written::All) {
            self.queues.cancels.push_back(correlation);
        }
        written == Some(Written::Nothing)
    }

    /// Sends a signal ahead of messages; a signal that waits already is not sent twice.
    pub(crate) fn signal(&mut self, mailbox: u32, signal: u16) {
        let urgent = &mut self.mailboxes[mailbox as usize].urgent;
        if !urgent.contains(&signal) {
            urgent.push(signal);
            self.queues.signals.push_back((mailbox, signal));
            self.mailboxes[mailbox as usize].uses += 1;
        }
    }

    /// Records how much of this side's messages waits at the peer from earlier links (WI-4).
    pub(crate) fn carry(&mut self, carried: Count) {
        self.link_window.window.carry(carried);
        self.link_window.carried = carried;
    }

    /// Handles the peer's report of messages taken from a mailbox; after its CLOSED the peer has no
    /// more to report.
    pub(crate) fn handle_window(
        &mut self,
        index: u32,
        generation: u32,
        report: Report,
    ) -> Result<(), Violation> {
        if index == ALL_MAILBOXES {
            let taken = report.taken;
            let LinkWindow { unopened, carried, .. } = &mut self.link_window;
            if taken.messages > carried.messages || taken.bytes > carried.bytes {
                return Err(Violation::WindowReport);
            }
            let news = taken.since(std::mem::replace(unopened, taken));
            return self.release_link(news);
        }
        let key = *self.by_mailbox.get(&index).ok_or(Violation::Unknown)?;
        let mailbox = &mut self.mailboxes[key as usize];
        if mailbox.generation != generation {
            return Err(Violation::Unknown);
        }
        let news = mailbox.window.report(report)?;
        if news == Count::default() {
            return Ok(());
        }
        mailbox.blocked = false;
        if !planted!(SkippedWake) {
            self.notices.push(Notice::Room(key));
        }
        self.release_link(news)
    }

    fn release_link(&mut self, news: Count) -> Result<(), Violation> {
        self.link_window.window.release(news)?;
        if news.messages > 0 && std::mem::take(&mut self.link_window.blocked) {
            self.notices.push(Notice::LinkRoom);
        }
        Ok(())
    }

    /// Records that one message of the mailbox has its fate, or was dropped.
    pub(crate) fn settle(&mut self, mailbox: u32) {
        self.settle_all(mailbox, 1);
    }

    /// Records that `count` messages of the mailbox have their fates.
    pub(crate) fn settle_all(&mut self, mailbox: u32, count: u16) {
        self.mailboxes[mailbox as usize].uses -= u32::from(count);
        self.free_mailbox(mailbox);
    }

    /// Records that a mailbox is used by something that has no fate yet.
    pub(crate) fn use_mailbox(&mut self, mailbox: u32) {
        self.mailboxes[mailbox as usize].uses += 1;
    }

    fn free_mailbox(&mut self, key: u32) {
        let mailbox = &self.mailboxes[key as usize];
        if mailbox.closed && mailbox.uses == 0 {
            self.freed.push(key);
        }
    }

    /// Removes closed mailboxes whose messages all have their fates. To be called when all
    /// [notices](Self::take_notices) were acted on: they name mailboxes.
    pub(crate) fn sweep(&mut self) {
        for key in std::mem::take(&mut self.freed) {
            let mailbox = self.mailboxes.get(key as usize);
            // A signal may have come to use it since.
            if mailbox.is_some_and(|mailbox| mailbox.closed && mailbox.uses == 0) {
                self.mailboxes.remove(key as usize);
            }
        }
    }

    /// Returns true if something waits that needs fewer credits than messages do.
    pub(crate) fn has_urgent(&self) -> bool {
        let q = &self.queues;
        let control = q.control.len() + q.signals.len() + q.cancels.len();
        let answers = !q.replies.is_empty() && !self.yields();
        control > 0 || answers || self.has_to_lend()
    }

    /// Returns the number of messages and answers that are not wholly in frames yet; one more where
    /// something is lent.
    pub(crate) fn queued(&self) -> usize {
        let q = &self.queues;
        let under_way = usize::from(q.message.is_some()) + usize::from(q.reply.is_some());
        let large = q.bulk.len() + q.bulk_replies.len() + under_way;
        q.eager.len() + q.replies.len() + large + usize::from(!self.queues.loans.is_empty())
    }

    /// Returns the request that first opened a mailbox.
    pub(crate) fn request_of(&self, mailbox: u32) -> Arc<OpenRequest> {
        self.mailboxes[mailbox as usize].request.clone()
    }

    /// Returns true if there is an open mailbox of this key.
    pub(crate) fn is_open(&self, mailbox: u32) -> bool {
        self.mailboxes.get(mailbox as usize).is_some_and(|mailbox| !mailbox.closed)
    }

    /// Records that the first sender that waits at a mailbox is gone: the next one may find room,
    /// and so may mailboxes behind it that wait for the link's window.
    pub(crate) fn look_again(&mut self, mailbox: u32, for_link: bool) {
        self.notices.push(Notice::Room(mailbox));
        if for_link {
            self.notices.push(Notice::LinkRoom);
        }
    }

    /// Returns a mailbox, which is there as long as anything of it has no fate.
    pub(crate) fn at(&self, mailbox: u32) -> &RemoteMailbox {
        &self.mailboxes[mailbox as usize]
    }

    /// Returns true if there is anything to act on: notices, or mailboxes to let go of.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.notices.is_empty() || !self.freed.is_empty()
    }

    /// Takes what senders are to be told since the last call.
    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        mem::take(&mut self.notices)
    }

    /// Lets nothing new be committed from now on.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
    }

    /// Returns true if [`leave`](Self::leave) was called.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving
    }
}

fn blocked(mailbox: u32, generation: u32) -> RecordHeader {
    RecordHeader { mailbox, generation, ..RecordHeader::new(RecordKind::Blocked) }
}
