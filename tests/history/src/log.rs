//! Reads a log line by line, as far as it was written.

use std::io::{BufRead, Read};
use std::sync::Arc;

use crate::event::BadEvent;
use crate::limits::LINE_BYTES_MAX;

/// Why a log cannot be judged.
#[derive(Debug, thiserror::Error)]
#[error("{log}:{line}: {fault}")]
pub struct Unreadable {
    /// The log.
    pub log: Arc<str>,
    /// The line; 0: the file as a whole.
    pub line: u64,
    /// The fault that was found there.
    pub fault: Fault,
}

/// A reason why a log is unreadable.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It could not be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It has no whole first line.
    #[error("the first line is missing: `history 1 NODE RUN`")]
    Empty,
    /// A line is too long.
    #[error("the line has more than {LINE_BYTES_MAX} bytes")]
    Long,
    /// A line is not text.
    #[error("the line is not UTF-8")]
    NotText,
    /// A line says nothing that is known.
    #[error(transparent)]
    Event(#[from] BadEvent),
    /// There is something after `end`.
    #[error("something follows `end`")]
    AfterEnd,
    /// Two logs tell of the same run of the same node.
    #[error("{0} tells of the same run of the same node: give each run a number of its own")]
    SameRun(Arc<str>),
    /// The stream was not declared.
    #[error("there was no `stream` line of stream `{0}`")]
    NoStream(String),
    /// The stream was declared twice.
    #[error("stream `{0}` was declared before")]
    StreamTwice(String),
    /// The numbers of a stream do not rise.
    #[error("message {0} is tried after message {1} of its stream: numbers rise")]
    NotRising(u64, u64),
    /// Something is said of a message that was not tried.
    #[error("message {0} of the stream was not tried before this line")]
    NotTried(u64),
    /// A message was committed twice.
    #[error("message {0} of the stream was committed before")]
    CommittedTwice(u64),
    /// An answer to a message that wanted none.
    #[error("message {0} of the stream was no `ask`")]
    NoAsk(u64),
}

/// The lines of a log.
pub(crate) struct Lines<R> {
    input: R,
    bytes: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Lines { input, bytes: Vec::new(), number: 0 }
    }

    /// The number of the line that was read last.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the next line and its number. A last line without an end is ignored: it was cut when
    /// its writer was killed.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &str)>, Fault> {
        self.number += 1;
        self.bytes.clear();
        let most = LINE_BYTES_MAX as u64 + 1;
        self.input.by_ref().take(most).read_until(b'\n', &mut self.bytes)?;
        if self.bytes.last() != Some(&b'\n') {
            let long = self.bytes.len() > LINE_BYTES_MAX;
            return if long { Err(Fault::Long) } else { Ok(None) };
        }
        self.bytes.pop();
        let line = std::str::from_utf8(&self.bytes).map_err(|_| Fault::NotText)?;
        Ok(Some((self.number, line)))
    }

    /// Returns true if the last line was cut.
    pub(crate) fn is_cut(&self) -> bool {
        !self.bytes.is_empty()
    }
}
