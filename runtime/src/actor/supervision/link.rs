//! Links: two actors, each of which fails when the other one fails.
//!
//! Either both ends know a link, or both are told that there is none. If both actors end at the
//! same moment, each tells the other. A link ends when the linked incarnation of either actor ends.
//!
//! Two actors of one node refer to each other. For two actors of different nodes, each node has a
//! [`Tie`], an actor that stands in for the remote actor. A tie that ends tells the other tie
//! first, as often as it takes; and the two ties watch each other, to learn of the end of a node.

use std::future::{poll_fn, ready};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use futures::FutureExt;
use futures::future::BoxFuture;
use ringpost_transport::text;
use tokio::sync::oneshot;
use tokio::task::coop;
use tokio::time::{Instant, sleep};

use crate::actor::cell::arrival::begin_ask;
use crate::actor::cell::tether::{TETHER, Tether};
use crate::actor::context::watch::{TargetActor, Watchable};
use crate::actor::send::remote_send;
use crate::actor::{Actor, ActorRef, Context, Down, Handler, Handlers, Reply, SpawnOptions};
use crate::address::Address;
use crate::error::{AskCause, Cause};
use crate::exit::ActorExit;
use crate::fate::Fate;
use crate::limits;
use crate::link_end::{LinkEnd, linked_text, linked_to};
use crate::message::Message;
use crate::node::Node;
use crate::remote::{Awaited, Delivery, RemoteSender, Replier, ReplyLoss, Waiter, code, lost};
use crate::resident::LocalActor;
use crate::waits::wire::{self, ActorLocation};
use crate::{actor, handlers, message};

impl<A: Handlers> Context<A> {
    /// Links this actor and another one, on any node: when one of the two fails, so does the other,
    /// at the next point where its handler waits, with a [`Failed`](ActorExit::Failed) that names
    /// the first. A stop or a drain only ends the link. If the other actor has ended, this one
    /// fails at once.
    ///
    /// The link is between the current incarnations: the other actor ends even if the actor that
    /// failed is restarted, and the next incarnation of either has no links. Linking again changes
    /// nothing. While the nodes stay connected, messages that this actor sends later by an equal
    /// reference, not a permit, arrive after the link; otherwise they may arrive first. To be only
    /// told of an end, [watch](Self::watch) the actor; to make others fail with this actor without
    /// failing with them, [trap exits](Self::trap_exits).
    pub fn link(&mut self, actor: &impl Watchable) {
        let me: Arc<dyn LocalActor> = self.shared_cell();
        match actor.met().0 {
            TargetActor::Near(peer) if peer.token() == me.token() => {}
            TargetActor::Near(_) | TargetActor::Far(_)
                if self.cell().ends().is_linked(actor.place()) => {}
            TargetActor::Near(peer) => link_near(&me, &peer, actor.place()),
            TargetActor::Far(sender) => link_far(self.node(), &me, actor.place(), sender.clone()),
            TargetActor::Nobody => {
                let reason = linked_to(actor.place(), &ActorExit::NoActor);
                me.order(|ends| ends.fail_linked(reason));
            }
        }
    }

    /// Ends a link: neither actor fails with the other any more. Returns false if they were not
    /// linked by an equal reference, or the other one has ended.
    pub fn unlink(&mut self, actor: &impl Watchable) -> bool {
        let links = self.cell().ends().take_links(actor.place());
        let is_linked = !links.is_empty();
        links.into_iter().for_each(|link| (link.tell)(None));
        is_linked
    }

    /// Sets whether this actor traps exits: if it does, it does not fail when a linked actor fails.
    /// The next incarnation does not trap exits.
    pub fn trap_exits(&mut self, traps: bool) {
        self.cell().ends().trap(traps);
    }
}

/// Links two actors of one node. `to` is the address by which `me` knows `peer`.
fn link_near(me: &Arc<dyn LocalActor>, peer: &Arc<dyn LocalActor>, to: &Address) {
    // In this order: if the peer ends from now on, its end finds the link here.
    me.ends().link(peer.token(), link_to(peer, to, me.token()));
    if !peer.ends().link(me.token(), link_to(me, me.address(), peer.token())) {
        me.unlink(peer.token(), Some(linked_to(peer.address(), &ActorExit::NoActor)));
    }
}

