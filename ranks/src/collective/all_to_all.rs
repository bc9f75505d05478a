//! All-to-all: Bruck's algorithm for short blocks (Bruck et al. 1997), pairwise exchange for long
//! ones (Thakur, Rabenseifner and Gropp 2005), or one rank after the other.

use futures::future::try_join;

use super::barrier::meet;
use super::check_len;
use crate::call::Call;
use crate::error::WorldError;
use crate::packet::{Element, Head};
use crate::status::Plain;
use crate::world::World;

/// Greatest block, in bytes, and least number of ranks for Bruck's algorithm.
const SHORT_BYTES: usize = 256;
const SHORT_RANKS: usize = 8;
/// Greatest block, in bytes, for sending all blocks before the first is received.
const MEDIUM_BYTES: usize = 32 << 10;

/// An algorithm of [`World::all_to_all_by`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Exchange {
    /// Chooses by length and number of ranks.
    #[default]
    Auto,
    /// Rank 0 sends to all others, then rank 1, and so on.
    Sequential,
    /// Each rank exchanges blocks with one other at a time (Thakur, Rabenseifner and Gropp 2005).
    Pairwise,
    /// In `log2(size)` steps, each with half of all blocks (Bruck et al. 1997).
    Bruck,
}

impl World {
    /// Sends each rank its block of `mine`, and returns the blocks for this rank, in the order of
    /// the ranks. All blocks have the same length: `mine` has a multiple of `size()` elements.
    ///
    /// Up to 256 bytes for each of 8 ranks or more by Bruck's algorithm (Bruck et al. 1997), up to
    /// 32 KiB by sending all blocks at once, and else by pairwise exchange (Thakur, Rabenseifner
    /// and Gropp 2005).
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier), and [`WrongLength`](WorldError::WrongLength).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn all_to_all<'a, T: Plain>(
        &self,
        mine: &'a [T],
    ) -> impl Future<Output = Result<Vec<T>, WorldError>> + Send + use<'a, T> {
        self.all_to_all_by(Exchange::Auto, mine)
    }

    /// Does as [`all_to_all`](Self::all_to_all), by the algorithm that is given, which is the same
    /// on all ranks.
    ///
    /// # Errors
    /// As [`all_to_all`](Self::all_to_all).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn all_to_all_by<'a, T: Plain>(
        &self,
        exchange: Exchange,
        mine: &'a [T],
    ) -> impl Future<Output = Result<Vec<T>, WorldError>> + Send + use<'a, T> {
        let mut head = Head::new("all_to_all", 0, Element::of::<T>(), mine.len());
        head.operation = exchange as u64;
        let call = Call::begin(self, head);
        async move {
            let exchanged = fixed(&call, exchange, mine).await;
            call.end(exchanged)
        }
    }

    /// Sends each rank its block, and returns the blocks for this rank. Blocks may be of different
    /// lengths: pairwise exchange (Thakur, Rabenseifner and Gropp 2005).
    ///
    /// # Errors
    /// As [`all_to_all`](Self::all_to_all).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier).
    pub fn all_to_allv<'a, T: Plain>(
        &self,
        mine: &'a [Vec<T>],
    ) -> impl Future<Output = Result<Vec<Vec<T>>, WorldError>> + Send + use<'a, T> {
        let call = Call::begin(self, Head::new("all_to_allv", 0, Element::of::<T>(), 0));
        async move {
            let exchanged = varying(&call, mine).await;
            call.end(exchanged)
        }
    }
}

async fn fixed<T: Plain>(call: &Call, by: Exchange, mine: &[T]) -> Result<Vec<T>, WorldError> {
    let size = call.size();
    let len = mine.len() / size;
    check_len("`mine`", mine.len(), size * len)?;
    let bytes = len * size_of::<T>();
    match by {
        Exchange::Auto if bytes <= SHORT_BYTES && size >= SHORT_RANKS => {
            bruck(call, mine, len).await
        }
        Exchange::Auto if bytes <= MEDIUM_BYTES => at_once(call, mine, len).await,
        Exchange::Auto | Exchange::Pairwise => pairwise(call, mine, len).await,
        Exchange::Bruck => bruck(call, mine, len).await,
        Exchange::Sequential => {
            let exchanged = try_join(meet(call), sequential(call, mine, len)).await;
            exchanged.map(|(_, all)| all)
        }
    }
}

