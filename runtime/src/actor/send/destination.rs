//! Where a reference leads, and the one way of sending there.

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

/// Where a reference leads. `P` is the way into an actor of this node: with its type, or by one
/// message that it takes.
pub(crate) enum Destination<P> {
    /// To an actor of this node.
    Local(P),
    /// To another node, or to no actor.
    ByAddress(Arc<ByAddress>),
}

/// An address that does not lead to an actor of this node.
pub(crate) struct ByAddress {
    pub(crate) address: Address,
    pub(crate) way: AddressTarget,
}

/// The target of such an address.
pub(crate) enum AddressTarget {
    /// An actor of another node, as this node sees it.
    Remote(RemoteSender, Node),
    /// The actor that has the name on this node when it is looked up, at each send.
    Named(Node),
    /// No actor, and why.
    Dead(Cause),
}

/// A [`Destination`], looked at.
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
                // Callers first look the name up, by `now` or by the send.
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

    /// Returns true if it leads to an actor of this node.
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

    /// Tells the message if that needs no waiting; see [`Port::try_put`].
    #[inline]
    pub(crate) fn tell_at_once<M: Message>(&self, message: &mut Option<M>, line: &SendWait) -> bool
    where
        P: Port<M>,
    {
        matches!(self, Destination::Local(it) if !line.is_waiting() && it.try_put(message, None))
    }

    /// Sends; empties `message` if and only if it was sent. Puts its fate, or as much of it as is
    /// known, into `fate`, if the sender waits for it.
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

    /// Sends if that needs no waiting.
    pub(crate) fn try_tell<M: Message>(&self, message: &mut Option<M>) -> Result<(), Cause>
    where
        P: Port<M>,
    {
        match self {
            Destination::Local(actor) if actor.try_put(message, None) => Ok(()),
            Destination::Local(actor) => {
                match LocalSender::of(actor).try_put::<P::Reply>(message, None) {
                    Ok(_) => Ok(()),
                    Err(cause) => Err(at_end(actor.actor().0, cause)),
                }
            }
            Destination::ByAddress(to) => to.try_tell(const { &P::TOLD }, message),
        }
    }

    /// Sends an ask. (Only what needs the types of the message and of its actor is here.)
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
                // An idle actor runs on this thread: without a slot where its handler cannot wait,
                // else with one (`try_handle_here`), else its turn follows the mailbox. It waits
                // for nobody, so it closes no cycle.
                ask.in_place = ask.in_place && to.is_idle();
                if ask.in_place {
                    let answer = LocalSender::of(actor).run_ask(message, ask.deadline);
                    if message.is_none() {
                        ask.answer = Some(PendingAnswer::Here(answer));
                        return Poll::Ready(Ok(()));
                    }
                }
                ask.wait = begin_ask(to, line)?;
                if !line.is_waiting() {
                    if ask.in_place && actor.try_handle_here(message, ask) {
                        return Poll::Ready(Ok(()));
                    }
                    if actor.try_put(message, Some(&mut *ask)) {
                        ask.take_turn(to);
                        return Poll::Ready(Ok(()));
                    }
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

    /// Sends an ask if that needs no waiting.
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

    /// Gives up a place in a line. (Mostly there is none.)
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

    /// Returns the deadlines of the node that sends; `None` where nothing can be sent.
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

/// Returns the cause that the sender to an actor of this node gets. On a node that is shutting down
/// no actor replaces an ended one, and programs that try again have to end.
#[cold]
pub(crate) fn at_end(actor: &dyn LocalActor, cause: Cause) -> Cause {
    let is_final = cause == Cause::Stopped && actor.home().is_leaving();
    if is_final { Cause::Shutdown } else { cause }
}

/// Refuses an ask of the asker itself, or of an actor that waits for the asker's answer. Else notes
/// that the asker waits, if it is a handler.
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

/// Returns what became of a tell to `whom`, and notes its fate if that is known.
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

/// Returns why a message was not put into the mailbox of `to`, or notes that it waits for room.
/// (The caller has seen that it was not put.)
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
    /// Where an address leads, as `node` sees it. Never fails: a reference to no actor is one, and
    /// a `tell` to it says so.
    pub(crate) fn bind(node: &Node, address: Address) -> Self {
        match ByAddress::bind(node, address, P::kind()) {
            Ok(elsewhere) => Destination::ByAddress(elsewhere),
            Err((address, found)) => Destination::near(address, found),
        }
    }

    /// Returns the way into the actor of this node that was found at an address.
    fn near(address: Address, found: Arc<dyn LocalActor>) -> Self {
        match P::of(SharedActor(found)) {
            Ok(actor) => Destination::Local(actor),
            Err(cause) => Destination::dead(address, cause),
        }
    }

    /// Returns where it leads now, if it leads to whatever has a name on this node.
    #[inline]
    pub(crate) fn settled(&self) -> Option<Self> {
        match self {
            Destination::Local(_) => None,
            Destination::ByAddress(elsewhere) => elsewhere.settled(),
        }
    }

    /// Returns where it leads now.
    pub(crate) fn now(&self) -> Self
    where
        P: Clone,
    {
        self.settled().unwrap_or_else(|| self.clone())
    }

    /// Returns where it leads to exactly one actor, of another node with a `waiter` of its own.
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
    /// Returns where an address leads, as `node` sees it, for an actor of this type; the address
    /// and the actor if that is one of this node.
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

    /// Notes that the handler that sends waits for this actor of another node.
    pub(crate) fn begin_wait(&self, what: Awaits) -> Option<WaitGuard> {
        let AddressTarget::Remote(sender, node) = &self.way else { return None };
        let whom = (&self.address, sender.request().called.kind);
        WaitGuard::elsewhere(node.residents(), whom, what)
    }

    /// Notes that the handler that sends waits for room in the mailbox, or for the way to it.
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

    /// Returns the actor that has the name now; no actor if none has.
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
