//! One round of dials: every address of a want, until all have answered or failed. Owned by its
//! [`Dialler`](super::dial::Dialler); dropping it gives up the attempts that have not met a node.
//!
//! - **WR-1 every address**: a name is looked up in each round, so that a change is followed, and
//!   each of its addresses is tried. An attempt begins when the one before has failed, or was
//!   silent for `DIAL_STAGGER`, so that addresses that answer nothing hide no other.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep_until};

use crate::limits;
use crate::mutants::planted;

use super::connection::{self, Outcome};
use super::table::Table;

/// One round of dials.
pub(super) struct Race {
    table: Arc<Table>,
    /// Targets that are not names, and the addresses of those that are, which wait for their turn.
    waiting: VecDeque<Address>,
    /// Look-ups and attempts.
    running: FuturesUnordered<BoxFuture<'static, Step>>,
    attempts: usize,
    /// Peers say what is dialled.
    told: bool,
    /// Time at which the next attempt begins beside those that run.
    next: Instant,
    /// Addresses of this round: each is tried once.
    tried: BTreeSet<String>,
}

/// An address that is dialled.
#[derive(Debug, Clone)]
pub(super) struct Address {
    /// The name or address that led there.
    pub(super) target: String,
    pub(super) address: String,
}

/// What happened in a round.
pub(super) enum Step {
    /// A name was looked up: what is to be dialled of it has to be [added](Race::add).
    Found(String, io::Result<Vec<String>>),
    /// An attempt is over; without an outcome, the node is closing.
    Over(Address, Option<Outcome>),
}

impl Race {
    pub(super) fn new(table: Arc<Table>) -> Self {
        let (waiting, running, tried) = Default::default();
        Race { table, waiting, running, attempts: 0, told: false, next: Instant::now(), tried }
    }

    /// Begins a round. To be called when the one before is over.
    pub(super) fn begin(&mut self, targets: Vec<String>, told: bool) {
        self.tried.clear();
        (self.told, self.next) = (told, Instant::now());
        self.add_targets(targets, told);
    }

    /// Adds names and addresses, ahead of those that wait; those that were tried in this round are
    /// passed over. `told` says that peers, and not the user, name them.
    pub(super) fn add_targets(&mut self, targets: Vec<String>, told: bool) {
        let behind = std::mem::take(&mut self.waiting);
        for target in targets {
            match self.table.network.wire.resolve(&target, told) {
                None => self.add(&target, vec![target.clone()]),
                Some(found) if self.tried.insert(target.clone()) => {
                    let found = found.map(|found| Step::Found(target, found));
                    self.running.push(found.boxed());
                }
                Some(_) => {}
            }
        }
        self.waiting.extend(behind);
    }

    /// Adds addresses to which `target` leads.
    pub(super) fn add(&mut self, target: &str, addresses: Vec<String>) {
        for address in addresses {
            if self.tried.len() < limits::ROUND_ADDRESSES_MAX && self.tried.insert(address.clone())
            {
                self.waiting.push_back(Address { target: target.into(), address });
            }
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
            if self.attempts == 0 || (Instant::now() >= self.next && !planted!(InTurn)) {
                self.start();
            }
            tokio::select! {
                biased;
                Some(step) = self.running.next() => {
                    if let Step::Over(..) = step {
                        self.attempts -= 1;
                        self.next = Instant::now();
                    }
                    return step;
                }
                () = sleep_until(self.next), if !self.waiting.is_empty() && !planted!(InTurn) => {}
                else => std::future::pending().await,
            }
        }
    }

    fn start(&mut self) {
        let Some(address) = self.waiting.pop_front() else { return };
        let outcome = connection::dial(&self.table, address.address.clone(), self.told);
        let over = outcome.map(|outcome| Step::Over(address, outcome.ok()));
        self.running.push(over.boxed());
        self.attempts += 1;
        self.next = Instant::now() + limits::DIAL_STAGGER;
    }
}
