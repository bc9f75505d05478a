//! A value that is dropped by a function call.
//!
//! - **MB-9 dropped once**: the value exists as long as its holder, and is dropped with the holder,
//!   in its place.
#![allow(unsafe_code, reason = "drops a field by a call of its own, and polls one in its place")]

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A value that is dropped by a function call. The compiler copies the code that drops a value to
/// each place in a program that may drop it, including panics. For mailboxes and cells that was
/// more code than sending and handling messages. With this type it copies only the call.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct OutlinedDrop<T>(ManuallyDrop<T>);

impl<T> OutlinedDrop<T> {
    #[inline]
    pub(crate) fn new(value: T) -> Self {
        OutlinedDrop(ManuallyDrop::new(value))
    }
}

impl<T> Deref for OutlinedDrop<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for OutlinedDrop<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Default> Default for OutlinedDrop<T> {
    fn default() -> Self {
        OutlinedDrop::new(T::default())
    }
}

impl<T> Drop for OutlinedDrop<T> {
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: `drop` runs once, and no code accesses the value after it (MB-9).
        unsafe { ManuallyDrop::drop(&mut self.0) }
    }
}

impl<F: Future> Future for OutlinedDrop<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: no code here moves a value that is pinned with its holder: it is dropped in its
        // place (MB-9), and a caller gets `&mut` to a pinned value only if it is `Unpin`.
        unsafe { self.map_unchecked_mut(|held| &mut *held.0) }.poll(cx)
    }
}

/// An optional value that is mostly `None` when it is dropped; otherwise it is dropped by a
/// function call.
pub(crate) struct OutlinedOption<T>(ManuallyDrop<Option<T>>);

impl<T> OutlinedOption<T> {
    /// Drops the value, if there is one.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.is_some() {
            drop_value(&mut self.0);
        }
    }
}

impl<T> From<Option<T>> for OutlinedOption<T> {
    #[inline]
    fn from(value: Option<T>) -> Self {
        OutlinedOption(ManuallyDrop::new(value))
    }
}

impl<T> Default for OutlinedOption<T> {
    #[inline]
    fn default() -> Self {
        OutlinedOption::from(None)
    }
}

impl<T> Deref for OutlinedOption<T> {
    type Target = Option<T>;

    #[inline]
    fn deref(&self) -> &Option<T> {
        &self.0
    }
}

impl<T> DerefMut for OutlinedOption<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Option<T> {
        &mut self.0
    }
}

impl<T> Drop for OutlinedOption<T> {
    #[inline]
    fn drop(&mut self) {
        self.clear();
    }
}

/// Drops the value and leaves `None`, which needs no drop (MB-9).
#[inline(never)]
fn drop_value<T>(value: &mut Option<T>) {
    *value = None;
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;

    /// MB-9, also if a panic drops it.
    #[test]
    fn a_value_is_dropped_once_with_what_holds_it() {
        let value = Arc::new(1);
        let mut held = OutlinedDrop::new(vec![value.clone()]);
        held.push(value.clone());
        assert_eq!((held.len(), Arc::strong_count(&value)), (2, 3));
        drop(held);
        assert_eq!(Arc::strong_count(&value), 1);
        let held = OutlinedDrop::new(value.clone());
        let panics = AssertUnwindSafe(|| {
            let _held = held;
            panic!("as it was told");
        });
        assert!(catch_unwind(panics).is_err());
        assert_eq!(Arc::strong_count(&value), 1);
    }

    /// MB-9, also for a value that was taken out or replaced.
    #[test]
    fn what_may_be_there_is_dropped_once_if_it_is() {
        let value = Arc::new(1);
        let mut held = OutlinedOption::from(Some(value.clone()));
        assert_eq!(held.take(), Some(value.clone()));
        drop(held);
        assert_eq!(Arc::strong_count(&value), 1);
        let mut held = OutlinedOption::from(Some(value.clone()));
        held.clear();
        assert_eq!((held.is_none(), Arc::strong_count(&value)), (true, 1));
        *held = Some(value.clone());
        let panics = AssertUnwindSafe(|| {
            let _held = held;
            panic!("as it was told");
        });
        assert!(catch_unwind(panics).is_err());
        assert_eq!(Arc::strong_count(&value), 1);
    }

    /// MB-9: a future is polled and dropped in its place.
    #[test]
    fn an_outlined_future_is_polled_in_its_place() {
        let value = Arc::new(1);
        let own = value.clone();
        let mut future = Box::pin(OutlinedDrop::new(async move {
            let held = &own;
            tokio::task::yield_now().await;
            assert_eq!(**held, 1);
            std::future::pending::<()>().await;
        }));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut cx).is_pending());
        assert!(future.as_mut().poll(&mut cx).is_pending());
        assert_eq!(Arc::strong_count(&value), 2);
        drop(future);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
