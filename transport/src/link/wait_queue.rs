//! Senders that wait at a link, in lines. Created with the link; under its lock.
//!
//! References that lead to one mailbox wait in one line, in the order they came; until the mailbox
//! is open, there is one line for each request (name or identity, and expected type). An entry that
//! was granted room has it, wherever its task is: the task commits when it runs, or gives the room
//! back when it is dropped. Joining, leaving and being granted room cost the same however many
//! others wait.
//!
//! - **WQ-4 bursts**: a task that commits a tell it was granted room for may commit
//!   [`BURST_MESSAGES`] tells in all before the senders that wait, as long as there is room that no
//!   sender was granted. So that there is some, room is granted in parts: a sixteenth of it, an
//!   eighth of the rest when the driver runs again, and so on; at last the whole rest. So a task
//!   that is woken but does not run holds up no other. New room ends all bursts.
//! - **WQ-5 leading**: while a sender that [leads](SendKind::leads) was granted room and has
//!   neither committed nor left, the line for its mailbox counts as waited in, and nothing more is
//!   granted. So messages behind it are committed after it, whichever task runs first.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use tokio::task;
use tokio::time::Instant;

use super::outgoing::{Found, SendKind, Unsent};
use crate::open_request::MessageForms;

/// Messages that a task may commit when it was granted room for one (WQ-4). A wake-up costs as
/// much as several messages do.
pub(super) const BURST_MESSAGES: u32 = 16;

/// The last of the parts in which room is granted, counted from 0 (WQ-4).
pub(super) const LAST_PART: u32 = BURST_MESSAGES.ilog2();

/// A part of the room is granted to at least this many senders, if there is room for them (WQ-4).
pub(super) const GRANTS_MIN: usize = 8;

/// Bursts that are remembered: of tasks that run at the same time, so few suffice.
const BURSTS_MAX: usize = 16;

/// All lines of a link.
#[derive(Default)]
pub(super) struct WaitQueue {
    entries: slab::Slab<Entry>,
    outlets: Vec<Ends>,
    mailboxes: Vec<Ends>,
    closings: Vec<Ends>,
    /// Wakers that are no longer needed. Dropping one may run code of its executor, so it is done
    /// without the lock.
    retired: Vec<Waker>,
    /// Wakers to be woken without the lock.
    woken: Vec<Waker>,
    /// Waits that ended, until they are counted: the reason and the length of each.
    waited: Vec<(WaitsFor, Duration)>,
    /// The last bursts that began and are not used up.
    bursts: VecDeque<Burst>,
    /// Mailboxes with another part of their room to grant, each once.
    unshared: Vec<u32>,
    /// A sender has joined a line since that was asked last.
    joined: bool,
}

/// A burst of a task to a mailbox, and how many messages are left of it (WQ-4).
struct Burst {
    task: task::Id,
    mailbox: u32,
    left: u32,
}

/// The thing that a sender waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitsFor {
    /// The peer has not answered yet whether there is such a mailbox.
    Opening,
    /// The mailbox is full, as far as this node may fill it.
    MailboxWindow,
    /// All mailboxes of the peer together are full.
    LinkWindow,
    /// Its turn: there is room, and those before it take it first.
    Turn,
    /// Credits: the ring of the peer is full. Only for committed messages, see
    /// [`LinkView::queued`](super::LinkView::queued).
    Credits,
}

/// A line, by the key of what its entries wait at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Line {
    /// The line for a mailbox to be opened.
    Opening(u32),
    /// The line for room in a mailbox.
    Room(u32),
    /// The line for a mailbox to close.
    Closing(u32),
}

const NONE: usize = usize::MAX;

/// First and last entry of a line, and how many there are.
#[derive(Debug, Clone, Copy)]
struct Ends {
    first: usize,
    last: usize,
    len: usize,
    /// The part of the room that is to be granted next, if it is not the first (WQ-4).
    part: u32,
    /// A sender that leads was granted room and has not committed (WQ-5).
    is_led: bool,
}

struct Entry {
    /// `None` once it was granted room or ended.
    line: Option<Line>,
    before: usize,
    after: usize,
    /// `None` once it was woken for the last time.
    waker: Option<Waker>,
    want: Want,
    standing: Standing,
    /// The thing it waits for, as it was at first, and the time since when; `None` once it was
    /// resolved.
    wait: Option<(WaitsFor, Instant)>,
}

