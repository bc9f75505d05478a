//! The destination of a reference, and the functions that send to it.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;

use super::entry::LocalSender;
use super::port::{
    AskPort, LocalHandle, NewAsk, PendingAnswer, PendingFate, Port, SendWait, SharedActor,
};
use super::wait::WaitGuard;
use crate::address::Address;
use crate::busy::{is_running, running};
use crate::deadlines::Deadlines;
use crate::error::Cause;
use crate::fate::Fate;
use crate::message::Message;
use crate::node::Node;
use crate::remote::{self, RemoteSender, Waiter};
use crate::resident::LocalActor;
use crate::schema::ActorKind;
use crate::waits::Awaits;

/// The destination of a reference. `P` is the port of an actor of this node: of an actor with a
/// known type, or of an actor known only by its messages.
pub(crate) enum Destination<P> {
    /// An actor of this node.
    Local(P),
    /// An actor of another node, whatever actor has a name on this node, or no actor.
    ByAddress(Arc<ByAddress>),
}

/// An address with its target, for every destination except a known actor of this node.
pub(crate) struct ByAddress {
    pub(crate) address: Address,
    pub(crate) way: AddressTarget,
}

/// The target of an address.
pub(crate) enum AddressTarget {
    /// An actor of another node: the sender to it, and this node.
    Remote(RemoteSender, Node),
    /// Whatever actor of this node has the name: each send looks it up.
    Named(Node),
    /// No actor, with the cause.
    Dead(Cause),
}

