//! The primitives of shared state: the machine's, or in a model loom's, which tries every order of
//! events. So a model runs the very code that runs in a node.

use std::ops::DerefMut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

use futures::task::AtomicWaker;
use parking_lot::Mutex;

/// One family of primitives.
pub(crate) trait Primitives: 'static {
    type Flag: Flag;
    type Counter: Counter;
    type Lock<T: Send + 'static>: Lock<T>;
    type Bell: Bell;
}

/// A bool that threads share without a lock. All orders are sequentially consistent.
pub(crate) trait Flag: Send + Sync {
    fn new(value: bool) -> Self;
    fn get(&self) -> bool;
    fn set(&self, value: bool);
    /// Sets it; returns the value before.
    fn swap(&self, value: bool) -> bool;
}

/// A number that threads share without a lock. All orders are sequentially consistent.
pub(crate) trait Counter: Send + Sync {
    fn new(value: u64) -> Self;
    fn get(&self) -> u64;
    fn set(&self, value: u64);
    /// Adds, wrapping; returns the sum.
    fn add(&self, value: u64) -> u64;
}

/// A value under a lock.
pub(crate) trait Lock<T>: Send + Sync {
    fn new(value: T) -> Self;
    fn hold(&self) -> impl DerefMut<Target = T>;
}

/// Wakes the one task that registered last.
pub(crate) trait Bell: Send + Sync {
    fn new() -> Self;
    fn register(&self, waker: &Waker);
    fn ring(&self);
}

/// The primitives of the machine.
pub(crate) struct Native;

impl Primitives for Native {
    type Flag = AtomicBool;
    type Counter = AtomicU64;
    type Lock<T: Send + 'static> = Mutex<T>;
    type Bell = AtomicWaker;
}

/// Implements [`Flag`] and [`Counter`] for the atomic types of a family. Those of loom have the
/// methods of the machine's, and no trait in common with them.
macro_rules! atomics {
    ($flag:ty, $counter:ty) => {
        impl Flag for $flag {
            fn new(value: bool) -> Self {
                Self::new(value)
            }

            fn get(&self) -> bool {
                self.load(Ordering::SeqCst)
            }

            fn set(&self, value: bool) {
                self.store(value, Ordering::SeqCst);
            }

            fn swap(&self, value: bool) -> bool {
                Self::swap(self, value, Ordering::SeqCst)
            }
        }

        impl Counter for $counter {
            fn new(value: u64) -> Self {
                Self::new(value)
            }

            fn get(&self) -> u64 {
                self.load(Ordering::SeqCst)
            }

            fn set(&self, value: u64) {
                self.store(value, Ordering::SeqCst);
            }

            fn add(&self, value: u64) -> u64 {
                self.fetch_add(value, Ordering::SeqCst).wrapping_add(value)
            }
        }
    };
}

atomics!(AtomicBool, AtomicU64);

impl<T: Send> Lock<T> for Mutex<T> {
    fn new(value: T) -> Self {
        Mutex::new(value)
    }

    fn hold(&self) -> impl DerefMut<Target = T> {
        self.lock()
    }
}

impl Bell for AtomicWaker {
    fn new() -> Self {
        AtomicWaker::new()
    }

    fn register(&self, waker: &Waker) {
        AtomicWaker::register(self, waker);
    }

    fn ring(&self) {
        self.wake();
    }
}

/// Returns a moment. For callers that need one and no clock: the protocol's tests and fuzz targets.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn some_moment() -> std::time::Instant {
    std::time::Instant::now()
}

#[cfg(test)]
pub(crate) mod loomed {
    use super::*;

    /// The primitives of loom.
    pub(crate) struct Loomed;

    impl Primitives for Loomed {
        type Flag = loom::sync::atomic::AtomicBool;
        type Counter = loom::sync::atomic::AtomicU64;
        type Lock<T: Send + 'static> = loom::sync::Mutex<T>;
        type Bell = loom::future::AtomicWaker;
    }

    atomics!(loom::sync::atomic::AtomicBool, loom::sync::atomic::AtomicU64);

    impl<T: Send + 'static> Lock<T> for loom::sync::Mutex<T> {
        fn new(value: T) -> Self {
            Self::new(value)
        }

        fn hold(&self) -> impl DerefMut<Target = T> {
            self.lock().expect("no model panics under a lock and goes on")
        }
    }

    impl Bell for loom::future::AtomicWaker {
        fn new() -> Self {
            Self::new()
        }

        fn register(&self, waker: &Waker) {
            self.register_by_ref(waker);
        }

        fn ring(&self) {
            self.wake();
        }
    }
}