/// A sender's message, its kind and its size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Want {
    pub(super) message: MessageForms,
    /// Where it probably is among what the mailbox accepts.
    pub(super) ordinal: u16,
    pub(super) kind: SendKind,
    pub(super) bytes: u32,
}

/// The standing of a sender that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    Waiting,
    /// It may commit: to this mailbox, under this ordinal and in this form. Room is reserved, but
    /// for an urgent signal.
    Granted {
        mailbox: u32,
        found: Found,
    },
    Ended(Unsent),
}

impl Standing {
    /// Returns the mailbox at which it was granted room.
    fn granted_at(&self) -> Option<u32> {
        match self {
            Standing::Granted { mailbox, .. } => Some(*mailbox),
            Standing::Waiting | Standing::Ended(_) => None,
        }
    }
}

/// A line in which senders wait.
pub(super) struct Waited {
    pub(super) line: Line,
    pub(super) senders: usize,
    /// Time since which the first one waits.
    pub(super) since: Instant,
}

impl WaitQueue {
    /// Adds a sender that waits at the end of a line.
    pub(super) fn join(
        &mut self,
        line: Line,
        waker: Waker,
        want: Want,
        for_what: Option<WaitsFor>,
    ) -> usize {
        // The task's later messages do not pass this one (WQ-4).
        if let Line::Room(mailbox) = line
            && let Some(burst) = self.burst(mailbox)
        {
            self.bursts.remove(burst);
        }
        self.joined = true;
        let key = self.stand_aside(waker, want);
        self.entries[key].wait = for_what.map(|for_what| (for_what, Instant::now()));
        self.append(key, line);
        key
    }

    /// Adds a sender that waits in no line: for the end of the link.
    pub(super) fn stand_aside(&mut self, waker: Waker, want: Want) -> usize {
        let (line, before, after, standing) = (None, NONE, NONE, Standing::Waiting);
        let (waker, wait) = (Some(waker), None);
        self.entries.insert(Entry { line, before, after, waker, want, standing, wait })
    }

    /// Returns true if a sender joined a line since the last call.
    pub(super) fn take_joined(&mut self) -> bool {
        std::mem::take(&mut self.joined)
    }

    /// Returns true if this entry waits in no line.
    pub(super) fn stands_aside(&self, key: usize) -> bool {
        let aside = |entry: &Entry| entry.line.is_none() && entry.standing == Standing::Waiting;
        self.entries.get(key).is_some_and(aside)
    }

