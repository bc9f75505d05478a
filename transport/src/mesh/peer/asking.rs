//! Questions to a peer: where other nodes are (MS-15), over its link or a link made for that, and
//! whether the peer is alive.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::bootstrap::Message;
use crate::id::NodeName;
use crate::limits;
use crate::link::LinkHandle;

use super::connection_state::{Command, ConnectionState};
use super::{Peer, Presence, Search};

impl Peer {
    /// Asks the run of it that has this link for a sign of life. Returns true when one comes, and
    /// false when the link ends before.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub(crate) async fn answers(&self, link: &Arc<LinkHandle>) -> bool {
        let (answer, answered) = oneshot::channel();
        match &self.state.lock().connection {
            ConnectionState::Linked(owner, its) if Arc::ptr_eq(its, link) => {
                let _ = owner.commands.send(Command::Probe(answer));
            }
            _ => drop(answer),
        }
        // Where there is no owner any more, it is as if the link had ended.
        answered.await.is_ok()
    }

    /// Asks it where `name` is, if it is linked and was not asked a short while ago.
    pub(in crate::mesh) fn ask(&self, name: &NodeName) {
        let owner = {
            let mut state = self.state.lock();
            let ConnectionState::Linked(owner, _) = &state.connection else { return };
            let owner = owner.clone();
            state.link_questions.queue(name, Instant::now()).then_some(owner)
        };
        if let Some(owner) = owner {
            let _ = owner.commands.send(Command::Send(Message::WhoIs(name.clone())));
        }
    }

    /// Records that it is being asked where `name` is.
    pub(in crate::mesh) fn note_question(&self, name: &NodeName) {
        self.state.lock().link_questions.send(name);
    }

    /// Records that it said where `name` is. Returns false if it was not asked.
    pub(in crate::mesh) fn note_known(&self, name: &NodeName) -> bool {
        self.state.lock().link_questions.answer(name)
    }

    /// Returns true if a link to it is tried only to ask it for others.
    pub(in crate::mesh) fn is_only_to_be_asked(&self) -> bool {
        let state = self.state.lock();
        let asked =
            matches!(state.presence, Presence::Idle(_)) || !state.reach.questions.is_empty();
        asked && !state.is_wanted_itself()
    }

    /// Returns true if idle peers are to be asked `now` where it is, and takes note of that.
    pub(in crate::mesh) fn is_to_ask_idle(&self, search: Search, now: Instant) -> bool {
        let interval = match search {
            Search::Sender => limits::LINKED_ASKED_INTERVAL,
            Search::Down => limits::IDLE_ASKED_INTERVAL,
            Search::Mesh => return false,
        };
        let asked = &mut self.state.lock().reach.asked_idle;
        let is_due = asked.is_none_or(|asked| now >= asked + interval);
        if is_due {
            *asked = Some(now);
        }
        is_due
    }

    /// Returns true if a link to it is tried to ask it where `name` is.
    pub(in crate::mesh) fn is_to_be_asked(&self, name: &NodeName) -> bool {
        self.state.lock().reach.questions.contains_key(name)
    }

    /// Starts to link it, if it is idle, in order to ask it where `name` is.
    pub(in crate::mesh) fn ask_linked(&self, name: &NodeName) {
        let start = {
            let mut state = self.state.lock();
            if !matches!(state.presence, Presence::Idle(_)) || self.events.is_closing() {
                return;
            }
            let now = self.events.now();
            let reach = &mut state.reach;
            if reach.wanted.is_none() && reach.questions.is_empty() {
                reach.begin_anew();
            }
            if reach.questions.len() < limits::QUESTIONS_MAX {
                reach.questions.entry(name.clone()).or_insert(now);
            }
            reach.start()
        };
        self.reach(start);
    }

    /// Returns true if it is idle and may be linked `now` to be asked for another node: no attempt
    /// failed a short while ago, and there is room for the question.
    pub(in crate::mesh) fn may_be_asked(&self, now: Instant) -> bool {
        let state = self.state.lock();
        if state.reach.questions.len() >= limits::QUESTIONS_MAX {
            return false;
        }
        let is_over = |doubted: Instant| now >= doubted + limits::IDLE_ASKED_INTERVAL;
        matches!(state.presence, Presence::Idle(_)) && state.reach.doubted.is_none_or(is_over)
    }

    /// Returns true if a link to it is tried to ask where others are.
    pub(in crate::mesh) fn has_questions(&self) -> bool {
        !self.state.lock().reach.questions.is_empty()
    }
}
