//! The verdict: the violations of the rules, and some counts.

use std::fmt;
use std::sync::Arc;

/// The rules, which `docs/HISTORY.md` states by these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// HI-1.
    Tried = 1,
    /// HI-2.
    Once,
    /// HI-3.
    Order,
    /// HI-4.
    Whole,
    /// HI-5.
    GivenBack,
    /// HI-6.
    NotSent,
    /// HI-7.
    Delivered,
    /// HI-8.
    Answered,
    /// HI-9.
    OneEnd,
    /// HI-10.
    Accounted,
    /// HI-11.
    Counted,
    /// HI-12.
    Ended,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Rule::Tried => "tried",
            Rule::Once => "once",
            Rule::Order => "order",
            Rule::Whole => "whole",
            Rule::GivenBack => "given back",
            Rule::NotSent => "not sent",
            Rule::Delivered => "delivered",
            Rule::Answered => "answered",
            Rule::OneEnd => "one end",
            Rule::Accounted => "accounted",
            Rule::Counted => "counted",
            Rule::Ended => "ended",
        };
        write!(f, "HI-{} {name}", *self as u8)
    }
}

/// A line that proves something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The log.
    pub log: Arc<str>,
    /// The line, from 1.
    pub line: u64,
    /// The role of this line, in a few words.
    pub what: &'static str,
}

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The violation in one sentence.
    pub what: String,
    /// The lines that prove it.
    pub proof: Vec<Place>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)?;
        for place in &self.proof {
            write!(f, "\n  {}:{}: {}", place.log, place.line, place.what)?;
        }
        Ok(())
    }
}

/// The verdict on a history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Logs that were read.
    pub logs: u64,
    /// Logs without an `end`: their runs were killed.
    pub killed: u64,
    /// Messages that were tried.
    pub messages: u64,
    /// How often a message was handled.
    pub handled: u64,
    /// Fates that were reported as unknown.
    pub unknown: u64,
    /// The rules that were broken, by stream.
    pub violations: Vec<Violation>,
}

/// Formats the counts as one line.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { logs, killed, messages, handled, unknown, violations } = self;
        write!(
            f,
            "history: {logs} logs ({killed} killed), {messages} messages, {handled} handled, \
             {unknown} unknown, {} violations",
            violations.len()
        )
    }
}
