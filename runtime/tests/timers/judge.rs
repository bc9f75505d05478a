//! The rules of an actor with timers, judged by its diary, apart from the code.
//!
//! The diary is read entry by entry, each with the millisecond at which it was made. It says which
//! timers the actor has set, and so which message is to come when, to the millisecond:
//!
//! - a message of a timer belongs to the timer that is set, in this incarnation, under its key;
//! - it begins when it is due or, if the actor was busy then, as soon as it has time;
//! - a repeating timer is due next at the first whole period after its message began;
//! - the message of an idle actor comes after the idle time, counted from the last message of the
//!   mailbox or from its own last message, if nothing waits in the mailbox;
//! - due messages of timers go ahead of the mailbox, 32 times in a row.

use std::collections::BTreeMap;

use super::reached::STATES;
use crate::random::Reached;

/// An event of the diary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A message was put into the mailbox.
    Sent,
    /// An incarnation begins: its start is in hand.
    Started,
    /// A message of the mailbox is in hand.
    Begun,
    /// The message of the timer with this number is.
    Fired(u64),
    /// A timer was set under a key, with a number that no other one ever has.
    Set(Key, u64, Kind),
    /// A timer was to be taken back; with what the actor was told.
    Cancelled(Key, bool),
    /// The message in hand is done.
    Done,
    /// The state of the actor was dropped.
    Dropped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Number(u64),
    Idle,
}

/// In milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    After(u64),
    Every(u64),
    Idle(u64),
}

#[derive(Debug, Clone, Copy)]
struct Timer {
    number: u64,
    kind: Kind,
    /// The time at which it is due; unused for an idle time-out.
    due: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hand {
    Empty,
    Start,
    Mail,
    Timer(Key, u64),
}

/// How many messages of timers come in a row before the mailbox has its turn.
const ROW: u64 = 32;

pub struct Judge {
    pub reached: Reached,
    timers: BTreeMap<Key, Timer>,
    /// Timers that ended with their incarnation, and when each would have been due.
    dropped: Vec<(Key, u64)>,
    lives: bool,
    hand: Hand,
    /// Since when the actor has time.
    free: u64,
    /// When the actor handled a message of its mailbox the last time, or what counts like that.
    active: u64,
    /// The actor was told last that it is idle at this time.
    idled: Option<u64>,
    waiting: u64,
    /// Messages of timers since the last one of the mailbox; and those while that was not empty.
    row: u64,
    ahead: u64,
}

type Verdict = Result<(), String>;

impl Judge {
    pub fn new() -> Self {
        Judge {
            reached: Reached::new(&STATES),
            timers: BTreeMap::new(),
            dropped: Vec::new(),
            lives: false,
            hand: Hand::Empty,
            free: 0,
            active: 0,
            idled: None,
            waiting: 0,
            row: 0,
            ahead: 0,
        }
    }

    /// Reads the next entry. An error says why it cannot be.
    pub fn read(&mut self, at: u64, event: Event) -> Verdict {
        let is_beginning = matches!(event, Event::Started | Event::Begun | Event::Fired(_));
        let is_doing = matches!(event, Event::Set(..) | Event::Cancelled(..) | Event::Done);
        if (is_beginning && self.hand != Hand::Empty) || (is_doing && self.hand == Hand::Empty) {
            return Err(format!("in hand is {:?}", self.hand));
        }
        if event != Event::Sent && self.lives == (event == Event::Started) {
            return Err(format!("the actor lives: {}", self.lives));
        }
        match event {
            Event::Sent => self.waiting += 1,
            Event::Started => self.start(at),
            Event::Begun => self.begin(at)?,
            Event::Fired(number) => self.fire(at, number)?,
            Event::Set(key, number, kind) => self.set(at, key, number, kind),
            Event::Cancelled(key, was_there) => self.cancel(at, key, was_there)?,
            Event::Done => self.done(at),
            Event::Dropped => self.drop(at),
        }
        Ok(())
    }

    /// Judges a moment, just before which time has passed: nothing is overdue.
    pub fn rest(&self, now: u64) -> Verdict {
        if !self.lives || self.hand != Hand::Empty {
            return Ok(());
        }
        if self.waiting > 0 {
            return Err(format!("{} messages wait at {now} ms", self.waiting));
        }
        let mut overdue = self.timers.values().filter(|timer| self.due(timer) < now);
        overdue.next().map_or(Ok(()), |timer| Err(format!("{timer:?} did not fire by {now} ms")))
    }

    /// Returns true if the diary agrees that the actor has ended.
    pub fn has_ended(&self) -> bool {
        !self.lives
    }

    fn due(&self, timer: &Timer) -> u64 {
        match timer.kind {
            Kind::Idle(after) => self.active + after,
            _ => timer.due,
        }
    }

    fn start(&mut self, at: u64) {
        (self.lives, self.hand, self.idled) = (true, Hand::Start, None);
        (self.row, self.ahead) = (0, 0);
        if self.dropped.iter().any(|(_, due)| *due <= at) {
            self.reached.note("a timer would have been due while its actor rested");
        }
        self.dropped.retain(|(_, due)| *due > at);
    }

