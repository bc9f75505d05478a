//! Scans: by recursive doubling (Thakur, Rabenseifner and Gropp 2005; Hillis and Steele 1986).

use futures::future::try_join;

use super::barrier::meet;
use crate::call::Call;
use crate::error::WorldError;
use crate::operation::Operation;
use crate::packet::{Element, Head};
use crate::status::Plain;
use crate::world::World;

impl World {
    /// Combines the elements of the ranks up to this one, itself included: recursive doubling
    /// (Hillis and Steele 1986). [`Ordered`](crate::Ordered) operations go from rank to rank.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    ///
    /// # Cancel safety
    /// As [`barrier`](Self::barrier). After an error the slice may be written in part.
    pub fn scan<'a, T: Plain, O: Operation<T> + 'a>(
        &self,
        elements: &'a mut [T],
        operation: O,
    ) -> impl Future<Output = Result<(), WorldError>> + Send + use<'a, T, O> {
        let head = Head::new("scan", 0, Element::of::<T>(), elements.len()).with::<O>();
        run(Call::begin(self, head), elements, operation, false)
    }

    /// Combines the elements of the ranks before this rank. Rank 0 keeps its own elements.
    /// Uses the algorithms of [`scan`](Self::scan).
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    ///
    /// # Cancel safety
    /// As [`scan`](Self::scan).
    pub fn exclusive_scan<'a, T: Plain, O: Operation<T> + 'a>(
        &self,
        elements: &'a mut [T],
        operation: O,
    ) -> impl Future<Output = Result<(), WorldError>> + Send + use<'a, T, O> {
        let head = Head::new("exclusive_scan", 0, Element::of::<T>(), elements.len()).with::<O>();
        run(Call::begin(self, head), elements, operation, true)
    }
}

async fn run<T: Plain, O: Operation<T>>(
    call: Call,
    elements: &mut [T],
    operation: O,
    is_exclusive: bool,
) -> Result<(), WorldError> {
    let scans = async {
        match operation.is_ordered() {
            true => chain(&call, elements, &operation, is_exclusive).await,
            false => doubling(&call, elements, &operation, is_exclusive).await,
        }
    };
    let scanned = try_join(meet(&call), scans).await;
    call.end(scanned.map(|_| ()))
}

/// Passes what the ranks before have on to the next one.
async fn chain<T: Plain, O: Operation<T>>(
    call: &Call,
    elements: &mut [T],
    operation: &O,
    is_exclusive: bool,
) -> Result<(), WorldError> {
    let (rank, size) = (call.rank(), call.size());
    let before = match rank {
        0 => None,
        _ => Some(call.receive_exact(rank - 1, 0, elements).await?),
    };
    let mut through = elements.to_vec();
    if let Some(before) = &before {
        before.fold(operation, &mut through, true);
    }
    if rank + 1 < size {
        call.send(rank + 1, 0, &through).await?;
    }
    match before {
        Some(before) if is_exclusive => before.copy_to(elements),
        _ if is_exclusive => {}
        _ => elements.copy_from_slice(&through),
    }
    Ok(())
}

/// Exchanges what blocks of ranks have with the block beside them, of twice the size each time.
async fn doubling<T: Plain, O: Operation<T>>(
    call: &Call,
    elements: &mut [T],
    operation: &O,
    is_exclusive: bool,
) -> Result<(), WorldError> {
    let (rank, size) = (call.rank(), call.size());
    let mut block = elements.to_vec();
    let mut has_before = !is_exclusive;
    let (mut mask, mut step) = (1, 0);
    while mask < size {
        let other = rank ^ mask;
        if other < size {
            call.send(other, step, &block).await?;
            let piece = call.receive_exact(other, step, &block).await?;
            let is_lower = other < rank;
            piece.fold(operation, &mut block, is_lower);
            match (is_lower, has_before) {
                (true, true) => piece.fold(operation, elements, true),
                (true, false) => piece.copy_to(elements),
                (false, _) => {}
            }
            has_before |= is_lower;
        }
        mask *= 2;
        step += 1;
    }
    Ok(())
}
