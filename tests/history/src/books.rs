//! The events of all logs, grouped by stream, in a bounded amount of memory for each message.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use std::sync::Arc;

use crate::event::{Event, Fate, Origin, header};
use crate::log::{Fault, Lines, Unreadable};
use crate::verdict::Place;

/// A name, by its place in the table of names.
pub(crate) type Name = u32;

/// A stream: node, run, and its name.
pub(crate) type StreamKey = (Name, u64, Name);

/// The logs that were read.
#[derive(Debug, Default)]
pub struct Books {
    pub(crate) logs: Vec<Log>,
    pub(crate) streams: BTreeMap<StreamKey, Stream>,
    /// How often a mailbox ended, by node, mailbox and run.
    pub(crate) closed: BTreeMap<(Name, Name), BTreeMap<u64, u64>>,
    names: Vec<Arc<str>>,
    known: HashMap<Arc<str>, Name>,
}

/// The log of one run of one node.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) file: Arc<str>,
    pub(crate) node: Name,
    pub(crate) run: u64,
    /// The line of its `end`; without one the run was killed.
    pub(crate) ended: Option<u64>,
}

/// A line of a log, small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) log: u32,
    pub(crate) line: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Node and mailbox it goes to, where its sender's log says so.
    pub(crate) to: Option<(Name, Name, At)>,
    /// By number, which rises.
    pub(crate) sent: Vec<Sent>,
    pub(crate) handled: Vec<Handled>,
    /// Fates of messages that are not named.
    pub(crate) unnamed: Vec<(End, At)>,
    /// Second ends of messages, by place in `sent`.
    pub(crate) again: Vec<(usize, End, At)>,
}

#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) number: u64,
    pub(crate) ask: bool,
    pub(crate) tried: At,
    pub(crate) committed: Option<At>,
    pub(crate) end: Option<(End, At)>,
}

/// How a send ended, as its sender was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    GivenBack,
    Answered,
    Delivered,
    NotSent,
    Unknown,
    Refused,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Handled {
    pub(crate) number: u64,
    /// Run of the receiver, and how often the mailbox had ended in it.
    pub(crate) life: (u64, u64),
    pub(crate) by: (Name, Name),
    pub(crate) whole: bool,
    pub(crate) at: At,
}

impl Books {
    /// Reads the log of one run of one node to its end. Violations call it `file`.
    ///
    /// # Errors
    /// [`Unreadable`] if it is not a log; then these books must not be trusted.
    pub fn read(&mut self, file: &str, input: impl BufRead) -> Result<(), Unreadable> {
        let mut lines = Lines::new(input);
        let file: Arc<str> = file.into();
        self.read_lines(&file, &mut lines).map_err(|fault| Unreadable {
            log: file,
            line: if matches!(fault, Fault::Io(_)) { 0 } else { lines.number() },
            fault,
        })
    }

    fn read_lines(
        &mut self,
        file: &Arc<str>,
        lines: &mut Lines<impl BufRead>,
    ) -> Result<(), Fault> {
        let (_, first) = lines.next()?.ok_or(Fault::Empty)?;
        let (node, run) = header(first)?;
        let node = self.name(node);
        if let Some(other) = self.logs.iter().find(|log| (log.node, log.run) == (node, run)) {
            return Err(Fault::SameRun(other.file.clone()));
        }
        let log = self.logs.len() as u32;
        self.logs.push(Log { file: file.clone(), node, run, ended: None });
        let mut ended = None;
        while let Some((line, text)) = lines.next()? {
            if ended.is_some() {
                return Err(Fault::AfterEnd);
            }
            match Event::parse(text)? {
                Event::End => ended = Some(line),
                event => self.note((node, run), event, At { log, line })?,
            }
        }
        if ended.is_some() && lines.is_cut() {
            return Err(Fault::AfterEnd);
        }
        self.logs[log as usize].ended = ended;
        Ok(())
    }

