//! Types that a node offers: other nodes may have actors of these types spawned on it.
//!
//! A node makes an actor for another node only of a type that it offers. Each such type has an
//! actor of its own on the node, the [`Spawner`], under a name that users cannot give. The
//! spawner's messages contain the arguments' type, so a link compares the layouts of the arguments,
//! and their archives are checked as in any message. At most [`Offered::LIVING_MAX`] actors of the
//! type that were spawned for other nodes since the last offer live on the node, including actors
//! that are still starting or held.
//!
//! An actor that must be watched from its start is held until that watch is in place, and begins
//! when the watcher says so. A held actor ends without having run when its watcher ends, when the
//! spawn times out, or with the [`Spawner`].
//!
//! The [`Spawner`] never waits: a task answers the asker when the actor has started.

mod held;
mod request;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use ringpost_transport::{log, shield};
use tokio::time::Instant;

use super::{StartFuture, UnstartedActor};
use crate::actor::cell::ActorCell;
use crate::actor::{
    Actor, ActorRef, Context, Down, Handlers, Recipient, ReplyTo, SpawnOptions, kind_of,
};
use crate::address::{Address, RESERVED};
use crate::ends::RestartPolicy;
use crate::error::{BoxError, OfferError, SpawnError};
use crate::limits;
use crate::message::Wire;
use crate::node::Node;
use crate::registry::RegisterError;
use crate::resident::{ExitFuture, Halt};
use crate::{actor, handlers, message};
use held::{HeldActor, HeldActors};

pub(crate) use request::SpawnRequest;

/// An actor type that other nodes may spawn on a node that [offers](Node::offer) it.
///
/// ```
/// use ringpost::prelude::*;
/// use ringpost::spawn::Offered;
///
/// #[actor]
/// pub struct Counter {
///     total: u64,
/// }
///
/// #[handlers]
/// impl Counter {
///     #[handler]
///     pub fn add(&mut self, amount: u64) -> u64 {
///         self.total += amount;
///         self.total
///     }
/// }
///
/// impl Offered for Counter {
///     type Arguments = u64;
///
///     fn create(total: u64) -> Result<Self, BoxError> {
///         Ok(Counter { total })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let alpha = Node::builder("alpha").listen("127.0.0.1:0").start().await?;
/// let beta = Node::builder("beta").listen("127.0.0.1:0").seeds(alpha.addresses()).start().await?;
/// beta.offer::<Counter>()?;
/// alpha.ready(1).await?;
///
/// let counter: ActorRef<Counter> = alpha.peer("beta").spawn("counter", 40).await?;
/// assert_eq!(counter.add(2).await?, 42);
/// assert_eq!(counter.address().to_string(), "beta/counter");
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be spawned by other nodes",
    note = "write `impl Offered for {Self}` with the arguments that it is made of"
)]
pub trait Offered: Handlers {
    /// The arguments of [`create`](Self::create). They cross nodes like a message.
    type Arguments: Wire;

    /// The maximum number of actors of this type that live on a node because [`Peer::spawn`] made
    /// them. It bounds the load that other nodes can put on a node.
    ///
    /// [`Peer::spawn`]: crate::Peer::spawn
    const LIVING_MAX: usize = limits::OFFERED_LIVING_MAX;

    /// Makes the actor. Its name is already registered. This runs on the node that offers the type,
    /// one call after the other for all actors of the type: slow or waiting work belongs in
    /// [`on_start`](Actor::on_start).
    ///
    /// # Errors
    /// Any error: no actor is spawned, its name is free again, and the asker gets the error's text.
    /// A panic has the same effect.
    fn create(arguments: Self::Arguments) -> Result<Self, BoxError>;
}

