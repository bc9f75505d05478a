//! The workers of a pool in their places, and to which of them a message goes.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use ringpost_transport::shield;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::open::Open;
use crate::actor::cell::Cell;
use crate::actor::child::{Factory, Make};
use crate::actor::destination::Destination;
use crate::actor::{ActorRef, Handlers};
use crate::busy::is_running;
use crate::message::Message;
use crate::mutants::planted;
use crate::node::Node;
use crate::resident::{Halt, Resident};

/// How the worker is chosen for messages without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Routing {
    /// Each message goes to the next worker that has room, and does not rest after a failure, or
    /// start again, while another one is at work.
    #[default]
    RoundRobin,
    /// Each message goes to the worker with the fewest: those that wait in its mailbox, senders
    /// that wait for room there, and the one in hand; to one that rests after a failure, or starts
    /// again, only where all do. Takes a look at every worker.
    LeastLoaded,
}

/// The workers in their places.
pub(super) type Ring<A> = [ActorRef<A>];

/// Functions that hash the key of a message, by its type. In each box is a [`KeyOf`] of it.
#[derive(Default)]
pub(super) struct Keys(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

type KeyOf<M> = Box<dyn Fn(&M, &mut DefaultHasher) + Send + Sync>;

impl Keys {
    pub(super) fn add<M: Message, K: Hash>(
        &mut self,
        key: impl Fn(&M) -> K + Send + Sync + 'static,
    ) {
        let hash: KeyOf<M> = Box::new(move |message, hasher| key(message).hash(hasher));
        self.0.insert(TypeId::of::<M>(), Box::new(hash));
    }

    fn of<M: Message>(&self, message: &M, mut hasher: DefaultHasher) -> Option<u64> {
        let hash = self.0.get(&TypeId::of::<M>())?.downcast_ref::<KeyOf<M>>()?;
        let hashed = shield::run(|| {
            hash(message, &mut hasher);
            hasher.finish()
        });
        // Messages whose key panics have one key.
        Some(hashed.unwrap_or_default())
    }
}

/// What all handles of a pool, and its supervisor, share.
pub(super) struct Shared<A: Handlers> {
    pub(super) node: Node,
    routing: Routing,
    keys: Keys,
    /// Has taken a secret of the pool: who chooses keys cannot choose their worker.
    hasher: DefaultHasher,
    next: AtomicUsize,
    /// How many workers there are to be, also after the supervisor was made anew.
    size: AtomicUsize,
    ring: RwLock<Arc<Ring<A>>>,
    changed: Notify,
    /// Told when a worker begins to rest.
    rested: Notify,
    /// The routers on its node, and what they have in hand that no worker has: where its node shuts
    /// down, the pool takes that first.
    pub(super) routed: Open<()>,
    /// The messages that its routers on its node have in hand, until the answers are passed on:
    /// where its node shuts down, the pool waits for that at its end.
    pub(super) in_hand: Open<()>,
    /// It was drained, or ends: it takes nothing more from its routers either.
    is_drained: AtomicBool,
}

impl<A: Handlers> Shared<A> {
    pub(super) fn new(node: Node, (routing, keys): (Routing, Keys), size: usize) -> Self {
        // (Its own keys are fixed. Those of a `RandomState` would differ from run to run where all
        // else follows from a seed.)
        let mut hasher = DefaultHasher::new();
        hasher.write_u128(node.entropy().u128());
        Shared {
            node,
            routing,
            keys,
            hasher,
            next: AtomicUsize::new(0),
            size: AtomicUsize::new(size),
            ring: RwLock::new(Arc::new([])),
            changed: Notify::new(),
            rested: Notify::new(),
            routed: Open::new(),
            in_hand: Open::new(),
            is_drained: AtomicBool::new(false),
        }
    }

    /// The pool is drained or ends, or begins (anew).
    pub(super) fn set_drained(&self, is_drained: bool) {
        self.is_drained.store(is_drained, Ordering::Relaxed);
    }

    /// Returns true if its node shuts down.
    pub(super) fn is_leaving(&self) -> bool {
        self.node.residents().is_closed()
    }

    /// Returns true if its node shuts down, and the pool still takes what its routers have.
    pub(super) fn takes_routed(&self) -> bool {
        self.is_leaving() && !self.is_drained.load(Ordering::Relaxed) && !self.routed.is_empty()
    }

    pub(super) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    pub(super) fn ring(&self) -> Arc<Ring<A>> {
        self.ring.read().clone()
    }

    /// Puts other workers in place of these, and tells the senders that wait.
    pub(super) fn replace(&self, ring: Vec<ActorRef<A>>) {
        self.size.store(ring.len(), Ordering::Relaxed);
        let old = std::mem::replace(&mut *self.ring.write(), ring.into());
        drop(old);
        self.changed.notify_waiters();
    }

    /// Tells the senders that wait that a worker takes messages, which may have been closed.
    pub(super) fn is_anew(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until none of these workers is at work any more that may have room later (PL-5).
    pub(super) async fn none_at_work(&self, order: Order, workers: &[&ActorRef<A>]) {
        loop {
            let mut rested = pin!(self.rested.notified());
            rested.as_mut().enable();
            if workers.iter().all(|worker| worker.is_closed() || order.passes_over(worker)) {
                return;
            }
            rested.await;
        }
    }

    /// Waits until there are other workers or one is made anew, from when it is enabled.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Returns how long an ask waits that does not say otherwise.
    pub(super) fn ask_timeout(&self) -> Duration {
        A::ASK_TIMEOUT.unwrap_or_else(|| self.node.deadlines().ask_timeout())
    }

    /// Returns the hash of a message's key, if it has one.
    pub(super) fn key<M: Message>(&self, message: &M) -> Option<u64> {
        self.keys.of(message, self.hasher.clone())
    }

    /// Returns to which worker a message goes (PL-1), and whether it may go to others.
    pub(super) fn order<M: Message>(&self, ring: &Ring<A>, message: &M) -> Order {
        if let Some(key) = self.key(message) {
            return Order { first: place_of(key, ring.len()), is_only: !planted!(StrayKey) };
        }
        let count = ring.len().max(1);
        let next = self.next.fetch_add(1, Ordering::Relaxed) % count;
        let first = match self.routing {
            Routing::RoundRobin => next,
            // Of workers that are equal the next one has its turn.
            Routing::LeastLoaded => (0..count)
                .map(|step| (next + step) % count)
                .min_by_key(|place| ring.get(*place).map(|to| (to.is_resting(), to.load())))
                .unwrap_or(next),
        };
        Order { first, is_only: false }
    }
}

/// Makes the workers of a pool, and tells the senders that wait.
pub(super) struct MakeWorker<A: Handlers> {
    pub(super) make: Factory<A>,
    pub(super) shared: Arc<Shared<A>>,
}

impl<A: Handlers> Make<A> for MakeWorker<A> {
    fn make(&self) -> A {
        // Its mailbox is open again (PL-3).
        self.shared.is_anew();
        self.make.make()
    }

    fn note_over(&self, reopened: bool) {
        if reopened {
            // It has room while it rests, and senders have found it closed (PL-3).
            self.shared.is_anew();
        } else {
            self.shared.rested.notify_waiters();
        }
    }

    fn note_started_again(&self) {
        // It may have room where no worker that is at work has (PL-5).
        self.shared.is_anew();
    }
}

/// The places to which a message may go, the first choice first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    first: usize,
    is_only: bool,
}

impl Order {
    /// All places, from this one on.
    #[cfg(test)]
    pub(super) fn all_from(first: usize) -> Self {
        Order { first, is_only: false }
    }

    pub(super) fn first(self) -> usize {
        self.first
    }

    pub(super) fn of<A: Handlers>(self, ring: &Ring<A>) -> impl Iterator<Item = &ActorRef<A>> {
        let count = if self.is_only { ring.len().min(1) } else { ring.len() };
        (0..count).map(move |step| &ring[(self.first + step) % ring.len()])
    }

    /// Returns the workers to which a message is offered, one after the other.
    pub(super) fn rounds<A: Handlers>(self, ring: &Ring<A>) -> Rounds<'_, A> {
        let [is_second, is_passed_over, will_have_room] = [false; 3];
        Rounds { order: self, ring, step: 0, is_second, is_passed_over, will_have_room }
    }

    /// Returns true if a worker is passed over: it rests, and the message may go to another one.
    pub(super) fn passes_over<A: Handlers>(self, worker: &ActorRef<A>) -> bool {
        !self.is_only && worker.is_resting()
    }
}

