//! Spawning actors on other nodes.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, maybe_done};
use futures::{FutureExt, poll};
use ringpost_transport::id::NodeName;
use ringpost_transport::text;
use tokio::time::Instant;

use super::offer::{
    BeginHeldActor, Offered, ReleaseHeldActor, SpawnRefusal, SpawnReply, SpawnRequest, id_of,
    offer_name,
};
use crate::actor::send::destination::DestinationView;
use crate::actor::send::time_limit::TimeLimit;
use crate::actor::{Accepts, ActorRef, Context, Down, Handlers, Recipient};
use crate::address::{Address, InvalidActorName, check_name};
use crate::error::{AskCause, AskError, Cause, NotBegun, RemoteSpawnCause, RemoteSpawnError};
use crate::exit::ActorExit;
use crate::limits;
use crate::message::Message;
use crate::node::{Node, NodeBuilder, StartError};
use crate::remote::{self, ConnectError, Waiter};
use crate::resident::ExitFuture;

impl Node {
    /// Returns a handle to a node of the cluster, for spawning actors there; it may be this node.
    /// Nothing is looked up now: if there is no such node, a spawn fails.
    pub fn peer(&self, name: impl Into<String>) -> Peer {
        Peer { node: self.clone(), name: name.into().into() }
    }

    /// Connects this node to the node at `address`, and returns that node once it is linked.
    /// Returns at once if it was reached at this address before and is linked already. From then on
    /// the address is a [seed](NodeBuilder::seeds) of this node, which is dialled again when the
    /// link is lost.
    ///
    /// # Errors
    /// [`ConnectError`]: at once if trying again cannot help (the name is taken, the secret or
    /// version differs, or it is not a node of Ringpost), otherwise the last failure when the
    /// [time](NodeBuilder::connect_timeout) is over. The address is not a seed then, unless it was
    /// one before.
    ///
    /// # Cancel safety
    /// Dropping the future has the effect of an error.
    pub async fn connect(&self, address: impl Into<String>) -> Result<Peer, ConnectError> {
        let node = self.connecting(address.into()).await?;
        Ok(self.peer(node.name.as_str()))
    }
}

impl NodeBuilder {
    /// Starts the node, connects it to the first of its [`seeds`](Self::seeds) that answers, and
    /// returns both nodes.
    ///
    /// # Errors
    /// [`StartError`]; [`StartError::Connect`] if no seed could be connected to, as
    /// [`Node::connect`] says. Then nothing is left of the node.
    ///
    /// # Cancel safety
    /// Dropping the future stops the node.
    ///
    /// # Panics
    /// See [`start`](Self::start).
    pub async fn connect(self) -> Result<(Node, Peer), StartError> {
        let (node, peer) = self.start_connected().await?;
        let peer = node.peer(peer.name.as_str());
        Ok((node, peer))
    }
}

/// A handle to a node, for spawning actors there. Cheap to clone; it keeps alive the node that
/// created it, but no link.
#[derive(Clone)]
pub struct Peer {
    node: Node,
    name: Arc<str>,
}

impl Peer {
    /// Returns the node that created this handle.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Returns the node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Spawns an actor on the node under a name, of a type that the node [offers](Node::offer).
    /// Awaiting this gives a reference when the actor has started. The actor does not end with its
    /// spawner, just as if its own node had spawned it.
    ///
    /// # Errors
    /// [`RemoteSpawnError`].
    pub fn spawn<A: Offered>(
        &self,
        name: impl Into<String>,
        arguments: A::Arguments,
    ) -> RemoteSpawn<'static, A> {
        RemoteSpawn::new(self.clone(), Some(name.into()), arguments)
    }

    /// Spawns an actor on the node without a name, otherwise as [`spawn`](Self::spawn) does: only
    /// its references lead to it.
    ///
    /// # Errors
    /// [`RemoteSpawnError`].
    pub fn spawn_anonymous<A: Offered>(&self, arguments: A::Arguments) -> RemoteSpawn<'static, A> {
        RemoteSpawn::new(self.clone(), None, arguments)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({})", self.name)
    }
}

/// The future of a spawn on another node: asks that node, and waits until the actor has started.
/// Created by [`Peer::spawn`].
///
/// # Errors
/// [`RemoteSpawnError`]; its cause says why, and whether the actor may have been spawned.
///
/// # Cancel safety
/// If this is dropped before it is ready, a spawn that the other node has not begun is never begun,
/// and an actor that waits there to be [watched](Self::watched_by) ends without having run. A spawn
/// that the other node has begun goes on, and the actor lives: look its name up. (An anonymous
/// actor cannot be found then, unless it makes itself known. It ends when its node shuts down.)
#[must_use = "nothing is spawned until this is awaited"]
pub struct RemoteSpawn<'a, A: Offered> {
    state: RemoteSpawnState<'a, A>,
}