impl Node {
    /// Offers a type: other nodes may spawn actors of it on this node
    /// ([`Peer::spawn`](crate::Peer::spawn)), until the offer is [withdrawn](Node::withdraw) or
    /// this node shuts down. Offering a type again changes nothing.
    ///
    /// The offer is an actor of the runtime, which keeps its node alive as other actors do.
    ///
    /// # Errors
    /// [`OfferError`] if another type of the same name is offered, this one is being withdrawn, or
    /// this node is shutting down.
    pub fn offer<A: Offered>(&self) -> Result<(), OfferError> {
        let name = offer_name::<A>();
        let address = Address::by_name(self.shared_name().clone(), name.clone());
        loop {
            let capacity = self.mailbox_capacity();
            match self.place_as::<Spawner<A>>(Some(name.clone()), capacity) {
                Ok(cell) => {
                    // The spawner has no start to wait for.
                    drop(self.run(cell, Spawner::new(), None));
                    return Ok(());
                }
                Err(RegisterError::Closed) => return Err(OfferError::Shutdown),
                Err(RegisterError::NameTaken) => {}
            }
            // (If the spawner has ended since, its name is free, and this tries again.)
            if let Ok(found) = self.resident(&address) {
                let is_same = found.clone().as_any().downcast::<ActorCell<Spawner<A>>>().is_ok();
                return match (is_same, found.is_ending()) {
                    (true, false) => Ok(()),
                    (true, true) if self.residents().is_closed() => Err(OfferError::Shutdown),
                    (true, true) => Err(OfferError::Withdrawing(A::NAME)),
                    (false, _) => Err(OfferError::OtherType(A::NAME)),
                };
            }
        }
    }

    /// Withdraws an [offer](Node::offer): when this returns, no actor of the type is spawned for
    /// other nodes any more, until it is offered again. Returns false if it was not offered.
    ///
    /// A spawn that this node has not begun gets
    /// [`Withdrawn`](crate::spawn::RemoteSpawnCause::Withdrawn), and a later one
    /// [`NotOffered`](crate::spawn::RemoteSpawnCause::NotOffered). An actor that is held, because
    /// it must be [watched](crate::spawn::RemoteSpawn::watched_by) first, ends without having run.
    /// Actors that start or have started live on; they do not count for [`Offered::LIVING_MAX`]
    /// when the type is offered again.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the offer still ends.
    pub async fn withdraw<A: Offered>(&self) -> bool {
        let address = Address::by_name(self.shared_name().clone(), offer_name::<A>());
        let Ok(found) = self.resident(&address) else { return false };
        if found.clone().as_any().downcast::<ActorCell<Spawner<A>>>().is_err() {
            return false;
        }
        found.retire(Halt::Stop);
        ExitFuture::of(found).await;
        true
    }
}

/// Returns the name of the [`Spawner`] of an offered type: the type's shortened name, for people,
/// and the hash of its kind.
pub(crate) fn offer_name<A: Offered>() -> Arc<str> {
    let short: String = A::NAME.chars().take(64).collect();
    format!("{RESERVED}offer-{short}-{:032x}", kind_of::<A>().hash).into()
}

/// Asks the [`Spawner`] to start a held actor.
#[message(name = "ringpost::Begin")]
pub(crate) struct BeginHeldActor {
    /// The actor's number on its node.
    pub(crate) id: u64,
}

/// Tells the [`Spawner`] that a held actor is no longer wanted: it ends without having run.
#[message(name = "ringpost::Release")]
pub(crate) struct ReleaseHeldActor {
    pub(crate) id: u64,
}

/// The answer to [`SpawnRequest`] and [`BeginHeldActor`]: the address of the actor.
pub(crate) type SpawnReply = Result<Address, SpawnRefusal>;

/// The reason why there is no actor.
#[message(name = "ringpost::SpawnRefusal")]
#[derive(Debug)]
pub(crate) enum SpawnRefusal {
    NameTaken,
    InvalidName,
    /// The maximum number of actors live already.
    TooMany(u64),
    /// `create` failed.
    Refused(String),
    /// `on_start` failed.
    NotStarted(String),
    /// `create` or `on_start` panicked.
    Panicked(String),
    Killed,
    Leaving,
    /// The actor is no longer held.
    Released,
}

