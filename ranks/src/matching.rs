//! The matching of messages and receives: per source in order, as MPI has it.
//!
//! A message goes to the first receive, in the order in which they were posted, that takes its
//! source and tag. A receive takes the first message, in the order of arrival, that it matches.

use std::collections::{BTreeMap, VecDeque};
use std::task::{Poll, Waker};

use crate::status::{Source, Tag};

/// A message that has arrived.
pub(crate) struct Arrived<M> {
    pub(crate) from: usize,
    pub(crate) tag: u32,
    pub(crate) message: M,
    /// Its place in the order of arrival.
    order: u64,
}

/// A receive.
struct Posted<M, E> {
    source: Source,
    tag: Tag,
    outcome: Option<Result<Arrived<M>, E>>,
    waker: Option<Waker>,
}

impl<M, E> Posted<M, E> {
    fn waits_for(&self, from: usize, tag: u32) -> bool {
        self.outcome.is_none() && self.source.takes(from) && self.tag.takes(tag)
    }

    fn settle(&mut self, outcome: Result<Arrived<M>, E>) {
        self.outcome = Some(outcome);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The messages that no receive has taken, and the receives that have no message. Owned by the
/// state of a rank.
pub(crate) struct Matching<M, E> {
    unexpected: VecDeque<Arrived<M>>,
    /// By number, which is the order of posting.
    posted: BTreeMap<u64, Posted<M, E>>,
    arrived: u64,
    next: u64,
}

impl<M, E> Default for Matching<M, E> {
    fn default() -> Self {
        Matching { unexpected: VecDeque::new(), posted: BTreeMap::new(), arrived: 0, next: 0 }
    }
}

impl<M, E> Matching<M, E> {
    /// Takes a message in. Returns false if it waits for a receive.
    pub(crate) fn arrive(&mut self, from: usize, tag: u32, message: M) -> bool {
        self.arrived += 1;
        let arrived = Arrived { from, tag, message, order: self.arrived };
        match self.posted.values_mut().find(|posted| posted.waits_for(from, tag)) {
            Some(posted) => {
                posted.settle(Ok(arrived));
                true
            }
            None => {
                self.unexpected.push_back(arrived);
                false
            }
        }
    }

    /// Returns true if a receive waits for such a message.
    pub(crate) fn is_awaited(&self, from: usize, tag: u32) -> bool {
        self.posted.values().any(|posted| posted.waits_for(from, tag))
    }

    /// Posts a receive, and returns its number. Without a message it fails with `trouble`, if that
    /// is an error.
    pub(crate) fn post(&mut self, source: Source, tag: Tag, trouble: Option<E>) -> u64 {
        let number = self.next;
        self.next += 1;
        let found = self.position(source, tag).and_then(|at| self.unexpected.remove(at));
        let outcome = found.map(Ok).or(trouble.map(Err));
        self.posted.insert(number, Posted { source, tag, outcome, waker: None });
        number
    }

    /// Takes the outcome of a receive, which is over then.
    pub(crate) fn poll(&mut self, number: u64, waker: &Waker) -> Poll<Result<Arrived<M>, E>> {
        let Some(posted) = self.posted.get_mut(&number) else { return Poll::Pending };
        match posted.outcome.take() {
            Some(outcome) => {
                self.posted.remove(&number);
                Poll::Ready(outcome)
            }
            None => {
                posted.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// Ends a receive that is given up. Returns true if it had a message, which goes back.
    pub(crate) fn withdraw(&mut self, number: u64) -> bool {
        let posted = self.posted.remove(&number);
        let Some(Ok(arrived)) = posted.and_then(|posted| posted.outcome) else { return false };
        self.put_back(arrived);
        true
    }

    /// Gives a message that a receive had and did not use to the next receive that waits for it,
    /// or puts it back to its place in the order.
    pub(crate) fn put_back(&mut self, arrived: Arrived<M>) {
        let (from, tag) = (arrived.from, arrived.tag);
        match self.posted.values_mut().find(|posted| posted.waits_for(from, tag)) {
            Some(posted) => posted.settle(Ok(arrived)),
            None => {
                let at = self.unexpected.partition_point(|other| other.order < arrived.order);
                self.unexpected.insert(at, arrived);
            }
        }
    }

    /// Fails the receives without a message that `fails` gives an error for.
    pub(crate) fn fail(&mut self, mut fails: impl FnMut(Source) -> Option<E>) {
        for posted in self.posted.values_mut().filter(|posted| posted.outcome.is_none()) {
            if let Some(error) = fails(posted.source) {
                posted.settle(Err(error));
            }
        }
    }

    /// Returns the message that a receive would take.
    pub(crate) fn probe(&self, source: Source, tag: Tag) -> Option<&Arrived<M>> {
        self.position(source, tag).and_then(|at| self.unexpected.get(at))
    }

    fn position(&self, source: Source, tag: Tag) -> Option<usize> {
        self.unexpected
            .iter()
            .position(|arrived| source.takes(arrived.from) && tag.takes(arrived.tag))
    }
}