enum RemoteSpawnState<'a, A: Offered> {
    /// Not polled yet. `None` only during the first poll.
    New(Option<Box<SpawnParams<'a, A>>>),
    Running(BoxFuture<'a, Result<ActorRef<A>, RemoteSpawnError>>),
}

/// The parameters of a spawn.
struct SpawnParams<'a, A: Offered> {
    peer: Peer,
    name: Option<String>,
    arguments: Box<A::Arguments>,
    mailbox_capacity: Option<u64>,
    limit: TimeLimit,
    waits_for_link: bool,
    watcher: Option<&'a mut (dyn Watcher<A> + 'static)>,
}

/// The context of an actor that watches the actor which it spawns.
trait Watcher<A: Handlers>: Send {
    fn place(&self) -> Address;
    fn watch(&mut self, actor: &ActorRef<A>);
    fn unwatch(&mut self, actor: &ActorRef<A>);
}

impl<A: Handlers, W: Accepts<Down>> Watcher<A> for Context<W> {
    fn place(&self) -> Address {
        self.actor().address().clone()
    }

    fn watch(&mut self, actor: &ActorRef<A>) {
        Context::watch(self, actor);
    }

    fn unwatch(&mut self, actor: &ActorRef<A>) {
        Context::unwatch(self, actor);
    }
}

impl<'a, A: Offered> RemoteSpawn<'a, A> {
    fn new(peer: Peer, name: Option<String>, arguments: A::Arguments) -> Self {
        let limit = TimeLimit::inherited(peer.node.deadlines().ask_timeout());
        let arguments = Box::new(arguments);
        let request = SpawnParams {
            peer,
            name,
            arguments,
            mailbox_capacity: None,
            limit,
            waits_for_link: false,
            watcher: None,
        };
        RemoteSpawn { state: RemoteSpawnState::New(Some(Box::new(request))) }
    }

    /// Sets the timeout, from the first poll until the actor has started; at most a year. The
    /// default is the timeout of an [`Ask`](crate::send::Ask) of this node.
    ///
    /// # Panics
    /// If it was polled.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|request| request.limit.set(timeout))
    }

    /// Waits for a link to the node even while that node is down, until the timeout. By default a
    /// spawn then fails at once.
    ///
    /// # Panics
    /// If it was polled.
    pub fn wait_for_link(self) -> Self {
        self.with(|request| request.waits_for_link = true)
    }

    /// Sets how many messages of the actor's own node may wait in its mailbox, at least 1 and at
    /// most [`limits::OFFERED_MAILBOX_CAPACITY_MAX`](crate::limits::OFFERED_MAILBOX_CAPACITY_MAX).
    ///
    /// # Panics
    /// If it was polled.
    pub fn mailbox_capacity(self, messages: usize) -> Self {
        self.with(|request| request.mailbox_capacity = Some(messages as u64))
    }

    /// Makes the actor of `cx` watch the new actor from before it runs, so that it learns how the
    /// new actor ended, however soon. The watch is as by [`Context::watch`], with one [`Down`] if
    /// this returns a reference, and none if it fails or is dropped.
    ///
    /// # Panics
    /// If it was polled.
    pub fn watched_by<W: Accepts<Down>>(self, cx: &'a mut Context<W>) -> RemoteSpawn<'a, A> {
        self.with(|request| request.watcher = Some(cx))
    }

    /// # Panics
    /// If it was polled.
    fn with(mut self, change: impl FnOnce(&mut SpawnParams<'a, A>)) -> Self {
        match &mut self.state {
            RemoteSpawnState::New(Some(request)) => change(request),
            _ => panic!("a spawn was changed after it was polled"),
        }
        self
    }
}

impl<A: Offered> Future for RemoteSpawn<'_, A> {
    type Output = Result<ActorRef<A>, RemoteSpawnError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if let RemoteSpawnState::New(request) = &mut self.state {
            let request = request.take().expect("a request is taken once");
            self.state = RemoteSpawnState::Running(Box::pin(request.run()));
        }
        match &mut self.state {
            RemoteSpawnState::Running(running) => running.poll_unpin(cx),
            RemoteSpawnState::New(_) => Poll::Pending,
        }
    }
}

impl<A: Offered> Unpin for RemoteSpawn<'_, A> {}