/// Creates the end of a link to `actor` of this node. It is for the actor with `token`, which knows
/// `actor` by the address `to`.
fn link_to(actor: &Arc<dyn LocalActor>, to: &Address, token: usize) -> LinkEnd {
    let actor = actor.clone();
    LinkEnd { to: to.clone(), tell: Box::new(move |why| actor.unlink(token, why)) }
}

/// Links an actor to an actor of another node.
fn link_far(node: &Node, me: &Arc<dyn LocalActor>, to: &Address, sender: RemoteSender) {
    let tie = Tie::new(me, to);
    // An error means that the node is shutting down, which ends all its actors.
    let Ok((cell, _)) = node.begin(Tie::options(), tie, None, None) else { return };
    let tie = ActorRef::local(cell.clone());
    me.ends().link(cell.resident().token(), link_by(&tie, to.clone()));
    // Requested only now, so that the outcome finds the link.
    let tether = Tether { tie: tie.address().clone(), actor: me.address().clone() };
    let mut making: LinkFuture = Box::pin(make(sender, node.clone(), tether));
    // Polled once now, so that the request is sent before all that the actor sends there later.
    let mut cx = TaskContext::from_waker(Waker::noop());
    if let Poll::Ready(made) = coop::unconstrained(&mut making).poll_unpin(&mut cx) {
        making = Box::pin(ready(made));
    }
    drop(tie.try_tell(RequestLink(making)));
}

/// Creates the end of a link to an actor of another node, for which `tie` stands in.
fn link_by(tie: &ActorRef<Tie>, to: Address) -> LinkEnd {
    let tie = tie.clone();
    // An error means that the tie ends with its node.
    LinkEnd { to, tell: Box::new(move |why| drop(tie.try_tell(Untie(why)))) }
}

/// An actor that stands in, on the node of `me`, for the actor `to` of another node. It lives as
/// long as the link, and its exit tells the other end how the link ended.
struct Tie {
    me: Arc<dyn LocalActor>,
    to: Address,
    /// The tie at the other end, once it is known.
    other: Option<ActorRef<Tie>>,
}

impl Tie {
    fn new(me: &Arc<dyn LocalActor>, to: &Address) -> Self {
        Tie { me: me.clone(), to: to.clone(), other: None }
    }

    /// Returns the options of a tie. Its own node sends it at most two messages, which are never
    /// refused.
    fn options() -> SpawnOptions {
        SpawnOptions::anonymous().mailbox_capacity(2)
    }

    /// Stores and watches the tie at the other end.
    fn meet(&mut self, other: Address, cx: &mut Context<Self>) {
        let other = ActorRef::bind(cx.node(), other);
        cx.watch(&other);
        self.other = Some(other);
    }
}

#[actor(name = "ringpost::Tie")]
#[diagnostic::do_not_recommend]
impl Actor for Tie {}

/// The request to the other node to make its end of the link. Its output is the address of the tie
/// there.
type LinkFuture = BoxFuture<'static, Result<Address, LinkError>>;

/// Tells a tie to await the request for the other end of the link. Sent once, before all other
/// messages.
#[message(local)]
struct RequestLink(LinkFuture);

/// Tells a tie to answer a [`Tether`], the request of another node for a link. Sent once, before
/// all other messages.
#[message(local)]
struct AcceptLink {
    /// The tie at the other end.
    other: Address,
    replier: Replier,
    deadline: Option<Instant>,
    /// Receives true if `me` has its end of the link.
    is_linked: oneshot::Receiver<bool>,
}

/// The link has ended at the other end. With a text, the actor there has failed.
#[message(name = "ringpost::Untied")]
struct Untied {
    why: Option<String>,
}

/// The link has ended on this node. With a text, `me` has failed.
#[message(local)]
struct Untie(Option<Arc<str>>);

#[handlers(RequestLink, AcceptLink, Untied, Untie, Down)]
impl Tie {}

