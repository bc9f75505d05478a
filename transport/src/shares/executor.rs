//! The executor of the atomic operations on a memory, and the waiting executors (SM-3).

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use crate::fabric::one_sided::Executor;
use crate::id::ShareId;
use crate::limits::{EXECUTOR_KEPT, EXECUTOR_RESERVED};
use crate::mutants::planted;

/// The executor of atomic operations on a memory, and by which shares queue pairs have it.
pub(super) struct Bound {
    pub(super) executor: Executor,
    /// How many queue pairs hold it by each share: those alone are recalled.
    pub(super) holders: BTreeMap<ShareId, usize>,
    /// Time at which the first of them had it.
    pub(super) begun: Instant,
    /// It is kept for the executor, though no queue pair has it.
    pub(super) kept: Option<Waiting>,
    /// Executors that were refused it, each once, in the order of their turns. There are as many as
    /// this node has devices, and its processor.
    pub(super) waiting: Vec<Waiting>,
}

/// An executor that waits for its turn, or whose turn it is and that waits for a queue pair.
pub(super) struct Waiting {
    pub(super) executor: Executor,
    /// Time of its last refusal, or of the beginning of its turn.
    since: Instant,
    pub(super) asking: Asking,
}

/// Stands for an ASK that has no answer yet: while it is kept, the executor that was refused, or
/// whose turn it is, is waited for.
#[derive(Clone)]
pub(crate) struct Asking(Arc<()>);

impl Waiting {
    fn new(executor: &Executor) -> Self {
        let (since, asking) = (Instant::now(), Asking(Arc::default()));
        Waiting { executor: executor.clone(), since, asking }
    }

    /// Returns true if it has asked lately enough to be waited for, or has no answer.
    fn asks_still(&self) -> bool {
        Arc::strong_count(&self.asking.0) > 1 || self.since.elapsed() < EXECUTOR_RESERVED
    }
}

impl Bound {
    pub(super) fn new(executor: Executor) -> Self {
        let (begun, waiting) = (Instant::now(), Vec::new());
        Bound { executor, holders: BTreeMap::new(), begun, kept: None, waiting }
    }

    /// Gives the atomics to the next waiting executor, if no queue pair has them and they are kept
    /// for none. Returns false if no executor has them then.
    pub(super) fn settle(&mut self) -> bool {
        if !self.holders.is_empty() || self.kept.as_ref().is_some_and(Waiting::asks_still) {
            return true;
        }
        self.waiting.retain(Waiting::asks_still);
        if self.waiting.is_empty() {
            return false;
        }
        let next = self.waiting.remove(0);
        self.executor = next.executor.clone();
        self.kept = Some(Waiting { since: Instant::now(), ..next });
        true
    }

    /// Returns true if one queue pair more may have it by this executor.
    pub(super) fn is_for(&self, executor: &Executor) -> bool {
        let is_young = self.holders.is_empty() || self.begun.elapsed() < EXECUTOR_KEPT;
        let other_waits =
            || self.waiting.iter().any(|it| it.executor != *executor && it.asks_still());
        self.executor == *executor && (is_young || !other_waits() || planted!(NoTurn))
    }

    /// Takes note that an executor was refused it, or asks again in its turn. Returns its place.
    pub(super) fn note_asked(&mut self, executor: &Executor) -> Option<&Waiting> {
        if self.is_for(executor) {
            let kept = self.kept.as_mut()?;
            kept.since = Instant::now();
            return Some(kept);
        }
        self.waiting.retain(Waiting::asks_still);
        let known = self.waiting.iter().position(|it| it.executor == *executor);
        let at = known.unwrap_or_else(|| {
            self.waiting.push(Waiting::new(executor));
            self.waiting.len() - 1
        });
        self.waiting[at].since = Instant::now();
        self.waiting.get(at)
    }
}