impl SpawnRefusal {
    /// Returns the outcome of the spawn, as a label of the metric.
    fn label(&self) -> &'static str {
        match self {
            SpawnRefusal::NameTaken => "name_taken",
            SpawnRefusal::InvalidName => "invalid_name",
            SpawnRefusal::TooMany(_) => "too_many",
            SpawnRefusal::Refused(_) => "refused",
            SpawnRefusal::NotStarted(_) => "not_started",
            SpawnRefusal::Panicked(_) => "panicked",
            SpawnRefusal::Killed => "killed",
            SpawnRefusal::Leaving => "leaving",
            SpawnRefusal::Released => NOT_BEGUN,
        }
    }

    fn of(error: SpawnError) -> Self {
        match error {
            SpawnError::NameTaken(_) => SpawnRefusal::NameTaken,
            SpawnError::InvalidName(_) => SpawnRefusal::InvalidName,
            SpawnError::Panicked(text) => SpawnRefusal::Panicked(shortened(&text)),
            SpawnError::Killed => SpawnRefusal::Killed,
            SpawnError::Shutdown => SpawnRefusal::Leaving,
            SpawnError::Start(error) => SpawnRefusal::NotStarted(shortened(&error.to_string())),
            other => SpawnRefusal::NotStarted(shortened(&other.to_string())),
        }
    }
}

/// Returns the text, cut to the length that may cross nodes.
fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(limits::REFUSAL_TEXT_BYTES_MAX)].to_owned()
}

/// The actor that spawns the actors of one type for other nodes.
pub(crate) struct Spawner<A: Offered> {
    /// The actors that it has spawned or holds, and that have not ended.
    living: HashSet<Address>,
    /// The actors that were not told to begin yet.
    held: HeldActors<A>,
}

#[actor(name = "ringpost::Spawner")]
#[diagnostic::do_not_recommend]
impl<A: Offered> Actor for Spawner<A> {
    // The constructor of an offered type may take long.
    const IN_PLACE: bool = false;
}

#[handlers]
impl<A: Offered> Spawner<A> {
    #[handler]
    fn spawn(
        &mut self,
        msg: SpawnRequest<A::Arguments>,
        reply: ReplyTo<SpawnReply>,
        cx: &mut Context<Self>,
    ) {
        let SpawnRequest { arguments, name, mailbox_capacity, watcher } = msg;
        let capacity = mailbox_capacity
            .map(|capacity| capacity.min(limits::OFFERED_MAILBOX_CAPACITY_MAX as u64) as usize);
        let options = SpawnOptions { name, mailbox_capacity: capacity };
        // Panics of the user's code are not failures of the spawner. The constructor may panic, the
        // text of its error, and the drop of anything that was not used.
        let placed = shield::catch(|| self.place(*arguments, options, cx));
        let placed = placed.unwrap_or_else(|panic| Err(SpawnRefusal::Panicked(shortened(&panic))));
        let (address, actor) = match placed {
            Ok(placed) => placed,
            Err(refusal) => return refuse(A::NAME, refusal, reply),
        };
        match watcher {
            None => answer(A::NAME, (cx.node(), actor.run(cx.node())), address, reply),
            Some(watcher) => {
                self.hold((actor, address.clone()), watcher, reply.deadline(), cx);
                reply.send(Ok(address));
            }
        }
    }

    #[handler]
    fn begin(&mut self, msg: BeginHeldActor, reply: ReplyTo<SpawnReply>, cx: &mut Context<Self>) {
        let Some(held) = self.let_go(msg.id, cx) else {
            return reply.send(Err(SpawnRefusal::Released));
        };
        answer(A::NAME, (cx.node(), held.actor.run(cx.node())), held.address, reply);
    }

    /// Ends a held actor that is no longer wanted. The actor has not run.
    #[handler]
    fn release(&mut self, msg: ReleaseHeldActor, cx: &mut Context<Self>) {
        if self.let_go(msg.id, cx).is_some() {
            count(A::NAME, NOT_BEGUN);
        }
    }

    /// Forgets the actor that has ended, and ends the actors that were held for it as a watcher.
    #[handler]
    fn down(&mut self, msg: Down, cx: &mut Context<Self>) {
        self.living.remove(&msg.actor);
        for id in self.held.remove_watcher(&msg.actor) {
            cx.cancel(timer(id));
            count(A::NAME, NOT_BEGUN);
        }
    }
}