    fn note(&mut self, who: (Name, u64), event: Event<'_>, at: At) -> Result<(), Fault> {
        match event {
            Event::Stream { stream, node, mailbox } => {
                let to = (self.name(node), self.name(mailbox), at);
                let key = (who.0, who.1, self.name(stream));
                match self.streams.entry(key).or_default().to.replace(to) {
                    None => Ok(()),
                    Some(_) => Err(Fault::StreamTwice(stream.to_owned())),
                }
            }
            Event::Try(stream, number) => self.stream(who, stream)?.tried(number, false, at),
            Event::Ask(stream, number) => self.stream(who, stream)?.tried(number, true, at),
            Event::Committed(stream, number) => self.stream(who, stream)?.committed(number, at),
            Event::Refused(stream, number, _) => {
                self.stream(who, stream)?.ended(number, End::GivenBack, at)
            }
            Event::Answered(stream, number) => {
                self.stream(who, stream)?.ended(number, End::Answered, at)
            }
            Event::Fate(stream, number, fate) => {
                let stream = self.stream(who, stream)?;
                let end = End::from(fate);
                match number {
                    Some(number) => stream.ended(number, end, at),
                    None => {
                        stream.unnamed.push((end, at));
                        Ok(())
                    }
                }
            }
            Event::Handled(mailbox, origin) => self.handled(who, mailbox, origin, true, at),
            Event::Damaged(mailbox, origin) => self.handled(who, mailbox, origin, false, at),
            Event::Closed(mailbox) => {
                let mailbox = self.name(mailbox);
                let runs = self.closed.entry((who.0, mailbox)).or_default();
                *runs.entry(who.1).or_default() += 1;
                Ok(())
            }
            Event::Remark(_) | Event::End => Ok(()),
        }
    }

    fn handled(
        &mut self,
        who: (Name, u64),
        mailbox: &str,
        origin: Origin<'_>,
        whole: bool,
        at: At,
    ) -> Result<(), Fault> {
        let by = (who.0, self.name(mailbox));
        let closed = self.closed.get(&by).and_then(|runs| runs.get(&who.1));
        let life = (who.1, closed.copied().unwrap_or_default());
        let key = (self.name(origin.node), origin.run, self.name(origin.stream));
        let handled = Handled { number: origin.number, life, by, whole, at };
        self.streams.entry(key).or_default().handled.push(handled);
        Ok(())
    }

    fn stream(&mut self, who: (Name, u64), stream: &str) -> Result<&mut Stream, Fault> {
        let key = (who.0, who.1, self.name(stream));
        let found = self.streams.get_mut(&key).filter(|stream| stream.to.is_some());
        found.ok_or_else(|| Fault::NoStream(stream.to_owned()))
    }

    fn name(&mut self, name: &str) -> Name {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        let (text, number): (Arc<str>, _) = (name.into(), self.names.len() as Name);
        self.names.push(text.clone());
        self.known.insert(text, number);
        number
    }

    pub(crate) fn text(&self, name: Name) -> &str {
        &self.names[name as usize]
    }

    pub(crate) fn place(&self, at: At, what: &'static str) -> Place {
        Place { log: self.logs[at.log as usize].file.clone(), line: at.line, what }
    }
}

impl Stream {
    fn tried(&mut self, number: u64, ask: bool, at: At) -> Result<(), Fault> {
        if let Some(last) = self.sent.last().filter(|last| last.number >= number) {
            return Err(Fault::NotRising(number, last.number));
        }
        self.sent.push(Sent { number, ask, tried: at, committed: None, end: None });
        Ok(())
    }

    fn committed(&mut self, number: u64, at: At) -> Result<(), Fault> {
        let index = self.find(number).ok_or(Fault::NotTried(number))?;
        match self.sent[index].committed.replace(at) {
            None => Ok(()),
            Some(_) => Err(Fault::CommittedTwice(number)),
        }
    }

    fn ended(&mut self, number: u64, end: End, at: At) -> Result<(), Fault> {
        let index = self.find(number).ok_or(Fault::NotTried(number))?;
        let sent = &mut self.sent[index];
        if end == End::Answered && !sent.ask {
            return Err(Fault::NoAsk(number));
        }
        match sent.end {
            None => sent.end = Some((end, at)),
            Some(_) => self.again.push((index, end, at)),
        }
        Ok(())
    }

    /// The place of a message in `sent`.
    pub(crate) fn find(&self, number: u64) -> Option<usize> {
        self.sent.binary_search_by_key(&number, |sent| sent.number).ok()
    }
}

impl From<Fate<'_>> for End {
    fn from(fate: Fate<'_>) -> Self {
        match fate {
            Fate::Delivered => End::Delivered,
            Fate::NotSent => End::NotSent,
            Fate::Unknown => End::Unknown,
            Fate::Refused(_) => End::Refused,
        }
    }
}
