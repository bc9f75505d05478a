//! One line of a log.

use std::fmt;

use crate::limits::NAME_BYTES_MAX;

/// The fate of a committed message, as its sender was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate<'a> {
    /// It was put into the mailbox.
    Delivered,
    /// It was not sent.
    NotSent,
    /// It may have been handled or not.
    Unknown,
    /// The receiver's side refused it, and why.
    Refused(&'a str),
}

/// Identifies a message: its number in a stream of a run of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The node that sent it.
    pub node: &'a str,
    /// The run of the node.
    pub run: u64,
    /// The stream.
    pub stream: &'a str,
    /// Its number in the stream.
    pub number: u64,
}

/// The event that a line records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// All messages of `stream` are for one mailbox.
    Stream {
        /// The stream.
        stream: &'a str,
        /// The mailbox's node.
        node: &'a str,
        /// The mailbox.
        mailbox: &'a str,
    },
    /// A message is about to be sent.
    Try(&'a str, u64),
    /// A message that wants an answer is about to be sent.
    Ask(&'a str, u64),
    /// The send returned: the message was accepted.
    Committed(&'a str, u64),
    /// The send failed before the commit, and why: the message was given back.
    Refused(&'a str, u64, &'a str),
    /// The sender was told this fate after the commit; without a number, it was not told which
    /// message of the stream had it.
    Fate(&'a str, Option<u64>, Fate<'a>),
    /// The answer came.
    Answered(&'a str, u64),
    /// A message in this mailbox is being handled.
    Handled(&'a str, Origin<'a>),
    /// The same, but its bytes differ from the sent bytes.
    Damaged(&'a str, Origin<'a>),
    /// This mailbox ended; the messages still in it were not handled.
    Closed(&'a str),
    /// Anything, for people.
    Remark(&'a str),
    /// The run ended in order: every message delivered to it was handled.
    End,
}

/// Why a line is no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEvent {
    /// The first word is none that a line starts with.
    #[error("no event is called `{0}`")]
    Unknown(String),
    /// A word is missing, or there is one too many.
    #[error("`{0}` has {1}")]
    Words(&'static str, &'static str),
    /// A number is none, or too large.
    #[error("`{0}` is not a number below 2^64")]
    Number(String),
    /// A name is too long or has a byte that it may not have.
    #[error("a name has 1 to 128 printable ASCII characters, none a space: {0:?}")]
    Name(String),
    /// The word after the number is not a fate.
    #[error("no fate is called `{0}`")]
    NoFate(String),
    /// A message was delivered, but it is not said which.
    #[error("`delivered` needs the number of its message")]
    Unnamed,
}

/// The words of a line after the first.
struct Words<'a> {
    event: &'static str,
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn word(&mut self) -> Result<&'a str, BadEvent> {
        let (word, rest) = self.rest.split_once(' ').unwrap_or((self.rest, ""));
        self.rest = rest;
        if word.is_empty() {
            return Err(BadEvent::Words(self.event, "too few words, or two spaces"));
        }
        Ok(word)
    }

    fn name(&mut self) -> Result<&'a str, BadEvent> {
        let word = self.word()?;
        match word.len() <= NAME_BYTES_MAX && word.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(word),
            false => Err(BadEvent::Name(word.chars().take(NAME_BYTES_MAX).collect())),
        }
    }

    fn number(&mut self) -> Result<u64, BadEvent> {
        let word = self.word()?;
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        let number = word.parse().ok().filter(|_| digits);
        number.ok_or_else(|| BadEvent::Number(word.chars().take(NAME_BYTES_MAX).collect()))
    }

    fn origin(&mut self) -> Result<Origin<'a>, BadEvent> {
        let (node, run) = (self.name()?, self.number()?);
        Ok(Origin { node, run, stream: self.name()?, number: self.number()? })
    }

    fn end(self) -> Result<(), BadEvent> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(BadEvent::Words(self.event, "too many words")),
        }
    }
}

/// Node and run of the first line.
pub(crate) fn header(line: &str) -> Result<(&str, u64), BadEvent> {
    let Some(rest) = line.strip_prefix("history 1 ") else {
        return Err(BadEvent::Words("history", "to be the first line: `history 1 NODE RUN`"));
    };
    let mut words = Words { event: "history", rest };
    let header = (words.name()?, words.number()?);
    words.end()?;
    Ok(header)
}

impl<'a> Event<'a> {
    /// Reads a line, without its end.
    ///
    /// # Errors
    /// [`BadEvent`] when it is not an event.
    pub fn parse(line: &'a str) -> Result<Self, BadEvent> {
        if let Some(text) = line.strip_prefix('#') {
            return Ok(Event::Remark(text.strip_prefix(' ').unwrap_or(text)));
        }
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        let event = EVENTS.into_iter().find(|event| *event == first);
        let Some(event) = event else {
            return Err(BadEvent::Unknown(first.chars().take(NAME_BYTES_MAX).collect()));
        };
        let mut words = Words { event, rest };
        let parsed = match event {
            "stream" => {
                Event::Stream { stream: words.name()?, node: words.name()?, mailbox: words.name()? }
            }
            "try" => Event::Try(words.name()?, words.number()?),
            "ask" => Event::Ask(words.name()?, words.number()?),
            "committed" => Event::Committed(words.name()?, words.number()?),
            "refused" => {
                let (stream, number) = (words.name()?, words.number()?);
                Event::Refused(stream, number, std::mem::take(&mut words.rest))
            }
            "fate" => Event::parse_fate(&mut words)?,
            "answered" => Event::Answered(words.name()?, words.number()?),
            "handled" => Event::Handled(words.name()?, words.origin()?),
            "damaged" => Event::Damaged(words.name()?, words.origin()?),
            "closed" => Event::Closed(words.name()?),
            _ => Event::End,
        };
        words.end()?;
        Ok(parsed)
    }

