//! The frame of each entry: it keeps panics inside, and checks the arguments of C.
//!
//! - **CA-1 the caller's memory**: a pointer with a length, or a text, is what the header of the
//!   entry asks for: memory that stays, and that nobody else writes, until the call returns. (The
//!   memory of `rdma_irecv` stays until its request is over.) Null is found; a wrong length is not.

#![allow(unsafe_code, reason = "pointers of C become slices here")]

use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::failure::{Code, Failure, note};

/// Runs an entry. A failure is noted for the thread, and `failed` returned; so it is for a panic,
/// which is a defect.
pub(crate) fn entry<T>(failed: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    // After a panic the values of the body are dropped, or under locks that are not poisoned.
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(done)) => return done,
        Ok(Err(failure)) => failure,
        Err(panic) => defect(panic),
    };
    note(failure);
    failed
}

fn defect(panic: Box<dyn Any + Send>) -> Failure {
    let text = match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => match panic.downcast::<&str>() {
            Ok(text) => (*text).to_owned(),
            Err(panic) => {
                // Its drop might panic, too.
                std::mem::forget(panic);
                String::from("it gives no reason")
            }
        },
    };
    Failure::new(Code::Defect, format!("the call panicked, which is a defect of ringpost: {text}"))
}

/// Returns the bytes that C hands over to be read.
///
/// # Errors
/// A null pointer with a length.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be read for as long as what this returns is used.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::invalid(format!("null was given for {len} bytes to read"))),
        (false, _) if len > isize::MAX as usize => Err(too_large(len)),
        // SAFETY: It is not null, no object is larger than `isize::MAX`, and the caller of this
        // function says that the bytes may be read.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) }),
    }
}

/// Copies bytes to where C wants them.
///
/// # Errors
/// A null pointer for one byte or more.
///
/// # Safety
/// CA-1: `from.len()` bytes at `to` may be written.
pub(crate) unsafe fn fill(to: *mut c_void, from: &[u8]) -> Result<(), Failure> {
    if from.is_empty() {
        return Ok(());
    }
    room(to, from.len())?;
    // SAFETY: It is not null, the caller of this function says that these bytes may be written,
    // and `from` is a Rust slice of this library, which does not overlap with them.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), from.len()) };
    Ok(())
}

/// Reads bytes at an offset, for C: `read` returns as many as the range has.
///
/// # Errors
/// A null pointer for one byte or more, an end that is past all numbers, and the errors of `read`.
///
/// # Safety
/// CA-1: `len` bytes at `to` may be written.
pub(crate) unsafe fn fill_from(
    offset: usize,
    to: *mut c_void,
    len: usize,
    read: impl FnOnce(Range<usize>) -> Result<Vec<u8>, Failure>,
) -> Result<c_int, Failure> {
    room(to, len)?;
    let end = offset.checked_add(len).ok_or_else(|| too_large(len))?;
    // SAFETY: The caller of this function gives `len` bytes, and just `len` were read.
    unsafe { fill(to, &read(offset..end)?)? };
    Ok(0)
}

/// Copies a text with its final null to a buffer of `len` bytes, and returns its length without it.
///
/// # Errors
/// The buffer is null or too small.
///
/// # Safety
/// CA-1: `len` bytes at `to` may be written.
pub(crate) unsafe fn fill_text(to: *mut c_char, len: usize, text: &str) -> Result<c_int, Failure> {
    if text.len() >= len {
        let what = format!("the text has {} bytes, and the buffer {len}", text.len() + 1);
        return Err(Failure::new(Code::TooLarge, what));
    }
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    // SAFETY: There are not more than `len`.
    unsafe { fill(to.cast(), &bytes)? };
    count(text.len())
}

/// Checks that there is memory for `len` bytes, before they are taken from an inbox or a peer.
///
/// # Errors
/// A null pointer for one byte or more.
pub(crate) fn room(to: *mut c_void, len: usize) -> Result<(), Failure> {
    if to.is_null() && len > 0 {
        return Err(Failure::invalid(format!("null was given for {len} bytes to write")));
    }
    Ok(())
}

/// Returns the text that C hands over.
///
/// # Errors
/// A null pointer, and a text that is not UTF-8.
///
/// # Safety
/// CA-1: `text` is null or ends with a null, and may be read as long as what this returns is used.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::invalid(format!("null was given for {what}")));
    }
    // SAFETY: It is not null, and the caller of this function says that it ends with a null.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

/// Writes a value for C, unless the pointer is null.
///
/// # Safety
/// CA-1: `to` is null, or a `T` may be written there.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: The caller of this function says so. It may be unaligned.
        unsafe { to.write_unaligned(value) };
    }
}

/// Returns a number of bytes as C's `int`.
///
/// # Errors
/// It has no room in it.
pub(crate) fn count(len: usize) -> Result<c_int, Failure> {
    c_int::try_from(len).map_err(|_| too_large(len))
}

/// Returns the time that C means: below zero it is none.
pub(crate) fn time(milliseconds: c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

pub(crate) fn too_large(len: usize) -> Failure {
    Failure::new(Code::TooLarge, format!("{len} bytes are more than one call can handle"))
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;
    use crate::failure::{last_code, last_text};

    extern "C" fn panicking(how: c_int) -> c_int {
        entry(-1, || match how {
            0 => Ok(7),
            1 => panic!("{how} apple"),
            2 => panic!("pear"),
            _ => panic_any(how),
        })
    }

    #[test]
    fn a_panic_inside_is_an_error_code_with_its_text() {
        assert_eq!(panicking(0), 7);
        for (how, text) in [(1, "1 apple"), (2, "pear"), (3, "it gives no reason")] {
            assert_eq!((panicking(how), last_code()), (-1, Code::Defect as c_int));
            // SAFETY: It is the text of this thread, on which no other call has failed since.
            let noted = unsafe { CStr::from_ptr(last_text()) }.to_str().unwrap();
            assert!(noted.contains("defect") && noted.ends_with(text), "{noted}");
        }
        let elsewhere = std::thread::spawn(last_code).join().unwrap();
        assert_eq!(elsewhere, 0, "each thread has an error of its own");
    }
}
