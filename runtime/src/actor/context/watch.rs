//! Monitors: an actor is told when another actor has ended, and a program can wait for that.
//!
//! A watch tells once, however the watched actor ends, and nothing after `unwatch`. Messages that
//! the watched actor sent to the watcher before it ended are handled before its [`Down`].

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::future::{AbortHandle, Abortable, BoxFuture};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use crate::actor::send::destination::{Destination, DestinationView};
use crate::actor::send::port::LocalHandle;
use crate::actor::send::wait::WaitGuard;
use crate::actor::{ActorRef, Handlers, Protocol, Recipient, Ref};
use crate::address::Address;
use crate::exit::ActorExit;
use crate::mailbox::{Mailbox, Origin, Prefetched, RemoteItem};
use crate::message::{Codec, Message};
use crate::remote::{self, RemoteSender};
use crate::resident::{ExitFuture, LocalActor};
use crate::schema::Hash;
use crate::waits::Awaits;

/// The message that a watched actor has ended, or that its node is down. The runtime sends it to
/// the actor that [watches](crate::Context::watch) that actor. The watching actor has a handler for
/// it: `fn down(&mut self, msg: Down)`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Down {
    /// The address of the actor, as in the watcher's reference.
    pub actor: Address,
    /// The exit of the actor.
    pub exit: ActorExit,
}

#[diagnostic::do_not_recommend]
impl Message for Down {
    const NAME: &'static str = "Down";
    const ID: u128 = Hash::new("ringpost::Down").end();
    const CODEC: Option<Codec<Self>> = None;
}

/// A reference that can be watched: an [`ActorRef`], a [`Recipient`] or a [`Ref`]. Implemented by
/// this crate only.
pub trait Watchable: sealed::Watchable {}

impl<T: sealed::Watchable> Watchable for T {}

pub(crate) mod sealed {
    use super::{Address, WatchTarget};

    pub trait Watchable {
        /// Returns the address of the actor.
        fn place(&self) -> &Address;

        /// Returns the actor, without its type.
        fn met(&self) -> WatchTarget<'_>;
    }
}

/// The actor that a reference leads to, without its type.
pub struct WatchTarget<'a>(pub(crate) TargetActor<'a>);

pub(crate) enum TargetActor<'a> {
    /// An actor of this node.
    Near(Arc<dyn LocalActor>),
    /// An actor of another node.
    Far(&'a RemoteSender),
    /// No actor.
    Nobody,
}

impl<A: Handlers> sealed::Watchable for ActorRef<A> {
    fn place(&self) -> &Address {
        self.address()
    }

    fn met(&self) -> WatchTarget<'_> {
        met(self.destination(), |near| near.shared())
    }
}

impl<M: Message, R: Send + 'static> sealed::Watchable for Recipient<M, R> {
    fn place(&self) -> &Address {
        self.address()
    }

    fn met(&self) -> WatchTarget<'_> {
        met(self.destination(), |near| near.shared())
    }
}

impl<P: Protocol> sealed::Watchable for Ref<P> {
    fn place(&self) -> &Address {
        self.address()
    }

    fn met(&self) -> WatchTarget<'_> {
        met(self.destination(), |near| near.shared())
    }
}

fn met<P: LocalHandle>(
    to: &Destination<P>,
    near: impl FnOnce(&P) -> Arc<dyn LocalActor>,
) -> WatchTarget<'_> {
    if let Some(settled) = to.settled() {
        return WatchTarget(match settled.view() {
            DestinationView::Local(actor) => TargetActor::Near(near(actor)),
            _ => TargetActor::Nobody,
        });
    }
    WatchTarget(match to.view() {
        DestinationView::Local(actor) => TargetActor::Near(near(actor)),
        DestinationView::Remote(sender, _) => TargetActor::Far(sender),
        DestinationView::Dead(_) => TargetActor::Nobody,
    })
}

/// Returns a future that waits for the end of an actor, and the origin of the actor's messages.
fn end_of(peer: TargetActor<'_>) -> (BoxFuture<'static, ActorExit>, Origin) {
    match peer {
        TargetActor::Near(actor) => (Box::pin(ExitFuture::of(actor)), None),
        TargetActor::Far(sender) => (remote::closed(sender), Some(sender.peer_number())),
        TargetActor::Nobody => (Box::pin(std::future::ready(ActorExit::NoActor)), None),
    }
}

impl<A: Handlers> ActorRef<A> {
    /// Waits until the actor has ended, its state is dropped and its name is free. An actor that
    /// waits for itself waits forever.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn wait_stopped(&self) -> ActorExit {
        has_stopped(self).await
    }
}

impl<M: Message, R: Send + 'static> Recipient<M, R> {
    /// Waits until the actor has ended, as [`ActorRef::wait_stopped`] does.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn wait_stopped(&self) -> ActorExit {
        has_stopped(self).await
    }
}

