//! Writes a log while its program runs.

use std::fmt::Write as _;
use std::io::{Error, ErrorKind, Result, Write};

use crate::event::{Event, header};
use crate::limits::LINE_BYTES_MAX;

/// Writes one log, each line with one write: the events noted before a program is killed are kept.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    line: String,
}

impl<W: Write> Writer<W> {
    /// Starts the log of a run of a node. A later run of the node has a larger number.
    ///
    /// # Errors
    /// Errors of `out`, and `InvalidInput` if `node` cannot be a name.
    pub fn start(out: W, node: &str, run: u64) -> Result<Self> {
        let mut writer = Writer { out, line: format!("history 1 {node} {run}") };
        if header(&writer.line) != Ok((node, run)) {
            return Err(Error::new(ErrorKind::InvalidInput, writer.line));
        }
        writer.write()?;
        Ok(writer)
    }

    /// Writes an event down.
    ///
    /// # Errors
    /// Errors of `out`, and `InvalidInput` if the event could not be read back: a name or a cause
    /// has a forbidden character, or is too long.
    pub fn note(&mut self, event: &Event<'_>) -> Result<()> {
        self.line.clear();
        write!(self.line, "{event}").map_err(Error::other)?;
        let fits = self.line.len() <= LINE_BYTES_MAX && !self.line.contains('\n');
        if !fits || Event::parse(&self.line).as_ref() != Ok(event) {
            return Err(Error::new(ErrorKind::InvalidInput, self.line.clone()));
        }
        self.write()
    }

    /// Returns the underlying writer.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    fn write(&mut self) -> Result<()> {
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_read_is_not_written() {
        let mut writer = Writer::start(Vec::new(), "a", 1).unwrap();
        writer.note(&Event::Refused("s", 1, "the node left")).unwrap();
        for bad in [Event::Try("a b", 1), Event::Refused("s", 1, "a\nend"), Event::Closed("")] {
            assert_eq!(writer.note(&bad).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(writer.get_ref(), b"history 1 a 1\nrefused s 1 the node left\n");
        assert!(Writer::start(Vec::new(), "a b", 1).is_err());
    }
}
