//! Reduce: by a binomial tree, or for long data by a reduce-scatter and a gather (Rabenseifner;
//! Thakur, Rabenseifner and Gropp 2005), or in the order of the ranks.

use futures::future::try_join;

use super::all_reduce::LONG_BYTES;
use super::barrier::meet;
use super::halving::{self, Team, segment};
use super::part;
use crate::call::Call;
use crate::error::WorldError;
use crate::operation::Operation;
use crate::packet::{Element, Head};
use crate::status::Plain;
use crate::world::World;

/// The steps in which the root gets the result.
const RESULT: u32 = 1 << 21;

impl World {
    /// Combines the elements of all ranks, each with those at its place, and gives the result to
    /// the root. The slices of the other ranks are as they were.
    ///
    /// Below 16 KiB by a binomial tree to rank 0, which sends the result to the root; else by
    /// recursive halving and a gather at the root (Rabenseifner; Thakur, Rabenseifner and Gropp
    /// 2005). [`Ordered`](crate::Ordered) operations combine in the order of the ranks.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier), and [`NoSuchRank`](WorldError::NoSuchRank).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier). After an error the root's slice may be written in part.
    pub fn reduce<'a, T: Plain, O: Operation<T> + 'a>(
        &self,
        root: usize,
        elements: &'a mut [T],
        operation: O,
    ) -> impl Future<Output = Result<(), WorldError>> + Send + use<'a, T, O> {
        let head = Head::new("reduce", root, Element::of::<T>(), elements.len()).with::<O>();
        let call = Call::begin(self, head);
        async move {
            let reduced = try_join(meet(&call), at_root(&call, root, elements, &operation)).await;
            call.end(reduced.map(|_| ()))
        }
    }
}

async fn at_root<T: Plain, O: Operation<T>>(
    call: &Call,
    root: usize,
    elements: &mut [T],
    operation: &O,
) -> Result<(), WorldError> {
    call.check_rank(root)?;
    if operation.is_ordered() {
        let (size, len) = (call.size(), elements.len());
        let block = |index| part(len, size, index);
        let mine = halving::in_order(call, elements, block, operation).await?;
        let places = (0..size).map(|rank| (rank, block(rank)));
        return collect(call, root, Some(&mine), places, elements).await;
    }
    let mut scratch = elements.to_vec();
    if size_of_val(elements) < LONG_BYTES {
        binomial(call, &mut scratch, operation).await?;
        let result = (call.rank() == 0).then_some(&*scratch);
        return collect(call, root, result, [(0, 0..elements.len())].into_iter(), elements).await;
    }
    let team = Team::new(call);
    team.fold(call, &mut scratch, operation).await?;
    let place = team.place();
    if let Some(place) = place {
        halving::reduce_scatter(call, &team, place, &mut scratch, operation).await?;
    }
    let len = elements.len();
    let places = (0..team.size).map(|place| (team.rank_of(place), segment(len, team.size, place)));
    let mine = place.map(|place| &scratch[segment(len, team.size, place)]);
    collect(call, root, mine, places, elements).await
}

/// Gathers the parts of the result at the root, each from the rank that has it.
async fn collect<T: Plain>(
    call: &Call,
    root: usize,
    mine: Option<&[T]>,
    places: impl Iterator<Item = (usize, std::ops::Range<usize>)>,
    elements: &mut [T],
) -> Result<(), WorldError> {
    if call.rank() != root {
        return match mine {
            Some(mine) => call.send(root, RESULT, mine).await,
            None => Ok(()),
        };
    }
    for (rank, place) in places {
        match mine.filter(|_| rank == root) {
            Some(mine) => elements[place].copy_from_slice(mine),
            None => call.receive_into(rank, RESULT, &mut elements[place]).await?,
        }
    }
    Ok(())
}

/// Combines up a binomial tree, whose root is rank 0.
async fn binomial<T: Plain, O: Operation<T>>(
    call: &Call,
    elements: &mut [T],
    operation: &O,
) -> Result<(), WorldError> {
    let (rank, size) = (call.rank(), call.size());
    let mut mask = 1;
    while mask < size {
        if rank & mask != 0 {
            return call.send(rank - mask, 0, elements).await;
        }
        if rank + mask < size {
            let piece = call.receive_exact(rank + mask, 0, elements).await?;
            piece.fold(operation, elements, false);
        }
        mask *= 2;
    }
    Ok(())
}
