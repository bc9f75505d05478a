//! Seeds: addresses that are dialled for as long as the node lives.
//!
//! - **MS-12 seeds are kept**: a seed is dialled, with backoff, until some node proves itself
//!   there, and again whenever that run of it has no link: by the task that reaches for the node,
//!   or, when there is none, by the seed's own. So a node that left, that started again elsewhere,
//!   or that had to wait for its name is found again, whether or not another node knows of it. Only
//!   a seed that leads to this node itself is not dialled again.

use std::sync::Arc;

use tokio::time::sleep;

use crate::bootstrap::Failure;
use crate::id::{Incarnation, NodeId};
use crate::limits;

use super::backoff::Backoff;
use super::connection::{self, DialFailure, Outcome};
use super::peer::Peer;
use super::table::Table;

/// Keeps the node that is at `address`, whichever it is, linked until this node closes.
pub(super) async fn keep(table: Arc<Table>, address: String) {
    let backoff = Backoff::new(&table.identity.entropy);
    Seed { table, address, backoff, met: None }.run().await;
}

struct Seed {
    table: Arc<Table>,
    address: String,
    backoff: Backoff,
    /// The node that proved itself there last.
    met: Option<(Arc<Peer>, Incarnation)>,
}

impl Seed {
    async fn run(mut self) {
        loop {
            let pause = if self.is_missing() {
                if !self.dial().await {
                    return;
                }
                self.backoff.pause()
            } else {
                limits::REDIAL_BACKOFF_MAX
            };
            tokio::select! {
                biased;
                () = self.table.events.closing() => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// Returns true if it is to be dialled now.
    fn is_missing(&mut self) -> bool {
        let Some((peer, run)) = &self.met else { return true };
        if peer.linked().is_some_and(|(node, _)| node.incarnation == *run) {
            self.backoff = Backoff::new(&self.table.identity.entropy);
            self.table.unmet.lock().remove(&self.address);
        }
        peer.is_missing(*run)
    }

    /// Tries it once. Returns false when it need not be tried again.
    async fn dial(&mut self) -> bool {
        let outcome = tokio::select! {
            biased;
            () = self.table.events.closing() => return false,
            outcome = connection::dial(&self.table, self.address.clone()) => outcome,
        };
        let Ok(Outcome { node, result }) = outcome else { return false };
        match (node, result) {
            (Some(node), result) => self.meet(node, result),
            (None, Err(DialFailure::Failed(Failure::SelfConnection))) => return false,
            (None, Err(failure)) => {
                let address = &self.address;
                if self.table.note_unmet(address, &failure.to_string()) {
                    tracing::info!(address, %failure, "a seed is not reached");
                }
            }
            (None, Ok(())) => {}
        }
        true
    }

    fn meet(&mut self, node: NodeId, result: Result<(), DialFailure>) {
        let NodeId { name, incarnation } = node;
        self.table.unmet.lock().remove(&self.address);
        if let Some((earlier, _)) = self.met.take().filter(|(peer, _)| *peer.name() != name) {
            earlier.left_seed(&self.address);
        }
        let peer = self.table.peer(&name);
        peer.met_at_seed(&self.address);
        match result.err().filter(|failure| !failure.is_dial_race()) {
            Some(failure) if failure.is_goodbye() => {
                peer.note(format!("{}: {failure}", self.address));
            }
            Some(failure) => peer.note_answer(format!("{}: {failure}", self.address)),
            None => {}
        }
        self.met = Some((peer, incarnation));
    }
}
