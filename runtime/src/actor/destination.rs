//! Where a reference leads, and the one way of sending there.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::Reply;
use super::port::{AskPort, Find, Line, LocalAsk, Pending, PendingFate, Port, SharedActor};
use crate::address::Address;
use crate::busy::{is_running, running};
use crate::deadlines::Deadlines;
use crate::error::Cause;
use crate::limits;
use crate::message::Message;
use crate::node::Node;
use crate::remote::{self, RemoteSender, Waiter};
use crate::waits::Awaits;

/// Where a reference leads. `P` is the way into an actor of this node: with its type, or by one
/// message that it takes.
pub(super) enum Destination<P> {
    /// To an actor of this node.
    Local(P),
    /// To another node, or to no actor.
    #[doc(hidden)]
    Elsewhere(Arc<Elsewhere>),
}

/// An address that does not lead to an actor of this node.
pub(super) struct Elsewhere {
    pub(super) address: Address,
    pub(super) way: Way,
}

/// The target of such an address.
pub(super) enum Way {
    /// An actor of another node, as this node sees it.
    Remote(RemoteSender, Node),
    /// The actor that has the name on this node when it is looked up, at each send.
    Named(Node),
    /// No actor, and why.
    Dead(Cause),
}

/// A [`Destination`], looked at.
pub(super) enum View<'a, P> {
    Local(&'a P),
    Remote(&'a RemoteSender, &'a Node),
    Dead(&'a Cause),
}

impl<P> Destination<P> {
    #[inline]
    pub(super) fn view(&self) -> View<'_, P> {
        match self {
            Destination::Local(actor) => View::Local(actor),
            Destination::Elsewhere(elsewhere) => match &elsewhere.way {
                Way::Remote(sender, node) => View::Remote(sender, node),
                // Sends and all else are of what it leads to now.
                Way::Named(_) => View::Dead(&Cause::NoSuchActor),
                Way::Dead(cause) => View::Dead(cause),
            },
        }
    }

    fn elsewhere(address: Address, way: Way) -> Self {
        Destination::Elsewhere(Arc::new(Elsewhere { address, way }))
    }

    pub(super) fn remote(address: Address, sender: RemoteSender, node: Node) -> Self {
        Destination::elsewhere(address, Way::Remote(sender, node))
    }

    pub(super) fn dead(address: Address, cause: Cause) -> Self {
        Destination::elsewhere(address, Way::Dead(cause))
    }

    /// Returns true if it leads to an actor of this node.
    pub(super) fn is_near(&self) -> bool {
        match self {
            Destination::Local(_) => true,
            Destination::Elsewhere(elsewhere) => matches!(elsewhere.way, Way::Named(_)),
        }
    }

    /// Returns the actor's address; `near` tells that of an actor of this node.
    pub(super) fn address<'a>(&'a self, near: impl FnOnce(&'a P) -> &'a Address) -> &'a Address {
        match self {
            Destination::Local(actor) => near(actor),
            Destination::Elsewhere(elsewhere) => &elsewhere.address,
        }
    }

    /// Sends; empties `message` if and only if it was sent. Its fate, if the sender waits for it,
    /// or what is known of it, is in `fate` then.
    #[inline]
    pub(super) fn poll_tell<M: Message>(
        &self,
        message: &mut Option<M>,
        fate: Option<&mut Option<PendingFate>>,
        line: &mut Line,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>>
    where
        P: Port<M>,
    {
        match self {
            Destination::Local(actor) => {
                let known = match actor.poll_put(message, None, line, cx) {
                    Poll::Ready(Ok(known)) => known,
                    Poll::Ready(Err(cause)) => return Poll::Ready(Err(at_end(actor, cause))),
                    Poll::Pending => {
                        line.wait_for_room(actor.actor().0)?;
                        return Poll::Pending;
                    }
                };
                if let Some(fate) = fate {
                    *fate = Some(PendingFate::Known(known));
                }
                Poll::Ready(Ok(()))
            }
            Destination::Elsewhere(to) => to.poll_tell(const { &P::TOLD }, message, fate, line, cx),
        }
    }

    /// Sends if that needs no waiting.
    pub(super) fn try_tell<M: Message>(&self, message: &mut Option<M>) -> Result<(), Cause>
    where
        P: Port<M>,
    {
        match self {
            Destination::Local(actor) => match actor.try_put(message, None) {
                Ok(_) => Ok(()),
                Err(cause) => Err(at_end(actor, cause)),
            },
            Destination::Elsewhere(to) => to.try_tell(const { &P::TOLD }, message),
        }
    }

    /// Sends an ask.
    pub(super) fn poll_ask<M: Message>(
        &self,
        message: &mut Option<M>,
        deadline: Instant,
        line: &mut Line,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Pending<P::Reply>, Cause>>
    where
        P: AskPort<M>,
        P::Reply: Reply,
    {
        match self {
            Destination::Local(actor) if is_running(actor.actor().0.token()) => {
                Poll::Ready(Err(Cause::SelfAsk))
            }
            Destination::Local(actor) => {
                let to = actor.actor().0;
                line.wait_for(to)?;
                let waker = cx.waker().clone();
                let mut ask = LocalAsk { deadline, waker, asker: None, ask: None };
                match actor.poll_put(message, Some(&mut ask), line, cx) {
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(cause)) => return Poll::Ready(Err(at_end(actor, cause))),
                    Poll::Pending => {
                        line.wait_for_room(to)?;
                        return Poll::Pending;
                    }
                }
                if let Some(ask) = ask.ask.take() {
                    line.wait_for_answer(to, ask);
                }
                Poll::Ready(Pending::local(ask))
            }
            Destination::Elsewhere(to) => {
                let asked = (const { &P::ASKED }, deadline);
                to.poll_ask(asked, message, line, cx).map_ok(Pending::Remote)
            }
        }
    }

    /// Sends an ask if that needs no waiting.
    pub(super) fn try_ask<M: Message>(
        &self,
        message: &mut Option<M>,
        deadline: Instant,
    ) -> Result<Pending<P::Reply>, Cause>
    where
        P: AskPort<M>,
        P::Reply: Reply,
    {
        match self {
            Destination::Local(actor) if is_running(actor.actor().0.token()) => Err(Cause::SelfAsk),
            Destination::Local(actor) => {
                let waker = Waker::noop().clone();
                let mut ask = LocalAsk { deadline, waker, asker: None, ask: None };
                let sent = actor.try_put(message, Some(&mut ask));
                sent.map_err(|cause| at_end(actor, cause))?;
                Pending::local(ask)
            }
            Destination::Elsewhere(to) => {
                let asked = (const { &P::ASKED }, deadline);
                to.try_ask(asked, message).map(Pending::Remote)
            }
        }
    }

    /// Gives up a place in a line. (Mostly there is none.)
    #[inline]
    pub(super) fn leave(&self, line: &mut Line)
    where
        P: Find,
    {
        match self {
            _ if !line.is_near() => {}
            Destination::Local(actor) => line.leave(|| actor.actor().0.intake()),
            Destination::Elsewhere(_) => line.leave_elsewhere(),
        }
    }

    /// Returns how long an ask waits that does not say otherwise.
    pub(super) fn ask_timeout(&self) -> Duration
    where
        P: Find,
    {
        self.deadlines().map_or(limits::ASK_TIMEOUT, Deadlines::ask_timeout)
    }

    /// Returns the deadlines of the node that sends; `None` where nothing can be sent.
    pub(super) fn deadlines(&self) -> Option<&Deadlines>
    where
        P: Find,
    {
        match self {
            Destination::Local(actor) => Some(actor.actor().0.deadlines()),
            Destination::Elsewhere(elsewhere) => match &elsewhere.way {
                Way::Remote(_, node) | Way::Named(node) => Some(node.deadlines()),
                Way::Dead(_) => None,
            },
        }
    }
}

