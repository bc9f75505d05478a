//! The actors of a node: the registry of living actors, for look-ups, links and the log.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use ringpost_transport::id::Incarnation;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::address::{Address, AddressDisplay, Identity};
use crate::limits;
use crate::registry::{Key, RegisterError, Registry};
use crate::remote::{Directory, Inbox, OpenRefusal, Target};
use crate::resident::LocalActor;
use crate::waits::wire::ActorLocation;
use crate::waits::{Awaits, WaitEntry, WaitTarget, WaitingActor};

/// The actors of this node, and the identity of this run of the node.
pub(crate) struct LocalActors {
    registry: Registry<dyn LocalActor>,
    /// Set when the node starts; no actor lives here before.
    incarnation: OnceLock<Incarnation>,
    /// Notified when an actor gets a name.
    named: Notify,
    /// The numbers of the actors that had a waiting handler or sender at the last look or later.
    /// Each number is listed once (`HandlerWaits::is_listed`); ended actors are removed at the next
    /// look.
    listed: Mutex<Vec<u64>>,
}

impl LocalActors {
    pub(crate) fn new() -> Self {
        LocalActors {
            registry: Registry::new(),
            incarnation: OnceLock::new(),
            named: Notify::new(),
            listed: Mutex::default(),
        }
    }

    /// Notes that the node has started. Called once.
    pub(crate) fn start(&self, incarnation: Incarnation) {
        self.incarnation.get_or_init(|| incarnation);
    }

    /// Registers the actor that `make` builds.
    ///
    /// # Errors
    /// Returns [`RegisterError`] if the name is taken or the node is shutting down.
    pub(crate) fn insert(
        &self,
        name: Option<Arc<str>>,
        make: &mut dyn FnMut(Key) -> Arc<dyn LocalActor>,
    ) -> Result<(), RegisterError> {
        let is_named = name.is_some();
        self.registry.insert(name, make)?;
        if is_named {
            self.named.notify_waiters();
        }
        Ok(())
    }

    /// Returns a future that waits until an actor gets a name. Create it before you look for a
    /// name, so that no name is missed.
    pub(crate) fn next_name(&self) -> Notified<'_> {
        self.named.notified()
    }

    pub(crate) fn remove(&self, key: Key, name: Option<&str>) {
        drop(self.registry.remove(key, name));
    }

    /// Returns the actor at an address of this node.
    pub(crate) fn at(&self, address: &Address) -> Option<Arc<dyn LocalActor>> {
        match (address.identity(), address.name()) {
            (Some(identity), _) => self.exactly(identity),
            (None, Some(name)) => self.registry.named(name),
            (None, None) => None,
        }
    }

    /// Refuses further actors from now on.
    pub(crate) fn close(&self) {
        self.registry.close();
        // Woken because the names that tasks wait for are not given any more.
        self.named.notify_waiters();
    }

    /// Returns true if no actor can be added any more, because the node is shutting down.
    pub(crate) fn is_closed(&self) -> bool {
        self.registry.is_closed()
    }

    /// Returns all actors, in the order of their slots in the registry, which are reused.
    pub(crate) fn all(&self) -> Vec<Arc<dyn LocalActor>> {
        self.registry.all()
    }

    /// Lists the actor with this number; called by [`WaitingActor::list`] only.
    pub(crate) fn list(&self, id: u64) {
        self.listed.lock().push(id);
    }

    /// Returns the actors with a waiting handler, or with a sender that waits for room in their
    /// mailbox, and removes all others from the list.
    pub(crate) fn listed(&self) -> Vec<Arc<dyn LocalActor>> {
        let mut waiting = std::mem::take(&mut *self.listed.lock());
        let actors = waiting.drain(..).filter_map(|id| self.by_id(id));
        let mut listed: Vec<Arc<dyn LocalActor>> = Vec::new();
        for actor in actors {
            // Unlisted before the look: a wait that begins after the look lists the actor again. In
            // the other order, that wait would be lost.
            let handler = match &mut *actor.waits().lock() {
                Some(waits) => {
                    waits.is_listed = false;
                    waits.handler
                }
                None => None,
            };
            if handler.is_some() || actor.intake().is_waited_for() {
                actor.list();
                listed.push(actor);
            }
        }
        listed
    }

    /// Returns the actor with this number: see [`Inbox::id`].
    pub(crate) fn by_id(&self, id: u64) -> Option<Arc<dyn LocalActor>> {
        self.registry.at(Key::of(id))
    }

    /// Returns where an actor is that a peer names in the chain of an ask. For an actor of this
    /// node, the result contains the handler that has this wait, if it still waits.
    pub(crate) fn waits_at(&self, actor: Identity, wait: u64) -> ActorLocation {
        if self.incarnation.get() != Some(&actor.incarnation) {
            return ActorLocation::Elsewhere;
        }
        let actor = self.registry.at(actor.key).map(|actor| actor as Arc<dyn WaitingActor>);
        ActorLocation::Here(actor.and_then(|actor| actor.chain_of(wait)))
    }

    /// Returns a text for people that names what the handler of an actor waits for; `None` if it
    /// waits for no actor.
    pub(crate) fn awaited_by(&self, actor: &dyn LocalActor) -> Option<String> {
        let waits = actor.waits().lock();
        let text = |WaitEntry { whom, what, .. }: &WaitEntry| {
            let whom = match whom {
                WaitTarget::Near(id) => self.by_id(*id)?.shown().to_string(),
                WaitTarget::Far(address, kind) => AddressDisplay { address, kind }.to_string(),
            };
            Some(format!("{} {whom}", what.text()))
        };
        let mut texts: Vec<String> = waits.as_ref()?.actors.iter().filter_map(text).collect();
        texts.dedup();
        texts.truncate(limits::STALLS_REPORTED_MAX);
        (!texts.is_empty()).then(|| texts.join(" and "))
    }

    /// Returns the actors, as texts for people, whose handlers wait for room in the mailbox of the
    /// actor with this number.
    pub(crate) fn senders_to(&self, id: u64) -> Vec<String> {
        let waits = |actor: &Arc<dyn LocalActor>| {
            let waits = actor.waits().lock();
            let mut notes = waits.iter().flat_map(|waits| &waits.actors);
            let is_it = |whom: &WaitTarget| matches!(whom, WaitTarget::Near(whom) if *whom == id);
            notes.any(|note| is_it(&note.whom) && note.what == Awaits::Room)
        };
        let all = self.all();
        all.iter().filter(|actor| waits(actor)).map(|actor| actor.shown().to_string()).collect()
    }

    fn exactly(&self, identity: Identity) -> Option<Arc<dyn LocalActor>> {
        let ours = self.incarnation.get() == Some(&identity.incarnation);
        if ours { self.registry.at(identity.key) } else { None }
    }
}

impl Directory for LocalActors {
    fn find(&self, target: &Target, kind: u128) -> Result<Arc<dyn Inbox>, OpenRefusal> {
        let found = match *target {
            Target::Name(ref name) => self.registry.named(name),
            Target::Identity { incarnation, id } => {
                self.exactly(Identity { incarnation, key: Key::of(id) })
            }
        };
        let resident = found.ok_or(OpenRefusal::NoSuchMailbox)?;
        if kind != 0 && kind != resident.kind().hash {
            return Err(OpenRefusal::WrongKind { found: resident.kind().name.into() });
        }
        Ok(resident)
    }
}
