//! The waits of handlers for other actors, as their sends record them.

use std::sync::Arc;

use crate::address::Address;
use crate::busy::{began, note_wait, running};
use crate::error::Cause;
use crate::limits;
use crate::resident::LocalActor;
use crate::residents::LocalActors;
use crate::waits::{AskChain, Asker, Awaits, ChainElement, WaitEntry, WaitTarget, WaitingActor};

/// The wait of a handler of this node for another actor. If the caller forwards an ask, it is the
/// wait of that ask's asker. Owned by the send that waits; dropping it ends the wait, unless the
/// wait belongs to another send.
pub(crate) struct WaitGuard {
    asker: Asker,
    /// Set if the wait belongs to another send, which ends it.
    is_handed_on: bool,
}

impl WaitGuard {
    /// Records that the calling handler waits for `whom`. Returns `None` if the caller is not a
    /// handler, is a handler of another node, or waits for too many actors already.
    pub(crate) fn begin(whom: &dyn LocalActor, what: Awaits) -> Option<Self> {
        let shown = |waiter: &dyn WaitingActor| match waiter.node_number() == whom.node_number() {
            true => WaitTarget::Near(whom.id()),
            // The two nodes are in one process.
            false => WaitTarget::Far(whom.address().clone(), whom.kind().name),
        };
        WaitGuard::note(|id| whom.home().actor(id), shown, what)
    }

    /// Records that the calling handler asks `whom`. Returns `None` as [`begin`](Self::begin) does.
    ///
    /// # Errors
    /// [`Cause::Cycle`] if `whom` waits for the answer of the calling handler, directly or through
    /// others.
    pub(crate) fn begin_ask(whom: &dyn LocalActor) -> Result<Option<Self>, Cause> {
        let wait = match AskChain::handed_on() {
            Some(asker) => asker.map(WaitGuard::handed_on),
            None => WaitGuard::begin(whom, Awaits::Answer),
        };
        let waits_for_it =
            |wait: &WaitGuard| wait.askers().is_some_and(|it| it.leads_to(whom.token()));
        match wait {
            Some(wait) if waits_for_it(&wait) => Err(wait.cycle_with(&whom.shown().to_string())),
            wait => Ok(wait),
        }
    }

    /// Records that the calling handler waits for an actor of another node. Returns `None` as
    /// [`begin`](Self::begin) does.
    pub(crate) fn elsewhere(
        residents: &LocalActors,
        (address, kind): (&Address, &'static str),
        what: Awaits,
    ) -> Option<Self> {
        match AskChain::handed_on() {
            Some(asker) => asker.map(WaitGuard::handed_on),
            None => {
                let whom = |_: &dyn WaitingActor| WaitTarget::Far(address.clone(), kind);
                WaitGuard::note(|id| residents.by_id(id), whom, what)
            }
        }
    }

    fn handed_on(asker: Asker) -> Self {
        WaitGuard { asker, is_handed_on: true }
    }

    fn note(
        by_id: impl FnOnce(u64) -> Option<Arc<dyn LocalActor>>,
        whom: impl FnOnce(&dyn WaitingActor) -> WaitTarget,
        what: Awaits,
    ) -> Option<Self> {
        let running = running()?;
        let chain = AskChain::chain(|asked| {
            let waiter = by_id(running.id).filter(|waiter| waiter.token() == running.token)?;
            Some(ChainElement::new(waiter, asked))
        })?;
        note_wait();
        let waiter = chain.near()?;
        let whom = whom(&**waiter);
        let number = {
            let mut waits = waiter.waits().lock();
            let waits = waits.get_or_insert_default();
            if waits.actors.len() >= limits::WAITS_MAX {
                return None;
            }
            if waits.actors.is_empty() {
                // Most handlers wait for one actor at a time.
                waits.actors.reserve_exact(1);
            }
            waits.noted += 1;
            let (number, since, chain) = (waits.noted, began(), chain.clone());
            waits.actors.push(WaitEntry { number, whom, what, since, chain });
            number
        };
        Some(WaitGuard { asker: Asker { chain, wait: number }, is_handed_on: false })
    }

    /// Changes the event that the handler waits for.
    pub(crate) fn set(&self, what: Awaits) {
        if let Some(actor) = self.asker.chain.near().filter(|_| !self.is_handed_on) {
            let mut waits = actor.waits().lock();
            let mut notes = waits.iter_mut().flat_map(|waits| &mut waits.actors);
            if let Some(note) = notes.find(|note| note.number == self.asker.wait) {
                note.what = what;
            }
        }
    }

    /// Returns the wait, as the chain of an ask refers to it.
    pub(crate) fn asker(&self) -> &Asker {
        &self.asker
    }

    /// Returns the asker of the ask that the handler handles, or of the ask that is forwarded.
    /// Returns `None` if no handler waits for that ask.
    fn askers(&self) -> Option<Asker> {
        if self.is_handed_on { Some(self.asker.clone()) } else { self.asker.chain.asker() }
    }

    /// Returns the error of an ask of `whom` that would close a cycle.
    pub(crate) fn cycle_with(&self, whom: &str) -> Cause {
        Cause::Cycle(self.asker.clone().cycle_with(whom).into())
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        let Some(actor) = self.asker.chain.near().filter(|_| !self.is_handed_on) else { return };
        let mut waits = actor.waits().lock();
        let old = waits.as_mut().and_then(|waits| {
            let place = waits.actors.iter().position(|note| note.number == self.asker.wait)?;
            Some(waits.actors.swap_remove(place))
        });
        drop(waits);
        drop(old);
    }
}
