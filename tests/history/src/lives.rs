//! The lives of a mailbox: from its opening, or the start of its node's run, to its closing, or the
//! end of the run. A life that was killed or closed loses the messages still in the mailbox.

use std::collections::{BTreeMap, BTreeSet};

use crate::books::{Books, Handled, Name};

/// The messages of one stream that a lost life may have taken with it: those between the last that
/// it handled and the first that a later one did.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Above the first number, where there is one, and below the second.
    gaps: BTreeSet<(Option<u64>, Option<u64>)>,
}

impl Losses {
    /// `handled` is of one stream to the mailbox `to`.
    pub(crate) fn of(books: &Books, to: (Name, Name), handled: &[Handled]) -> Self {
        let mut bounds: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
        for Handled { life, number, .. } in handled {
            let (first, last) = bounds.entry(*life).or_insert((*number, *number));
            *first = (*first).min(*number);
            *last = (*last).max(*number);
        }
        let gap = |life: (u64, u64)| {
            let last = bounds.range(..=life).map(|(_, (_, last))| *last).max();
            let later = bounds.range(life..).filter(|(other, _)| **other != life);
            (last, later.map(|(_, (first, _))| *first).min())
        };
        let runs = books.logs.iter().filter(|log| log.node == to.0);
        let lost = runs.flat_map(|log| {
            let closed = books.closed.get(&to).and_then(|runs| runs.get(&log.run));
            let closed = closed.copied().unwrap_or_default();
            // The last life of a run that ended in order handled all that was in it.
            let lost = closed + u64::from(log.ended.is_none());
            (0..lost).map(|count| (log.run, count))
        });
        Losses { gaps: lost.map(gap).collect() }
    }

    /// Returns true if the message may have been lost in its mailbox.
    pub(crate) fn may_hold(&self, number: u64) -> bool {
        self.gaps.iter().any(|(last, first)| {
            last.is_none_or(|last| last < number) && first.is_none_or(|first| number < first)
        })
    }
}
