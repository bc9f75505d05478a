//! The findings of a run, and their text.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::crew::Exit;
use crate::feed::Fed;
use crate::files::{Skipped, Why};
use crate::progress::megabytes;
use crate::steward::Traffic;
use crate::tally::Tally;

/// How many words are printed.
const TOP: usize = 20;

/// How many skipped files of a kind are named.
const NAMED: usize = 5;

/// A word count that came to its end, perhaps without all of its nodes.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) tally: Tally,
    pub(crate) fed: Fed,
    pub(crate) elapsed: Duration,
    /// Name and process of each node, the driver left out.
    pub(crate) nodes: Vec<(String, u32)>,
    /// The traffic of each node's links, as the node reports it.
    pub(crate) links: Vec<(String, Vec<Traffic>)>,
    pub(crate) losses: Vec<Loss>,
    /// Processes that did not end cleanly.
    pub(crate) crashes: Vec<Exit>,
}

/// Text that was read and is not in the result, or may not be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Loss {
    #[error("node {name} is lost: {cause}")]
    Node { name: String, cause: String },
    #[error("{read} bytes were read and the nodes that answered counted {counted}")]
    Bytes { read: u64, counted: u64 },
    #[error("the nodes that answered counted {counted} words and have {tables} in their tables")]
    Words { counted: u64, tables: u64 },
}

impl Run {
    /// Notes that a node did not answer. It is not asked again: each time would be a wait.
    pub(crate) fn lose_node(&mut self, name: &str, cause: &dyn Error) {
        self.losses.push(Loss::Node { name: name.to_owned(), cause: cause.to_string() });
    }

    /// Returns true if a node has been lost.
    pub(crate) fn has_lost(&self, name: &str) -> bool {
        self.losses.iter().any(|loss| matches!(loss, Loss::Node { name: lost, .. } if lost == name))
    }

    /// Returns true if every word of the files that were handed on is in the tally.
    pub(crate) fn is_whole(&self) -> bool {
        let changed = |skipped: &Skipped| matches!(skipped.why, Why::Changed(_));
        self.losses.is_empty() && self.fed.unread == 0 && !self.fed.skipped.iter().any(changed)
    }

    /// Returns true if there was no text file to count.
    pub(crate) fn is_empty(&self) -> bool {
        self.fed.sources.is_empty()
    }

    /// Returns true if it is whole and every file that was asked for could be read.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_whole() && !self.is_empty() && !self.fed.skipped.iter().any(Skipped::is_loss)
    }

    /// Lists the input that is not in the result, one line each.
    pub(crate) fn gaps(&self) -> Vec<String> {
        let nothing = "nothing was counted: there is no text file below the paths";
        let mut lines = Vec::from_iter(self.is_empty().then(|| nothing.to_owned()));
        let not_text: Vec<_> = self.fed.skipped.iter().filter(|s| !s.is_loss()).collect();
        if let Some(first) = not_text.first() {
            let (count, path) = (not_text.len(), &first.path);
            lines
                .push(format!("passed over {count} files that are not UTF-8 text, first {path:?}"));
        }
        let lost: Vec<_> = self.fed.skipped.iter().filter(|s| s.is_loss()).collect();
        lines.extend(lost.iter().take(NAMED).map(|s| format!("not counted: {s}")));
        if lost.len() > NAMED {
            lines.push(format!("not counted: {} more that cannot be read", lost.len() - NAMED));
        }
        lines.extend(self.losses.iter().map(|loss| format!("lost: {loss}")));
        if self.fed.unread > 0 {
            lines.push(format!(
                "lost: {} files were not read, as no node was left",
                self.fed.unread
            ));
        }
        lines.extend(self.crashes.iter().map(Exit::to_string));
        lines
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (word, count) in self.tally.top(TOP) {
            writeln!(f, "{count:>12}  {word}")?;
        }
        let Tally { table, words, bytes } = &self.tally;
        writeln!(f, "words  {words}, {} different", table.len())?;
        writeln!(f, "bytes  {bytes} in {} files", self.fed.sources.len())?;
        let seconds = self.elapsed.as_secs_f64();
        let rate = megabytes(*bytes) / seconds.max(1e-9);
        writeln!(f, "time   {seconds:.2} s, {rate:.1} MB/s")?;
        write!(f, "nodes  driver pid {}", std::process::id())?;
        for (name, pid) in &self.nodes {
            write!(f, ", {name} pid {pid}")?;
        }
        writeln!(f, "\n\n{:24} {:>24} {:>32}", "link", "messages out, in", "bytes out, in")?;
        for (name, links) in &self.links {
            for t in links {
                let link = format!("{name} - {}", t.peer);
                write!(f, "{link:24} {:>12}{:>12}", t.messages_sent, t.messages_received)?;
                writeln!(f, " {:>16}{:>16}", t.bytes_sent, t.bytes_received)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
