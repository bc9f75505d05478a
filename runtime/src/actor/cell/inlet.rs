//! The side of a cell that links see: what arrives from other nodes.

use ringpost_transport::limits::ACCEPTED_MAX;

use super::Cell;
use crate::actor::Handlers;
use crate::actor::arrival::Arrival;
use crate::actor::route;
use crate::actor::tether::TETHER;
use crate::address::RESERVED;
use crate::remote::{Accepted, CloseNotice, Deliveries, Inbox, Refusal, signals};
use crate::resident::{Halt, Resident};

impl<A: Handlers> Cell<A> {
    /// Takes what asks for links out of messages that arrived. It waits for no handler.
    fn take_tethers(&self, run: &mut Vec<Deliveries>) {
        let is_tether = |item: &mut Deliveries| match item {
            Deliveries::One(one) => usize::from(one.ordinal) == A::ROUTES.len(),
            Deliveries::Tells(_) => false,
        };
        for tether in run.extract_if(.., is_tether) {
            let me = self.node.residents().by_id(self.id());
            if let (Deliveries::One(tether), Some(me)) = (tether, me) {
                self.node.tether(me, tether, self.ends.takes_links());
            }
        }
    }
}

impl<A: Handlers> Inbox for Cell<A> {
    fn id(&self) -> u64 {
        self.key.id()
    }

    fn accepted(&self) -> Vec<Accepted> {
        // An actor with as many messages as a link describes is linked to by none of another node.
        route::rows::<A>(TETHER.newest()).take(ACCEPTED_MAX).collect()
    }

    fn deliver(&self, run: &mut Vec<Deliveries>) -> Result<(), Refusal> {
        self.take_tethers(run);
        if run.is_empty() {
            return Ok(());
        }
        self.mailbox.push_remote(run, Arrival::from).map_err(|_closed| Refusal::Closed)
    }

    fn signal(&self, signal: u16) {
        // Another node must not end an actor of the runtime's, which has a reserved name.
        if self.name.as_deref().is_some_and(|name| name.starts_with(RESERVED)) {
            return;
        }
        match signal {
            signals::STOP => self.halt(Halt::Stop),
            signals::KILL => self.halt(Halt::Kill),
            signals::DRAIN => self.halt(Halt::Drain),
            // A later version may send others.
            _ => {}
        }
    }

    fn on_close(&self, notice: CloseNotice) {
        self.ends.on_close(notice);
    }
}
