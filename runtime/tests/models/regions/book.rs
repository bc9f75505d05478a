//! The account of each share, kept outside of the nodes: so it is known of a user that is
//! killed, too, but for the operation that was under way. The rules:
//!
//! - **Exact**: a word has all changes that were done to it, and beyond them at most the unknown
//!   ones.
//! - **Settled**: after operations that ended as unknown, a user's next read of its own word says
//!   whether they were done, and that stays so.
//! - **Written**: a word that only one user writes has its last value, or a value that the user may
//!   have written since the last known write.
//! - **Alive**: when the faults are over each user goes on with each share that has not ended.
//! - **No access**: an operation that is begun after a share has ended, by its revocation or with
//!   its node, brings nothing and changes nothing.
//! - **True errors**: an error says that a share has ended only if it has, or is about to; no read
//!   is unknown; one executor does all atomic operations, so none is refused for another.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ringpost::region::RegionError;

use super::super::Scene;

/// Words of a region: a counter to which all add, a word that all exchange, and two words for each
/// user alone, of which it adds to one and writes the other.
pub(super) const WORDS: usize = 64;
pub(super) const SUM: usize = 0;
pub(super) const EXCHANGED: usize = 1;
pub(super) const OWN: usize = 2;
pub(super) const WRITTEN: usize = OWN + (WORDS - OWN) / 2;

pub(in crate::models) const STATES: [&str; 16] = [
    "a calm scene",
    "a user was killed at work",
    "added to the counter of all",
    "an owner was killed at work",
    "another one exchanged first",
    "exchanged",
    "node down: nothing was done",
    "revoked again under way",
    "revoked under work",
    "revoked: nothing was done",
    "tried after its owner was killed",
    "tried after the revocation",
    "unknown, and it was done",
    "unknown, and it was not done",
    "used by its own node",
    "wrote its word",
];

/// The account of one share.
pub(super) struct Page {
    /// Changes of each word that were done, and further changes that may have been done.
    pub(super) done: [u64; WORDS],
    pub(super) unknown: [u64; WORDS],
    /// The values that may be there of each word that is written, once it is.
    pub(super) written: BTreeMap<usize, Vec<u64>>,
    /// Operations that were begun and have not ended.
    pub(super) under_way: u64,
    /// Its end has begun; it is over.
    pub(super) is_ending: bool,
    pub(super) has_ended: bool,
    /// It ended, or will, with its node.
    pub(super) is_killed: bool,
}

#[derive(Default)]
struct Pages {
    shares: Vec<Page>,
    faults: Vec<String>,
    states: Vec<&'static str>,
}

thread_local! {
    /// All nodes of a scene run on one thread.
    static PAGES: RefCell<Pages> = RefCell::default();
}

/// Opens an empty book.
pub(super) fn open() {
    PAGES.take();
}

/// Begins the page of one more share, and returns its number.
pub(super) fn add_share() -> usize {
    PAGES.with_borrow_mut(|pages| {
        let (done, unknown, under_way) = ([0; WORDS], [0; WORDS], 0);
        let (is_ending, has_ended, is_killed) = (false, false, false);
        let written = BTreeMap::new();
        let page = Page { done, unknown, written, under_way, is_ending, has_ended, is_killed };
        pages.shares.push(page);
        pages.shares.len() - 1
    })
}

pub(super) fn with<T>(share: usize, act: impl FnOnce(&mut Page) -> T) -> T {
    PAGES.with_borrow_mut(|pages| act(&mut pages.shares[share]))
}

/// Acts on what may be there of a word that is written.
pub(super) fn with_written<T>(share: usize, word: usize, act: impl Fn(&mut Vec<u64>) -> T) -> T {
    with(share, |page| act(page.written.entry(word).or_insert_with(|| vec![0])))
}

pub(super) fn note(state: &'static str) {
    PAGES.with_borrow_mut(|pages| pages.states.push(state));
}

/// Notes a fault: a panic of an actor would be its own.
pub(super) fn fault(is_one: bool, text: impl FnOnce() -> String) {
    if is_one {
        PAGES.with_borrow_mut(|pages| pages.faults.push(text()));
    }
}

/// Judges each share by the words that its memory has, and that it had when the share ended.
///
/// # Panics
/// When a rule was broken.
pub(super) fn judge(scene: &Scene, memories: &[(Vec<u64>, Option<Vec<u64>>)]) {
    let Pages { shares, faults, states } = PAGES.take();
    states.into_iter().for_each(|state| scene.note(state));
    assert!(faults.is_empty(), "{faults:?}");
    for (number, (page, (words, at_its_end))) in shares.iter().zip(memories).enumerate() {
        assert_eq!(page.under_way, 0, "share {number}: an operation has no end");
        for (word, value) in words.iter().enumerate() {
            if let Some(values) = page.written.get(&word) {
                let is_one = values.contains(value);
                assert!(is_one, "share {number}, word {word}: {value} of {values:?}");
                continue;
            }
            let bounds = page.done[word]..=page.done[word] + page.unknown[word];
            assert!(bounds.contains(value), "share {number}, word {word}: {value} of {bounds:?}");
        }
        let is_changed = at_its_end.as_ref().is_some_and(|before| before != words);
        assert!(!is_changed, "share {number}: {words:?} after its end with {at_its_end:?}");
    }
}

/// An operation under way. If it is dropped with its user, it may have been done.
pub(super) struct Begun {
    share: usize,
    /// The word that it changes.
    word: Option<usize>,
    /// It was begun after the end of the share.
    is_late: bool,
    /// True if it was done, where that is known.
    was_done: Option<bool>,
    has_ended: bool,
}

impl Begun {
    pub(super) fn new(share: usize, word: Option<usize>) -> Self {
        let is_late = with(share, |page| {
            page.under_way += 1;
            page.has_ended
        });
        Begun { share, word, is_late, was_done: None, has_ended: false }
    }

    /// Notes how it ended; of what succeeded `changes` says whether that changed the word.
    pub(super) fn end<T>(
        mut self,
        ended: Result<T, RegionError>,
        changes: impl FnOnce(&T) -> bool,
    ) -> Result<T, RegionError> {
        self.has_ended = true;
        let (share, is_late) = (self.share, self.is_late);
        let (is_ending, is_killed) = with(share, |page| (page.is_ending, page.is_killed));
        match &ended {
            Ok(value) => {
                self.was_done = Some(changes(value));
                fault(is_late, || format!("share {share} was reached after its end"));
            }
            Err(RegionError::Unknown(_)) => {
                fault(self.word.is_none(), || "a read is unknown".into());
            }
            Err(error) => {
                self.was_done = Some(false);
                match error {
                    RegionError::Revoked => {
                        fault(!is_ending, || format!("share {share} is not revoked"));
                        note("revoked: nothing was done");
                    }
                    RegionError::NodeDown { .. } | RegionError::OtherRun(_) => {
                        note("node down: nothing was done");
                    }
                    RegionError::Unable { .. } | RegionError::Shutdown => {}
                    other => fault(true, || format!("share {share}: {other}")),
                }
            }
        }
        if is_late {
            let killed = "tried after its owner was killed";
            note(if is_killed { killed } else { "tried after the revocation" });
        }
        ended
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.has_ended {
            note("a user was killed at work");
        }
        let (word, was_done) = (self.word, self.was_done);
        with(self.share, |page| {
            page.under_way -= 1;
            if let Some(word) = word {
                page.done[word] += u64::from(was_done == Some(true));
                page.unknown[word] += u64::from(was_done.is_none());
            }
        });
    }
}
