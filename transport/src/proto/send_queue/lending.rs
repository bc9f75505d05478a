//! Large messages that are lent instead of sent in parts: [`loans`](super::super::loans).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::{Queues, SendQueue};
use crate::limits::LOANS_MAX;
use crate::memory::Buffer;
use crate::proto::error::Violation;
use crate::proto::lanes::Bulk;
use crate::proto::loans::{Held, Lending, LentAt, LoanCounts, Loans, NotLent};

/// Number of waiting large messages that are looked at: they may be lent ahead of their turn, and
/// pass others that the peer has yet to fetch.
const LOOKED_AT: usize = 2 * LOANS_MAX;

impl<W> SendQueue<W> {
    /// Lends messages and answers of `from` bytes on; with `None`, none.
    pub(crate) fn lending_from(mut self, from: Option<u32>) -> Self {
        self.queues.loans = Loans::new(from.map(|from| from as usize));
        self
    }

    /// Limits the number of messages lent at one time.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn limit_loans_to(&mut self, most: usize) {
        self.queues.loans.limit_to(most);
    }

    /// Returns true if a message may be lent now, ahead of its turn: one of the first that wait.
    #[inline]
    pub(crate) fn has_to_lend(&self) -> bool {
        let q = &self.queues;
        let has_large = !q.bulk.is_empty() || !q.bulk_replies.is_empty();
        has_large && q.first_large().any(|bulk| self.may_lend(bulk))
    }

    /// Begins the loan of the next message that [may be lent](Self::has_to_lend). Returns its
    /// number and its bytes, to be followed by [`lent`](Self::lent); its message waits until then.
    pub(crate) fn begin_to_lend(&mut self) -> Option<(u16, Arc<Buffer>)> {
        if !self.has_to_lend() {
            return None;
        }
        let Queues { bulk, bulk_replies, loans, lends_reply, .. } = &mut self.queues;
        let may_lend =
            |it: &&mut Bulk| it.lending == Lending::Undecided && loans.has_room(it.body.len());
        let message = bulk.iter_mut().take(LOOKED_AT).find(may_lend);
        let reply = bulk_replies.iter_mut().take(LOOKED_AT).find(may_lend);
        // In turns, where both wait: neither keeps all loans from the other.
        let is_reply = message.is_none() || (*lends_reply && reply.is_some());
        let bulk = if is_reply { reply } else { message }?;
        *lends_reply = !is_reply;
        let number = loans.begin(bulk.body.len());
        bulk.lending = Lending::Loan(number);
        Some((number, bulk.body.clone()))
    }

    /// Takes the place where a message is lent, or the reason why it is not (LO-3). Where there is
    /// no queue pair yet it may be lent later, unless its turn comes before. Memory that is not
    /// lent any more is to be [taken](Self::take_returned).
    pub(crate) fn lent(&mut self, number: u16, lent: Result<(LentAt, Held), NotLent>) {
        let Queues { bulk, bulk_replies, loans, control, .. } = &mut self.queues;
        let is_early = matches!(lent, Err(NotLent::NotYet));
        if let Some(header) = loans.lent(number, lent) {
            control.push_back((header, Vec::new()));
            return;
        }
        // Its number may be given to another loan next.
        let mut all = bulk.iter_mut().chain(bulk_replies);
        if let Some(bulk) = all.find(|bulk| bulk.lending == Lending::Loan(number)) {
            bulk.lending = if is_early { Lending::Undecided } else { Lending::Parts };
        }
    }

    /// Allows loans to be tried again for which there was no queue pair: once for each frame.
    pub(crate) fn retry_loans(&mut self) {
        self.queues.loans.retry();
    }

    /// Takes the counts of large messages since the last call.
    #[inline]
    pub(crate) fn take_loan_counts(&mut self) -> LoanCounts {
        self.queues.loans.take_counts()
    }

    /// Returns true if a message, or answer, waits for the peer to fetch it, or for its turn to be
    /// lent.
    fn is_waiting(&self, bulk: &Bulk) -> bool {
        let loans = &self.queues.loans;
        let has_no_turn = bulk.lending == Lending::Undecided && loans.is_full();
        has_no_turn || loans.is_awaited(bulk.lending)
    }

    /// Returns the place of the next large message to be written: the first that does not
    /// [wait](Self::is_waiting), and is behind no waiting message to its mailbox (LA-1). An ask
    /// whose asker has given up comes before it; with the time, also an ask whose deadline is over.
    pub(super) fn next_message(&self, now: Option<Instant>) -> Option<usize> {
        let q = &self.queues;
        let mut waiting = Vec::new();
        for (place, bulk) in q.bulk.iter().take(LOOKED_AT).enumerate() {
            // Messages behind it have a later mark.
            if !q.eager.passed(bulk.mark) || self.may_lend(bulk) {
                return None;
            }
            let mailbox = bulk.entry.mailbox;
            let is_behind = waiting.contains(&mailbox);
            if is_behind || self.is_waiting(bulk) {
                let is_unwanted = match now {
                    Some(now) => self.is_unwanted(&bulk.entry, now),
                    None => self.is_given_up(&bulk.entry),
                };
                if is_unwanted {
                    return Some(place);
                }
                if !is_behind {
                    waiting.push(mailbox);
                }
                continue;
            }
            return Some(place);
        }
        None
    }

    /// Returns the place of the next large answer to be written, which may be any that does not
    /// wait for the peer to fetch it.
    pub(super) fn next_reply(&self) -> Option<usize> {
        let q = &self.queues;
        let mut first = q.bulk_replies.iter().take(LOOKED_AT);
        let place = first.position(|bulk| !self.is_waiting(bulk))?;
        (!self.may_lend(&q.bulk_replies[place])).then_some(place)
    }

    /// Takes out a large message, or answer, that is written now.
    pub(super) fn take_large(
        loans: &mut Loans,
        from: &mut VecDeque<Bulk>,
        at: usize,
    ) -> Option<Bulk> {
        let mut bulk = from.remove(at)?;
        if bulk.lending == Lending::Undecided {
            loans.pass();
            bulk.lending = Lending::Parts;
        }
        Some(bulk)
    }

    /// Handles the peer's answer to a loan.
    pub(crate) fn handle_fetched(&mut self, number: u16, cause: u32) -> Result<(), Violation> {
        let told = self.queues.loans.answered(number, cause)?;
        self.queues.control.extend(told.map(|header| (header, Vec::new())));
        Ok(())
    }

    /// Takes back what the peer has not answered, and was to read by a queue pair that has ended
    /// (LO-4): to be [taken](Self::take_returned).
    pub(crate) fn take_back_loans(&mut self, ended_before: u32) {
        self.queues.loans.take_back(ended_before);
    }

    /// Handles the peer's goodbye.
    pub(crate) fn handle_goodbye(&mut self) {
        self.queues.loans.peer_left();
    }

    /// Takes what need not be lent any more, to be dropped without a lock.
    #[inline]
    pub(crate) fn take_returned(&mut self) -> Vec<Held> {
        self.queues.loans.take_returned()
    }

    /// Returns true if something is lent, or was fetched and not sent.
    #[cfg(test)]
    pub(crate) fn lends(&self) -> bool {
        !self.queues.loans.is_empty()
    }

    /// Returns true if a message waits for its turn to be lent.
    #[cfg(test)]
    pub(crate) fn waits_for_a_loan(&self) -> bool {
        let has_no_turn = |bulk: &Bulk| bulk.lending == Lending::Undecided;
        self.queues.loans.is_full() && self.queues.first_large().any(has_no_turn)
    }

    /// Records that a message is not sent.
    pub(super) fn forgo_loan(&mut self, lending: Lending) {
        let told = self.queues.loans.forgo(lending);
        self.queues.control.extend(told.map(|header| (header, Vec::new())));
    }
}

impl Queues {
    /// Returns the first large messages and answers that wait.
    fn first_large(&self) -> impl Iterator<Item = &Bulk> {
        self.bulk.iter().take(LOOKED_AT).chain(self.bulk_replies.iter().take(LOOKED_AT))
    }
}
