//! Gather: by a binomial tree, or for long data from each rank to the root (Thakur, Rabenseifner
//! and Gropp 2005).

use futures::future::try_join;

use super::barrier::meet;
use crate::call::Call;
use crate::error::WorldError;
use crate::packet::{Element, Head};
use crate::status::Plain;
use crate::world::World;

/// Least block, in bytes, that each rank sends to the root itself.
const LONG_BYTES: usize = 16 << 10;

impl World {
    /// Returns the elements of all ranks at the root, in the order of the ranks, and `None` at the
    /// others. Each rank gives as many.
    ///
    /// Below 16 KiB of each rank by a binomial tree, else from each rank to the root (Thakur,
    /// Rabenseifner and Gropp 2005).
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier), and [`NoSuchRank`](WorldError::NoSuchRank).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn gather<'a, T: Plain>(
        &self,
        root: usize,
        mine: &'a [T],
    ) -> impl Future<Output = Result<Option<Vec<T>>, WorldError>> + Send + use<'a, T> {
        let head = Head::new("gather", root, Element::of::<T>(), mine.len());
        let call = Call::begin(self, head);
        async move {
            let done = try_join(meet(&call), fixed(&call, root, mine)).await;
            call.end(done.map(|(_, all)| all))
        }
    }

    /// Returns the elements of each rank at the root, and `None` at the others. Ranks may give
    /// different numbers of elements: from each rank to the root.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn gatherv<'a, T: Plain>(
        &self,
        root: usize,
        mine: &'a [T],
    ) -> impl Future<Output = Result<Option<Vec<Vec<T>>>, WorldError>> + Send + use<'a, T> {
        let call = Call::begin(self, Head::new("gatherv", root, Element::of::<T>(), 0));
        async move {
            let done = try_join(meet(&call), varying(&call, root, mine)).await;
            call.end(done.map(|(_, all)| all))
        }
    }
}

async fn fixed<T: Plain>(
    call: &Call,
    root: usize,
    mine: &[T],
) -> Result<Option<Vec<T>>, WorldError> {
    call.check_rank(root)?;
    if size_of_val(mine) >= LONG_BYTES {
        return Ok(varying(call, root, mine).await?.map(|blocks| blocks.concat()));
    }
    let (size, len) = (call.size(), mine.len());
    let place = (call.rank() + size - root) % size;
    // The blocks of the ranks from this one on, by distance from the root.
    let mut blocks = mine.to_vec();
    let mut mask = 1;
    while mask < size && place & mask == 0 {
        if place + mask < size {
            let count = mask.min(size - place - mask);
            let mut more = vec![T::zeroed(); count * len];
            call.receive_into((place + mask + root) % size, 0, &mut more).await?;
            blocks.extend_from_slice(&more);
        }
        mask *= 2;
    }
    if place > 0 {
        call.send((place - mask + root) % size, 0, &blocks).await?;
        return Ok(None);
    }
    blocks.rotate_right(root * len);
    Ok(Some(blocks))
}

/// Receives the block of each rank.
pub(super) async fn varying<T: Plain>(
    call: &Call,
    root: usize,
    mine: &[T],
) -> Result<Option<Vec<Vec<T>>>, WorldError> {
    call.check_rank(root)?;
    let (rank, size) = (call.rank(), call.size());
    if rank != root {
        call.send(root, 0, mine).await?;
        return Ok(None);
    }
    let mut all = Vec::with_capacity(size);
    for from in 0..size {
        all.push(match from == rank {
            true => mine.to_vec(),
            false => call.receive(from, 0).await?.to_vec(),
        });
    }
    Ok(Some(all))
}
