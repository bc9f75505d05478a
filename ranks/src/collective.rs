//! Collective operations: calls that all ranks of a world make, in the same order.
//!
//! Each method begins its operation when it is called, and returns a future that does it. All ranks
//! meet in each operation: none returns before all have called it, so that a call that differs, or
//! a rank that is gone, is an error on all of them. Operations whose data does not reach every rank
//! run a dissemination barrier (`meet`) at the same time.

mod all_gather;
mod all_reduce;
mod all_to_all;
mod barrier;
mod broadcast;
mod gather;
mod halving;
mod reduce;
mod scan;
mod scatter;
mod values;

pub use all_to_all::Exchange;
pub(crate) use barrier::meet;

use std::ops::Range;

use crate::call::Call;
use crate::error::WorldError;
use crate::packet::Element;

/// The type of operations that carry no elements.
const NOTHING: Element = Element { id: 0, size: 0 };

/// Returns the elements of part `index` when `len` elements are split evenly.
fn part(len: usize, parts: usize, index: usize) -> Range<usize> {
    let (each, more) = (len / parts, len % parts);
    let start = index * each + index.min(more);
    start..start + each + usize::from(index < more)
}

/// Checks the length of a slice that the caller gave.
fn check_len(what: &'static str, found: usize, needed: usize) -> Result<(), WorldError> {
    let error = WorldError::WrongLength { what, found, needed };
    (found == needed).then_some(()).ok_or(error)
}

/// Returns what each rank says of itself when a world is split.
pub(crate) async fn part_of_split(
    call: &Call,
    mine: &[i64; 3],
) -> Result<Vec<[i64; 3]>, WorldError> {
    let all = all_gather::gather(call, mine).await?;
    Ok(all.chunks_exact(3).map(|three| [three[0], three[1], three[2]]).collect())
}
