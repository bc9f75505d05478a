//! The barrier, by dissemination (Hensgen, Finkel and Manber 1988): in round `k` each rank signals
//! the one `2^k` after it. After `log2(size)` rounds each has heard of all.

use super::NOTHING;
use crate::call::Call;
use crate::error::WorldError;
use crate::packet::Head;
use crate::world::World;

/// The first step of a barrier beside data.
const MEET: u32 = 1 << 30;

/// # Collective operations
///
/// All ranks call the same operations of a world in the same order, each with the same root, length
/// and types. Otherwise all of them get [`Mismatch`](WorldError::Mismatch).
///
/// An operation begins with the call, and goes on while its future is awaited. Several may be under
/// way at a time: await them together, as by `join!`. Dropping a future before its end gives the
/// operation up on all ranks ([`Abandoned`](WorldError::Abandoned)).
///
/// When a rank dies, all operations that are under way and all later ones fail with
/// [`Died`](WorldError::Died) on all living ranks.
impl World {
    /// Waits until all ranks have called it: dissemination (Hensgen, Finkel and Manber 1988).
    ///
    /// # Errors
    /// [`Mismatch`](WorldError::Mismatch), [`Abandoned`](WorldError::Abandoned),
    /// [`Died`](WorldError::Died), [`Left`](WorldError::Left), [`Revoked`](WorldError::Revoked) and
    /// [`Closed`](WorldError::Closed), as every collective operation.
    ///
    /// # Cancel safety
    /// Dropped before its end, the operation fails on all ranks.
    pub fn barrier(&self) -> impl Future<Output = Result<(), WorldError>> + Send + use<> {
        let call = Call::begin(self, Head::new("barrier", 0, NOTHING, 0));
        async move {
            let met = meet(&call).await;
            call.end(met)
        }
    }
}

/// Waits until all ranks have called the operation.
pub(crate) async fn meet(call: &Call) -> Result<(), WorldError> {
    let (rank, size) = (call.rank(), call.size());
    let (mut distance, mut step) = (1, MEET);
    while distance < size {
        call.send::<u8>((rank + distance) % size, step, &[]).await?;
        call.receive((rank + size - distance) % size, step).await?;
        distance *= 2;
        step += 1;
    }
    Ok(())
}
