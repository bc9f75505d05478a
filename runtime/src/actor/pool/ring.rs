//! The workers of a pool in their places, and the choice of the worker for a message.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use ringpost_transport::shield;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::actor::cell::ActorCell;
use crate::actor::send::destination::Destination;
use crate::actor::{ActorRef, Handlers};
use crate::address::Address;
use crate::error::Cause;
use crate::message::Message;
use crate::node::Node;
use crate::resident::LocalActor;

/// The choice of the worker for messages without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Routing {
    /// Each message goes to the next worker that has room.
    #[default]
    RoundRobin,
    /// Each message goes to the worker with the fewest messages. These are the messages in its
    /// mailbox, the senders that wait for room there, and the message in hand. Looks at every
    /// worker.
    LeastLoaded,
}

/// The workers of a pool, in the order of their places.
pub(super) type Ring<A> = [ActorRef<A>];

/// Functions that hash the key of a message, by the type of the message. Each box contains the
/// [`KeyHasher`] of that type.
#[derive(Default)]
pub(super) struct KeyHashers(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

type KeyHasher<M> = Box<dyn Fn(&M, &mut DefaultHasher) + Send + Sync>;

impl KeyHashers {
    pub(super) fn add<M: Message, K: Hash>(
        &mut self,
        key: impl Fn(&M) -> K + Send + Sync + 'static,
    ) {
        let hash: KeyHasher<M> = Box::new(move |message, hasher| key(message).hash(hasher));
        self.0.insert(TypeId::of::<M>(), Box::new(hash));
    }

    fn of<M: Message>(&self, message: &M, mut hasher: DefaultHasher) -> Option<u64> {
        let hash = self.0.get(&TypeId::of::<M>())?.downcast_ref::<KeyHasher<M>>()?;
        let hashed = shield::run(|| {
            hash(message, &mut hasher);
            hasher.finish()
        });
        // Messages whose key panics share one key.
        Some(hashed.unwrap_or_default())
    }
}

/// The state that all handles of a pool share with its supervisor.
pub(super) struct PoolState<A: Handlers> {
    pub(super) node: Node,
    /// The pool's name, as an address.
    pub(super) address: Address,
    routing: Routing,
    keys: KeyHashers,
    /// Seeded with a secret of the pool, so that senders cannot choose keys that all go to one
    /// worker.
    hasher: DefaultHasher,
    next: AtomicUsize,
    /// The wanted number of workers, which a restarted supervisor starts.
    size: AtomicUsize,
    ring: RwLock<Arc<Ring<A>>>,
    changed: Notify,
}

impl<A: Handlers> PoolState<A> {
    pub(super) fn new(
        node: &Node,
        address: Address,
        (routing, keys): (Routing, KeyHashers),
        size: usize,
    ) -> Self {
        // (The hasher's own keys are fixed. The keys of a `RandomState` would differ from run to
        // run, even if everything else follows from a seed.)
        let mut hasher = DefaultHasher::new();
        hasher.write_u128(node.entropy().u128());
        PoolState {
            node: node.clone(),
            address,
            routing,
            keys,
            hasher,
            next: AtomicUsize::new(0),
            size: AtomicUsize::new(size),
            ring: RwLock::new(Arc::new([])),
            changed: Notify::new(),
        }
    }

    pub(super) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    pub(super) fn set_size(&self, size: usize) {
        self.size.store(size, Ordering::Relaxed);
    }

    pub(super) fn ring(&self) -> Arc<Ring<A>> {
        self.ring.read().clone()
    }

    /// Replaces the workers. Waiting senders choose again.
    pub(super) fn replace(&self, ring: Vec<ActorRef<A>>) {
        let old = std::mem::replace(&mut *self.ring.write(), ring.into());
        drop(old);
        self.changed.notify_waiters();
    }

    /// Returns a future that is ready when the workers were replaced after it was enabled.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Returns the error for a message if no worker is left that could take it.
    pub(super) fn over(&self) -> Cause {
        if self.node.residents().is_closed() { Cause::Shutdown } else { Cause::Stopped }
    }

    /// Returns the timeout of an ask that sets none.
    pub(super) fn ask_timeout(&self) -> Duration {
        A::ASK_TIMEOUT.unwrap_or_else(|| self.node.deadlines().ask_timeout())
    }

    /// Returns the hash of a message's key, if it has one.
    pub(super) fn key<M: Message>(&self, message: &M) -> Option<u64> {
        self.keys.of(message, self.hasher.clone())
    }

    /// Returns the workers of `ring` in the order in which a message with this key goes to them.
    pub(super) fn order<'r>(
        &self,
        ring: &'r Ring<A>,
        key: Option<u64>,
    ) -> impl Iterator<Item = &'r ActorRef<A>> + Send + use<'r, A> {
        let count = ring.len();
        let first = match key {
            Some(key) => place_of(key, count),
            None => self.first(ring),
        };
        (0..count).map(move |step| &ring[(first + step) % count])
    }

    /// Returns the place of the worker to which a message without a key goes first.
    fn first(&self, ring: &Ring<A>) -> usize {
        let count = ring.len().max(1);
        let next = self.next.fetch_add(1, Ordering::Relaxed) % count;
        match self.routing {
            Routing::RoundRobin => next,
            // Among equally loaded workers the next in turn is chosen.
            Routing::LeastLoaded => (0..count)
                .map(|step| (next + step) % count)
                .min_by_key(|place| ring.get(*place).map(ActorRef::load))
                .unwrap_or(next),
        }
    }
}

/// Returns the place among `count` places of a key with this hash, by jump consistent hashing
/// (Lamping and Veach, 2014): when places are added at the end, the keys that change their place go
/// to the added places.
pub(super) fn place_of(mut key: u64, count: usize) -> usize {
    let (mut place, mut next) = (0, 0);
    while next < count {
        place = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let draw = ((key >> 33) + 1) as f64 / (1_u64 << 31) as f64;
        next = ((place + 1) as f64 / draw) as usize;
    }
    place
}

/// A pool's view of its workers, which are actors of this node.
impl<A: Handlers> ActorRef<A> {
    /// Returns how many messages the worker has to handle before a new one.
    fn load(&self) -> usize {
        self.near_cell().map_or(usize::MAX, |cell| cell.intake().load())
    }

    /// Returns true if the worker has ended and is not restarted.
    pub(super) fn has_ended(&self) -> bool {
        self.near_cell().is_none_or(|worker| worker.ends().has_ended())
    }

    pub(super) fn near_cell(&self) -> Option<&ActorCell<A>> {
        match self.destination() {
            Destination::Local(near) => Some(near.cell()),
            Destination::ByAddress(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_changes_its_place_goes_to_one_that_was_added() {
        for key in 0..1_000_u64 {
            let key = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut place = place_of(key, 1);
            assert_eq!(place, 0);
            for count in 2..32 {
                let new = place_of(key, count);
                assert!(new == place || new == count - 1, "{key}: {place} to {new} of {count}");
                place = new;
            }
        }
    }

    #[test]
    fn keys_are_spread_evenly() {
        let mut counts = [0; 8];
        for key in 0..8_000_u64 {
            counts[place_of(key.wrapping_mul(0x9E37_79B9_7F4A_7C15), 8)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
