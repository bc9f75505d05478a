//! One round of dials: every address of a want, until all have answered or failed. Owned by its
//! [`Dialler`](super::Dialler); dropping it gives up the attempts that have not met a node.
//!
//! A name is looked up in each round, so that a change is followed, and each of its addresses is
//! tried. An attempt begins when the one before has failed, or was silent for `DIAL_STAGGER`, so
//! that addresses that answer nothing hide no other. The dial of an address that a peer has told
//! needs a permit, for which one at a time waits: no peer can use up the node's sockets.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep_until};

use crate::limits;
use crate::mesh::peer::Target;
use crate::mesh::table::{DialPermit, Table, Urgency};
use crate::mutants::planted;

use super::attempt::{self, Outcome};

/// One round of dials.
pub(super) struct Race {
    table: Arc<Table>,
    /// Addresses that wait for their turn, by rank.
    waiting: VecDeque<Address>,
    /// Look-ups and attempts.
    running: FuturesUnordered<BoxFuture<'static, Step>>,
    attempts: usize,
    /// The permit that the next attempt waits for.
    permit: Option<BoxFuture<'static, DialPermit>>,
    urgency: Urgency,
    /// Time at which the next attempt begins even if others still run.
    next: Instant,
    /// Names and addresses of this round: each is tried once.
    tried: BTreeSet<String>,
}

/// An address that is dialled.
#[derive(Debug, Clone)]
pub(super) struct Address {
    /// The place of its target among all of them, best first.
    rank: usize,
    /// The name or address that led there.
    pub(super) target: Target,
    pub(super) address: String,
}

/// An event of a round.
pub(super) enum Step {
    /// The name of this rank was looked up: the caller [adds](Race::add) the addresses to dial.
    Found(usize, Target, io::Result<Vec<String>>),
    /// An attempt is over; without an outcome, the node is closing.
    Over(Address, Option<Outcome>),
}

impl Race {
    pub(super) fn new(table: Arc<Table>) -> Self {
        let (waiting, running, tried) = Default::default();
        let (next, permit, urgency) = (Instant::now(), None, Urgency::Wanted);
        Race { table, waiting, running, attempts: 0, permit, urgency, next, tried }
    }

    /// Begins a round with these, best first. To be called when the one before is over.
    pub(super) fn begin(&mut self, targets: Vec<Target>, urgency: Urgency) {
        self.tried.clear();
        (self.permit, self.urgency) = (None, urgency);
        self.next = Instant::now();
        self.add_targets(targets);
    }

    /// Adds the targets, given best first, that were not tried in this round.
    pub(super) fn add_targets(&mut self, targets: Vec<Target>) {
        for (rank, target) in targets.into_iter().enumerate() {
            match self.table.network.wire.resolve(&target.name, target.told) {
                None => self.add(rank, &target, vec![target.name.clone()]),
                Some(found) if self.tried.insert(target.name.clone()) => {
                    let found = found.map(move |found| Step::Found(rank, target, found));
                    self.running.push(found.boxed());
                }
                Some(_) => {}
            }
        }
    }

    /// Adds addresses of the target of this rank. They go before waiting addresses of later ranks,
    /// so a name that is slow to be looked up keeps its place.
    pub(super) fn add(&mut self, rank: usize, target: &Target, addresses: Vec<String>) {
        for address in addresses {
            if self.tried.len() < limits::ROUND_ADDRESSES_MAX && self.tried.insert(address.clone())
            {
                let at = self.waiting.partition_point(|waits| waits.rank <= rank);
                self.waiting.insert(at, Address { rank, target: target.clone(), address });
            }
        }
    }

    /// Makes this round as urgent as that, if it is less.
    pub(super) fn hasten(&mut self, urgency: Urgency) {
        if urgency > self.urgency {
            (self.permit, self.urgency) = (None, urgency);
        }
    }

    /// Returns true if nothing is left to be tried or waited for.
    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Returns what happens next; never ready when the round is over.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn step(&mut self) -> Step {
        loop {
            let is_due = self.attempts == 0 || (Instant::now() >= self.next && !planted!(InTurn));
            if is_due && self.start_first() {
                continue;
            }
            let waits = !self.waiting.is_empty() && !is_due && !planted!(InTurn);
            let permit = async {
                match &mut self.permit {
                    Some(permit) => permit.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                permit = permit => {
                    let told = self.waiting.iter().position(|address| address.target.told);
                    self.start(told, Some(permit));
                }
                Some(step) = self.running.next() => {
                    if let Step::Over(..) = step {
                        self.attempts -= 1;
                        self.next = Instant::now();
                    }
                    return step;
                }
                () = sleep_until(self.next), if waits => {}
                else => std::future::pending().await,
            }
        }
    }

    /// Starts the attempt at the first address, or, while that waits for a permit, at the first one
    /// that needs none: a seed, say. Returns false when there is none to be started.
    fn start_first(&mut self) -> bool {
        let Some(first) = self.waiting.front() else { return false };
        let permit = match first.target.told {
            true => {
                let permit = self.table.dial_permit(self.urgency);
                self.permit.get_or_insert_with(|| permit.boxed()).now_or_never()
            }
            false => None,
        };
        let needs_none = permit.is_none();
        let is_free = |address: &Address| !(needs_none && address.target.told);
        let at = self.waiting.iter().position(is_free);
        self.start(at, permit);
        at.is_some()
    }

    fn start(&mut self, at: Option<usize>, permit: Option<DialPermit>) {
        if permit.is_some() {
            self.permit = None;
        }
        let Some(address) = at.and_then(|at| self.waiting.remove(at)) else { return };
        let outcome = attempt::dial(&self.table, address.address.clone(), permit);
        let over = outcome.map(|outcome| Step::Over(address, outcome.ok()));
        self.running.push(over.boxed());
        self.attempts += 1;
        self.next = Instant::now() + limits::DIAL_STAGGER;
    }
}
