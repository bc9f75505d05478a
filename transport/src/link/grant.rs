//! Granting: which senders may commit when there is room, at a mailbox and in the link's window.

use tokio::time::Instant;

use super::State;
use super::at_once::find;
use super::outgoing::{Found, Unsent};
use super::wait_queue::{BURST_MESSAGES, GRANTS_MIN, LAST_PART, Line, Standing};
use crate::mutants::planted;
use crate::proto::send_queue::{Notice, Room};

impl State {
    /// Takes a sender out of its line; granted room that it did not use goes to the next.
    pub(super) fn leave(&mut self, place: Option<usize>) {
        let Some(key) = place else { return };
        let line = self.waiting.line(key);
        let Some((want, standing)) = self.waiting.leave(key) else { return };
        match (standing, want.kind) {
            (Standing::Granted { mailbox, .. }, kind) if kind.takes_no_room() => {
                self.send_queue.settle(mailbox);
            }
            (Standing::Granted { mailbox, .. }, _) => self.send_queue.release(mailbox, want.bytes),
            (Standing::Waiting | Standing::Ended(_), _) => {
                // The next in line may need less room than this one.
                if let Some(Line::Room(mailbox)) = line {
                    self.send_queue.look_again(mailbox, !self.for_link.is_empty());
                }
            }
        }
    }

    /// Returns whether a message may be committed to a mailbox now. While others wait for the
    /// link's window, a mailbox at which something is outstanding takes its turn among them.
    pub(super) fn room(&self, mailbox: u32, bytes: u32) -> Room {
        match self.send_queue.room(mailbox, bytes) {
            Room::Yes if self.waits_its_turn(mailbox) => Room::NotInLink,
            room => room,
        }
    }

    fn waits_its_turn(&self, mailbox: u32) -> bool {
        !self.for_link.is_empty() && !self.send_queue.is_idle(mailbox)
    }

    /// Tells the peer what the first sender at a mailbox waits for, and has it served when there is
    /// room in the link's window.
    fn lacks(&mut self, mailbox: u32, lacking: Room) {
        self.send_queue.say_blocked(mailbox, lacking);
        if lacking == Room::NotInLink {
            self.wait_for_link(mailbox);
        }
    }

    /// Grants room to the senders that wait, as far as there is some now.
    #[cold]
    pub(super) fn act_on_notices(&mut self) {
        let notices = self.send_queue.take_notices();
        if notices.is_empty() {
            return self.send_queue.sweep();
        }
        // One look at the clock for all senders that are granted room: they may be thousands.
        let now = Instant::now();
        for notice in notices {
            match notice {
                Notice::Opened(outlet, mailbox) => {
                    while let Some(key) = self.waiting.first(Line::Opening(outlet)) {
                        self.move_to_mailbox(key, mailbox, now);
                    }
                    self.grant_first_part(mailbox, now);
                }
                Notice::Found(look_up, mailbox) => {
                    while let Some(key) = self.waiting.first(Line::Opening(look_up)) {
                        self.move_to_mailbox(key, mailbox, now);
                    }
                    self.send_queue.end_look_up(look_up);
                }
                Notice::Room(mailbox) => self.grant_first_part(mailbox, now),
                Notice::LinkRoom => self.grant_by_link(now),
                Notice::Ended { outlet, mailbox, refusal } => {
                    let end = mailbox.map(|mailbox| self.send_queue.at(mailbox).end.clone());
                    let ended = Standing::Ended(Unsent::at_end(refusal, end.unwrap_or_default()));
                    self.waiting.resolve_all(Line::Opening(outlet), &ended, now);
                    self.waiting.resolve_all(Line::Closing(outlet), &ended, now);
                    if let Some(mailbox) = mailbox {
                        self.waiting.resolve_all(Line::Room(mailbox), &ended, now);
                        self.waiting.end_bursts(mailbox);
                    }
                }
            }
        }
        self.send_queue.sweep();
    }

    /// Moves a sender that waited for a mailbox to be open to the line for its room. A sender that
    /// takes no room waits for nothing more: it is granted.
    fn move_to_mailbox(&mut self, key: usize, mailbox: u32, now: Instant) {
        let at = self.send_queue.at(mailbox);
        if at.closed {
            let ended = Standing::Ended(Unsent::Closed(at.end.clone()));
            self.waiting.resolve(key, ended, now);
        } else if self.waiting.want(key).kind.takes_no_room() {
            self.send_queue.use_mailbox(mailbox);
            self.waiting.resolve(key, Standing::Granted { mailbox, found: Found::default() }, now);
        } else {
            self.waiting.move_to(key, Line::Room(mailbox));
        }
    }