/// Returns what the sender to an actor of this node is told. On a node that is shutting down none
/// takes the place of one that has ended, and programs that try again have to end.
#[cold]
pub(super) fn at_end<P: Find>(actor: &P, cause: Cause) -> Cause {
    let is_final = cause == Cause::Stopped && actor.actor().0.is_node_leaving();
    if is_final { Cause::Shutdown } else { cause }
}

impl<P: Find> Destination<P> {
    /// Where an address leads, as `node` sees it. Never fails: a reference to no actor is one, and
    /// a `tell` to it says so.
    pub(super) fn bind(node: &Node, address: Address) -> Self {
        if address.node() != node.name() {
            return match node.sender(&address, P::kind()) {
                Ok(sender) => Destination::remote(address, sender, node.clone()),
                Err(cause) => Destination::dead(address, cause),
            };
        }
        if address.identity().is_none() {
            return Destination::elsewhere(address, Way::Named(node.clone()));
        }
        match find(node, &address) {
            Ok(actor) => Destination::Local(actor),
            Err(cause) => Destination::dead(address, cause),
        }
    }

    /// Returns where it leads now, if it leads to whatever has a name on this node.
    #[inline]
    pub(super) fn settled(&self) -> Option<Self> {
        match self {
            Destination::Local(_) => None,
            Destination::Elsewhere(elsewhere) => elsewhere.settled(),
        }
    }

    /// Returns where it leads now.
    pub(super) fn now(&self) -> Self
    where
        P: Clone,
    {
        self.settled().unwrap_or_else(|| self.clone())
    }

    /// Returns where it leads to exactly one actor, of another node with a `waiter` of its own.
    pub(super) async fn pinned(&self, waiter: Waiter) -> Result<Self, Cause>
    where
        P: Clone,
    {
        let now = self.now();
        match now.view() {
            View::Local(_) => Ok(now),
            View::Remote(sender, node) => {
                let (address, found, _) = remote::find(sender, waiter).await?;
                Ok(Destination::remote(address, found, node.clone()))
            }
            View::Dead(cause) => Err(cause.clone()),
        }
    }
}

impl Elsewhere {
    /// Notes for what of another node the handler waits that sends.
    pub(super) fn note_wait(&self, line: &mut Line, what: fn(Address, &'static str) -> Awaits) {
        let (Way::Remote(sender, node), true) = (&self.way, running().is_some()) else { return };
        let kind = sender.request().called.kind;
        line.wait_elsewhere(node.residents(), what(self.address.clone(), kind));
    }

    #[inline]
    fn settled<P: Find>(&self) -> Option<Destination<P>> {
        if let Way::Named(node) = &self.way { Some(self.find(node)) } else { None }
    }

    #[cold]
    fn find<P: Find>(&self, node: &Node) -> Destination<P> {
        match find(node, &self.address) {
            Ok(actor) => Destination::Local(actor),
            Err(cause) => Destination::dead(self.address.clone(), cause),
        }
    }
}

/// Returns the way into the actor at an address of this node.
fn find<P: Find>(node: &Node, address: &Address) -> Result<P, Cause> {
    P::of(SharedActor(node.resident(address)?))
}

impl<P: Clone> Clone for Destination<P> {
    fn clone(&self) -> Self {
        match self {
            Destination::Local(actor) => Destination::Local(actor.clone()),
            Destination::Elsewhere(elsewhere) => Destination::Elsewhere(elsewhere.clone()),
        }
    }
}