    fn parse_fate(words: &mut Words<'a>) -> Result<Self, BadEvent> {
        let stream = words.name()?;
        let unnamed = words.rest.starts_with("? ");
        let number = if unnamed { words.word().map(|_| None)? } else { Some(words.number()?) };
        let fate = match words.word()? {
            "delivered" if unnamed => return Err(BadEvent::Unnamed),
            "delivered" => Fate::Delivered,
            "not-sent" => Fate::NotSent,
            "unknown" => Fate::Unknown,
            "refused" => Fate::Refused(std::mem::take(&mut words.rest)),
            word => return Err(BadEvent::NoFate(word.chars().take(NAME_BYTES_MAX).collect())),
        };
        Ok(Event::Fate(stream, number, fate))
    }
}

const EVENTS: [&str; 11] = [
    "stream",
    "try",
    "ask",
    "committed",
    "refused",
    "fate",
    "answered",
    "handled",
    "damaged",
    "closed",
    "end",
];

impl fmt::Display for Fate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Delivered => f.write_str("delivered"),
            Fate::NotSent => f.write_str("not-sent"),
            Fate::Unknown => f.write_str("unknown"),
            Fate::Refused("") => f.write_str("refused"),
            Fate::Refused(cause) => write!(f, "refused {cause}"),
        }
    }
}

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.node, self.run, self.stream, self.number)
    }
}

/// The line, without its end.
impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Stream { stream, node, mailbox } => {
                write!(f, "stream {stream} {node} {mailbox}")
            }
            Event::Try(stream, number) => write!(f, "try {stream} {number}"),
            Event::Ask(stream, number) => write!(f, "ask {stream} {number}"),
            Event::Committed(stream, number) => write!(f, "committed {stream} {number}"),
            Event::Refused(stream, number, "") => write!(f, "refused {stream} {number}"),
            Event::Refused(stream, number, cause) => write!(f, "refused {stream} {number} {cause}"),
            Event::Fate(stream, Some(number), fate) => write!(f, "fate {stream} {number} {fate}"),
            Event::Fate(stream, None, fate) => write!(f, "fate {stream} ? {fate}"),
            Event::Answered(stream, number) => write!(f, "answered {stream} {number}"),
            Event::Handled(mailbox, origin) => write!(f, "handled {mailbox} {origin}"),
            Event::Damaged(mailbox, origin) => write!(f, "damaged {mailbox} {origin}"),
            Event::Closed(mailbox) => write!(f, "closed {mailbox}"),
            Event::Remark(text) => write!(f, "# {text}"),
            Event::End => f.write_str("end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_read_as_it_was_written() {
        let origin = Origin { node: "a", run: 3, stream: "s", number: u64::MAX };
        let events = [
            Event::Stream { stream: "s", node: "b", mailbox: "m" },
            Event::Try("s", 1),
            Event::Ask("s", 2),
            Event::Committed("s", 1),
            Event::Refused("s", 1, ""),
            Event::Refused("s", 1, "the mailbox is full"),
            Event::Fate("s", Some(1), Fate::Delivered),
            Event::Fate("s", Some(1), Fate::NotSent),
            Event::Fate("s", None, Fate::Unknown),
            Event::Fate("s", None, Fate::Refused("closed it is")),
            Event::Fate("s", None, Fate::Refused("")),
            Event::Answered("s", 2),
            Event::Handled("m", origin),
            Event::Damaged("m", origin),
            Event::Closed("m"),
            Event::Remark("a link went down"),
            Event::End,
        ];
        for event in events {
            let line = event.to_string();
            assert_eq!(Event::parse(&line), Ok(event), "{line}");
        }
    }

    #[test]
    fn lines_that_are_no_events_are_errors_with_a_reason() {
        let long = format!("try {} 1", "x".repeat(NAME_BYTES_MAX + 1));
        for (line, reason) in [
            ("", "no event is called ``"),
            ("tried s 1", "no event is called `tried`"),
            ("try s", "`try` has too few words, or two spaces"),
            ("try  s 1", "`try` has too few words, or two spaces"),
            ("try s 1 2", "`try` has too many words"),
            ("try s +1", "`+1` is not a number"),
            ("try s 18446744073709551616", "is not a number"),
            ("try s\u{e9} 1", "a name has 1 to 128"),
            (&long, "a name has 1 to 128"),
            ("fate s 1 gone", "no fate is called `gone`"),
            ("fate s ? delivered", "`delivered` needs the number"),
            ("end now", "`end` has too many words"),
        ] {
            let error = Event::parse(line).unwrap_err().to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
        assert!(header("history 2 a 1").is_err());
        assert!(header("history 1 a").is_err());
        assert_eq!(header("history 1 a 7"), Ok(("a", 7)));
    }
}
