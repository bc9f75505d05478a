//! The shared part of reductions of long data: reduce-scatter by recursive halving, on a number of
//! ranks that is a power of two (Rabenseifner; Thakur, Rabenseifner and Gropp 2005). Blocks of
//! neighbouring ranks are combined first, so that the operation need not be commutative.

use std::ops::Range;

use crate::call::Call;
use crate::calls::fold;
use crate::error::WorldError;
use crate::operation::Operation;
use crate::status::Plain;

/// Steps before and after the exchange among a power of two of ranks.
pub(super) const FOLD: u32 = 1 << 20;
const UNFOLD: u32 = FOLD + 1;

/// The ranks that take part in an exchange: the greatest power of two of them. Of the first ranks,
/// as many pairs as there are ranks too many, the odd ones stand for both.
pub(super) struct Team {
    rank: usize,
    /// Pairs that one rank stands for.
    pairs: usize,
    /// Members: a power of two.
    pub(super) size: usize,
}

impl Team {
    pub(super) fn new(call: &Call) -> Self {
        let size = 1 << call.size().ilog2();
        Team { rank: call.rank(), pairs: call.size() - size, size }
    }

    /// Returns this rank's place in the team; `None` if another one stands for it.
    pub(super) fn place(&self) -> Option<usize> {
        match self.rank < 2 * self.pairs {
            true => (self.rank % 2 == 1).then_some(self.rank / 2),
            false => Some(self.rank - self.pairs),
        }
    }

    /// Returns the rank of a place.
    pub(super) fn rank_of(&self, place: usize) -> usize {
        if place < self.pairs { 2 * place + 1 } else { place + self.pairs }
    }

    /// Gives the elements of ranks outside the team to the members that stand for them.
    pub(super) async fn fold<T: Plain, O: Operation<T>>(
        &self,
        call: &Call,
        elements: &mut [T],
        operation: &O,
    ) -> Result<(), WorldError> {
        if self.rank < 2 * self.pairs {
            if self.rank.is_multiple_of(2) {
                return call.send(self.rank + 1, FOLD, elements).await;
            }
            let piece = call.receive_exact(self.rank - 1, FOLD, elements).await?;
            piece.fold(operation, elements, true);
        }
        Ok(())
    }

    /// Gives the result to the ranks that are not in the team.
    pub(super) async fn unfold<T: Plain>(
        &self,
        call: &Call,
        elements: &mut [T],
    ) -> Result<(), WorldError> {
        if self.rank < 2 * self.pairs {
            if self.rank % 2 == 1 {
                return call.send(self.rank - 1, UNFOLD, elements).await;
            }
            call.receive_into(self.rank + 1, UNFOLD, elements).await?;
        }
        Ok(())
    }
}

/// Returns the elements that a place has at last when `len` elements are halved: by the lowest bit
/// of the place first.
pub(super) fn segment(len: usize, team: usize, place: usize) -> Range<usize> {
    let mut segment = 0..len;
    let mut mask = 1;
    while mask < team {
        segment = half(&segment, place & mask != 0);
        mask *= 2;
    }
    segment
}

/// Returns the lower or the upper half.
fn half(range: &Range<usize>, is_upper: bool) -> Range<usize> {
    let middle = range.start + range.len() / 2;
    if is_upper { middle..range.end } else { range.start..middle }
}

/// Reduces all elements, of which each place gets its segment.
pub(super) async fn reduce_scatter<T: Plain, O: Operation<T>>(
    call: &Call,
    team: &Team,
    place: usize,
    elements: &mut [T],
    operation: &O,
) -> Result<(), WorldError> {
    let mut mine = 0..elements.len();
    let (mut mask, mut step) = (1, 0);
    while mask < team.size {
        let other = team.rank_of(place ^ mask);
        let is_upper = place & mask != 0;
        let theirs = half(&mine, !is_upper);
        mine = half(&mine, is_upper);
        call.send(other, step, &elements[theirs]).await?;
        let kept = &mut elements[mine.clone()];
        let piece = call.receive_exact(other, step, kept).await?;
        piece.fold(operation, kept, is_upper);
        mask *= 2;
        step += 1;
    }
    Ok(())
}

/// Gathers the segments of all places on each, the way back of `reduce_scatter`.
pub(super) async fn all_gather<T: Plain>(
    call: &Call,
    team: &Team,
    place: usize,
    elements: &mut [T],
) -> Result<(), WorldError> {
    let len = elements.len();
    let (mut mask, mut step) = (team.size / 2, 32);
    while mask > 0 {
        let other = team.rank_of(place ^ mask);
        // Both had this segment before the halving by this bit.
        let both = segment(len, mask, place & (mask - 1));
        let mine = half(&both, place & mask != 0);
        let theirs = half(&both, place & mask == 0);
        call.send(other, step, &elements[mine]).await?;
        call.receive_into(other, step, &mut elements[theirs]).await?;
        mask /= 2;
        step += 1;
    }
    Ok(())
}

/// Combines the elements of all ranks by exchanging all of them with one rank after the other:
/// recursive doubling.
pub(super) async fn doubling<T: Plain, O: Operation<T>>(
    call: &Call,
    team: &Team,
    place: usize,
    elements: &mut [T],
    operation: &O,
) -> Result<(), WorldError> {
    let (mut mask, mut step) = (1, 0);
    while mask < team.size {
        let other = team.rank_of(place ^ mask);
        call.send(other, step, elements).await?;
        let piece = call.receive_exact(other, step, elements).await?;
        piece.fold(operation, elements, place & mask != 0);
        mask *= 2;
        step += 1;
    }
    Ok(())
}

/// Gives each rank its block of all elements, and combines those in the order of the ranks.
pub(super) async fn in_order<T: Plain, O: Operation<T>>(
    call: &Call,
    elements: &[T],
    block: impl Fn(usize) -> Range<usize>,
    operation: &O,
) -> Result<Vec<T>, WorldError> {
    let (rank, size) = (call.rank(), call.size());
    for to in (1..size).map(|distance| (rank + distance) % size) {
        call.send(to, FOLD, &elements[block(to)]).await?;
    }
    let mine = &elements[block(rank)];
    let mut reduced = Vec::new();
    for from in 0..size {
        if from == rank {
            match reduced.is_empty() {
                true => reduced = mine.to_vec(),
                false => fold(operation, &mut reduced, mine, false),
            }
            continue;
        }
        let piece = call.receive_exact(from, FOLD, mine).await?;
        match reduced.is_empty() {
            true => reduced = piece.to_vec(),
            false => piece.fold(operation, &mut reduced, false),
        }
    }
    Ok(reduced)
}