impl<A: Offered> Spawner<A> {
    fn new() -> Self {
        Spawner { living: HashSet::new(), held: HeldActors::new() }
    }

    /// Registers an actor, and then makes it: if the name is taken, no actor is made. If making it
    /// fails, the drop of the [`UnstartedActor`] frees the name.
    fn place(
        &mut self,
        arguments: A::Arguments,
        options: SpawnOptions,
        cx: &mut Context<Self>,
    ) -> Result<(Address, UnstartedActor<A>), SpawnRefusal> {
        if self.living.len() >= A::LIVING_MAX {
            return Err(SpawnRefusal::TooMany(A::LIVING_MAX as u64));
        }
        let cell = cx.node().place::<A>(options, RestartPolicy::Never).map_err(SpawnRefusal::of)?;
        let mut unborn = UnstartedActor::new(cell.clone());
        let created = A::create(arguments);
        unborn.give(created.map_err(|error| SpawnRefusal::Refused(shortened(&error.to_string())))?);
        let actor = ActorRef::local(cell);
        // The address may have been watched before the actor existed, because a spawn named it as
        // a watcher. A `Down` of that watch does not count for the actor.
        cx.unwatch(&actor);
        cx.watch(&actor);
        self.living.insert(actor.address().clone());
        Ok((actor.address().clone(), unborn))
    }

    /// Holds an actor until it is told to begin, its watcher ends, or `until` has passed.
    fn hold(
        &mut self,
        (actor, address): (UnstartedActor<A>, Address),
        watcher: Address,
        until: Option<Instant>,
        cx: &mut Context<Self>,
    ) {
        let (id, now) = (id_of(&address), Instant::now());
        let watcher = Recipient::<Down>::bind(cx.node(), watcher);
        cx.watch(&watcher);
        let left = until.map_or(limits::ASK_TIMEOUT, |until| until.saturating_duration_since(now));
        cx.tell_after(timer(id), left, ReleaseHeldActor { id });
        self.held.insert(id, HeldActor { actor, address, watcher });
    }

    /// Removes a held actor, its timer, and the watch of its watcher. Returns `None` if the actor
    /// is not held.
    fn let_go(&mut self, id: u64, cx: &mut Context<Self>) -> Option<HeldActor<A>> {
        let held = self.held.remove(id)?;
        cx.cancel(timer(id));
        let watcher = &held.watcher;
        // (The watcher may itself be an actor that was spawned here, and is watched as such.)
        if !self.held.has_watcher(watcher.address()) && !self.living.contains(watcher.address()) {
            cx.unwatch(watcher);
        }
        Some(held)
    }
}

/// Returns the number of an actor on its node; 0 if the address has no identity.
pub(crate) fn id_of(address: &Address) -> u64 {
    address.identity().map_or(0, |identity| identity.key.id())
}

fn timer(id: u64) -> (&'static str, u64) {
    ("held", id)
}

/// Answers the asker when an actor has started. If the asker has given up, the actor still lives.
fn answer(
    kind: &'static str,
    (node, starts): (&Node, StartFuture),
    address: Address,
    reply: ReplyTo<SpawnReply>,
) {
    node.runtime().spawn(async move {
        match starts.await {
            Ok(()) => {
                count(kind, "started");
                reply.send(Ok(address));
            }
            Err(error) => refuse(kind, SpawnRefusal::of(error), reply),
        }
    });
}

/// Tells an asker why no actor of this type was spawned.
fn refuse(kind: &'static str, refusal: SpawnRefusal, reply: ReplyTo<SpawnReply>) {
    count(kind, refusal.label());
    log::debug!(kind, why = ?refusal, "no actor was spawned for another node");
    reply.send(Err(refusal));
}

/// The outcome of a spawn whose actor was held and never told to begin.
const NOT_BEGUN: &str = "not_begun";

/// Counts a spawn of this type by its outcome.
fn count(kind: &'static str, outcome: &'static str) {
    let labels = [("actor", kind), ("outcome", outcome)];
    shield::run(|| metrics::counter!("ringpost_spawned_for_others_total", &labels).increment(1));
}
