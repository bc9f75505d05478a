//! The side of a cell that links see: what arrives from other nodes.

use super::{Base, Cell};
use crate::actor::Handlers;
use crate::actor::arrival::Arrival;
use crate::actor::route;
use crate::actor::tether::TETHER;
use crate::address::RESERVED;
use crate::remote::{Accepted, CloseNotice, Deliveries, Inbox, Refusal, signals};
use crate::resident::{Halt, Resident};

impl Base {
    /// Takes what asks for links, which has this ordinal, out of messages that arrived. It waits
    /// for no handler.
    fn take_tethers(&self, ordinal: usize, run: &mut Vec<Deliveries>) {
        let is_tether = |item: &mut Deliveries| match item {
            Deliveries::One(one) => usize::from(one.ordinal) == ordinal,
            Deliveries::Tells(_) => false,
        };
        for tether in run.extract_if(.., is_tether) {
            let me = self.node.residents().by_id(self.key.id());
            if let (Deliveries::One(tether), Some(me)) = (tether, me) {
                self.node.tether(me, tether, self.ends.takes_links());
            }
        }
    }

    fn signal(&self, signal: u16, me: &dyn Resident) {
        // Another node must not end an actor of the runtime's, which has a reserved name.
        if self.name.as_deref().is_some_and(|name| name.starts_with(RESERVED)) {
            return;
        }
        match signal {
            signals::STOP => me.halt(Halt::Stop),
            signals::KILL => me.halt(Halt::Kill),
            signals::DRAIN => me.halt(Halt::Drain),
            // A later version may send others.
            _ => {}
        }
    }
}

impl<A: Handlers> Inbox for Cell<A> {
    fn id(&self) -> u64 {
        self.base.key.id()
    }

    fn accepted(&self) -> Vec<Accepted> {
        // An actor with as many messages as a link describes is linked to by none of another node.
        route::rows(route::head_of::<A>, TETHER.newest())
    }

    fn deliver(&self, run: &mut Vec<Deliveries>) -> Result<(), Refusal> {
        self.base.take_tethers(A::ROUTES.len(), run);
        if run.is_empty() {
            return Ok(());
        }
        self.mailbox.push_remote(run, Arrival::from).map_err(|_closed| Refusal::Closed)
    }

    fn signal(&self, signal: u16) {
        self.base.signal(signal, self);
    }

    fn on_close(&self, notice: CloseNotice) {
        self.base.ends.on_close(notice);
    }
}
