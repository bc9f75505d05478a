//! All-reduce and reduce-scatter: recursive doubling for short data, Rabenseifner's algorithm for
//! long data (Thakur, Rabenseifner and Gropp 2005), or in the order of the ranks.

use super::halving::{self, Team};
use super::{check_len, part};
use crate::call::Call;
use crate::error::WorldError;
use crate::operation::Operation;
use crate::packet::{Element, Head};
use crate::status::Plain;
use crate::world::World;

/// Least size, in bytes, for Rabenseifner's algorithm.
pub(super) const LONG_BYTES: usize = 16 << 10;

impl World {
    /// Combines the elements of all ranks, each with those at its place, and gives all ranks the
    /// result, which is the same to the bit on all of them.
    ///
    /// Below 16 KiB by recursive doubling, else by a reduce-scatter and an all-gather
    /// (Rabenseifner; Thakur, Rabenseifner and Gropp 2005). [`Ordered`](crate::Ordered) operations
    /// combine in the order of the ranks: each rank its part of the elements, which then is
    /// gathered everywhere.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier). After an error the slice may be written in part.
    pub fn all_reduce<'a, T: Plain, O: Operation<T> + 'a>(
        &self,
        elements: &'a mut [T],
        operation: O,
    ) -> impl Future<Output = Result<(), WorldError>> + Send + use<'a, T, O> {
        let head = Head::new("all_reduce", 0, Element::of::<T>(), elements.len()).with::<O>();
        let call = Call::begin(self, head);
        async move {
            let reduced = reduce(&call, elements, &operation).await;
            call.end(reduced)
        }
    }

    /// Combines the elements of all ranks, and returns the block of this rank. All
    /// blocks have the same length, so `elements` has a multiple of `size()` elements.
    ///
    /// Pairwise exchange (Thakur, Rabenseifner and Gropp 2005): each rank gets its block of all
    /// others, and combines them in the order of the ranks.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier), and [`WrongLength`](WorldError::WrongLength).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn reduce_scatter<'a, T: Plain, O: Operation<T> + 'a>(
        &self,
        elements: &'a [T],
        operation: O,
    ) -> impl Future<Output = Result<Vec<T>, WorldError>> + Send + use<'a, T, O> {
        let head = Head::new("reduce_scatter", 0, Element::of::<T>(), elements.len()).with::<O>();
        let call = Call::begin(self, head);
        async move {
            let reduced = scatter(&call, elements, &operation).await;
            call.end(reduced)
        }
    }
}

async fn reduce<T: Plain, O: Operation<T>>(
    call: &Call,
    elements: &mut [T],
    operation: &O,
) -> Result<(), WorldError> {
    if operation.is_ordered() {
        return ordered(call, elements, operation).await;
    }
    let team = Team::new(call);
    team.fold(call, elements, operation).await?;
    if let Some(place) = team.place() {
        if size_of_val(elements) < LONG_BYTES {
            halving::doubling(call, &team, place, elements, operation).await?;
        } else {
            halving::reduce_scatter(call, &team, place, elements, operation).await?;
            halving::all_gather(call, &team, place, elements).await?;
        }
    }
    team.unfold(call, elements).await
}

/// Combines a part of the elements on each rank, and gathers the parts everywhere.
async fn ordered<T: Plain, O: Operation<T>>(
    call: &Call,
    elements: &mut [T],
    operation: &O,
) -> Result<(), WorldError> {
    let (rank, size, len) = (call.rank(), call.size(), elements.len());
    let block = |index| part(len, size, index);
    let mine = halving::in_order(call, elements, block, operation).await?;
    elements[block(rank)].copy_from_slice(&mine);
    let neighbours = ((rank + 1) % size, (rank + size - 1) % size);
    super::all_gather::ring(call, rank, neighbours, elements, block, 0).await
}

async fn scatter<T: Plain, O: Operation<T>>(
    call: &Call,
    elements: &[T],
    operation: &O,
) -> Result<Vec<T>, WorldError> {
    let len = elements.len() / call.size();
    check_len("`elements`", elements.len(), call.size() * len)?;
    halving::in_order(call, elements, |index| index * len..(index + 1) * len, operation).await
}