#[diagnostic::do_not_recommend]
impl Handler<RequestLink> for Tie {
    type Reply = ();

    async fn handle(&mut self, msg: RequestLink, cx: &mut Context<Self>) {
        let made = tokio::select! {
            biased;
            // The node is shutting down.
            () = cx.is_to_end() => return,
            made = msg.0 => made,
        };
        match made {
            Ok(tie) => self.meet(tie, cx),
            Err(unmade) => {
                self.me.unlink(cx.cell().resident().token(), Some(unmade.text(&self.to)));
                match unmade {
                    LinkError::Ended(ActorExit::NoActor) => cx.stop(),
                    // If the other end was made after all, it learns of this failure by its watch.
                    unmade => cx.cell().resident().fail(unmade.text(self.me.address())),
                }
            }
        }
    }
}

#[diagnostic::do_not_recommend]
impl Handler<AcceptLink> for Tie {
    type Reply = ();

    async fn handle(&mut self, msg: AcceptLink, cx: &mut Context<Self>) {
        let AcceptLink { other, replier, deadline, is_linked } = msg;
        let is_linked = is_linked.await == Ok(true);
        let Some(replier) = begin_ask(replier, deadline).filter(|_| is_linked) else {
            self.me.unlink(cx.cell().resident().token(), None);
            return cx.stop();
        };
        self.meet(other, cx);
        let form = replier.form();
        let reply: crate::actor::ReplyTo<Address> =
            crate::actor::ReplyTo::far((Some(replier), None), form);
        reply.send(cx.actor().address().clone());
    }
}

#[diagnostic::do_not_recommend]
impl Handler<Untied> for Tie {
    type Reply = ();

    async fn handle(&mut self, msg: Untied, cx: &mut Context<Self>) {
        let why = msg.why.map(|why| text::of_peer(&why, 2 * limits::LINKED_TEXT_BYTES_MAX));
        self.me.unlink(cx.cell().resident().token(), why.as_deref().map(linked_text));
        cx.stop();
    }
}

#[diagnostic::do_not_recommend]
impl Handler<Untie> for Tie {
    type Reply = ();

    async fn handle(&mut self, Untie(why): Untie, cx: &mut Context<Self>) {
        if let Some(other) = &self.other {
            tokio::select! {
                biased;
                // The node is shutting down.
                () = cx.is_to_end() => {}
                () = untie(other, why.as_deref()) => {}
            }
        }
        // The tie ends as its end of the link did, so that a second tie at the other end learns of
        // that, too.
        match why {
            Some(why) => cx.cell().resident().fail(why),
            None => cx.stop(),
        }
    }
}

#[diagnostic::do_not_recommend]
impl Handler<Down> for Tie {
    type Reply = ();

    /// Handles the end of the tie at the other end, and so of the link.
    async fn handle(&mut self, msg: Down, cx: &mut Context<Self>) {
        let why = match msg.exit {
            ActorExit::Stopped => None,
            ActorExit::Failed(why) => Some(why),
            exit => Some(linked_to(&self.to, &exit)),
        };
        self.me.unlink(cx.cell().resident().token(), why);
        cx.stop();
    }
}

/// Tells the tie at the other end that the link has ended, until it certainly knows: by this
/// message, or because it has ended itself. An error means that the tie or its node has ended.
async fn untie(other: &ActorRef<Tie>, why: Option<&str>) {
    loop {
        let untied = Untied { why: why.map(str::to_owned) };
        match other.tell(untied).confirmed().await {
            // The connection to its node was lost.
            Ok(Fate::NotSent | Fate::Unknown) => {}
            Ok(Fate::Delivered | Fate::Refused) | Err(_) => return,
        }
    }
}

/// The reason why a link to an actor of another node was not made.
enum LinkError {
    /// That actor or its node has ended.
    Ended(ActorExit),
    /// Another reason, as a text for people.
    Refused(String),
}

