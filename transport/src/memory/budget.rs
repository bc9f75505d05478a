//! How much memory a node's links may take beyond what each starts with.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that all links of a node share. Created with the node; links take of it when their rings
/// grow and give it back when they end.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: u64,
    left: AtomicU64,
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        Budget { bytes, left: AtomicU64::new(bytes) }
    }

    /// Returns how many bytes are taken now.
    pub(crate) fn taken(&self) -> u64 {
        self.bytes - self.left.load(Ordering::Relaxed)
    }

    /// Takes so many bytes, if they are left. Relaxed: the number stands for nothing but itself.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Gives back what was taken.
    pub(crate) fn give(&self, bytes: u64) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}
