//! Broadcast: by a binomial tree; of long data down a chain (Pješivac-Grbović et al. 2007), or by
//! scattering it and gathering it everywhere (van de Geijn; Thakur, Rabenseifner and Gropp 2005).

use std::iter::successors;

use futures::future::try_join;

use super::all_gather::ring;
use super::barrier::meet;
use super::part;
use crate::call::Call;
use crate::calls::Piece;
use crate::error::WorldError;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::packet::{Element, Head};
use crate::status::Plain;
use crate::world::World;

/// Least size, in bytes, of long data, and least number of ranks for scattering and gathering.
const LONG_BYTES: usize = 128 << 10;
const LONG_RANKS: usize = 4;
/// Bytes of a segment of the chain, at least. Data of as many segments as there are ranks fills it.
const SEGMENT_BYTES: usize = 64 << 10;
/// Number of segments: a rank that calls late keeps them all.
const SEGMENTS_MAX: usize = 1024;

impl World {
    /// Sends the elements of the root to all ranks, whose slices are of the same length.
    ///
    /// From 128 KiB, and 64 KiB for each rank, in segments down a chain of ranks (Pješivac-Grbović
    /// et al., Performance analysis of MPI collective operations, 2007). Else from 128 KiB and 4
    /// ranks by a binomial scatter and a ring all-gather (van de Geijn; Thakur, Rabenseifner and
    /// Gropp 2005), else by a binomial tree.
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
    let bytes = size_of_val(elements);
    if (LONG_BYTES.max(SEGMENT_BYTES * call.size())..=MESSAGE_BYTES_MAX).contains(&bytes) {
        return chain(call, root, elements).await;
    }
    if bytes < LONG_BYTES || call.size() < LONG_RANKS {
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

/// Sends segments from rank to rank: a rank sends each one on while the next one comes.
async fn chain<T: Plain>(call: &Call, root: usize, elements: &mut [T]) -> Result<(), WorldError> {
    let (size, place) = (call.size(), (call.rank() + call.size() - root) % call.size());
    let bytes = SEGMENT_BYTES.max(size_of_val(elements) / SEGMENTS_MAX);
    let segment = (bytes / size_of::<T>().max(1)).max(1);
    for (step, elements) in elements.chunks_mut(segment).enumerate() {
        if place > 0 {
            call.receive_into((place - 1 + root) % size, step as u32, elements).await?;
        }
        if place + 1 < size {
            call.send((place + 1 + root) % size, step as u32, elements).await?;
        }
    }
    Ok(())
}

/// Returns the parent of a place in a binomial tree, the size of the place's own subtree, and its
/// children, each with the size of its subtree.
fn tree(place: usize, size: usize) -> (Option<usize>, usize, impl Iterator<Item = (usize, usize)>) {
    let span = if place == 0 { size.next_power_of_two() } else { place & place.wrapping_neg() };
    let halves = successors(Some(span / 2), |half| Some(half / 2)).take_while(|half| *half > 0);
    let children = halves.map(move |half| (place + half, half));
    let children = children.filter(move |(child, _)| *child < size);
    ((place > 0).then(|| place - span), span, children)
}

/// Sends all elements down a binomial tree.
async fn binomial<T: Plain>(
    call: &Call,
    root: usize,
    elements: &mut [T],
) -> Result<(), WorldError> {
    let size = call.size();
    let (parent, _, children) = tree((call.rank() + size - root) % size, size);
    if let Some(parent) = parent {
        call.receive_into((parent + root) % size, 0, elements).await?;
    }
    for (child, _) in children {
        call.send((child + root) % size, 0, elements).await?;
    }
    Ok(())
}

/// Sends bytes, whose number only the root knows, down a binomial tree.
pub(super) async fn binomial_bytes(
    call: &Call,
    root: usize,
    mut bytes: Vec<u8>,
) -> Result<Vec<u8>, WorldError> {
    let size = call.size();
    let (parent, _, children) = tree((call.rank() + size - root) % size, size);
    if let Some(parent) = parent {
        let piece: Piece = call.receive((parent + root) % size, 0).await?;
        bytes = piece.to_vec();
    }
    for (child, _) in children {
        call.send((child + root) % size, 0, &bytes).await?;
    }
    Ok(bytes)
}

/// Sends each rank its part, by distance from the root, down a binomial tree.
async fn scatter<T: Plain>(call: &Call, root: usize, elements: &mut [T]) -> Result<(), WorldError> {
    let (size, len) = (call.size(), elements.len());
    let place = (call.rank() + size - root) % size;
    let parts =
        |from: usize, to: usize| part(len, size, from).start..part(len, size, to.min(size) - 1).end;
    let (parent, span, children) = tree(place, size);
    if let Some(parent) = parent {
        let mine = parts(place, place + span);
        call.receive_into((parent + root) % size, 0, &mut elements[mine]).await?;
    }
    for (child, span) in children {
        call.send((child + root) % size, 0, &elements[parts(child, child + span)]).await?;
    }
    Ok(())
}
