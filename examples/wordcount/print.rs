//! Printing that survives a reader who went away, as in `wordcount | head`.

use std::io::{self, ErrorKind, Write};

/// Prints a part of the result on standard output.
///
/// # Errors
/// When it cannot be written, other than for want of a reader.
pub(crate) fn result(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Prints a line about the run on standard error, if that can be written.
pub(crate) fn note(line: &str) {
    // There is nowhere to say that standard error cannot be written.
    drop(io::stderr().lock().write_all(format!("{line}\n").as_bytes()));
}
