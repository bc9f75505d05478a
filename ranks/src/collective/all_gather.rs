//! All-gather: by recursive doubling, by Bruck's algorithm, or by a ring (Thakur, Rabenseifner and
//! Gropp 2005; Bruck et al. 1997).

use std::ops::Range;

use crate::call::Call;
use crate::error::WorldError;
use crate::packet::{Element, Head};
use crate::status::Plain;
use crate::world::World;

/// Least total size, in bytes, for the ring.
const LONG_BYTES: usize = 80 << 10;

impl World {
    /// Returns the elements of all ranks in the order of the ranks. Each gives as many.
    ///
    /// Below 80 KiB in all by recursive doubling where the number of ranks is a power of two, and
    /// by Bruck's algorithm (Bruck et al. 1997) otherwise; from there on by a ring (Thakur,
    /// Rabenseifner and Gropp 2005).
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn all_gather<'a, T: Plain>(
        &self,
        mine: &'a [T],
    ) -> impl Future<Output = Result<Vec<T>, WorldError>> + Send + use<'a, T> {
        let head = Head::new("all_gather", 0, Element::of::<T>(), mine.len());
        let call = Call::begin(self, head);
        async move {
            let gathered = gather(&call, mine).await;
            call.end(gathered)
        }
    }

    /// Returns the elements of each rank, which may give different numbers of them, by a ring
    /// (Thakur, Rabenseifner and Gropp 2005).
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn all_gatherv<'a, T: Plain>(
        &self,
        mine: &'a [T],
    ) -> impl Future<Output = Result<Vec<Vec<T>>, WorldError>> + Send + use<'a, T> {
        let call = Call::begin(self, Head::new("all_gatherv", 0, Element::of::<T>(), 0));
        async move {
            let gathered = varying(&call, mine).await;
            call.end(gathered)
        }
    }
}

/// Gathers blocks of one length.
pub(super) async fn gather<T: Plain>(call: &Call, mine: &[T]) -> Result<Vec<T>, WorldError> {
    let (rank, size, len) = (call.rank(), call.size(), mine.len());
    let mut all = vec![T::zeroed(); size * len];
    let block = |index: usize| index * len..(index + 1) * len;
    if size_of_val(&*all) < LONG_BYTES && !size.is_power_of_two() {
        all[..len].copy_from_slice(mine);
        bruck(call, &mut all, len).await?;
        all.rotate_right(rank * len);
        return Ok(all);
    }
    all[block(rank)].copy_from_slice(mine);
    if size_of_val(&*all) < LONG_BYTES {
        doubling(call, &mut all, len).await?;
    } else {
        let neighbours = ((rank + 1) % size, (rank + size - 1) % size);
        ring(call, rank, neighbours, &mut all, block, 0).await?;
    }
    Ok(all)
}

/// Exchanges blocks of twice the length each time, with the rank that differs in one bit.
async fn doubling<T: Plain>(call: &Call, all: &mut [T], len: usize) -> Result<(), WorldError> {
    let (rank, size) = (call.rank(), call.size());
    let (mut mask, mut step) = (1, 0);
    while mask < size {
        let other = rank ^ mask;
        let blocks = |of: usize| (of & !(mask - 1)) * len..((of & !(mask - 1)) + mask) * len;
        call.send(other, step, &all[blocks(rank)]).await?;
        call.receive_into(other, step, &mut all[blocks(other)]).await?;
        mask *= 2;
        step += 1;
    }
    Ok(())
}

/// Gathers the blocks of the ranks from this rank on: in each step it sends all its blocks to a
/// rank before it, and receives as many from a rank after it.
async fn bruck<T: Plain>(call: &Call, all: &mut [T], len: usize) -> Result<(), WorldError> {
    let (rank, size) = (call.rank(), call.size());
    let (mut have, mut step) = (1, 0);
    while have < size {
        let count = have.min(size - have);
        call.send((rank + size - have) % size, step, &all[..count * len]).await?;
        let more = &mut all[have * len..(have + count) * len];
        call.receive_into((rank + have) % size, step, more).await?;
        have += count;
        step += 1;
    }
    Ok(())
}

/// Sends blocks around a ring: in each step the block that came last goes on to the next rank.
/// `place` is the block of this rank.
pub(super) async fn ring<T: Plain>(
    call: &Call,
    place: usize,
    (to, from): (usize, usize),
    all: &mut [T],
    block: impl Fn(usize) -> Range<usize>,
    first_step: u32,
) -> Result<(), WorldError> {
    let size = call.size();
    for step in 0..size - 1 {
        let number = first_step + step as u32;
        let send = (place + size - step) % size;
        let receive = (place + size - step - 1) % size;
        call.send(to, number, &all[block(send)]).await?;
        call.receive_into(from, number, &mut all[block(receive)]).await?;
    }
    Ok(())
}

/// Sends blocks of any length around a ring.
pub(super) async fn varying<T: Plain>(call: &Call, mine: &[T]) -> Result<Vec<Vec<T>>, WorldError> {
    let (rank, size) = (call.rank(), call.size());
    let mut all = vec![Vec::new(); size];
    all[rank] = mine.to_vec();
    for step in 0..size - 1 {
        let send = (rank + size - step) % size;
        let receive = (rank + size - step - 1) % size;
        call.send((rank + 1) % size, step as u32, &all[send]).await?;
        all[receive] = call.receive((rank + size - 1) % size, step as u32).await?.to_vec();
    }
    Ok(all)
}
