//! Loans: large messages and answers whose bytes stay where they are until the peer has fetched
//! them, by one-sided reads. Kept by the side that sends them; [`fetches`](super::fetches) is the
//! other side.
//!
//! LEND tells the peer where the bytes lie, ahead of the message's turn. The peer says FETCHED when
//! it has them; then the message is sent in its turn, by a record without bytes. So order, windows,
//! fates and cancellation are the same as for every message, and a message is not sent by the fetch
//! of its bytes alone.
//!
//! - **LO-1 until answered**: memory is lent until the peer has answered, or the link ends, or the
//!   queue pair by which the peer reads it has ended: an honest peer never reads memory taken back.
//! - **LO-3 parts carry on**: a message that is not fetched goes in parts, as it does without
//!   loans; nothing waits for a queue pair that is not there: a message whose turn comes before
//!   there is one goes in parts, and messages behind it may be lent. While all loans are out a
//!   message waits for its turn to be lent, as long as an answer is to come that may bring it.
//!   After loans that came to nothing fewer are tried.
//! - **LO-4 in time**: a loan that the peer leaves unanswered is [overdue](Loans::take_back): its
//!   memory is not lent any more, and its message goes in parts. Its number stays taken until the
//!   peer answers.
//!
//! At most [`LOANS_MAX`] loans are open at one time, of [`LENT_BYTES_MAX`] bytes, including loans
//! that a device has yet to register. The peer needs that much memory for them.

use std::any::Any;
use std::collections::VecDeque;
use std::mem::{replace, take};
use std::sync::Arc;

use super::error::Violation;
use super::header::{RecordHeader, RecordKind};
use crate::limits::{LENT_BYTES_MAX, LOANS_MAX};

/// The longest pause lasts for this many messages, as a power of two.
const PAUSE_BITS_MAX: u32 = 12;

/// How a large message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lending {
    /// It may be lent, and nothing of it was sent.
    Undecided,
    /// In parts.
    Parts,
    /// By this loan.
    Loan(u16),
}

/// A value that keeps memory lent as long as it lives.
pub(crate) type Held = Arc<dyn Any + Send + Sync>;

/// Where the peer finds lent bytes: a queue pair for one-sided access, by its number, and a key of
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LentAt {
    pub(crate) pair: u32,
    pub(crate) key: (u32, u64),
}

/// Bytes are not lent, or not fetched: the message goes in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotLent {
    /// There is no queue pair for it yet.
    NotYet,
    /// This node lends, or lands, as much as it may.
    Full,
    Failed,
}

/// Counts of messages that are long enough to be lent, since the counts were last taken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoanCounts {
    /// Messages that the peer was told of, and their bytes.
    pub(crate) lent: u64,
    pub(crate) lent_bytes: u64,
    /// Loans that have ended, fetched or not.
    pub(crate) returned: u64,
    /// Messages that go in parts: there was no queue pair, no room, or no registration; the peer
    /// did not fetch them; or for one of these reasons nothing was tried.
    pub(crate) not_ready: u64,
    pub(crate) full: u64,
    pub(crate) not_registered: u64,
    pub(crate) not_fetched: u64,
    pub(crate) paused: u64,
}

/// The loans of one side.
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Loans {
    /// Bytes from which a message is lent; `None`: none is.
    from: Option<usize>,
    /// As many are open at one time.
    most: usize,
    open: VecDeque<Loan>,
    /// There was no queue pair for the last one: none is tried before
    /// [`retry`](Self::retry).
    is_unready: bool,
    /// The number of the next one.
    next: u16,
    /// Memory that need not be lent any more.
    returned: Vec<Held>,
    /// Memory that the peer may still read when it has said goodbye: lent until the link ends.
    kept: Vec<Held>,
    /// Loans in a row that came to nothing, and how many messages are not lent now.
    failures: u32,
    pause: u32,
    counts: LoanCounts,
}

#[cfg_attr(test, derive(Clone))]
struct Loan {
    number: u16,
    bytes: usize,
    /// The queue pair by which the peer reads it, once that is known.
    pair: u32,
    stage: Stage,
    /// Its message is still to be sent.
    is_wanted: bool,
}

#[cfg_attr(test, derive(Clone))]
enum Stage {
    /// A device has yet to register it: the peer does not know of it.
    Registering,
    /// The peer has not answered.
    Lent(Held),
    /// It has not answered in time (LO-4).
    Overdue,
    Fetched,
    NotFetched,
}

impl Stage {
    fn into_held(self) -> Option<Held> {
        if let Stage::Lent(held) = self { Some(held) } else { None }
    }