/// Sends the blocks of each power of two of the distance in one step.
async fn bruck<T: Plain>(call: &Call, mine: &[T], len: usize) -> Result<Vec<T>, WorldError> {
    let (rank, size) = (call.rank(), call.size());
    let mut blocks = mine.to_vec();
    blocks.rotate_left(rank * len);
    let (mut distance, mut step) = (1, 0);
    while distance < size {
        let moved: Vec<usize> = (0..size).filter(|index| index & distance != 0).collect();
        let mut packed = Vec::with_capacity(moved.len() * len);
        for index in &moved {
            packed.extend_from_slice(&blocks[index * len..(index + 1) * len]);
        }
        call.send((rank + distance) % size, step, &packed).await?;
        call.receive_into((rank + size - distance) % size, step, &mut packed).await?;
        for (place, index) in moved.iter().enumerate() {
            let block = &packed[place * len..(place + 1) * len];
            blocks[index * len..(index + 1) * len].copy_from_slice(block);
        }
        distance *= 2;
        step += 1;
    }
    let mut all = Vec::with_capacity(blocks.len());
    for from in 0..size {
        let index = (rank + size - from) % size;
        all.extend_from_slice(&blocks[index * len..(index + 1) * len]);
    }
    Ok(all)
}

/// Sends all blocks, and then receives them.
async fn at_once<T: Plain>(call: &Call, mine: &[T], len: usize) -> Result<Vec<T>, WorldError> {
    let (rank, size) = (call.rank(), call.size());
    let mut all = mine.to_vec();
    for to in (1..size).map(|distance| (rank + distance) % size) {
        call.send(to, 0, &mine[to * len..(to + 1) * len]).await?;
    }
    for from in (1..size).map(|distance| (rank + size - distance) % size) {
        call.receive_into(from, 0, &mut all[from * len..(from + 1) * len]).await?;
    }
    Ok(all)
}

/// Exchanges blocks with the ranks at each distance.
async fn pairwise<T: Plain>(call: &Call, mine: &[T], len: usize) -> Result<Vec<T>, WorldError> {
    let (rank, size) = (call.rank(), call.size());
    let mut all = mine.to_vec();
    for distance in 1..size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        let block = &mine[to * len..(to + 1) * len];
        let place = &mut all[from * len..(from + 1) * len];
        try_join(call.send(to, 0, block), call.receive_into(from, 0, place)).await?;
    }
    Ok(all)
}

/// Sends blocks in the order of the ranks: each waits until those before it have sent.
async fn sequential<T: Plain>(call: &Call, mine: &[T], len: usize) -> Result<Vec<T>, WorldError> {
    let (rank, size) = (call.rank(), call.size());
    let mut all = mine.to_vec();
    for sender in 0..size {
        if sender == rank {
            for to in (0..size).filter(|to| *to != rank) {
                call.send(to, 0, &mine[to * len..(to + 1) * len]).await?;
            }
        } else {
            let block = &mut all[sender * len..(sender + 1) * len];
            call.receive_into(sender, 0, block).await?;
        }
    }
    Ok(all)
}

/// Exchanges blocks of any length with the ranks at each distance.
pub(super) async fn varying<T: Plain>(
    call: &Call,
    mine: &[Vec<T>],
) -> Result<Vec<Vec<T>>, WorldError> {
    let (rank, size) = (call.rank(), call.size());
    check_len("`mine`", mine.len(), size)?;
    let mut all = vec![Vec::new(); size];
    all[rank] = mine[rank].clone();
    for distance in 1..size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        let (_, piece) = try_join(call.send(to, 0, &mine[to]), call.receive(from, 0)).await?;
        all[from] = piece.to_vec();
    }
    Ok(all)
}
