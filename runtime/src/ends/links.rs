//! The links of an actor, under the lock of its status.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use super::{ExitControl, Stage};
use crate::address::Address;
use crate::exit::ActorExit;
use crate::limits;
use crate::link_end::{LinkEnd, linked_to};

impl ExitControl {
    /// Orders this incarnation to [`fail`](Self::fail), unless it traps exits.
    pub(crate) fn fail_linked(&self, reason: Arc<str>) {
        self.change(|status| {
            if status.kept().is_none_or(|more| !more.traps) {
                status.fail(reason);
            }
        });
    }

    pub(crate) fn trap(&self, traps: bool) {
        self.change(|status| {
            if let Some(living) = status.living() {
                living.traps = traps;
            }
        });
    }

    /// Adds a link to the actor with the token `with` to this incarnation. Returns false if this
    /// actor has ended.
    pub(crate) fn link(&self, with: usize, link: LinkEnd) -> bool {
        let mut link = Some(link);
        let old = self.change(|status| {
            let links = &mut status.living()?.links;
            link.take().and_then(|link| links.insert(with, link))
        });
        drop(old);
        link.is_none()
    }

    /// Removes the link to the actor with the token `with`, if this incarnation has it. With a
    /// reason, the incarnation then fails, unless it traps exits.
    pub(crate) fn unlink(&self, with: usize, reason: Option<Arc<str>>) {
        let old = self.change(|status| {
            let more = status.kept()?;
            let (old, traps) = (more.links.remove(&with)?, more.traps);
            if let Some(reason) = reason.filter(|_| !traps) {
                status.fail(reason);
            }
            Some(old)
        });
        drop(old);
    }

    pub(crate) fn is_linked(&self, to: &Address) -> bool {
        let mut status = self.status.lock();
        status.kept().is_some_and(|more| more.links.values().any(|link| link.to == *to))
    }

    /// Returns true if an actor of another node may link to this actor: it has not ended, and has
    /// room for another link.
    pub(crate) fn takes_links(&self) -> bool {
        let mut status = self.status.lock();
        let has_room = status.kept().is_none_or(|more| more.links.len() < limits::LINKS_MAX);
        has_room && status.stage != Stage::Ended
    }

    /// Removes and returns the links to the actor with this address.
    pub(crate) fn take_links(&self, to: &Address) -> Vec<LinkEnd> {
        let mut status = self.status.lock();
        let Some(more) = status.kept() else { return Vec::new() };
        more.links.extract_if(.., |_, link| link.to == *to).map(|(_, link)| link).collect()
    }

    /// Ends all links of this incarnation of `me`, which ended with `exit`.
    pub(crate) fn end_links(&self, me: &Address, exit: &ActorExit) {
        let links = self.change(|status| {
            let more = status.kept()?;
            more.traps = false;
            Some(mem::take(&mut more.links))
        });
        tell_links(links.unwrap_or_default(), me, exit);
    }
}

/// Tells the other ends of links that `me` has ended with `exit`.
pub(super) fn tell_links(links: BTreeMap<usize, LinkEnd>, me: &Address, exit: &ActorExit) {
    if links.is_empty() {
        return;
    }
    let why = exit.is_failure().then(|| linked_to(me, exit));
    links.into_values().for_each(|link| (link.tell)(why.clone()));
}
