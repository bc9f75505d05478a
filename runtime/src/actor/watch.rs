//! Monitors: an actor is told when another one has ended.
//!
//! - **WA-1 once**: a watch tells once, however the watched actor ends, and nothing after
//!   `unwatch`.
//! - **WA-2 after its last message**: what the watched actor sent to the watcher before it ended is
//!   handled before its [`Down`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::future::{AbortHandle, Abortable, BoxFuture};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use super::destination::{Destination, View};
use super::port::Find;
use super::{ActorRef, Handlers, Recipient};
use crate::address::Address;
use crate::exit::ActorExit;
use crate::mailbox::{Hand, Mailbox, Mark, Remote};
use crate::message::{Codec, Message};
use crate::mutants::planted;
use crate::remote::{self, RemoteSender};
use crate::resident::{Ended, Resident};
use crate::schema::Hash;

/// An actor that was watched has ended. Sent by the runtime to the actor that
/// [watches](super::Context::watch) it, which has a handler for it:
/// `fn down(&mut self, msg: Down)`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Down {
    /// Where it was, as the watcher's reference says it.
    pub actor: Address,
    /// How it ended.
    pub exit: ActorExit,
}

#[diagnostic::do_not_recommend]
impl Message for Down {
    const NAME: &'static str = "Down";
    const ID: u128 = Hash::new("ringpost::Down").end();
    const CODEC: Option<Codec<Self>> = None;
}

/// A reference that can be watched: an [`ActorRef`] or a [`Recipient`]. Only this crate has any.
pub trait Watchable: sealed::Watchable {}

impl<T: sealed::Watchable> Watchable for T {}

pub(super) mod sealed {
    use super::{Address, Met};

    pub trait Watchable {
        /// Returns where the actor is.
        fn place(&self) -> &Address;

        /// Returns what is there.
        fn met(&self) -> Met<'_>;
    }
}

/// The actor that a reference leads to, without its type.
pub struct Met<'a>(pub(super) Peer<'a>);

pub(super) enum Peer<'a> {
    /// An actor of this node.
    Near(Arc<dyn Resident>),
    /// One of another node.
    Far(&'a RemoteSender),
    /// No actor.
    Nobody,
}

impl<A: Handlers> sealed::Watchable for ActorRef<A> {
    fn place(&self) -> &Address {
        self.address()
    }

    fn met(&self) -> Met<'_> {
        met(self.destination(), |near| near.shared())
    }
}

impl<M: Message, R: Send + 'static> sealed::Watchable for Recipient<M, R> {
    fn place(&self) -> &Address {
        self.address()
    }

    fn met(&self) -> Met<'_> {
        met(self.destination(), |near| near.shared())
    }
}

fn met<P: Find>(to: &Destination<P>, near: impl FnOnce(&P) -> Arc<dyn Resident>) -> Met<'_> {
    if let Some(settled) = to.settled() {
        return Met(match settled.view() {
            View::Local(actor) => Peer::Near(near(actor)),
            _ => Peer::Nobody,
        });
    }
    Met(match to.view() {
        View::Local(actor) => Peer::Near(near(actor)),
        View::Remote(sender, _) => Peer::Far(sender),
        View::Dead(_) => Peer::Nobody,
    })
}

/// Returns what waits for the end of an actor, and true if it is of this node.
fn end_of(peer: Peer<'_>) -> (BoxFuture<'static, ActorExit>, bool) {
    match peer {
        Peer::Near(actor) => (Box::pin(Ended::of(actor)), true),
        Peer::Far(sender) => {
            let sender = sender.clone();
            (Box::pin(async move { remote::closed(&sender).await }), false)
        }
        Peer::Nobody => (Box::pin(std::future::ready(ActorExit::NoActor)), false),
    }
}

/// The actors that one actor watches. Owned by its lane.
#[derive(Default)]
pub(super) struct Watches {
    ends: FuturesUnordered<Abortable<BoxFuture<'static, (Down, bool)>>>,
    by_address: HashMap<Address, AbortHandle>,
    /// Ends that are not told yet, and what came to the mailbox before each (WA-2).
    downs: VecDeque<(Mark, Down)>,
}

impl Watches {
    /// Begins to watch; of one that is watched already, or whose end is about to be told, nothing.
    pub(super) fn watch(&mut self, actor: &impl sealed::Watchable) {
        let address = actor.place().clone();
        let is_told = self.downs.iter().any(|(_, down)| down.actor == address);
        if is_told || self.by_address.contains_key(&address) {
            return;
        }
        let (handle, registration) = AbortHandle::new_pair();
        let ((end, is_near), place) = (end_of(actor.met().0), address.clone());
        let mut down: BoxFuture<'static, (Down, bool)> =
            Box::pin(async move { (Down { actor: place, exit: end.await }, is_near) });
        // It begins now: what the handler does next may have the actor end.
        if let Poll::Ready(down_now) = down.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            down = Box::pin(std::future::ready(down_now));
        }
        self.ends.push(Abortable::new(down, registration));
        self.by_address.insert(address, handle);
    }

    /// Returns true if it was watched, and its end is not told (WA-1).
    pub(super) fn unwatch(&mut self, actor: &Address) -> bool {
        let waiting = self.downs.len();
        self.downs.retain(|(_, down)| down.actor != *actor);
        let handle = self.by_address.remove(actor);
        handle.inspect(AbortHandle::abort).is_some() || self.downs.len() < waiting
    }

    /// Waits for the end of one that is watched, and until what it sent before is begun.
    pub(super) fn poll<L, R: Remote>(
        &mut self,
        mailbox: &Mailbox<L, R>,
        hand: &Hand<L, R>,
        cx: &mut Context<'_>,
    ) -> Poll<Down> {
        while let Poll::Ready(Some(ended)) = self.ends.poll_next_unpin(cx) {
            // An error says that it is no longer watched.
            if let Ok((down, is_near)) = ended {
                self.by_address.remove(&down.actor);
                self.downs.push_back((mailbox.mark(is_near), down));
            }
        }
        let has_passed = |mark| planted!(EarlyDown) || mailbox.has_passed(mark, hand);
        let passed = self.downs.iter().position(|(mark, _)| has_passed(*mark));
        match passed.and_then(|at| self.downs.remove(at)) {
            Some((_, down)) => Poll::Ready(down),
            None => Poll::Pending,
        }
    }
}
