//! Scatter: by a binomial tree, or for long data from the root to each rank (Thakur, Rabenseifner
//! and Gropp 2005).

use futures::future::try_join;

use super::barrier::meet;
use super::check_len;
use crate::call::Call;
use crate::error::WorldError;
use crate::packet::{Element, Head};
use crate::status::Plain;
use crate::world::World;

/// Least block, in bytes, that the root sends to each rank itself.
const LONG_BYTES: usize = 16 << 10;

impl World {
    /// Gives each rank its block of the root's elements, in the order of the ranks. Only the root
    /// gives `all`, which has `size()` times as many elements as `mine`.
    ///
    /// Below 16 KiB for each rank by a binomial tree, else from the root to each rank (Thakur,
    /// Rabenseifner and Gropp 2005).
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier); [`NoSuchRank`](WorldError::NoSuchRank), and
    /// [`WrongLength`](WorldError::WrongLength) at the root.
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn scatter<'a, T: Plain>(
        &self,
        root: usize,
        all: Option<&'a [T]>,
        mine: &'a mut [T],
    ) -> impl Future<Output = Result<(), WorldError>> + Send + use<'a, T> {
        let head = Head::new("scatter", root, Element::of::<T>(), mine.len());
        let call = Call::begin(self, head);
        async move {
            let done = try_join(meet(&call), fixed(&call, root, all, mine)).await;
            call.end(done.map(|_| ()))
        }
    }

    /// Gives each rank its block of the root's, which may be of different lengths: from the root to
    /// each rank. Only the root gives `all`, a block for each rank.
    ///
    /// # Errors
    /// As [`scatter`](Self::scatter).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn scatterv<'a, T: Plain>(
        &self,
        root: usize,
        all: Option<&'a [Vec<T>]>,
    ) -> impl Future<Output = Result<Vec<T>, WorldError>> + Send + use<'a, T> {
        let call = Call::begin(self, Head::new("scatterv", root, Element::of::<T>(), 0));
        async move {
            let done = try_join(meet(&call), varying(&call, root, all)).await;
            call.end(done.map(|(_, mine)| mine))
        }
    }
}

async fn fixed<T: Plain>(
    call: &Call,
    root: usize,
    all: Option<&[T]>,
    mine: &mut [T],
) -> Result<(), WorldError> {
    call.check_rank(root)?;
    let (rank, size, len) = (call.rank(), call.size(), mine.len());
    if rank == root {
        check_len("`all`", all.map_or(0, <[T]>::len), size * len)?;
    }
    if size_of_val(mine) >= LONG_BYTES {
        let Some(all) = all.filter(|_| rank == root) else {
            return call.receive_into(root, 0, mine).await;
        };
        for to in (0..size).filter(|to| *to != rank) {
            call.send(to, 0, &all[to * len..(to + 1) * len]).await?;
        }
        mine.copy_from_slice(&all[rank * len..(rank + 1) * len]);
        return Ok(());
    }
    binomial(call, root, all, mine).await
}

/// Sends each subtree of a binomial tree its blocks, by distance from the root.
async fn binomial<T: Plain>(
    call: &Call,
    root: usize,
    all: Option<&[T]>,
    mine: &mut [T],
) -> Result<(), WorldError> {
    let (size, len) = (call.size(), mine.len());
    let place = (call.rank() + size - root) % size;
    let mut mask = 1;
    while mask < size && place & mask == 0 {
        mask *= 2;
    }
    let blocks = match all.filter(|_| place == 0) {
        Some(all) => {
            let mut blocks = all.to_vec();
            blocks.rotate_left(root * len);
            blocks
        }
        None => {
            let count = mask.min(size - place);
            let mut blocks = vec![T::zeroed(); count * len];
            call.receive_into((place - mask + root) % size, 0, &mut blocks).await?;
            blocks
        }
    };
    while mask > 1 {
        mask /= 2;
        if place + mask < size {
            let end = (2 * mask).min(size - place);
            call.send((place + mask + root) % size, 0, &blocks[mask * len..end * len]).await?;
        }
    }
    mine.copy_from_slice(&blocks[..len]);
    Ok(())
}

/// Sends each rank its block.
pub(super) async fn varying<T: Plain>(
    call: &Call,
    root: usize,
    all: Option<&[Vec<T>]>,
) -> Result<Vec<T>, WorldError> {
    call.check_rank(root)?;
    let (rank, size) = (call.rank(), call.size());
    if rank != root {
        return Ok(call.receive(root, 0).await?.to_vec());
    }
    let all = all.unwrap_or_default();
    check_len("`all`", all.len(), size)?;
    for to in (0..size).filter(|to| *to != rank) {
        call.send(to, 0, &all[to]).await?;
    }
    Ok(all[rank].clone())
}