/// The workers in an [`Order`]: those at work first. Those that rest come in a second round, with
/// all others, unless there will be room elsewhere (PL-5).
pub(super) struct Rounds<'r, A: Handlers> {
    order: Order,
    ring: &'r Ring<A>,
    /// Workers that were looked at in this round.
    step: usize,
    is_second: bool,
    is_passed_over: bool,
    /// Set by the caller: a worker at work has no room now, and will have some.
    pub(super) will_have_room: bool,
}

impl<'r, A: Handlers> Iterator for Rounds<'r, A> {
    type Item = &'r ActorRef<A>;

    fn next(&mut self) -> Option<&'r ActorRef<A>> {
        loop {
            for worker in self.order.of(self.ring).skip(self.step) {
                self.step += 1;
                if self.is_second || !self.order.passes_over(worker) {
                    return Some(worker);
                }
                self.is_passed_over = true;
            }
            if self.is_second || !self.is_passed_over || self.will_have_room {
                return None;
            }
            (self.is_second, self.step) = (true, 0);
        }
    }
}

/// Returns the only one of `count` places to which a message may go that has a key with this hash:
/// the same while the size stays (PL-3), by jump consistent hashing (Lamping and Veach, 2014). When
/// places are added at the end, the keys that change go to these, and to no other.
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

