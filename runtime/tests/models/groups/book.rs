//! The acts on a group, and the lines that its members heard, in the order in which they happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use ringpost::Address;
use ringpost::group::Told;

use super::line::{Line, take_archived};

/// A moment: of two entries the later one has the greater.
pub(super) type Moment = u64;
/// A moment that never comes.
pub(super) const NEVER: Moment = Moment::MAX;

/// A member as the group knows it: an actor, or whichever has a name. A number of the book.
pub(super) type Seat = usize;

/// Something that was asked of the group, from its beginning to its answer.
#[derive(Debug)]
pub(super) struct Act {
    pub(super) what: What,
    /// The node that sent it: 0 is the group's own.
    pub(super) from: usize,
    pub(super) begin: Moment,
    /// When it was in the group's mailbox, or on its way there before all that its node sent later.
    pub(super) sent: Moment,
    /// `NEVER` without an answer: it may be handled at any time later.
    pub(super) end: Moment,
    /// It was certainly never handled.
    pub(super) is_refused: bool,
}

#[derive(Debug)]
pub(super) enum What {
    Join(Seat),
    /// Answered with whether it was a member.
    Leave(Seat, Option<bool>),
    /// A line that was told, asked or sent by `try_broadcast`, and its outcome where there is one.
    Line {
        number: u64,
        is_try: bool,
        outcome: Option<Told<Line>>,
    },
}

/// An end that the group may have been told of its own accord.
#[derive(Debug)]
pub(super) struct End {
    pub(super) seat: Seat,
    pub(super) at: Moment,
}

#[derive(Debug)]
pub(super) struct Heard {
    pub(super) seat: Seat,
    pub(super) number: u64,
    pub(super) at: Moment,
}

/// The book of a scene. Clones are the same book.
#[derive(Clone, Default)]
pub(super) struct Book(Arc<Mutex<Pages>>);

#[derive(Debug, Default)]
pub(super) struct Pages {
    moment: Moment,
    /// Where each seat is.
    pub(super) seats: Vec<Address>,
    pub(super) acts: Vec<Act>,
    /// Actors that ended, each under the seat that it had.
    pub(super) ends: Vec<End>,
    /// Actors that began, likewise.
    pub(super) sits: Vec<(Seat, Moment)>,
    /// Lines whose asker waited for no answer.
    pub(super) dropped: Vec<u64>,
    /// Nodes that the group's node found down, or that were killed.
    pub(super) downs: Vec<(String, Moment)>,
    pub(super) heard: Vec<Heard>,
    /// When the group itself ended.
    pub(super) over: Option<Moment>,
    /// Something was done that may lose lines.
    pub(super) is_troubled: bool,
    /// More lines may have waited for a member than may.
    pub(super) is_full: bool,
    /// How often each line was archived.
    pub(super) archived: BTreeMap<u64, u64>,
}

impl Book {
    pub(super) fn new() -> Self {
        take_archived();
        Book::default()
    }

    fn tick(pages: &mut Pages) -> Moment {
        pages.moment += 1;
        pages.moment
    }

    /// Returns the seat of an address.
    pub(super) fn seat(&self, address: &Address) -> Seat {
        let mut pages = self.0.lock();
        pages.seat(address).unwrap_or_else(|| {
            pages.seats.push(address.clone());
            pages.seats.len() - 1
        })
    }

    /// Notes the beginning of an act. Returns where it is noted.
    pub(super) fn begin(&self, from: usize, what: What) -> usize {
        let mut pages = self.0.lock();
        let begin = Book::tick(&mut pages);
        pages.acts.push(Act { what, from, begin, sent: NEVER, end: NEVER, is_refused: false });
        pages.acts.len() - 1
    }

    /// Notes that the line of an act is on its way.
    pub(super) fn sent(&self, act: usize) {
        let mut pages = self.0.lock();
        pages.acts[act].sent = Book::tick(&mut pages);
    }

    /// Notes that an act was answered.
    pub(super) fn answered(&self, act: usize) {
        let mut pages = self.0.lock();
        let at = Book::tick(&mut pages);
        (pages.acts[act].sent, pages.acts[act].end) = (at, at);
    }

    /// Notes the outcome of a line.
    pub(super) fn told(&self, act: usize, told: Told<Line>) {
        self.answered(act);
        if let What::Line { outcome, .. } = &mut self.0.lock().acts[act].what {
            *outcome = Some(told);
        }
    }

    pub(super) fn left(&self, act: usize, was: bool) {
        self.answered(act);
        if let What::Leave(_, answer) = &mut self.0.lock().acts[act].what {
            *answer = Some(was);
        }
    }

    /// Notes that an act was certainly not handled.
    pub(super) fn refused(&self, act: usize) {
        self.answered(act);
        self.0.lock().acts[act].is_refused = true;
    }

    pub(super) fn heard(&self, seat: Seat, number: u64) {
        let mut pages = self.0.lock();
        let at = Book::tick(&mut pages);
        pages.heard.push(Heard { seat, number, at });
    }

    pub(super) fn sits(&self, seat: Seat) {
        let mut pages = self.0.lock();
        let at = Book::tick(&mut pages);
        pages.sits.push((seat, at));
    }

    pub(super) fn dropped(&self, number: u64) {
        self.0.lock().dropped.push(number);
    }

    pub(super) fn ended(&self, seat: Seat) {
        let mut pages = self.0.lock();
        let at = Book::tick(&mut pages);
        pages.ends.push(End { seat, at });
    }

    pub(super) fn down(&self, node: &str) {
        let mut pages = self.0.lock();
        let at = Book::tick(&mut pages);
        pages.downs.push((node.into(), at));
    }

    pub(super) fn over(&self) {
        let mut pages = self.0.lock();
        pages.over = Some(Book::tick(&mut pages));
    }

    pub(super) fn trouble(&self) {
        self.0.lock().is_troubled = true;
    }

    pub(super) fn is_troubled(&self) -> bool {
        self.0.lock().is_troubled
    }

    pub(super) fn fill(&self) {
        self.0.lock().is_full = true;
    }

    /// Takes all notes.
    pub(super) fn close(&self) -> Pages {
        Pages { archived: take_archived(), ..std::mem::take(&mut *self.0.lock()) }
    }
}

impl Pages {
    /// Returns the seat of an address, if it has one.
    pub(super) fn seat(&self, address: &Address) -> Option<Seat> {
        self.seats.iter().position(|known| known == address)
    }
}