impl LinkError {
    fn of(error: AskCause) -> Self {
        match error {
            AskCause::NotSent(Cause::NodeUnreachable(_) | Cause::Leaving | Cause::Shutdown) => {
                LinkError::Ended(ActorExit::NodeDown)
            }
            AskCause::NotSent(
                Cause::NoSuchActor | Cause::WrongActorType { .. } | Cause::Stopped,
            )
            | AskCause::NotBegun(_)
            | AskCause::NoReply => LinkError::Ended(ActorExit::NoActor),
            other => LinkError::Refused(other.to_string()),
        }
    }

    /// Returns the text for the failure of an actor that could not be linked to `peer`.
    fn text(&self, peer: &Address) -> Arc<str> {
        match self {
            LinkError::Ended(exit) => linked_to(peer, exit),
            LinkError::Refused(why) => linked_text(&format!("not linked to {peer}: {why}")),
        }
    }
}

/// Asks another node to make its end of a link. Returns the address of the tie there.
async fn make(to: RemoteSender, node: Node, tether: Tether) -> Result<Address, LinkError> {
    loop {
        let deadline = Instant::now() + limits::ASK_TIMEOUT_MAX;
        let to = (&to, &TETHER, remote_send::leading_ask(deadline));
        let (mut message, mut waiter) = (Some(tether.clone()), Waiter::default());
        let send =
            poll_fn(|cx| remote_send::poll_send(to, (&node, None), &mut message, &mut waiter, cx));
        let answered = match send.await {
            Ok(Awaited::Reply(answer)) => answer.await,
            Ok(_) => Err(ReplyLoss::Late),
            Err(Cause::LinkDown) => continue,
            Err(Cause::TooManyAsks) => {
                sleep(limits::LOOK_UP_AGAIN).await;
                continue;
            }
            Err(cause) => return Err(LinkError::of(AskCause::NotSent(cause))),
        };
        match answered {
            Ok(answer) => {
                let tie = <Address as Reply>::CODEC.map(|codec| (codec.decode)(&answer, &node, 0));
                return match tie {
                    Some(Ok(tie)) => Ok(tie),
                    _ => Err(LinkError::of(AskCause::InvalidReply)),
                };
            }
            // The other node may have made its end or not; a second end does no harm.
            Err(ReplyLoss::LinkDown(_) | ReplyLoss::Unsent(_)) => {}
            Err(ReplyLoss::Failed(code::TOO_MANY_LINKS)) => {
                let most = limits::LINKS_MAX;
                return Err(LinkError::Refused(format!("it has {most} links already")));
            }
            Err(loss) => return Err(LinkError::of(lost(loss))),
        }
    }
}

impl Node {
    /// Handles the request of another node for a link to the actor `me`: makes this node's end of
    /// it, if `me` takes more links. Called while messages are delivered to `me`, so that messages
    /// after the tether find the link.
    pub(crate) fn tether(&self, me: Arc<dyn LocalActor>, tether: Delivery, takes_links: bool) {
        let Delivery { mut payload, replier: Some(replier), deadline, .. } = tether else { return };
        if !takes_links {
            return replier.fail(code::TOO_MANY_LINKS);
        }
        let fits = payload.len() <= limits::TETHER_BYTES_MAX;
        // The chain is empty, because no handler waits for a tether.
        let fits = fits && wire::take(&mut payload, |_, _| ActorLocation::Elsewhere).is_ok();
        let codec = <Tether as Message>::CODEC.filter(|_| fits);
        let decoded = codec.map(|codec| (codec.decode)(&payload, self, 0));
        let Some(Ok(Tether { tie: other, actor })) = decoded else {
            return replier.fail(code::INVALID_ASK);
        };
        // An error means that the node is shutting down: the other end gets no answer.
        let tie = Tie::new(&me, &actor);
        let Ok((cell, _)) = self.begin(Tie::options(), tie, None, None) else { return };
        let tie = ActorRef::local(cell.clone());
        let (linked, is_linked) = oneshot::channel();
        // In this order: the tie answers before it learns of an end of the link.
        drop(tie.try_tell(AcceptLink { other, replier, deadline, is_linked }));
        let _told = linked.send(me.ends().link(cell.resident().token(), link_by(&tie, actor)));
    }
}

#[cfg(test)]
mod tests;
