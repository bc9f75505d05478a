//! Large messages that are lent instead of sent in parts: [`loans`](super::super::loans).

use std::sync::Arc;

use super::{Queues, SendQueue};
use crate::limits::LOANS_MAX;
use crate::memory::Buffer;
use crate::proto::error::Violation;
use crate::proto::loans::{Held, Lending, LentAt, Loans, NotLent};

impl<W> SendQueue<W> {
    /// Lends messages and answers of `from` bytes on; with `None`, none.
    pub(crate) fn lending_from(mut self, from: Option<u32>) -> Self {
        self.queues.loans = Loans::new(from.map(|from| from as usize));
        self
    }

    /// Returns the bytes of a message that may be lent now, ahead of its turn: of one of the first
    /// that wait. To be followed by [`lent`](Self::lent) before anything is written.
    #[inline]
    pub(crate) fn next_to_lend(&self) -> Option<Arc<Buffer>> {
        let q = &self.queues;
        if q.bulk.is_empty() && q.bulk_replies.is_empty() { None } else { self.find_to_lend() }
    }

    fn find_to_lend(&self) -> Option<Arc<Buffer>> {
        let Queues { bulk, bulk_replies, .. } = &self.queues;
        let mut first = bulk.iter().take(LOANS_MAX).chain(bulk_replies.iter().take(LOANS_MAX));
        first.find(|bulk| self.may_lend(bulk)).map(|bulk| bulk.body.clone())
    }

    /// Records where a message is lent, or why it is not (LO-3).
    pub(crate) fn lent(&mut self, body: &Arc<Buffer>, lent: Result<(LentAt, Held), NotLent>) {
        let Queues { bulk, bulk_replies, loans, control, .. } = &mut self.queues;
        let mut all = bulk.iter_mut().chain(bulk_replies);
        let Some(bulk) = all.find(|bulk| Arc::ptr_eq(&bulk.body, body)) else { return };
        bulk.lending = match lent {
            Ok((at, held)) => {
                let (number, header) = loans.begin(body.len(), at, held);
                control.push_back((header, Vec::new()));
                Lending::Loan(number)
            }
            Err(NotLent::NotYet) => Lending::Parts,
            Err(NotLent::Failed) => {
                loans.fail();
                Lending::Parts
            }
        };
    }

    /// Handles the peer's answer to a loan.
    pub(crate) fn handle_fetched(&mut self, number: u16, cause: u32) -> Result<(), Violation> {
        let told = self.queues.loans.answered(number, cause)?;
        self.queues.control.extend(told.map(|header| (header, Vec::new())));
        Ok(())
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

    /// Records that a message is not sent.
    pub(super) fn forgo_loan(&mut self, lending: Lending) {
        let told = self.queues.loans.forgo(lending);
        self.queues.control.extend(told.map(|header| (header, Vec::new())));
    }
}
