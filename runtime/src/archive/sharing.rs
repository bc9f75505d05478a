//! The deserialiser's own state: the node, and the pointers that an archive shares.
#![allow(unsafe_code, reason = "rkyv's trait for shared pointers has an unsafe method to pass on")]

use rkyv::de::{ErasedPtr, Pool, Pooling, PoolingState};
use rkyv::rancor::Error;

use crate::node::Node;

/// A deserialiser that knows its node: `Arc`s that were one when archived are one again, and
/// references to actors are bound.
pub struct Unarchiver<'a> {
    node: &'a Node,
    pool: Pool,
}

impl<'a> Unarchiver<'a> {
    pub(super) fn new(node: &'a Node) -> Self {
        Unarchiver { node, pool: Pool::new() }
    }

    pub(super) fn bound_to(&self) -> &Node {
        self.node
    }
}

impl Pooling<Error> for Unarchiver<'_> {
    fn start_pooling(&mut self, address: usize) -> PoolingState {
        Pooling::<Error>::start_pooling(&mut self.pool, address)
    }

    unsafe fn finish_pooling(
        &mut self,
        address: usize,
        ptr: ErasedPtr,
        drop: unsafe fn(ErasedPtr),
    ) -> Result<(), Error> {
        // SAFETY: the caller promises us what the pool asks of its caller, and all three arguments
        // are passed on unchanged.
        unsafe { Pooling::<Error>::finish_pooling(&mut self.pool, address, ptr, drop) }
    }
}