impl<P: Protocol> Ref<P> {
    /// Waits until the actor has ended, as [`ActorRef::wait_stopped`] does.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn wait_stopped(&self) -> ActorExit {
        has_stopped(self).await
    }
}

/// Waits until the actor that a reference leads to now has ended. If a handler calls this for an
/// actor of this node, its wait is recorded.
pub(crate) async fn has_stopped(actor: &impl sealed::Watchable) -> ActorExit {
    match actor.met().0 {
        TargetActor::Near(actor) => {
            let _wait = WaitGuard::begin(&*actor, Awaits::End);
            ExitFuture::of(actor).await
        }
        TargetActor::Far(sender) => remote::closed(sender).await,
        TargetActor::Nobody => ActorExit::NoActor,
    }
}

/// Returns a future that waits for the end of the actor that a reference leads to now.
pub(crate) fn down_of(actor: &impl sealed::Watchable) -> BoxFuture<'static, Down> {
    let (place, (end, _)) = (actor.place().clone(), end_of(actor.met().0));
    Box::pin(async move { Down { actor: place, exit: end.await } })
}

/// Returns the address of an actor, and a future that waits for its end.
#[cfg(feature = "test-kit")]
pub(crate) fn exit_of(actor: &impl Watchable) -> (Address, BoxFuture<'static, ActorExit>) {
    (actor.place().clone(), end_of(actor.met().0).0)
}

/// The actors that one actor watches. Owned by its `EventSources`.
#[derive(Default)]
pub(crate) struct Watches {
    ends: FuturesUnordered<Abortable<BoxFuture<'static, (Down, Origin)>>>,
    by_address: HashMap<Address, AbortHandle>,
    /// The `Down`s that are not delivered yet, by the node of the watched actor, each with the
    /// number of messages that had arrived from that node before. These numbers grow, so only the
    /// first `Down` of each node is checked.
    downs: BTreeMap<Origin, VecDeque<(u64, Down)>>,
}

impl Watches {
    /// Begins to watch an actor, unless it is watched already or a `Down` of it is not delivered
    /// yet.
    pub(crate) fn watch(&mut self, actor: &impl sealed::Watchable) {
        let address = actor.place().clone();
        let is_told = self.downs.values().flatten().any(|(_, down)| down.actor == address);
        if is_told || self.by_address.contains_key(&address) {
            return;
        }
        let (handle, registration) = AbortHandle::new_pair();
        let ((end, from), place) = (end_of(actor.met().0), address.clone());
        let mut down: BoxFuture<'static, (Down, Origin)> =
            Box::pin(async move { (Down { actor: place, exit: end.await }, from) });
        // Polled now, because the handler may make the actor end next.
        if let Poll::Ready(down_now) = down.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            down = Box::pin(std::future::ready(down_now));
        }
        self.ends.push(Abortable::new(down, registration));
        self.by_address.insert(address, handle);
    }

    /// Stops watching an actor. Returns true if it was watched, and its `Down` was not delivered.
    pub(crate) fn unwatch(&mut self, actor: &Address) -> bool {
        let mut was_waiting = false;
        self.downs.retain(|_, downs| {
            let count = downs.len();
            downs.retain(|(_, down)| down.actor != *actor);
            was_waiting |= downs.len() < count;
            !downs.is_empty()
        });
        let handle = self.by_address.remove(actor);
        handle.inspect(AbortHandle::abort).is_some() || was_waiting
    }

    /// Waits until a watched actor has ended, and all its earlier messages were begun.
    pub(crate) fn poll<L: Send + 'static, R: RemoteItem + Send + 'static>(
        &mut self,
        mailbox: &Mailbox<L, R>,
        hand: &Prefetched<L, R>,
        cx: &mut Context<'_>,
    ) -> Poll<Down> {
        while let Poll::Ready(Some(ended)) = self.ends.poll_next_unpin(cx) {
            // An error means that the actor is no longer watched.
            if let Ok((down, from)) = ended {
                self.by_address.remove(&down.actor);
                let downs = self.downs.entry(from).or_default();
                downs.push_back((mailbox.mark(from), down));
            }
        }
        let has_passed = |from, mark| mailbox.has_passed(from, mark, hand);
        let mut firsts = self.downs.iter().filter_map(|(from, all)| Some((*from, all.front()?.0)));
        match firsts.find(|(from, mark)| has_passed(*from, *mark)) {
            Some((from, _)) => self.take(from).map_or(Poll::Pending, Poll::Ready),
            None => Poll::Pending,
        }
    }

    /// Removes and returns the first `Down` of an actor of `from` that is not delivered yet.
    fn take(&mut self, from: Origin) -> Option<Down> {
        let downs = self.downs.get_mut(&from)?;
        let (_, down) = downs.pop_front()?;
        if downs.is_empty() {
            self.downs.remove(&from);
        }
        Some(down)
    }
}
