//! Judges the histories of messages: what each sender and each receiver wrote down while they ran.
//!
//! The logs and the rules are described in `docs/HISTORY.md`. The oracle is the logs alone: it
//! knows nothing of the library that carried the messages, nor of its books.
//!
//! ```
//! use ringpost_history::Books;
//!
//! let sender = "history 1 a 1\nstream s b inbox\ntry s 0\ncommitted s 0\nend\n";
//! let receiver = "history 1 b 1\nhandled inbox a 1 s 0\nhandled inbox a 1 s 0\nend\n";
//! let mut books = Books::default();
//! books.read("a.log", sender.as_bytes())?;
//! books.read("b.log", receiver.as_bytes())?;
//! let verdict = books.judge();
//! assert_eq!(verdict.violations[0].rule.to_string(), "HI-2 once");
//! # Ok::<(), ringpost_history::Unreadable>(())
//! ```

mod books;
mod event;
mod judge;
mod limits;
mod lives;
mod log;
mod verdict;
mod writer;

pub use books::Books;
pub use event::{BadEvent, Event, Fate, Origin};
pub use limits::{LINE_BYTES_MAX, NAME_BYTES_MAX};
pub use log::{Fault, Unreadable};
pub use verdict::{Place, Rule, Verdict, Violation};
pub use writer::Writer;