impl<A: Offered> SpawnParams<'_, A> {
    async fn run(self: Box<Self>) -> Result<ActorRef<A>, RemoteSpawnError> {
        let peer = self.peer.clone();
        let spawned = self.spawn().await;
        spawned.map_err(|cause| {
            let is_late = cause == RemoteSpawnCause::NotSent(Cause::Timeout);
            let error = RemoteSpawnError::new(cause, peer.name.clone(), A::NAME);
            // A misspelt node name waits like a node that is not up yet: let the error say so.
            let is_unknown = is_late && !peer.node.has_linked(&peer.name);
            if is_unknown { error.of_unknown_node() } else { error }
        })
    }

    async fn spawn(mut self) -> Result<ActorRef<A>, RemoteSpawnCause> {
        NodeName::new(&self.peer.name)?;
        self.name.as_deref().map(check_name).transpose()?;
        let spawn = SpawnRequest {
            arguments: self.arguments,
            name: self.name.clone(),
            mailbox_capacity: self.mailbox_capacity,
            watcher: self.watcher.as_ref().map(|watcher| watcher.place()),
        };
        let asker = SpawnerClient {
            peer: &self.peer,
            name: self.name.as_deref(),
            spawner: Address::by_name(self.peer.name.clone(), offer_name::<A>()),
            until: self.limit.start(),
            waits_for_link: self.waits_for_link,
        };
        // The spawner is watched before it holds an actor, because the next spawner has the same
        // name.
        let mut ended = pin!(maybe_done(asker.ended()));
        if self.watcher.is_some() {
            _ = poll!(ended.as_mut());
        }
        let address = asker.ask(spawn).await?;
        let actor = ActorRef::bind(&self.peer.node, address);
        let Some(watcher) = self.watcher else { return Ok(actor) };
        let mut watch = WatchGuard { watcher, actor: &actor, asker: &asker, is_kept: false };
        watch.watcher.watch(&actor);
        asker.opened(&actor, &mut self.limit).await?;
        // From now on the actor's node reports its end to this node, however soon that comes.
        let begun = asker.ask(BeginHeldActor { id: id_of(actor.address()) }).await;
        _ = poll!(ended.as_mut());
        let is_withdrawn = ended.as_mut().take_output() == Some(ActorExit::Stopped);
        begun.map_err(|cause| match cause {
            // The spawner of a later offer does not know the actor.
            RemoteSpawnCause::NotSent(Cause::Timeout) if is_withdrawn => {
                RemoteSpawnCause::Withdrawn
            }
            RemoteSpawnCause::NotSent(cause) => RemoteSpawnCause::NotBegun(cause),
            // The type was offered when the actor was registered.
            RemoteSpawnCause::NotOffered => RemoteSpawnCause::Withdrawn,
            other => other,
        })?;
        watch.is_kept = true;
        drop(watch);
        Ok(actor)
    }
}

/// The watch of a held actor. Dropping this ends the watch and releases the actor, unless `is_kept`
/// is set.
struct WatchGuard<'w, A: Handlers> {
    watcher: &'w mut (dyn Watcher<A> + 'static),
    actor: &'w ActorRef<A>,
    asker: &'w SpawnerClient<'w>,
    is_kept: bool,
}

impl<A: Handlers> Drop for WatchGuard<'_, A> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.watcher.unwatch(self.actor);
            self.asker.release(id_of(self.actor.address()));
        }
    }
}

/// A client of the [`Spawner`](super::offer::Spawner) of a type on another node.
struct SpawnerClient<'r> {
    peer: &'r Peer,
    /// The name of the new actor.
    name: Option<&'r str>,
    spawner: Address,
    until: Instant,
    waits_for_link: bool,
}

