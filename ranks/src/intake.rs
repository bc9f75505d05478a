//! The handling of packets and notes of other ranks, called by the actor of the rank.

use std::sync::Arc;

use ringpost::View;

use crate::calls::{Broken, aborted};
use crate::core::Core;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::packet::{Control, Element, Note, Packet, Target, target};
use crate::state::{Partial, Received, Standing, State};

impl Core {
    /// Takes in a packet. Those of a rank that is dead to this one are dropped: some may be missing
    /// before them.
    pub(crate) fn packet(self: &Arc<Self>, packet: View<Packet>) {
        let (key, sent) = (packet.key.to_native(), packet.sent.to_native());
        let Some(from) = self.sender(packet.from.to_native(), key, sent) else { return };
        if self.state.lock().standing(from) == Standing::Died {
            return;
        }
        let taken = match target(&packet) {
            Target::Message { tag, element } => self.message(from, tag, element, packet),
            Target::Step { sequence, .. } => {
                let arrived = self.state.lock().calls.arrive(packet);
                arrived.map(|abort| {
                    if let Some(cause) = abort {
                        self.abort(sequence, cause);
                    }
                })
            }
        };
        if let Err(Broken(why)) = taken {
            self.died(from, why);
        }
    }

    /// Takes in a part of a message.
    fn message(
        self: &Arc<Self>,
        from: usize,
        tag: u32,
        element: Element,
        packet: View<Packet>,
    ) -> Result<(), Broken> {
        let (at, total) = (packet.at.to_native() as usize, packet.total.to_native() as usize);
        let mut state = self.state.lock();
        let Some(other) = state.others.get_mut(from) else { return Ok(()) };
        if total > MESSAGE_BYTES_MAX {
            return Err(Broken("a message is too long"));
        }
        let mut partial = if at == 0 {
            // A send that was given up in the middle leaves a part. It has its room back already.
            if let Some(part) = other.partial.take() {
                other.held = other.held.saturating_sub(self.cost(part.received.bytes));
            }
            other.held += self.cost(total);
            other.wants = false;
            if other.held > self.window {
                return Err(Broken("it has sent more than there was room for"));
            }
            let received = Received { parts: Vec::new(), element, bytes: total };
            Partial { received, arrived: 0 }
        } else {
            other.partial.take().ok_or(Broken("a message has no beginning"))?
        };
        let bytes = packet.bytes.len();
        if at != partial.arrived || total != partial.received.bytes || at + bytes > total {
            return Err(Broken("a part of a message does not continue the one before"));
        }
        partial.arrived += bytes;
        if partial.arrived < total {
            partial.received.parts.push(packet.detach());
            if let Some(other) = state.others.get_mut(from) {
                other.partial = Some(partial);
            }
            return Ok(());
        }
        partial.received.parts.push(packet);
        self.whole(&mut state, from, tag, partial.received);
        Ok(())
    }

    /// Gives a whole message to a receive, or keeps it.
    fn whole(&self, state: &mut State, from: usize, tag: u32, mut received: Received) {
        if !state.matching.is_awaited(from, tag)
            && let Some(part) = received.parts.pop()
        {
            // It may wait for long: its receive buffer returns to the link.
            received.parts.push(part.detach());
        }
        if !state.matching.arrive(from, tag, received) {
            self.changed.notify_waiters();
        }
    }

    /// Counts a message as received: its sender has its room back.
    pub(crate) fn consumed(self: &Arc<Self>, state: &mut State, from: usize, bytes: usize) {
        let cost = self.cost(bytes);
        state.circles.received();
        let Some(other) = state.others.get_mut(from) else { return };
        other.held = other.held.saturating_sub(cost);
        other.owed += cost;
        self.pay(state, from);
    }

    /// Gives a sender its room back, where it waits for that or it is much.
    fn pay(self: &Arc<Self>, state: &mut State, to: usize) {
        let Some(other) = state.others.get_mut(to) else { return };
        if other.owed > 0 && (other.wants || other.owed >= self.window / 4) {
            let bytes = std::mem::take(&mut other.owed) as u64;
            self.note(to, Note::Credit { bytes });
        }
    }

    /// Takes in what a rank says beside messages.
    pub(crate) fn control(self: &Arc<Self>, control: Control) {
        let Control { from, key, sent, what } = control;
        let is_dead = self.state.lock().standing(from as usize) == Standing::Died;
        let Some(from) = self.sender(from, key, sent) else { return };
        match what {
            Note::Check => {}
            // Of two ranks that took each other for dead, neither ends the other.
            Note::Died { .. } if is_dead => {}
            Note::Credit { bytes } => {
                if let Some(route) = self.begun().and_then(|mesh| mesh.routes.get(from)) {
                    let most = self.window.saturating_sub(route.room.available_permits());
                    route.room.add_permits((bytes as usize).min(most));
                }
            }
            Note::Wanted => {
                let mut state = self.state.lock();
                if let Some(other) = state.others.get_mut(from) {
                    other.wants = true;
                    self.pay(&mut state, from);
                }
            }
            Note::Circle { origin, number } => self.circle(origin, number),
            Note::Abort { sequence, cause } => {
                self.state.lock().calls.fail(sequence, aborted(sequence, cause));
            }
            Note::Died { rank } => self.died(rank as usize, "another rank says so"),
            Note::Revoked => self.revoke(),
            Note::Left { floor } => self.left(from, floor),
            Note::Vote { number, flag, died } => {
                let mut state = self.state.lock();
                let decided = state.agreements.vote(from, number, flag, died);
                drop(state);
                if let Some(decided) = decided {
                    self.note(from, decided);
                }
                self.changed.notify_waiters();
            }
            Note::Decided { number, flag, died } => {
                self.state.lock().agreements.decide(number, flag, died);
                self.changed.notify_waiters();
            }
        }
    }

    /// Takes in a probe of a send that waits.
    fn circle(self: &Arc<Self>, origin: u32, number: u64) {
        let Some(mesh) = self.begun().filter(|_| (origin as usize) < self.size) else { return };
        let next = self.state.lock().circles.pass(mesh.rank, origin, number);
        for to in next {
            self.note(to, Note::Circle { origin, number });
        }
    }
}
