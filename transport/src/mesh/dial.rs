//! Reaching for peers that are wanted or were lost.
//!
//! - **MS-4 down**: a node that was linked is down, and reported so, when it left, or when nothing
//!   was heard of it for `down_after` since its last sign of life on a link; one that was not
//!   linked, when it was dialled for `down_after`. Then all senders that wait for a link fail, and
//!   from then on, until there is one, all at once; each has the node dialled for another
//!   `down_after`. Only patient senders wait on.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::id::NodeName;

use super::backoff::Backoff;
use super::connection::{self, Outcome};
use super::peer::{Peer, Plan};
use super::table::Table;

/// Starts a task for each peer that is to be reached.
pub(super) async fn serve_wants(table: Arc<Table>, mut wants: mpsc::UnboundedReceiver<NodeName>) {
    loop {
        let name = tokio::select! {
            biased;
            () = table.events.closing() => return,
            name = wants.recv() => name,
        };
        let Some(name) = name else { return };
        let dialler = Dialler::new(table.clone(), table.peer(&name));
        table.tasks.spawn(dialler.run());
    }
}

/// The task that reaches for one peer until there is a link, or no sender wants one and the node is
/// not missed.
struct Dialler {
    table: Arc<Table>,
    peer: Arc<Peer>,
    backoff: Backoff,
    /// Addresses of this round that were not tried yet.
    round: VecDeque<String>,
    /// The address that is being tried.
    attempt: Option<(String, oneshot::Receiver<Outcome>)>,
    /// Time at which the next one is to be tried.
    next: Instant,
    /// True if an address was known at the last look.
    known: bool,
}

impl Dialler {
    fn new(table: Arc<Table>, peer: Arc<Peer>) -> Self {
        let mut backoff = Backoff::new(&table.identity.entropy);
        let mut next = Instant::now();
        if peer.is_missed() {
            // Both sides redial: let them not do it at the same moment.
            next += backoff.pause();
        }
        Dialler { table, peer, backoff, round: VecDeque::new(), attempt: None, next, known: false }
    }

    async fn run(mut self) {
        loop {
            let until = match self.peer.plan(Instant::now()) {
                Plan::Stop => return,
                Plan::Wait(until) => until,
                Plan::Dial(addresses, until) => {
                    self.dial(addresses);
                    // While an attempt runs, its outcome decides what is next.
                    let next = self.attempt.is_none().then_some(self.next);
                    [until, next].into_iter().flatten().min()
                }
            };
            let table = self.table.clone();
            let peer = self.peer.clone();
            tokio::select! {
                biased;
                // The plan is to stop then.
                () = table.events.closing() => {}
                outcome = outcome(&mut self.attempt) => self.handle_outcome(outcome),
                () = peer.changed() => {}
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {}
            }
        }
    }

    /// Tries the next address, when it is time to.
    fn dial(&mut self, addresses: Vec<String>) {
        let now = Instant::now();
        let learned = !self.known && !addresses.is_empty();
        self.known = !addresses.is_empty();
        if self.attempt.is_some() || (now < self.next && !learned) {
            return;
        }
        if self.round.is_empty() {
            self.round = addresses.into();
        }
        match self.round.pop_front() {
            Some(address) => {
                let outcome = connection::dial(&self.table, address.clone());
                self.attempt = Some((address, outcome));
            }
            None => {
                self.peer.note(self.table.why_unknown());
                self.table.ask_for(self.peer.name());
                self.next = now + self.backoff.pause();
            }
        }
    }

    fn handle_outcome(&mut self, outcome: Option<Outcome>) {
        let Some((address, _)) = self.attempt.take() else { return };
        if self.round.is_empty() {
            self.next = Instant::now() + self.backoff.pause();
        }
        let Some(Outcome { node, result }) = outcome else { return };
        match (node, result) {
            (Some(node), _) if node.name != *self.peer.name() => {
                self.peer.note(format!("at {address} there is another node, `{}`", node.name));
            }
            // There is about to be a link.
            (_, Err(failure)) if failure.is_dial_race() => {}
            (Some(_), Err(failure)) if !failure.is_goodbye() => {
                self.peer.note_answer(format!("{address}: {failure}"));
            }
            (_, Err(failure)) => self.peer.note(format!("{address}: {failure}")),
            (_, Ok(())) => {}
        }
    }
}

/// Returns the outcome of the attempt that runs; never ready when none does.
async fn outcome(attempt: &mut Option<(String, oneshot::Receiver<Outcome>)>) -> Option<Outcome> {
    match attempt {
        Some((_, outcome)) => outcome.await.ok(),
        None => std::future::pending().await,
    }
}
