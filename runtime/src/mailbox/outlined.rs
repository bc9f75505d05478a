//! A value whose drop is one call.
//!
//! - **MB-9 dropped once**: the value is there as long as what holds it, and is dropped with it.
#![allow(unsafe_code, reason = "drops a field by a call of its own")]

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// A value whose drop is one call. The compiler copies the code that drops a value into each part
/// of a program where one may be dropped, also on a panic; of mailboxes and cells that was more
/// code than all that sends and handles messages. Of this it copies the call alone.
#[repr(transparent)]
pub(crate) struct Outlined<T>(ManuallyDrop<T>);

impl<T> Outlined<T> {
    pub(crate) fn new(value: T) -> Self {
        Outlined(ManuallyDrop::new(value))
    }
}

impl<T> Deref for Outlined<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Outlined<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Default> Default for Outlined<T> {
    fn default() -> Self {
        Outlined::new(T::default())
    }
}

impl<T> Drop for Outlined<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a drop runs once, and nothing looks at the value after it (MB-9).
        unsafe { drop_value(self) };
    }
}

/// Drops the value.
///
/// # Safety
/// To be called once, and the value is not looked at any more.
#[inline(never)]
unsafe fn drop_value<T>(of: &mut Outlined<T>) {
    // SAFETY: the caller keeps to just that.
    unsafe { ManuallyDrop::drop(&mut of.0) }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;

    /// MB-9: also where a panic drops it.
    #[test]
    fn a_value_is_dropped_once_with_what_holds_it() {
        let value = Arc::new(1);
        let mut held = Outlined::new(vec![value.clone()]);
        held.push(value.clone());
        assert_eq!((held.len(), Arc::strong_count(&value)), (2, 3));
        drop(held);
        assert_eq!(Arc::strong_count(&value), 1);
        let held = Outlined::new(value.clone());
        let panics = AssertUnwindSafe(|| {
            let _held = held;
            panic!("as it was told");
        });
        assert!(catch_unwind(panics).is_err());
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
