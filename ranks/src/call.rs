//! One collective operation of this rank: what its algorithm sends and receives with.

use std::future::poll_fn;
use std::sync::Arc;

use crate::calls::Piece;
use crate::core::Core;
use crate::error::WorldError;
use crate::packet::{Abort, Head, Target};
use crate::status::Plain;
use crate::world::World;

/// A collective operation that is under way. Dropping it before its end gives the operation up on
/// all ranks.
pub(crate) struct Call {
    core: Arc<Core>,
    sequence: u64,
    head: Head,
    is_over: bool,
}

impl Call {
    /// Begins the next operation of this rank. All ranks begin operations in the same order, so
    /// an operation has the same number everywhere.
    pub(crate) fn begin(world: &World, head: Head) -> Self {
        let core = world.core().clone();
        let sequence = core.enter(head);
        Call { core, sequence, head, is_over: false }
    }

    /// Returns its number on this world.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn rank(&self) -> usize {
        self.core.mesh().rank
    }

    pub(crate) fn size(&self) -> usize {
        self.core.size
    }

    /// Checks a rank that the caller gave.
    pub(crate) fn check_rank(&self, rank: usize) -> Result<(), WorldError> {
        self.core.check(rank)
    }

    /// Sends elements to a rank.
    pub(crate) async fn send<T: Plain>(
        &self,
        to: usize,
        step: u32,
        elements: &[T],
    ) -> Result<(), WorldError> {
        if let Some(error) = self.core.state.lock().calls.error(self.sequence) {
            return Err(error);
        }
        let target = Target::Step { sequence: self.sequence, step, head: self.head };
        let bytes = bytemuck::cast_slice(elements);
        self.core.check_bytes(bytes)?;
        self.core.deliver(to, target, bytes, size_of::<T>(), None).await
    }

    /// Receives what a rank sent in a step, of any length.
    pub(crate) async fn receive(&self, from: usize, step: u32) -> Result<Piece, WorldError> {
        let poll = |cx: &mut std::task::Context<'_>| {
            self.core.state.lock().calls.poll(self.sequence, (from, step), cx.waker())
        };
        poll_fn(poll).await
    }

    /// Waits until the operation has failed, and returns its error.
    pub(crate) async fn failed(&self) -> WorldError {
        // No rank sends itself this step.
        self.receive(self.rank(), u32::MAX).await.err().unwrap_or(WorldError::Closed)
    }

    /// Receives as many elements as there are.
    pub(crate) async fn receive_into<T: Plain>(
        &self,
        from: usize,
        step: u32,
        elements: &mut [T],
    ) -> Result<(), WorldError> {
        self.receive_exact(from, step, elements).await?.copy_to(elements);
        Ok(())
    }

    /// Receives a piece that has as many elements as these.
    pub(crate) async fn receive_exact<T: Plain>(
        &self,
        from: usize,
        step: u32,
        elements: &[T],
    ) -> Result<Piece, WorldError> {
        let piece = self.receive(from, step).await?;
        if piece.len() == size_of_val(elements) {
            return Ok(piece);
        }
        let found = piece.len().checked_div(size_of::<T>()).unwrap_or(0);
        Err(WorldError::WrongLength {
            what: "a part of another rank",
            found,
            needed: elements.len(),
        })
    }

    /// Ends the operation with what its algorithm returned. An error of this rank alone ends it on
    /// all ranks.
    pub(crate) fn end<R>(mut self, result: Result<R, WorldError>) -> Result<R, WorldError> {
        let told = self.core.state.lock().calls.error(self.sequence);
        self.is_over = told.is_some() || result.is_ok();
        match told {
            Some(error) => Err(error),
            None => result,
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.is_over {
            let rank = self.rank() as u32;
            if self.core.state.lock().calls.error(self.sequence).is_none() {
                self.core.abort(self.sequence, Abort::Abandoned { rank });
            }
        }
        self.core.state.lock().calls.leave(self.sequence);
    }
}
