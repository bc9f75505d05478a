//! The jobs that a pool was sent, and that its workers began, in the order in which it happened.

use std::sync::Arc;

use parking_lot::Mutex;
use ringpost::Address;
use ringpost::prelude::*;

/// The first number of the senders that wait while the pool ends.
pub(super) const LATE: usize = 10;
/// A job that a worker asks its own pool for has the number of the worker's job plus this.
pub(super) const ASIDE: u64 = 1_000_000;

/// One job that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) number: u64,
    pub(super) key: u64,
    /// The sender, which sends one job after the other. Senders of other nodes, and one of this
    /// node, use the router.
    pub(super) sender: usize,
    pub(super) fate: Fate,
    /// In which stretch between two changes of the pool it was sent.
    pub(super) stretch: u64,
}

/// A job's outcome, as its sender knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It may be handled, or not.
    Unknown,
    /// A worker has it.
    Taken,
    /// The router has it, or it is on its way there.
    Routed,
    /// It was certainly not handled, and never is.
    Refused,
    /// A worker answered.
    Answered,
}

impl Fate {
    /// Returns what an answer says of a job.
    pub(super) fn of(number: u64, answer: Result<u64, AskError>) -> Self {
        match answer {
            Ok(answer) => {
                assert_eq!(answer, number, "the answer is of another job");
                Fate::Answered
            }
            Err(AskError { cause: AskCause::NotSent(_) | AskCause::NotBegun(_), .. }) => {
                Fate::Refused
            }
            Err(_) => Fate::Unknown,
        }
    }
}

/// A job that a worker began.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) number: u64,
    pub(super) worker: Address,
    pub(super) stretch: u64,
}

/// The workers of a stretch, in their places.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) number: u64,
    pub(super) workers: Vec<Address>,
}

/// The book of a scene. Clones are the same book.
#[derive(Clone, Default)]
pub(super) struct Book(Arc<Mutex<Pages>>);

#[derive(Default)]
pub(super) struct Pages {
    stretch: u64,
    pub(super) sent: Vec<Sent>,
    pub(super) begun: Vec<Begun>,
    pub(super) stretches: Vec<Stretch>,
    /// Workers that are there.
    living: usize,
    /// Jobs in the hands of workers may have been lost, and asks refused.
    pub(super) is_troubled: bool,
    /// Jobs that workers had may have been lost before they began them.
    pub(super) loses_taken: bool,
    /// Jobs that the router had, or that were on their way to it, may have been lost.
    pub(super) loses_routed: bool,
    /// The pool was drained, or its node shut down: it handles the jobs it accepted before.
    pub(super) is_drained: bool,
    /// The dead letters of actors that had stopped, on the node of the pool.
    pub(super) letters: u64,
    /// The rules that were broken where an assertion would end a worker, and not the test.
    pub(super) breaches: Vec<String>,
}

/// A fault that was done to the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// A worker ends with its job, and keeps the waiting jobs.
    Kill,
    /// A worker is closed for a while, or ends without a restart.
    Stop,
    /// Messages to the router are lost.
    Far,
}

impl Book {
    /// Notes a job that is about to be sent.
    pub(super) fn send(&self, number: u64, key: u64, sender: usize) {
        let mut pages = self.0.lock();
        let stretch = pages.stretch;
        pages.sent.push(Sent { number, key, sender, fate: Fate::Unknown, stretch });
    }

    pub(super) fn settle(&self, number: u64, fate: Fate) {
        let mut pages = self.0.lock();
        let sent = pages.sent.iter_mut().find(|sent| sent.number == number);
        sent.expect("it was sent").fate = fate;
    }

    pub(super) fn begin(&self, number: u64, worker: &Address) {
        let mut pages = self.0.lock();
        let stretch = pages.stretch;
        pages.begun.push(Begun { number, worker: worker.clone(), stretch });
    }

    /// Ends a stretch: the workers change, or the router does.
    pub(super) fn change(&self) {
        self.0.lock().stretch += 1;
    }

    /// Notes the workers of this stretch.
    pub(super) fn begin_stretch(&self, workers: Vec<Address>) {
        let mut pages = self.0.lock();
        let number = pages.stretch;
        pages.stretches.push(Stretch { number, workers });
    }

    /// Returns how many jobs wait that a worker or the router has.
    pub(super) fn waiting(&self) -> usize {
        let pages = self.0.lock();
        let begun = |number| pages.begun.iter().any(|begun| begun.number == number);
        let is_accepted = |sent: &&Sent| matches!(sent.fate, Fate::Taken | Fate::Routed);
        pages.sent.iter().filter(is_accepted).filter(|sent| !begun(sent.number)).count()
    }

    pub(super) fn is_made(&self) {
        self.0.lock().living += 1;
    }

    pub(super) fn is_gone(&self) {
        self.0.lock().living -= 1;
    }

    pub(super) fn living(&self) -> usize {
        self.0.lock().living
    }

    pub(super) fn trouble(&self, trouble: Trouble) {
        let mut pages = self.0.lock();
        pages.is_troubled = true;
        pages.loses_taken |= trouble == Trouble::Stop;
        pages.loses_routed |= trouble != Trouble::Kill;
    }

    /// Notes that the pool is about to be drained.
    pub(super) fn is_drained(&self) {
        self.0.lock().is_drained = true;
    }

    /// Notes that a rule was broken.
    pub(super) fn breach(&self, text: String) {
        self.0.lock().breaches.push(text);
    }

    pub(super) fn is_troubled(&self) -> bool {
        self.0.lock().is_troubled
    }

    /// Takes the notes, and adds the number of dead letters.
    pub(super) fn close(&self, letters: u64) -> Pages {
        Pages { letters, ..std::mem::take(&mut *self.0.lock()) }
    }
}
