//! Runs code of users, whose panics do not end the code that runs it.
//!
//! A subscriber of the log, a recorder of metrics, a `Drop`, a handler, a recipe, a key function
//! and the payload of a panic are code of the user, and may panic. This module alone catches panics
//! in product code. A node acts on an event before it logs or counts it. A panic has been reported
//! by the panic hook when it is caught.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::FutureExt;

/// Runs code of the user.
///
/// # Errors
/// The text of its panic.
#[inline]
pub fn catch<R>(run: impl FnOnce() -> R) -> Result<R, Arc<str>> {
    catch_unwind(AssertUnwindSafe(run)).map_err(take_text)
}

/// Runs code of the user. Returns `None` if it panicked.
#[inline]
pub fn run<R>(run: impl FnOnce() -> R) -> Option<R> {
    catch(run).ok()
}

/// Drops a value of the user. A panic of its `Drop` must not stop the remaining cleanup.
#[inline]
pub fn discard<T>(value: T) {
    run(|| drop(value));
}

/// Polls a future up to its end, or its panic.
///
/// # Errors
/// The text of its panic.
pub fn caught<F: Future>(future: F) -> impl Future<Output = Result<F::Output, Arc<str>>> {
    AssertUnwindSafe(future).catch_unwind().map(|ended| ended.map_err(take_text))
}

/// Returns the text of a panic, and drops its payload, whose own `Drop` may panic.
#[cold]
fn take_text(panic: Box<dyn Any + Send>) -> Arc<str> {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("a panic without a message").into();
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Its drop may panic in turn, without an end: it is leaked.
        std::mem::forget(again);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A payload whose `Drop` panics with another one.
    struct Endless;

    impl Drop for Endless {
        fn drop(&mut self) {
            std::panic::panic_any(Endless);
        }
    }

    #[test]
    fn a_payload_that_panics_without_an_end_ends_nothing() {
        let text = catch(|| std::panic::panic_any(Endless)).unwrap_err();
        assert_eq!(&*text, "a panic without a message");
        discard(Endless);
        assert_eq!(catch(|| panic!("of {}", 7)), Err("of 7".into()) as Result<(), Arc<str>>);
    }

    /// Panics while it is dropped, as a subscriber does that a destructor logs to.
    struct Shielded<'a>(&'a std::cell::Cell<bool>);

    impl Drop for Shielded<'_> {
        fn drop(&mut self) {
            self.0.set(run(|| panic!("while another panic unwinds")).is_none());
        }
    }

    #[test]
    fn a_panic_is_caught_while_another_one_unwinds() {
        let is_caught = std::cell::Cell::new(false);
        let text = catch(|| {
            let _shielded = Shielded(&is_caught);
            panic!("the first one");
        });
        assert_eq!(text, Err("the first one".into()) as Result<(), Arc<str>>);
        assert!(is_caught.get());
    }
}