    /// Grants a part of the room at a mailbox, unless another part of it is to be granted when the
    /// driver runs again (WQ-4).
    fn grant_first_part(&mut self, mailbox: u32, now: Instant) {
        if !self.waiting.is_put_off(mailbox) {
            self.waiting.end_bursts(mailbox);
            self.grant_in_turn(mailbox, 0, now);
        }
    }

    /// Grants the next part of the room at each mailbox of which a part was granted (WQ-4).
    pub(super) fn grant_next_parts(&mut self) {
        let now = Instant::now();
        for (mailbox, part) in self.waiting.take_put_off() {
            if !planted!(LostPart) {
                self.grant_in_turn(mailbox, part, now);
            }
        }
    }

    /// Grants the room at a mailbox, in parts (WQ-4); while others wait for the link's window, one
    /// message of a mailbox at which nothing is outstanding, and the rest in turn.
    fn grant_in_turn(&mut self, mailbox: u32, part: u32, now: Instant) {
        if self.for_link.is_empty() {
            let most = match self.send_queue.messages_left(mailbox) {
                _ if part == LAST_PART => usize::MAX,
                left => GRANTS_MIN.max(left.div_ceil(BURST_MESSAGES >> part) as usize),
            };
            let granted = self.grant(mailbox, most, now);
            if granted == most && self.waiting.is_waited(Line::Room(mailbox)) {
                self.waiting.put_off(mailbox, part + 1);
            }
            return;
        }
        if self.send_queue.is_idle(mailbox) {
            self.grant(mailbox, 1, now);
        }
        if self.waiting.is_waited(Line::Room(mailbox)) {
            self.wait_for_link(mailbox);
        }
    }

    /// Grants room at a mailbox to at most `most` senders, in the order of the line. Returns how
    /// many it granted room.
    fn grant(&mut self, mailbox: u32, most: usize, now: Instant) -> usize {
        let mut granted = 0;
        if planted!(WakeAll) {
            self.waiting.wake_all();
        }
        // Senders that wait at a closed mailbox are told by its own notice.
        let open = self.send_queue.is_open(mailbox);
        while open
            && granted < most
            && !self.waiting.is_led(Line::Room(mailbox))
            && let Some(key) = self.waiting.first(Line::Room(mailbox))
        {
            let want = self.waiting.want(key);
            if planted!(LinePerReference) && want.bytes > 1 << 20 && !self.waiting.is_last(key) {
                self.waiting.move_to(key, Line::Room(mailbox));
                continue;
            }
            let found = match find(
                &self.send_queue.at(mailbox).accepted,
                &want.message,
                want.kind,
                want.ordinal,
            ) {
                Ok(found) => found,
                Err(failure) => {
                    self.waiting.resolve(key, Standing::Ended(failure), now);
                    continue;
                }
            };
            match self.send_queue.room(mailbox, want.bytes) {
                Room::Yes => {
                    self.send_queue.reserve(mailbox, want.bytes);
                    self.waiting.resolve(key, Standing::Granted { mailbox, found }, now);
                    granted += 1;
                }
                lacking => {
                    self.lacks(mailbox, lacking);
                    break;
                }
            }
        }
        granted
    }

    /// Grants room that came free in the link's window: one message to each mailbox in turn.
    fn grant_by_link(&mut self, now: Instant) {
        while let Some(mailbox) = self.for_link.pop_front() {
            self.is_for_link[mailbox as usize] = false;
            let granted = self.grant(mailbox, 1, now) > 0;
            if !granted && self.is_for_link[mailbox as usize] {
                // Too little room for the next one in turn: it stays the next one.
                self.for_link.pop_back();
                self.for_link.push_front(mailbox);
                return;
            }
            if granted && self.waiting.is_waited(Line::Room(mailbox)) {
                self.wait_for_link(mailbox);
            }
        }
    }

    /// Appends a mailbox to the queue of mailboxes that wait for the link's window.
    pub(super) fn wait_for_link(&mut self, mailbox: u32) {
        let at = mailbox as usize;
        if at >= self.is_for_link.len() {
            self.is_for_link.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.is_for_link[at], true) {
            self.for_link.push_back(mailbox);
        }
    }
}