/// A borrowed view of a [`Destination`].
pub(crate) enum DestinationView<'a, P> {
    Local(&'a P),
    Remote(&'a RemoteSender, &'a Node),
    Dead(&'a Cause),
}

impl<P> Destination<P> {
    #[inline]
    pub(crate) fn view(&self) -> DestinationView<'_, P> {
        match self {
            Destination::Local(actor) => DestinationView::Local(actor),
            Destination::ByAddress(elsewhere) => match &elsewhere.way {
                AddressTarget::Remote(sender, node) => DestinationView::Remote(sender, node),
                // Sends look the name up first, with `settled` or `now`.
                AddressTarget::Named(_) => DestinationView::Dead(&Cause::NoSuchActor),
                AddressTarget::Dead(cause) => DestinationView::Dead(cause),
            },
        }
    }

    pub(crate) fn remote(address: Address, sender: RemoteSender, node: Node) -> Self {
        Destination::ByAddress(Arc::new(ByAddress {
            address,
            way: AddressTarget::Remote(sender, node),
        }))
    }

    pub(crate) fn dead(address: Address, cause: Cause) -> Self {
        Destination::ByAddress(Arc::new(ByAddress { address, way: AddressTarget::Dead(cause) }))
    }

    /// Returns true for an actor of this node, and for a name of this node.
    pub(crate) fn is_near(&self) -> bool {
        match self {
            Destination::Local(_) => true,
            Destination::ByAddress(elsewhere) => matches!(elsewhere.way, AddressTarget::Named(_)),
        }
    }

    /// Returns the actor's address; `near` returns the address of an actor of this node.
    pub(crate) fn address<'a>(&'a self, near: impl FnOnce(&'a P) -> &'a Address) -> &'a Address {
        match self {
            Destination::Local(actor) => near(actor),
            Destination::ByAddress(elsewhere) => &elsewhere.address,
        }
    }

    /// Tells the message if it can be put into the mailbox of an actor of this node at once.
    /// Returns false if it did nothing; see [`Port::try_put`].
    #[inline]
    pub(crate) fn tell_at_once<M: Message>(
        &self,
        message: &mut Option<M>,
        line: &mut SendWait,
    ) -> bool
    where
        P: Port<M>,
    {
        match self {
            Destination::Local(actor) if line.is_waiting() => put_in_turn(actor, message, line),
            Destination::Local(actor) => actor.try_put(message, None, &mut None),
            Destination::ByAddress(_) => false,
        }
    }

    /// Sends a tell. Empties `message` if and only if it was sent. If the sender waits for the fate
    /// of the message, stores the [`PendingFate`] in `fate`.
    pub(crate) fn poll_tell<M: Message>(
        &self,
        message: &mut Option<M>,
        fate: Option<&mut Option<PendingFate>>,
        line: &mut SendWait,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>>
    where
        P: Port<M>,
    {
        match self {
            Destination::Local(actor) => {
                let put = LocalSender::of(actor).poll_put::<P::Reply>(message, None, line, cx);
                told(put, fate, actor.actor().0, line)
            }
            Destination::ByAddress(to) => to.poll_tell(const { &P::TOLD }, message, fate, line, cx),
        }
    }

    /// Sends a tell if that needs no waiting. Empties `message` if and only if it was sent.
    pub(crate) fn try_tell<M: Message>(&self, message: &mut Option<M>) -> Result<(), Cause>
    where
        P: Port<M>,
    {
        match self {
            Destination::Local(actor) if actor.try_put(message, None, &mut None) => Ok(()),
            Destination::Local(actor) => {
                match LocalSender::of(actor).try_put::<P::Reply>(message, None) {
                    Ok(_) => Ok(()),
                    Err(cause) => Err(at_end(actor.actor().0, cause)),
                }
            }
            Destination::ByAddress(to) => to.try_tell(const { &P::TOLD }, message),
        }
    }

    /// Sends an ask. (Contains only the code that needs the types of the message and of its actor.)
    #[inline]
    pub(crate) fn poll_ask<M: Message>(
        &self,
        message: &mut Option<M>,
        ask: &mut NewAsk<'_, P::Reply>,
        line: &mut SendWait,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>>
    where
        P: AskPort<M>,
    {
        match self {
            Destination::Local(actor) => {
                let to = actor.actor().0;
                // If the actor is idle, this thread handles the ask: without a slot if the handler
                // never waits (`run_ask`), otherwise with one (`try_handle_here`), or else through
                // the mailbox (`take_turn`). An idle actor waits for nobody, so the ask closes no
                // cycle.
                ask.in_place = ask.in_place && to.is_idle();
                if ask.in_place {
                    let answer = LocalSender::of(actor).run_ask(message, ask.deadline);
                    if message.is_none() {
                        ask.answer = Some(PendingAnswer::Here(answer));
                        return Poll::Ready(Ok(()));
                    }
                }
                ask.wait = begin_ask(to, line)?;
                if ask.in_place && !line.is_waiting() && actor.try_handle_here(message, ask) {
                    return Poll::Ready(Ok(()));
                }
                if line.look(|turn| actor.try_put(message, Some(&mut *ask), turn)) {
                    ask.take_turn(to);
                    return Poll::Ready(Ok(()));
                }
                match LocalSender::of(actor).poll_put(message, Some(&mut *ask), line, cx) {
                    Poll::Ready(Ok(_)) => {
                        ask.take_turn(to);
                        Poll::Ready(Ok(()))
                    }
                    unput => {
                        line.keep_wait(ask.wait.take());
                        why_unput(to, unput, line).map(Err)
                    }
                }
            }
            Destination::ByAddress(to) => {
                ask.in_place = false;
                ask.poll_elsewhere((to, const { &P::ASKED }), message, line, cx)
            }
        }
    }

    /// Sends an ask if that needs no waiting. Empties `message` if and only if it was sent.
    pub(crate) fn try_ask<M: Message>(
        &self,
        message: &mut Option<M>,
        ask: &mut NewAsk<'_, P::Reply>,
    ) -> Result<(), Cause>
    where
        P: AskPort<M>,
    {
        match self {
            Destination::Local(actor) if is_running(actor.actor().0.token()) => Err(Cause::SelfAsk),
            Destination::Local(actor) => match LocalSender::of(actor).try_put(message, Some(ask)) {
                Ok(_) => Ok(()),
                Err(cause) => Err(at_end(actor.actor().0, cause)),
            },
            Destination::ByAddress(to) => ask.try_elsewhere((to, const { &P::ASKED }), message),
        }
    }

    /// Ends the wait of a send, if it waits. (Most sends do not.)
    #[inline]
    pub(crate) fn leave(&self, line: &mut SendWait)
    where
        P: LocalHandle,
    {
        match self {
            _ if !line.is_waiting() => {}
            Destination::Local(actor) => line.leave(|| actor.actor().0.intake()),
            Destination::ByAddress(_) => line.leave_elsewhere(),
        }
    }

    /// Returns the deadlines of the sending node; `None` if the destination is no actor.
    pub(crate) fn deadlines(&self) -> Option<&Deadlines>
    where
        P: LocalHandle,
    {
        match self {
            Destination::Local(actor) => Some(actor.actor().0.home().deadlines()),
            Destination::ByAddress(elsewhere) => match &elsewhere.way {
                AddressTarget::Remote(_, node) | AddressTarget::Named(node) => {
                    Some(node.deadlines())
                }
                AddressTarget::Dead(_) => None,
            },
        }
    }
}

/// Returns the cause that a sender gets if an actor of this node refuses its message with `cause`.
/// On a node that is shutting down, `Stopped` becomes `Shutdown`: no actor replaces an ended one,
/// and programs that try again must end.
#[cold]
pub(crate) fn at_end(actor: &dyn LocalActor, cause: Cause) -> Cause {
    let is_final = cause == Cause::Stopped && actor.home().is_leaving();
    if is_final { Cause::Shutdown } else { cause }
}

/// Refuses an ask of the asker itself, or of an actor that waits for the asker's answer. Otherwise,
/// if the asker is a handler, records and returns its wait.
pub(crate) fn begin_ask(
    to: &dyn LocalActor,
    line: &mut SendWait,
) -> Result<Option<WaitGuard>, Cause> {
    if is_running(to.token()) {
        return Err(Cause::SelfAsk);
    }
    match line.take_wait() {
        None => WaitGuard::begin_ask(to),
        wait => Ok(wait),
    }
}

/// Tells the message, which may have waited for room, if it can be put into the mailbox at once.
/// Returns false if it did nothing. (Not inlined: most tells never wait.)
#[inline(never)]
fn put_in_turn<P: Port<M>, M: Message>(
    actor: &P,
    message: &mut Option<M>,
    line: &mut SendWait,
) -> bool {
    line.look(|turn| actor.try_put(message, None, turn))
}

/// Returns the outcome of a tell to `whom`, and stores the fate of the message in `fate` if it was
/// put into the mailbox.
fn told(
    put: Poll<Result<Fate, Cause>>,
    fate: Option<&mut Option<PendingFate>>,
    whom: &dyn LocalActor,
    line: &mut SendWait,
) -> Poll<Result<(), Cause>> {
    let Poll::Ready(Ok(known)) = put else { return why_unput(whom, put, line).map(Err) };
    if let Some(fate) = fate {
        *fate = Some(PendingFate::Known(known));
    }
    Poll::Ready(Ok(()))
}

/// Returns the cause why a message was not put into the mailbox of `to`. If the message must wait
/// for room, records that and returns `Pending`. (The caller has seen that the message was not
/// put.)
#[cold]
fn why_unput(
    to: &dyn LocalActor,
    put: Poll<Result<Fate, Cause>>,
    line: &mut SendWait,
) -> Poll<Cause> {
    match put {
        Poll::Ready(Err(cause)) => Poll::Ready(at_end(to, cause)),
        Poll::Ready(Ok(_)) | Poll::Pending => {
            line.wait_for_room(to);
            Poll::Pending
        }
    }
}

impl<P: LocalHandle> Destination<P> {
    /// Returns the destination of an address, as `node` sees it. Never fails: the destination may
    /// be no actor, and then each send to it fails.
    pub(crate) fn bind(node: &Node, address: Address) -> Self {
        match ByAddress::bind(node, address, P::kind()) {
            Ok(elsewhere) => Destination::ByAddress(elsewhere),
            Err((address, found)) => Destination::near(address, found),
        }
    }

    /// Returns the destination of an actor of this node that was found at `address`; no actor if it
    /// does not fit `P`.
    fn near(address: Address, found: Arc<dyn LocalActor>) -> Self {
        match P::of(SharedActor(found)) {
            Ok(actor) => Destination::Local(actor),
            Err(cause) => Destination::dead(address, cause),
        }
    }

    /// If this destination follows a name of this node, looks the name up and returns the
    /// destination that was found. Otherwise returns `None`.
    #[inline]
    pub(crate) fn settled(&self) -> Option<Self> {
        match self {
            Destination::Local(_) => None,
            Destination::ByAddress(elsewhere) => elsewhere.settled(),
        }
    }

    /// Returns the current destination: a name of this node is looked up.
    pub(crate) fn now(&self) -> Self
    where
        P: Clone,
    {
        self.settled().unwrap_or_else(|| self.clone())
    }

    /// Returns a destination that leads to exactly one actor, even if this one follows a name. An
    /// actor of another node is looked up, which waits with `waiter`.
    pub(crate) async fn pinned(&self, waiter: Waiter) -> Result<Self, Cause>
    where
        P: Clone,
    {
        match self.now() {
            Destination::ByAddress(to) => Ok(Destination::ByAddress(to.pinned(waiter).await?)),
            local => Ok(local),
        }
    }
}

impl ByAddress {
    /// Returns an address with its target, as `node` sees it; `kind` is the type that an actor of
    /// another node must have. If the address identifies an actor of this node, the error is the
    /// address and that actor.
    fn bind(
        node: &Node,
        address: Address,
        kind: ActorKind,
    ) -> Result<Arc<Self>, (Address, Arc<dyn LocalActor>)> {
        let way = if address.node() != node.name() {
            node.sender(&address, kind)
                .map_or_else(AddressTarget::Dead, |to| AddressTarget::Remote(to, node.clone()))
        } else if address.identity().is_none() {
            AddressTarget::Named(node.clone())
        } else {
            match node.resident(&address) {
                Ok(found) => return Err((address, found)),
                Err(cause) => AddressTarget::Dead(cause),
            }
        };
        Ok(Arc::new(ByAddress { address, way }))
    }

    /// See [`Destination::pinned`].
    fn pinned(self: Arc<Self>, waiter: Waiter) -> BoxFuture<'static, Result<Arc<Self>, Cause>> {
        Box::pin(async move {
            let (sender, node) = self.remote()?;
            let (address, found, _) = remote::find(sender, waiter).await?;
            Ok(Arc::new(ByAddress { address, way: AddressTarget::Remote(found, node.clone()) }))
        })
    }

    /// Records that the calling handler waits for this actor of another node. Returns `None` if
    /// this is no such actor, or as [`WaitGuard::elsewhere`] does.
    pub(crate) fn begin_wait(&self, what: Awaits) -> Option<WaitGuard> {
        let AddressTarget::Remote(sender, node) = &self.way else { return None };
        let whom = (&self.address, sender.request().called.kind);
        WaitGuard::elsewhere(node.residents(), whom, what)
    }

    /// Records that the calling handler, if there is one, waits for room in the mailbox, or for a
    /// link.
    pub(crate) fn wait_for_room(&self, line: &mut SendWait) {
        if running().is_some() {
            line.wait_elsewhere(|| self.begin_wait(Awaits::Room));
        }
    }

    #[inline]
    fn settled<P: LocalHandle>(&self) -> Option<Destination<P>> {
        if let AddressTarget::Named(node) = &self.way { Some(self.find(node)) } else { None }
    }

    #[cold]
    fn find<P: LocalHandle>(&self, node: &Node) -> Destination<P> {
        match self.found(node) {
            Ok(found) => Destination::near(self.address.clone(), found),
            Err(dead) => Destination::ByAddress(dead),
        }
    }

    /// Looks up the actor that has the name now. The error is a destination without an actor.
    fn found(&self, node: &Node) -> Result<Arc<dyn LocalActor>, Arc<Self>> {
        node.resident(&self.address).map_err(|cause| {
            Arc::new(ByAddress { address: self.address.clone(), way: AddressTarget::Dead(cause) })
        })
    }
}

impl<P: Clone> Clone for Destination<P> {
    fn clone(&self) -> Self {
        match self {
            Destination::Local(actor) => Destination::Local(actor.clone()),
            Destination::ByAddress(elsewhere) => Destination::ByAddress(elsewhere.clone()),
        }
    }
}