    /// Returns true if nothing waits, or was granted room and has not used it.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn append(&mut self, key: usize, line: Line) {
        let ends = self.ends(line);
        let before = std::mem::replace(&mut ends.last, key);
        ends.len += 1;
        if before == NONE {
            ends.first = key;
        } else {
            self.entries[before].after = key;
        }
        let entry = &mut self.entries[key];
        (entry.line, entry.before, entry.after) = (Some(line), before, NONE);
    }

    fn unlink(&mut self, key: usize) {
        let entry = &mut self.entries[key];
        let (before, after) = (entry.before, entry.after);
        let Some(line) = entry.line.take() else { return };
        if let Some(entry) = self.entries.get_mut(before) {
            entry.after = after;
        }
        if let Some(entry) = self.entries.get_mut(after) {
            entry.before = before;
        }
        let ends = self.ends(line);
        ends.len -= 1;
        if ends.first == key {
            ends.first = after;
        }
        if ends.last == key {
            ends.last = before;
        }
    }

    fn ends(&mut self, line: Line) -> &mut Ends {
        let (lines, key) = match line {
            Line::Opening(key) => (&mut self.outlets, key as usize),
            Line::Room(key) => (&mut self.mailboxes, key as usize),
            Line::Closing(key) => (&mut self.closings, key as usize),
        };
        if key >= lines.len() {
            let none = Ends { first: NONE, last: NONE, len: 0, part: 0, is_led: false };
            lines.resize(key + 1, none);
        }
        &mut lines[key]
    }

    /// Returns true if any sender waits in a line, or leads it (WQ-5).
    #[inline]
    pub(super) fn is_waited(&self, line: Line) -> bool {
        !self.entries.is_empty() && (self.first(line).is_some() || self.is_led(line))
    }

    /// Returns true if a line is granted nothing now: a sender that leads has not committed (WQ-5).
    pub(super) fn is_led(&self, line: Line) -> bool {
        let Line::Room(mailbox) = line else { return false };
        self.mailboxes.get(mailbox as usize).is_some_and(|ends| ends.is_led)
    }

    /// Returns the first entry of a line.
    pub(super) fn first(&self, line: Line) -> Option<usize> {
        let (lines, key) = match line {
            Line::Opening(key) => (&self.outlets, key),
            Line::Room(key) => (&self.mailboxes, key),
            Line::Closing(key) => (&self.closings, key),
        };
        lines.get(key as usize).map(|ends| ends.first).filter(|first| *first != NONE)
    }

    /// Returns what an entry wants.
    pub(super) fn want(&self, key: usize) -> Want {
        self.entries[key].want
    }

    /// Returns true if no entry of its line came after this one.
    pub(super) fn is_last(&self, key: usize) -> bool {
        self.entries[key].after == NONE
    }

    /// Returns the line of an entry that waits.
    pub(super) fn line(&self, key: usize) -> Option<Line> {
        self.entries.get(key)?.line
    }

    /// Returns why an entry waits no longer, if its wait failed, even if the link has ended since.
    pub(super) fn outcome(&self, key: usize) -> Option<Unsent> {
        match &self.entries.get(key)?.standing {
            Standing::Ended(why) => Some(why.clone()),
            Standing::Waiting | Standing::Granted { .. } => None,
        }
    }

    /// Returns how far an entry has come.
    pub(super) fn standing(&self, key: usize) -> Standing {
        self.entries[key].standing.clone()
    }

    /// Keeps the waker of an entry that goes on waiting.
    pub(super) fn keep(&mut self, key: usize, waker: &Waker) {
        let kept = &mut self.entries[key].waker;
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            self.retired.extend(kept.replace(waker.clone()));
        }
    }

    /// Takes an entry out of its line: it may commit, or is told why not.
    pub(super) fn resolve(&mut self, key: usize, standing: Standing, now: Instant) {
        self.unlink(key);
        let entry = &mut self.entries[key];
        let led = if entry.want.kind.leads() { standing.granted_at() } else { None };
        entry.standing = standing;
        self.woken.extend(entry.waker.take());
        self.waited.extend(entry.wait.take().map(|(for_what, since)| (for_what, now - since)));
        if let Some(mailbox) = led {
            self.ends(Line::Room(mailbox)).is_led = true;
        }
    }

    /// Resolves every entry of a line alike.
    pub(super) fn resolve_all(&mut self, line: Line, standing: &Standing, now: Instant) {
        while let Some(key) = self.first(line) {
            self.resolve(key, standing.clone(), now);
        }
    }

    /// Moves an entry to the end of another line.
    pub(super) fn move_to(&mut self, key: usize, line: Line) {
        self.unlink(key);
        self.append(key, line);
    }

    /// Removes an entry; returns its want and its standing.
    pub(super) fn leave(&mut self, key: usize) -> Option<(Want, Standing)> {
        if !self.entries.contains(key) {
            return None;
        }
        self.unlink(key);
        let Entry { waker, want, standing, wait, .. } = self.entries.remove(key);
        if let Some(mailbox) = standing.granted_at().filter(|_| want.kind.leads()) {
            self.ends(Line::Room(mailbox)).is_led = false;
        }
        self.retired.extend(waker);
        self.waited.extend(wait.map(|(for_what, since)| (for_what, since.elapsed())));
        Some((want, standing))
    }

    /// Wakes all that wait, whatever for.
    pub(super) fn wake_all(&mut self) {
        self.woken.extend(self.entries.iter().filter_map(|(_, entry)| entry.waker.clone()));
    }

    /// Empties all lines: the link has ended. Returns the wakers of all, and the waits that ended.
    /// An entry whose wait failed before stays until its owner has looked: the end of a mailbox
    /// comes just before the goodbye of a node.
    pub(super) fn end(&mut self) -> (Vec<Waker>, Vec<(WaitsFor, Duration)>) {
        let entries = std::mem::take(&mut self.entries);
        (self.outlets, self.mailboxes, self.closings) = Default::default();
        self.unshared.clear();
        let (mut wakers, mut waited) = (Vec::new(), std::mem::take(&mut self.waited));
        let is_told = |entry: &Entry| matches!(entry.standing, Standing::Ended(_));
        let (told, others): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|(_, entry)| is_told(entry));
        self.entries = told.into_iter().collect();
        for (_, Entry { waker, wait, .. }) in others {
            waited.extend(wait.map(|(for_what, since)| (for_what, since.elapsed())));
            wakers.extend(waker);
        }
        (wakers, waited)
    }

    /// Returns true if there are wakers to wake or to drop, or ended waits to count.
    pub(super) fn has_news(&self) -> bool {
        !(self.woken.is_empty() && self.retired.is_empty() && self.waited.is_empty())
    }

    /// Takes the wakers to be woken, and the wakers to be dropped, once the lock is free.
    pub(super) fn take_wakers(&mut self) -> (Vec<Waker>, Vec<Waker>) {
        (std::mem::take(&mut self.woken), std::mem::take(&mut self.retired))
    }

    /// Records that a part of a mailbox's room was granted, and which one comes next.
    pub(super) fn put_off(&mut self, mailbox: u32, part: u32) {
        if std::mem::replace(&mut self.ends(Line::Room(mailbox)).part, part) == 0 {
            self.unshared.push(mailbox);
        }
    }

    /// Returns true if another part of a mailbox's room is to be granted.
    pub(super) fn is_put_off(&mut self, mailbox: u32) -> bool {
        self.ends(Line::Room(mailbox)).part > 0
    }

    /// Returns true if another part of any mailbox's room is to be granted.
    pub(super) fn is_any_put_off(&self) -> bool {
        !self.unshared.is_empty()
    }

    /// Takes the mailboxes with another part of their room to grant, and the number of that part.
    pub(super) fn take_put_off(&mut self) -> Vec<(u32, u32)> {
        let mailboxes = std::mem::take(&mut self.unshared).into_iter();
        mailboxes.map(|at| (at, std::mem::take(&mut self.ends(Line::Room(at)).part))).collect()
    }

    /// Begins a burst of the task that runs, which commits its first message.
    pub(super) fn begin_burst(&mut self, mailbox: u32) {
        let Some(task) = task::try_id() else { return };
        self.bursts.retain(|burst| burst.task != task);
        if self.bursts.len() == BURSTS_MAX {
            self.bursts.pop_front();
        }
        self.bursts.push_back(Burst { task, mailbox, left: BURST_MESSAGES - 1 });
    }

    /// Returns the burst of the task that runs, if it has one to this mailbox.
    pub(super) fn burst(&self, mailbox: u32) -> Option<usize> {
        let task = task::try_id()?;
        self.bursts.iter().position(|burst| (burst.task, burst.mailbox) == (task, mailbox))
    }

    /// Records that a message of a burst was committed.
    pub(super) fn use_burst(&mut self, burst: usize) {
        let left = &mut self.bursts[burst].left;
        *left -= 1;
        if *left == 0 {
            self.bursts.remove(burst);
        }
    }

    /// Ends the bursts to a mailbox: it has new room, or has closed.
    pub(super) fn end_bursts(&mut self, mailbox: u32) {
        self.bursts.retain(|burst| burst.mailbox != mailbox);
    }

    /// Returns the lines in which senders wait.
    pub(super) fn lines(&self) -> impl Iterator<Item = Waited> {
        let outlets = (0..).map(Line::Opening).zip(&self.outlets);
        let mailboxes = (0..).map(Line::Room).zip(&self.mailboxes);
        outlets.chain(mailboxes).filter_map(|(line, ends)| {
            let (_, since) = self.entries.get(ends.first)?.wait?;
            Some(Waited { line, senders: ends.len, since })
        })
    }

    /// Takes the waits that ended since the last call.
    pub(super) fn drain_waited(&mut self) -> impl Iterator<Item = (WaitsFor, Duration)> {
        self.waited.drain(..)
    }
}

#[cfg(test)]
mod tests;
