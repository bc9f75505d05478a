//! Broadcast: by a binomial tree, or for long data by scattering it and gathering it everywhere
//! (van de Geijn; Thakur, Rabenseifner and Gropp 2005).

use futures::future::try_join;

use super::all_gather::ring;
use super::barrier::meet;
use super::part;
use crate::call::Call;
use crate::calls::Piece;
use crate::error::WorldError;
use crate::packet::{Element, Head};
use crate::status::Plain;
use crate::world::World;

/// Least size, in bytes, and least number of ranks for scattering and gathering.
const LONG_BYTES: usize = 128 << 10;
const LONG_RANKS: usize = 4;

impl World {
    /// Sends the elements of the root to all ranks, whose slices are of the same length.
    ///
    /// Below 128 KiB, or with fewer than 4 ranks, by a binomial tree; else a binomial scatter and a
    /// ring all-gather (van de Geijn; Thakur, Rabenseifner and Gropp 2005).
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier), and [`NoSuchRank`](WorldError::NoSuchRank).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier). After an error the slice may be written in part.
    pub fn broadcast<'a, T: Plain>(
        &self,
        root: usize,
        elements: &'a mut [T],
    ) -> impl Future<Output = Result<(), WorldError>> + Send + use<'a, T> {
        let head = Head::new("broadcast", root, Element::of::<T>(), elements.len());
        let call = Call::begin(self, head);
        async move {
            let done = try_join(meet(&call), send_all(&call, root, elements)).await;
            call.end(done.map(|_| ()))
        }
    }
}

async fn send_all<T: Plain>(
    call: &Call,
    root: usize,
    elements: &mut [T],
) -> Result<(), WorldError> {
    call.check_rank(root)?;
    if size_of_val(elements) < LONG_BYTES || call.size() < LONG_RANKS {
        return binomial(call, root, elements).await;
    }
    scatter(call, root, elements).await?;
    // The parts lie by distance from the root.
    let (size, len) = (call.size(), elements.len());
    let place = (call.rank() + size - root) % size;
    let to = (call.rank() + 1) % size;
    let from = (call.rank() + size - 1) % size;
    ring(call, place, (to, from), elements, |index| part(len, size, index), 64).await
}

/// Sends all elements down a binomial tree.
async fn binomial<T: Plain>(
    call: &Call,
    root: usize,
    elements: &mut [T],
) -> Result<(), WorldError> {
    let (size, place) = (call.size(), (call.rank() + call.size() - root) % call.size());
    let mut mask = 1;
    while mask < size && place & mask == 0 {
        mask *= 2;
    }
    if mask < size {
        call.receive_into((place - mask + root) % size, 0, elements).await?;
    }
    while mask > 1 {
        mask /= 2;
        if place + mask < size {
            call.send((place + mask + root) % size, 0, elements).await?;
        }
    }
    Ok(())
}

/// Sends bytes, whose number only the root knows, down a binomial tree.
pub(super) async fn binomial_bytes(
    call: &Call,
    root: usize,
    bytes: Vec<u8>,
) -> Result<Vec<u8>, WorldError> {
    let (size, place) = (call.size(), (call.rank() + call.size() - root) % call.size());
    let mut mask = 1;
    while mask < size && place & mask == 0 {
        mask *= 2;
    }
    let mut bytes = bytes;
    if mask < size {
        let piece: Piece = call.receive((place - mask + root) % size, 0).await?;
        bytes = piece.to_vec();
    }
    while mask > 1 {
        mask /= 2;
        if place + mask < size {
            call.send((place + mask + root) % size, 0, &bytes).await?;
        }
    }
    Ok(bytes)
}

/// Sends each rank its part, by distance from the root, down a binomial tree.
async fn scatter<T: Plain>(call: &Call, root: usize, elements: &mut [T]) -> Result<(), WorldError> {
    let (size, len) = (call.size(), elements.len());
    let place = (call.rank() + size - root) % size;
    let parts =
        |from: usize, to: usize| part(len, size, from).start..part(len, size, to.min(size) - 1).end;
    let mut mask = 1;
    while mask < size && place & mask == 0 {
        mask *= 2;
    }
    if mask < size {
        let mine = parts(place, place + mask);
        call.receive_into((place - mask + root) % size, 0, &mut elements[mine]).await?;
    }
    while mask > 1 {
        mask /= 2;
        if place + mask < size {
            let theirs = parts(place + mask, place + 2 * mask);
            call.send((place + mask + root) % size, 0, &elements[theirs]).await?;
        }
    }
    Ok(())
}
