//! The nodes that a linked peer is asked for.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::id::NodeName;
use crate::limits;

/// The nodes that a linked peer is asked for (MS-15): at most `LINKED_QUESTIONS_MAX`, each once in
/// `LINKED_ASKED_INTERVAL`, and not again while the peer owes the answer. (When it is full, old
/// questions make room for new ones, answered or not.) Part of the peer's state, new with each
/// link.
#[derive(Default)]
pub(in crate::mesh) struct LinkQuestions {
    by_name: BTreeMap<NodeName, Question>,
    /// Time before which there is no room for another one.
    full_until: Option<Instant>,
}

struct Question {
    since: Instant,
    stage: Stage,
}

#[derive(PartialEq, Eq)]
enum Stage {
    /// The session has still to send it.
    Queued,
    Sent,
    Answered,
}

impl Question {
    fn is_old(&self, now: Instant) -> bool {
        now >= self.since + limits::LINKED_ASKED_INTERVAL
    }
}

impl LinkQuestions {
    /// Records that the peer is to be asked for `name`. Returns false if it is not to be now.
    pub(super) fn queue(&mut self, name: &NodeName, now: Instant) -> bool {
        if let Some(earlier) = self.by_name.get(name) {
            if earlier.stage != Stage::Answered || !earlier.is_old(now) {
                return false;
            }
        } else if !self.has_room(now) {
            return false;
        }
        self.by_name.insert(name.clone(), Question { since: now, stage: Stage::Queued });
        true
    }

    /// Returns true if there is room for another question. Old ones make room, answered or not.
    fn has_room(&mut self, now: Instant) -> bool {
        if self.by_name.len() < limits::LINKED_QUESTIONS_MAX {
            return true;
        }
        // A search for many nodes finds no room for most of them, again and again.
        if self.full_until.is_some_and(|until| now < until) {
            return false;
        }
        self.by_name.retain(|_, question| question.stage == Stage::Queued || !question.is_old(now));
        let sent = self.by_name.values().filter(|question| question.stage != Stage::Queued);
        let first = sent.map(|question| question.since).min().unwrap_or(now);
        self.full_until = Some(first + limits::LINKED_ASKED_INTERVAL);
        self.by_name.len() < limits::LINKED_QUESTIONS_MAX
    }

    /// Records that the session sends the question for `name`.
    pub(super) fn send(&mut self, name: &NodeName) {
        if let Some(question) = self.by_name.get_mut(name) {
            question.stage = Stage::Sent;
        }
    }

    /// Records that the peer answered. Returns false if it was not asked.
    pub(super) fn answer(&mut self, name: &NodeName) -> bool {
        let sent = self.by_name.get_mut(name).filter(|question| question.stage == Stage::Sent);
        sent.map(|question| question.stage = Stage::Answered).is_some()
    }
}