    fn begin(&mut self, at: u64) -> Verdict {
        self.waiting = self.waiting.checked_sub(1).ok_or("nobody sent that")?;
        let is_message = |key: &Key| *key != Key::Idle;
        let mut due = self.timers.iter().filter(|(key, timer)| is_message(key) && timer.due <= at);
        if let Some((_, timer)) = due.next() {
            if self.row < ROW {
                return Err(format!("{timer:?} goes ahead of the mailbox"));
            }
            self.reached.note("the mailbox had its turn among timers");
        }
        if let Some(idle) = self.timers.get(&Key::Idle) {
            self.reached.note(match self.due(idle) <= at {
                true => "a message came while an actor was busy that would have been idle",
                false => "a message kept an actor from being idle",
            });
        }
        (self.hand, self.row, self.ahead) = (Hand::Mail, 0, 0);
        Ok(())
    }

    fn fire(&mut self, at: u64, number: u64) -> Verdict {
        let found = self.timers.iter().find(|(_, timer)| timer.number == number);
        let (key, timer) = found.map(|(key, timer)| (*key, *timer)).ok_or("it is stale")?;
        let due = self.due(&timer);
        let expected = due.max(self.free);
        if at != expected {
            return Err(format!("{timer:?} is to begin at {expected} ms"));
        }
        self.row += 1;
        self.ahead += u64::from(self.waiting > 0);
        if self.ahead > ROW {
            return Err("it is the turn of the mailbox".into());
        }
        if at > due {
            self.reached.note("a timer came due while a handler ran");
        }
        if self.timers.values().filter(|other| self.due(other) <= at).count() > 1 {
            self.reached.note("several timers were due at once");
        }
        self.hand = Hand::Timer(key, number);
        self.fired(at, key, timer)
    }

    /// Takes a timer that fired out, or sets it again.
    fn fired(&mut self, at: u64, key: Key, timer: Timer) -> Verdict {
        match timer.kind {
            Kind::After(_) => {
                self.reached.note("a timer told once");
                self.timers.remove(&key);
            }
            Kind::Every(period) => {
                let mut next = timer.due + period;
                if next <= at {
                    self.reached.note("a timer left out what it missed");
                }
                while next <= at {
                    next += period;
                }
                self.reached.note("a timer told again and again");
                self.timers.insert(key, Timer { due: next, ..timer });
            }
            Kind::Idle(_) if self.waiting > 0 => return Err("the mailbox is not empty".into()),
            Kind::Idle(_) => {
                self.reached.note(match self.idled == Some(self.active) {
                    true => "an actor was idle again",
                    false => "an actor was idle",
                });
                (self.active, self.idled) = (at, Some(at));
            }
        }
        Ok(())
    }

    fn set(&mut self, at: u64, key: Key, number: u64, kind: Kind) {
        let due = match kind {
            Kind::After(after) | Kind::Every(after) => at + after,
            Kind::Idle(_) => {
                self.active = at;
                0
            }
        };
        let old = self.timers.insert(key, Timer { number, kind, due });
        if let Some(old) = old.filter(|_| key != Key::Idle) {
            self.reached.note(match old.due <= at {
                true => "a timer that was due was set anew",
                false => "a timer was set anew",
            });
        }
        if matches!(self.hand, Hand::Timer(in_hand, _) if in_hand == key) {
            self.reached.note("the message of a timer set it anew");
        }
        if self.dropped.iter().any(|(dropped, _)| *dropped == key) {
            self.reached.note("an incarnation used the key of a timer of the last one");
        }
    }

    fn cancel(&mut self, at: u64, key: Key, was_there: bool) -> Verdict {
        let old = self.timers.remove(&key);
        if old.is_some() != was_there {
            return Err(format!("what was there: {old:?}"));
        }
        let is_own = matches!(self.hand, Hand::Timer(in_hand, _) if in_hand == key);
        self.reached.note(match old {
            None => "there was no timer to take back",
            Some(_) if is_own => "a timer that repeats was taken back by its own message",
            Some(_) if key == Key::Idle => "an idle timer was taken back",
            Some(old) if old.due <= at => "a timer that was due was taken back",
            Some(_) => "a timer was taken back",
        });
        Ok(())
    }

    fn done(&mut self, at: u64) {
        if self.hand == Hand::Mail {
            self.active = at;
        }
        (self.hand, self.free) = (Hand::Empty, at);
    }

    fn drop(&mut self, at: u64) {
        if self.dropped.iter().any(|(_, due)| *due <= at) {
            self.reached.note("a timer would have been due in the next incarnation");
        }
        if self.hand != Hand::Empty {
            self.reached.note("an actor ended within a handler");
        }
        let timers = std::mem::take(&mut self.timers).into_iter();
        self.dropped = timers.map(|(key, timer)| (key, self.due(&timer))).collect();
        for (_, due) in &self.dropped {
            self.reached.note(match *due <= at {
                true => "a timer that was due ended with its incarnation",
                false => "a timer ended with its incarnation",
            });
        }
        (self.lives, self.hand) = (false, Hand::Empty);
    }
}
