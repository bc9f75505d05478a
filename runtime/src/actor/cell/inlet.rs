//! The side of a cell that links use: messages and signals from other nodes.

use super::arrival::RemoteBatch;
use super::route;
use super::tether::TETHER;
use super::{ActorCell, CellBase, in_place};
use crate::actor::Handlers;
use crate::address::RESERVED;
use crate::link_end::TIE;
use crate::remote::{Accepted, CloseNotice, Deliveries, Delivery, Inbox, Refusal, code, signals};
use crate::resident::{Halt, LocalActor};
use crate::waits::wire;

impl CellBase {
    /// Takes the link requests, which have this ordinal, out of the messages that arrived, and
    /// carries them out. They do not wait for a handler.
    fn take_tethers(&self, ordinal: usize, run: &mut Vec<Deliveries>) {
        let is_tether = |item: &mut Deliveries| match item {
            Deliveries::One(one) => usize::from(one.ordinal) == ordinal && one.replier.is_some(),
            Deliveries::Tells(_) => false,
        };
        for tether in run.extract_if(.., is_tether) {
            let me = self.node.residents().by_id(self.key.id());
            if let (Deliveries::One(tether), Some(me)) = (tether, me) {
                self.node.tether(me, tether, self.ends.takes_links());
            }
        }
    }

    /// Takes out of `run` the asks of askers that this actor waits for, and refuses them. The actor
    /// would begin such an ask only after its asker's answer.
    fn refuse_cycles(&self, run: &mut Vec<Deliveries>) {
        let residents = self.node.residents();
        let is_cycle = |item: &mut Deliveries| {
            let Deliveries::One(Delivery { payload, replier: Some(_), .. }) = item else {
                return false;
            };
            let Ok(chain) = wire::chain(payload) else { return false };
            // Most asks have no chain.
            let asker = match chain.is_empty() {
                true => None,
                false => wire::read(chain, |actor, wait| residents.waits_at(actor, wait)).ok(),
            };
            asker.flatten().is_some_and(|asker| asker.leads_to(self.token()))
        };
        for cycle in run.extract_if(.., is_cycle) {
            if let Deliveries::One(Delivery { replier: Some(replier), .. }) = cycle {
                replier.fail(code::CYCLE);
            }
        }
    }

    /// Returns true for an actor of the runtime itself, which has a reserved name or stands in for
    /// a linked actor of another node. Other nodes send it messages of the runtime; they cannot end
    /// it or link to it.
    fn is_of_runtime(&self, actor_type: &str) -> bool {
        actor_type == TIE || self.name.as_deref().is_some_and(|name| name.starts_with(RESERVED))
    }
}

/// Carries out a signal from another node.
fn carry_out(signal: u16, me: &dyn LocalActor) {
    match signal {
        signals::STOP => me.halt(Halt::Stop),
        signals::KILL => me.halt(Halt::Kill),
        signals::DRAIN => me.halt(Halt::Drain),
        // A later version may send other signals.
        _ => {}
    }
}

impl<A: Handlers> Inbox for ActorCell<A> {
    fn id(&self) -> u64 {
        self.base.key.id()
    }

    fn accepted(&self) -> Vec<Accepted> {
        let takes_links = !self.base.is_of_runtime(A::NAME);
        // If the actor's own messages fill all rows of a link, other nodes cannot link to it.
        route::rows(route::head_of::<A>, takes_links.then(|| TETHER.newest()))
    }

    fn deliver(&self, run: &mut Vec<Deliveries>) -> Result<(), Refusal> {
        if !self.base.is_of_runtime(A::NAME) {
            self.base.take_tethers(A::ROUTES.len(), run);
        }
        self.base.refuse_cycles(run);
        if run.is_empty() {
            return Ok(());
        }
        // If several messages came at once, the actor's task handles them while the driver goes on.
        let is_alone = matches!(&**run, [Deliveries::One(one)] if one.replier.is_some());
        let called = self.mailbox.push_remote(run, RemoteBatch::from);
        let mut called = called.map_err(|_closed| Refusal::Closed)?;
        if is_alone
            && self.may_run_here()
            && let Some(task) = called.take()
        {
            in_place::run_for_link(self.base.turn(), task);
        }
        Ok(())
    }

    fn signal(&self, signal: u16) {
        if !self.base.is_of_runtime(A::NAME) {
            carry_out(signal, self);
        }
    }

    fn on_close(&self, notice: CloseNotice) {
        self.base.ends.on_close(notice);
    }
}