impl SpawnerClient<'_> {
    async fn ask<M: Message>(&self, message: M) -> Result<Address, RemoteSpawnCause> {
        let spawner: Recipient<M, SpawnReply> =
            Recipient::bind(&self.peer.node, self.spawner.clone());
        let left = self.until.saturating_duration_since(Instant::now());
        let mut ask = spawner.ask(message).timeout(left);
        if self.waits_for_link {
            ask = ask.wait_for_link();
        }
        match ask.await {
            Ok(Ok(address)) if address.node() == &*self.peer.name => Ok(address),
            // An honest peer spawns the actor on itself.
            Ok(Ok(_elsewhere)) => Err(RemoteSpawnCause::Unanswered(AskCause::InvalidReply)),
            Ok(Err(refusal)) => Err(self.refused(refusal)),
            Err(error) => Err(unanswered(error)),
        }
    }

    /// Waits until the spawner has ended that has the name in `self.spawner` at the first poll.
    async fn ended(&self) -> ActorExit {
        let spawner: Recipient<BeginHeldActor, SpawnReply> =
            Recipient::bind(&self.peer.node, self.spawner.clone());
        match spawner.destination().now().view() {
            DestinationView::Local(near) => ExitFuture::of(near.shared()).await,
            DestinationView::Remote(sender, _) => remote::closed(sender).await,
            DestinationView::Dead(_) => ActorExit::NoActor,
        }
    }

    /// Tells the spawner that an actor must not begin. Best effort: the actor ends at its time-out
    /// at the latest. If it has begun, by an earlier [`BeginHeldActor`], it goes on.
    fn release(&self, id: u64) {
        let node = &self.peer.node;
        let spawner = Recipient::<ReleaseHeldActor>::bind(node, self.spawner.clone());
        let left = self.until.saturating_duration_since(Instant::now());
        node.runtime().spawn(async move {
            drop(spawner.tell(ReleaseHeldActor { id }).timeout(left).await);
        });
    }

    /// Waits until the mailbox of the held actor is open to this node: from then on, the actor's
    /// node reports its end here. Also returns `Ok` if the actor has ended: the answer of the
    /// spawner says why.
    async fn opened<A: Handlers>(
        &self,
        actor: &ActorRef<A>,
        limit: &mut TimeLimit,
    ) -> Result<(), RemoteSpawnCause> {
        let mut waiter = Waiter::default();
        if self.waits_for_link {
            waiter.wait_for_link();
        }
        let mut opening = pin!(actor.destination().pinned(waiter));
        let deadlines = self.peer.node.deadlines();
        let opened = poll_fn(|cx| match opening.as_mut().poll(cx) {
            Poll::Ready(opened) => Poll::Ready(opened.map(|_| ())),
            Poll::Pending => limit.poll(Some(deadlines), cx).map(|_late| Err(Cause::Timeout)),
        });
        match opened.await {
            Ok(()) | Err(Cause::NoSuchActor | Cause::Stopped) => Ok(()),
            Err(cause) => Err(RemoteSpawnCause::NotBegun(cause)),
        }
    }

    fn refused(&self, refusal: SpawnRefusal) -> RemoteSpawnCause {
        let name = || self.name.unwrap_or_default().to_owned();
        match refusal {
            SpawnRefusal::NameTaken => RemoteSpawnCause::NameTaken(name()),
            SpawnRefusal::InvalidName => RemoteSpawnCause::InvalidName(InvalidActorName(name())),
            SpawnRefusal::TooMany(most) => RemoteSpawnCause::TooMany(most),
            SpawnRefusal::Refused(text) => RemoteSpawnCause::Refused(shown(&text)),
            SpawnRefusal::NotStarted(text) => RemoteSpawnCause::Start(shown(&text)),
            SpawnRefusal::Panicked(text) => RemoteSpawnCause::Panicked(shown(&text)),
            SpawnRefusal::Killed => RemoteSpawnCause::Killed,
            SpawnRefusal::Leaving if *self.peer.name == *self.peer.node.name() => {
                RemoteSpawnCause::NotSent(Cause::Shutdown)
            }
            SpawnRefusal::Leaving => RemoteSpawnCause::Leaving,
            SpawnRefusal::Released => RemoteSpawnCause::NotSent(Cause::Timeout),
        }
    }
}

/// Returns a text of the other node, made safe to show.
fn shown(text: &str) -> String {
    text::of_peer(text, limits::REFUSAL_TEXT_BYTES_MAX)
}

fn unanswered(error: AskError) -> RemoteSpawnCause {
    match error.cause {
        AskCause::NotSent(Cause::NoSuchActor) => RemoteSpawnCause::NotOffered,
        AskCause::NotSent(Cause::SchemaMismatch | Cause::NotAccepted) => {
            RemoteSpawnCause::OtherArguments
        }
        AskCause::NotSent(Cause::Leaving) => RemoteSpawnCause::Leaving,
        AskCause::NotSent(Cause::Stopped) | AskCause::NotBegun(NotBegun::Stopped) => {
            RemoteSpawnCause::Withdrawn
        }
        AskCause::NotSent(cause) => RemoteSpawnCause::NotSent(cause),
        AskCause::NotBegun(NotBegun::Timeout) => RemoteSpawnCause::NotSent(Cause::Timeout),
        AskCause::NotBegun(NotBegun::InvalidArchive) => RemoteSpawnCause::InvalidArguments,
        cause => RemoteSpawnCause::Unanswered(cause),
    }
}