impl<A: Handlers> ActorRef<A> {
    /// Returns true if it takes nothing now. A worker is of this node.
    pub(super) fn is_closed(&self) -> bool {
        self.near_cell().is_none_or(|cell| cell.intake().is_closed())
    }

    /// Returns true if it was stopped.
    pub(super) fn is_stopping(&self) -> bool {
        self.near_cell().is_none_or(|cell| cell.intake().is_stopping())
    }

    /// Returns true if it has ended and has not started anew yet: it handles nothing now.
    pub(super) fn is_resting(&self) -> bool {
        !planted!(RestingTurn) && self.near_cell().is_some_and(|cell| !cell.ends().is_started())
    }

    /// Returns true if the caller is a handler of it.
    pub(super) fn is_in_hand(&self) -> bool {
        self.near_cell().is_some_and(|cell| is_running(cell.token()))
    }

    /// Returns how many messages its worker has before a new one.
    fn load(&self) -> usize {
        self.near_cell().map_or(usize::MAX, |cell| cell.intake().load())
    }

    /// Ends a worker when it has handled what it has. It may fail at that, or stop itself, as often
    /// as another worker (PL-4).
    pub(super) fn dismiss(&self) {
        self.near_cell().into_iter().for_each(Resident::dismiss);
    }

    /// Ends a worker for good.
    pub(super) fn retire(&self, halt: Halt) {
        self.near_cell().into_iter().for_each(|cell| cell.retire(halt));
    }

    pub(super) fn near_cell(&self) -> Option<&Cell<A>> {
        match self.destination() {
            Destination::Local(near) => Some(near.cell()),
            Destination::Elsewhere(_) => None,
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

    #[test]
    fn no_place_is_asked_for_where_there_is_none() {
        assert_eq!(place_of(7, 0), 0);
    }
}