    /// Returns true if its message waits for an answer.
    fn is_open(&self) -> bool {
        matches!(self, Stage::Registering | Stage::Lent(_))
    }

    /// Returns true if the peer, or a device, is still to answer.
    fn is_owed(&self) -> bool {
        self.is_open() || matches!(self, Stage::Overdue)
    }
}

impl Loans {
    pub(crate) fn new(from: Option<usize>) -> Self {
        Loans { from, most: LOANS_MAX, ..Loans::default() }
    }

    /// Limits the number of loans that are open at one time.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn limit_to(&mut self, most: usize) {
        self.most = most;
    }

    /// Returns how a message of `bytes` bytes may go.
    pub(crate) fn lending(&mut self, bytes: usize) -> Lending {
        let lends = self.from.is_some_and(|from| (from..=LENT_BYTES_MAX).contains(&bytes));
        let pauses = lends && self.pause > 0;
        self.pause -= u32::from(pauses);
        self.counts.paused += u64::from(pauses);
        if lends && !pauses { Lending::Undecided } else { Lending::Parts }
    }

    /// Records that a loan came to nothing: fewer and fewer are tried (LO-3). Loans that were open
    /// at the same time and come to nothing, too, are not counted again.
    fn fail(&mut self) {
        if self.pause > 0 {
            return;
        }
        self.failures += 1;
        self.pause = 1 << (2 * self.failures).min(PAUSE_BITS_MAX);
    }

    /// Returns true if `bytes` more bytes may be lent now.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let lent: usize = self.open.iter().map(|loan| loan.bytes).sum();
        let fits = self.open.len() < self.most && lent + bytes <= LENT_BYTES_MAX;
        self.from.is_some() && fits && !self.is_unready
    }

    /// Allows the next loan to be tried, even if there was no queue pair for the last one.
    pub(crate) fn retry(&mut self) {
        self.is_unready = false;
    }

    /// Returns true if no further message may be lent before another one has been sent or answered,
    /// and an answer of the peer or of a device is due. So a message that waits to be lent waits
    /// for an event that comes (LO-3).
    pub(crate) fn is_full(&self) -> bool {
        let are_all_out = self.open.len() >= self.most;
        self.from.is_some() && are_all_out && self.open.iter().any(|loan| loan.stage.is_open())
    }

    /// Returns true if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Begins a loan of `bytes` bytes, which are to be registered. Returns its number.
    pub(crate) fn begin(&mut self, bytes: usize) -> u16 {
        while self.find(self.next).is_some() {
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        self.open.push_back(Loan {
            number,
            bytes,
            pair: 0,
            stage: Stage::Registering,
            is_wanted: true,
        });
        number
    }

    /// Takes the result of registering the bytes of a loan. Returns the record that tells the peer,
    /// unless they are not lent after all, or need not be any more.
    pub(crate) fn lent(
        &mut self,
        number: u16,
        lent: Result<(LentAt, Held), NotLent>,
    ) -> Option<RecordHeader> {
        let at = self.open.iter().position(|loan| loan.number == number);
        let at = at.filter(|at| matches!(self.open[*at].stage, Stage::Registering));
        let has_left = self.from.is_none();
        match (at.map(|at| &mut self.open[at]), lent) {
            (Some(loan), Ok((at, held))) if loan.is_wanted && !has_left => {
                (loan.pair, loan.stage) = (at.pair, Stage::Lent(held));
                self.counts.lent += 1;
                self.counts.lent_bytes += loan.bytes as u64;
                return Some(RecordHeader {
                    ordinal: number,
                    mailbox: at.pair,
                    generation: at.key.0,
                    correlation: at.key.1,
                    total: loan.bytes as u32,
                    ..RecordHeader::new(RecordKind::Lend)
                });
            }
            (_, Ok((_, held))) => self.returned.push(held),
            (None, Err(_)) => return None,
            (Some(_), Err(NotLent::NotYet)) => self.is_unready = true,
            (Some(_), Err(NotLent::Full)) => self.counts.full += 1,
            (Some(_), Err(NotLent::Failed)) => {
                self.counts.not_registered += 1;
                self.fail();
            }
        }
        at.and_then(|at| self.open.remove(at));
        None
    }

    /// Records that a message that may be lent goes in parts, as there is no queue pair for it, or
    /// no room.
    pub(crate) fn pass(&mut self) {
        let count =
            if self.is_unready { &mut self.counts.not_ready } else { &mut self.counts.full };
        *count += 1;
    }

    /// Takes what became of messages since the last call.
    pub(crate) fn take_counts(&mut self) -> LoanCounts {
        take(&mut self.counts)
    }

    /// Returns true if the peer has not answered it: its message waits.
    pub(crate) fn is_awaited(&self, lending: Lending) -> bool {
        let Lending::Loan(number) = lending else { return false };
        self.find(number).is_some_and(|loan| loan.stage.is_open())
    }

    /// Ends the loan of a message whose turn has come, if the peer has answered it. Returns its
    /// number if the bytes were fetched.
    pub(crate) fn end(&mut self, lending: Lending) -> Option<u16> {
        let Lending::Loan(number) = lending else { return None };
        let loan = self.open.iter_mut().find(|loan| loan.number == number)?;
        if loan.stage.is_owed() {
            // Its message goes in parts (LO-4).
            loan.is_wanted = false;
            return None;
        }
        matches!(self.remove(number)?.stage, Stage::Fetched).then_some(number)
    }

    /// Takes back loans that the peer has not answered (LO-4), if it was to read them by a queue
    /// pair with a number below `ended_before`: these queue pairs have ended.
    pub(crate) fn take_back(&mut self, ended_before: u32) {
        let mut overdue = 0;
        for loan in &mut self.open {
            if loan.pair < ended_before && matches!(loan.stage, Stage::Lent(_)) {
                self.returned.extend(replace(&mut loan.stage, Stage::Overdue).into_held());
                overdue += 1;
            }
        }
        self.counts.returned += overdue;
        self.counts.not_fetched += overdue;
        if overdue > 0 {
            self.fail();
        }
    }

    /// Ends the loan of a message that is not sent, once the peer has answered it (LO-1). Returns
    /// the record to send to the peer about it.
    pub(crate) fn forgo(&mut self, lending: Lending) -> Option<RecordHeader> {
        let Lending::Loan(number) = lending else { return None };
        let loan = self.open.iter_mut().find(|loan| loan.number == number)?;
        loan.is_wanted = false;
        self.close_unwanted(number)
    }

    /// Handles the peer's answer to a loan. Returns the record to send to the peer about it.
    pub(crate) fn answered(
        &mut self,
        number: u16,
        cause: u32,
    ) -> Result<Option<RecordHeader>, Violation> {
        let loan = self.open.iter_mut().find(|loan| loan.number == number);
        let loan = loan.ok_or(Violation::Loan)?;
        let is_late = matches!(loan.stage, Stage::Overdue);
        if cause > 1 || !(is_late || matches!(loan.stage, Stage::Lent(_))) {
            return Err(Violation::Loan);
        }
        let answer = if cause == 0 { Stage::Fetched } else { Stage::NotFetched };
        self.returned.extend(replace(&mut loan.stage, answer).into_held());
        if is_late {
            return Ok(self.close_unwanted(number));
        }
        self.counts.returned += 1;
        if cause == 0 {
            self.failures = 0;
        } else {
            self.counts.not_fetched += 1;
            self.fail();
        }
        Ok(self.close_unwanted(number))
    }

    /// Handles the peer's goodbye: it answers nothing any more, and may still be reading.
    pub(crate) fn peer_left(&mut self) {
        self.from = None;
        for loan in &mut self.open {
            if matches!(loan.stage, Stage::Overdue) {
                loan.stage = Stage::NotFetched;
            }
            if matches!(loan.stage, Stage::Lent(_)) {
                self.kept.extend(replace(&mut loan.stage, Stage::NotFetched).into_held());
            }
        }
        // A loan that is being registered ends when its registration does.
        self.open.retain(|loan| loan.is_wanted || matches!(loan.stage, Stage::Registering));
    }

    /// Takes the memory that is no longer lent, to be dropped without a lock: a device takes its
    /// time.
    pub(crate) fn take_returned(&mut self) -> Vec<Held> {
        take(&mut self.returned)
    }

    fn close_unwanted(&mut self, number: u16) -> Option<RecordHeader> {
        let loan = self.find(number)?;
        if loan.is_wanted || loan.stage.is_owed() {
            return None;
        }
        let was_fetched = matches!(self.remove(number)?.stage, Stage::Fetched);
        let header = RecordHeader { ordinal: number, ..RecordHeader::new(RecordKind::Unlent) };
        was_fetched.then_some(header)
    }

    fn find(&self, number: u16) -> Option<&Loan> {
        self.open.iter().find(|loan| loan.number == number)
    }

    fn remove(&mut self, number: u16) -> Option<Loan> {
        let at = self.open.iter().position(|loan| loan.number == number)?;
        self.open.remove(at)
    }
}
