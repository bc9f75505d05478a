//! The links of an actor, among what ends it: under the same lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Ends, State};
use crate::address::Address;
use crate::exit::ActorExit;
use crate::limits;
use crate::link_end::{LinkEnd, linked_to};
use crate::resident::Resident;

impl Ends {
    /// Ends this incarnation as [`fail`](Self::fail) does, unless it traps.
    pub(in crate::actor) fn fail_linked(&self, reason: Arc<str>) {
        let mut state = self.state.lock();
        let State::Living(living) = &mut *state else { return };
        let living = living.get_or_insert_default();
        if !living.traps {
            living.reason.get_or_insert(reason);
            self.order_failure();
        }
    }

    pub(in crate::actor) fn trap(&self, traps: bool) {
        if let State::Living(living) = &mut *self.state.lock() {
            living.get_or_insert_default().traps = traps;
        }
    }

    /// Gives this incarnation a link. Returns false when the actor has ended.
    pub(in crate::actor) fn link(&self, with: usize, link: LinkEnd) -> bool {
        let mut state = self.state.lock();
        let State::Living(living) = &mut *state else { return false };
        let old = living.get_or_insert_default().links.insert(with, link);
        drop(state);
        drop(old);
        true
    }

    /// Takes a link from this incarnation, if it has it; with a reason it fails as
    /// [`fail_linked`](Self::fail_linked) says.
    pub(in crate::actor) fn unlink(&self, with: usize, reason: Option<Arc<str>>) {
        let mut state = self.state.lock();
        let State::Living(Some(living)) = &mut *state else { return };
        let Some(old) = living.links.remove(&with) else { return };
        if let Some(reason) = reason.filter(|_| !living.traps) {
            living.reason.get_or_insert(reason);
            self.order_failure();
        }
        drop(state);
        drop(old);
    }

    pub(in crate::actor) fn is_linked(&self, to: &Address) -> bool {
        match &*self.state.lock() {
            State::Living(Some(living)) => living.links.values().any(|link| link.to == *to),
            _ => false,
        }
    }

    /// Returns true if another node may link to this actor.
    pub(in crate::actor) fn takes_links(&self) -> bool {
        match &*self.state.lock() {
            State::Living(Some(living)) => living.links.len() < limits::LINKS_MAX,
            State::Living(None) => true,
            State::Ended(_) => false,
        }
    }

    /// Takes the links to an actor.
    pub(in crate::actor) fn take_links(&self, to: &Address) -> Vec<LinkEnd> {
        match &mut *self.state.lock() {
            State::Living(Some(living)) => living
                .links
                .extract_if(.., |_, link| link.to == *to)
                .map(|(_, link)| link)
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Ends all links of an incarnation that ended so (LI-2).
    pub(in crate::actor) fn end_links(&self, me: &dyn Resident, exit: &ActorExit) {
        let links = match &mut *self.state.lock() {
            State::Living(Some(living)) => {
                living.traps = false;
                std::mem::take(&mut living.links)
            }
            _ => return,
        };
        tell_links(links, me, exit);
    }
}

/// Tells the other ends of links that `me` has ended so.
pub(super) fn tell_links(links: BTreeMap<usize, LinkEnd>, me: &dyn Resident, exit: &ActorExit) {
    if links.is_empty() {
        return;
    }
    let why = exit.is_failure().then(|| linked_to(me.address(), exit));
    links.into_values().for_each(|link| (link.tell)(why.clone()));
}
