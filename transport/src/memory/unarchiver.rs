//! Reading archives back into values.
#![allow(unsafe_code, reason = "rkyv's trait for shared pointers has an unsafe method to pass on")]

use rkyv::de::{ErasedPtr, Pool, Pooling, PoolingState};
use rkyv::rancor::Error;

/// A deserialiser with a context of the caller's: pointers that an archive shares are shared
/// again, and what needs the context to come back finds it here.
pub struct Unarchiver<'a, C> {
    context: &'a C,
    pool: Pool,
}

impl<'a, C> Unarchiver<'a, C> {
    /// Creates a deserialiser for one archive.
    pub fn new(context: &'a C) -> Self {
        Unarchiver { context, pool: Pool::new() }
    }

    /// Returns the context that it was created with.
    pub fn context(&self) -> &C {
        self.context
    }
}

impl<C> Pooling<Error> for Unarchiver<'_, C> {
    fn start_pooling(&mut self, address: usize) -> PoolingState {
        Pooling::<Error>::start_pooling(&mut self.pool, address)
    }

    unsafe fn finish_pooling(
        &mut self,
        address: usize,
        ptr: ErasedPtr,
        drop: unsafe fn(ErasedPtr),
    ) -> Result<(), Error> {
        // SAFETY: the caller promises what the pool asks of its caller (ME-5), and all three
        // arguments are passed on unchanged.
        unsafe { Pooling::<Error>::finish_pooling(&mut self.pool, address, ptr, drop) }
    }
}

impl<C> std::fmt::Debug for Unarchiver<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unarchiver(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rkyv::rancor::Strategy;
    use rkyv::{Archived, Deserialize};

    use super::*;

    /// ME-5.
    #[test]
    fn pointers_that_an_archive_shares_are_shared_again() {
        let one = Arc::new(7u64);
        let bytes = rkyv::to_bytes::<Error>(&vec![one.clone(), one]).unwrap();
        let archive = rkyv::access::<Archived<Vec<Arc<u64>>>, Error>(&bytes).unwrap();
        let mut unarchiver = Unarchiver::new(&());
        let back: Vec<Arc<u64>> =
            archive.deserialize(Strategy::<_, Error>::wrap(&mut unarchiver)).unwrap();
        assert!(Arc::ptr_eq(&back[0], &back[1]));
        drop(unarchiver);
        assert_eq!((*back[0], Arc::strong_count(&back[0])), (7, 2));
    }
}
