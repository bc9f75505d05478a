//! Fetches: messages that the peer has lent, as the fetching side sees them;
//! [`loans`](super::loans) is the other side.
//!
//! Each LEND is answered by one FETCHED, unless this side has said goodbye before. Fetched bytes
//! are kept until their message comes, or UNLENT. A peer has at most `LOANS_MAX` loans open, of
//! `LENT_BYTES_MAX` bytes, of messages that this side takes.

use super::error::Violation;
use super::header::{RecordHeader, RecordKind};
use super::loans::{LentAt, NotLent};
use crate::limits::{LENT_BYTES_MAX, LOANS_MAX};
use crate::memory::Lease;

/// A message that the peer has lent: to be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lent {
    pub(crate) number: u16,
    pub(crate) at: LentAt,
    pub(crate) bytes: u32,
}

/// The messages that the peer has lent.
#[derive(Default)]
pub(crate) struct Fetches {
    open: Vec<Fetch>,
}

struct Fetch {
    number: u16,
    bytes: u32,
    stage: Stage,
}

enum Stage {
    Begun,
    /// They are here, and the peer is to be told.
    Here(Lease),
    /// It was told: their message may come.
    Told(Lease),
    /// They will not be here, and the peer is to be told.
    Refused,
}

impl Fetches {
    /// Begins the fetch that a LEND asks for.
    pub(crate) fn begin(
        &mut self,
        header: &RecordHeader,
        bytes_max: u32,
    ) -> Result<Lent, Violation> {
        let &RecordHeader { ordinal: number, total: bytes, mailbox: pair, .. } = header;
        let open: usize = self.open.iter().map(|fetch| fetch.bytes as usize).sum();
        let fits = self.open.len() < LOANS_MAX && open + bytes as usize <= LENT_BYTES_MAX;
        let is_new = self.open.iter().all(|fetch| fetch.number != number);
        if !fits || !is_new || !(1..=bytes_max).contains(&bytes) {
            return Err(Violation::Loan);
        }
        self.open.push(Fetch { number, bytes, stage: Stage::Begun });
        let at = LentAt { pair, key: (header.generation, header.correlation) };
        Ok(Lent { number, at, bytes })
    }

    /// Takes the result of a fetch. Returns the answer for the peer, if it waits for one.
    pub(crate) fn done(
        &mut self,
        number: u16,
        fetched: Result<Lease, NotLent>,
    ) -> Option<RecordHeader> {
        let fetch = self.open.iter_mut().find(|fetch| fetch.number == number)?;
        let (stage, cause) = match fetched {
            Ok(body) => (Stage::Here(body), 0),
            Err(_) => (Stage::Refused, 1),
        };
        fetch.stage = stage;
        let answer = RecordHeader::new(RecordKind::Fetched);
        Some(RecordHeader { ordinal: number, total: cause, ..answer })
    }

    /// Records that the answer to a loan was written. Only now is a refused loan forgotten, and may
    /// the message of another come: otherwise a peer that takes no answers could make any number of
    /// them wait.
    pub(crate) fn answered(&mut self, number: u16) {
        let Some(at) = self.open.iter().position(|fetch| fetch.number == number) else { return };
        match std::mem::replace(&mut self.open[at].stage, Stage::Refused) {
            Stage::Here(body) => self.open[at].stage = Stage::Told(body),
            Stage::Begun | Stage::Told(_) | Stage::Refused => drop(self.open.remove(at)),
        }
    }

    /// Takes the bytes of a message that comes now, or that will not come.
    pub(crate) fn take(&mut self, number: u32) -> Result<Lease, Violation> {
        let at = self.open.iter().position(|fetch| u32::from(fetch.number) == number);
        let at = at.ok_or(Violation::Loan)?;
        match self.open.remove(at).stage {
            Stage::Told(body) => Ok(body),
            Stage::Begun | Stage::Here(_) | Stage::Refused => Err(Violation::Loan),
        }
    }

    /// Answers nothing more: this side says goodbye.
    pub(crate) fn stop(&mut self) {
        self.open.retain(|fetch| matches!(fetch.stage, Stage::Told(_)));
    }

    /// Returns true if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
