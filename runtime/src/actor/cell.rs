//! What an actor of this node shares with those who send to it: its mailbox and its end.

use std::any::{Any, TypeId};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::AbortHandle;
use parking_lot::Mutex;
use ringpost_transport::memory::Payload;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Handlers;
use super::route::Label;
use crate::address::{Address, Identity};
use crate::dead_letter::{DeadLetter, DeadLetterCause};
use crate::deadlines::Deadlines;
use crate::error::Cause;
use crate::exit::ActorExit;
use crate::fate::Fate;
use crate::mailbox::{Depth, Hand, Intake, Mailbox, Remote, Room, Taken};
use crate::node::Node;
use crate::registry::Key;
use crate::remote::{
    Accepted, CloseNotice, Deliveries, Delivery, Inbox, Refusal, Replier, Tells, signals,
};
use crate::resident::{Halt, Resident};
use crate::schema::Hash;
use crate::slot::Ask;

/// An actor of this node, from outside its task.
pub(crate) struct Cell<A: Handlers> {
    address: Address,
    key: Key,
    node: Node,
    mailbox: ActorMailbox<A>,
    kill: AbortHandle,
    exit: watch::Sender<Option<ActorExit>>,
    /// `None` when the actor has ended.
    notices: Mutex<Option<Vec<CloseNotice>>>,
}

/// A cell as its references hold it. A trait object, so that the compiler does not look for what is
/// `Send` through a reference into the envelope: an error in one message would be reported again at
/// every handler of the actor.
pub(super) trait Home<A: Handlers>: Resident {
    fn node(&self) -> &Node;

    /// Commits a message. An actor that was stopped between the reservation and now has accepted it
    /// all the same, and a tell is a dead letter (DL-1).
    fn commit(&self, room: Room<'_>, letter: Letter<A::Envelope>) -> Fate;
}

pub(super) type ActorMailbox<A> = Mailbox<Letter<<A as Handlers>::Envelope>, Arrival>;
pub(super) type ActorHand<A> = Hand<Letter<<A as Handlers>::Envelope>, Arrival>;

/// A message sent on this node.
pub(super) struct Letter<E> {
    pub(super) label: &'static Label,
    /// The ask, to be begun; `None` for a tell.
    pub(super) ask: Option<Arc<dyn Ask>>,
    pub(super) envelope: E,
}

/// An item of the remote intake, not checked yet. Holds at least one message.
pub(super) enum Arrival {
    /// A message; `None` once it was taken.
    One(Option<Delivery>),
    /// Tells that came in one frame.
    Tells(Tells),
}

/// A message sent on another node, not checked yet, which was taken from the mailbox: its room is
/// its sender's again.
pub(super) struct Unopened {
    ordinal: u16,
    payload: Payload,
    /// The way back of an ask, and when its asker gives up.
    ask: Option<(Replier, Option<Instant>)>,
}

impl<A: Handlers> Cell<A> {
    pub(super) fn new(
        node: Node,
        key: Key,
        name: Option<Arc<str>>,
        capacity: usize,
        kill: AbortHandle,
    ) -> Self {
        let identity = Identity { incarnation: node.id().incarnation, key };
        Cell {
            address: Address::of(node.shared_name().clone(), identity, name),
            key,
            node,
            mailbox: Mailbox::new(capacity),
            kill,
            exit: watch::Sender::new(None),
            notices: Mutex::new(Some(Vec::new())),
        }
    }

    pub(super) fn mailbox(&self) -> &ActorMailbox<A> {
        &self.mailbox
    }

    pub(super) fn is_killed(&self) -> bool {
        self.kill.is_aborted()
    }

    /// Begins a message of this node. Returns `None` when it must not be handled: an ask whose
    /// asker has given up.
    pub(super) fn begin(
        &self,
        letter: Letter<A::Envelope>,
    ) -> Option<(&'static Label, A::Envelope)> {
        let Letter { label, ask, envelope } = letter;
        if ask.is_some_and(|ask| !ask.begin()) {
            self.skipped(label);
            return None;
        }
        Some((label, envelope))
    }

    /// Begins a message of another node, and reads it. Returns `None` when there is nothing to
    /// handle.
    #[inline]
    pub(super) fn open(&self, unopened: Unopened) -> Option<(&'static Label, A::Envelope)> {
        let Unopened { ordinal, payload, ask } = unopened;
        let route = A::ROUTES.get(usize::from(ordinal))?;
        let is_tell = ask.is_none();
        let replier = match ask {
            None => None,
            Some((replier, deadline)) => {
                let begun = begin_ask(replier, deadline);
                if begun.is_none() {
                    self.skipped(&route.label);
                    return None;
                }
                begun
            }
        };
        match (route.open)(payload, &self.node, replier) {
            Ok(envelope) => Some((&route.label, envelope)),
            Err(error) => {
                let name = route.label.name();
                tracing::warn!(actor = %self.address, name, %error, "a message was unreadable");
                if is_tell {
                    self.bury(&route.label, DeadLetterCause::InvalidArchive);
                }
                None
            }
        }
    }

    /// Ends the actor: its name is free, its senders and whoever waits are told, and a tell that
    /// it never began is a dead letter. `hand` is what it had taken.
    pub(super) fn end(&self, hand: &mut ActorHand<A>, exit: ActorExit) {
        self.mailbox.close(hand);
        self.node.residents().remove(self.key);
        let notices = self.notices.lock().take();
        drop(notices);
        while let Some(taken) = hand.take_unbegun() {
            let label = match &taken {
                Taken::Local(letter) => letter.told(),
                Taken::Remote(unopened) => unopened.told::<A>(),
            };
            if let Some(label) = label {
                self.bury(label, DeadLetterCause::Stopped);
            }
            // A message whose own `Drop` panics must not keep the others, and who waits, from the
            // end.
            drop(catch_unwind(AssertUnwindSafe(|| drop(taken))));
        }
        self.exit.send_replace(Some(exit));
    }

    fn skipped(&self, label: &Label) {
        let name = label.name();
        tracing::debug!(actor = %self.address, name, "skipped an ask whose asker has given up");
    }

    fn bury(&self, label: &Label, cause: DeadLetterCause) {
        self.node.dead_letters().bury(DeadLetter {
            to: self.address.clone(),
            message: label.id,
            name: Some(label.name()),
            cause,
        });
    }
}

/// Begins an ask of another node. Returns `None`, and has told its asker, when it must not be
/// begun: it is too late, or its asker has given up.
fn begin_ask(mut replier: Replier, deadline: Option<Instant>) -> Option<Replier> {
    let now = Instant::now();
    if deadline.is_some_and(|end| end <= now) {
        replier.fail(Replier::LATE);
        return None;
    }
    replier.begin(now).then_some(replier)
}

impl<E> Letter<E> {
    /// Returns which message it is, if it is a tell: the failure of an ask is its asker's to know
    /// (DL-1).
    fn told(&self) -> Option<&'static Label> {
        self.ask.is_none().then_some(self.label)
    }
}

impl Unopened {
    /// As [`Letter::told`].
    fn told<A: Handlers>(&self) -> Option<&'static Label> {
        if self.ask.is_some() {
            return None;
        }
        A::ROUTES.get(usize::from(self.ordinal)).map(|route| &route.label)
    }
}

impl Arrival {
    /// Returns the way back of an ask, and when its asker gives up.
    #[inline]
    fn ask(&self) -> Option<(&Replier, Option<Instant>)> {
        match self {
            Arrival::One(Some(one)) => one.replier.as_ref().map(|replier| (replier, one.deadline)),
            _ => None,
        }
    }
}

impl From<Deliveries> for Arrival {
    fn from(deliveries: Deliveries) -> Self {
        match deliveries {
            Deliveries::One(delivery) => Arrival::One(Some(delivery)),
            Deliveries::Tells(tells) => Arrival::Tells(tells),
        }
    }
}

impl Remote for Arrival {
    type Message = Unopened;

    #[inline]
    fn count(&self) -> usize {
        match self {
            Arrival::One(one) => usize::from(one.is_some()),
            Arrival::Tells(tells) => tells.len(),
        }
    }

    #[inline]
    fn take_first(&mut self) -> Option<Unopened> {
        match self {
            Arrival::One(one) => {
                let Delivery { ordinal, payload, replier, receipt, deadline } = one.take()?;
                drop(receipt);
                let ask = replier.map(|replier| (replier, deadline));
                Some(Unopened { ordinal, payload, ask })
            }
            Arrival::Tells(_) => self.take_tell(),
        }
    }

    #[inline]
    fn take_tell(&mut self) -> Option<Unopened> {
        let Arrival::Tells(tells) = self else { return None };
        let (ordinal, payload) = tells.take_first()?;
        Some(Unopened { ordinal, payload, ask: None })
    }

    fn peer(&self) -> usize {
        match self {
            Arrival::One(one) => one.as_ref().map_or(0, Delivery::peer_number),
            Arrival::Tells(tells) => tells.peer_number(),
        }
    }

    #[inline]
    fn poll_begin(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Some((replier, deadline)) = self.ask() else { return Poll::Ready(()) };
        let is_late = || deadline.is_some_and(|end| end <= Instant::now());
        if replier.poll_room(cx).is_pending() && !is_late() {
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn deadline(&self) -> Option<Instant> {
        self.ask()?.1
    }
}

/// Returns the hash of an actor's type, as links compare it.
pub(super) const fn kind<A: Handlers>() -> u128 {
    Hash::new("actor").str(A::NAME).end()
}

impl<A: Handlers> Home<A> for Cell<A> {
    fn node(&self) -> &Node {
        &self.node
    }

    fn commit(&self, room: Room<'_>, letter: Letter<A::Envelope>) -> Fate {
        let Err(letter) = self.mailbox.fill(room, letter) else { return Fate::Delivered };
        if let Some(label) = letter.told() {
            self.bury(label, DeadLetterCause::Stopped);
        }
        Fate::Refused
    }
}

impl<A: Handlers> Resident for Cell<A> {
    fn address(&self) -> &Address {
        &self.address
    }

    fn kind(&self) -> u128 {
        kind::<A>()
    }

    fn halt(&self, halt: Halt) {
        match halt {
            Halt::Drain => self.mailbox.drain(),
            Halt::Stop => self.mailbox.stop(),
            Halt::Kill => {
                // In this order: who sees the stop sees the kill too, and runs no `on_stop`.
                self.kill.abort();
                self.mailbox.stop();
            }
        }
    }

    fn exit(&self) -> watch::Receiver<Option<ActorExit>> {
        self.exit.subscribe()
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn token(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn route(&self, message: u128, reply: Option<TypeId>) -> Option<u16> {
        let fits = |route: &super::Route<A>| {
            route.accepted.id == message && reply.is_none_or(|reply| reply == (route.reply)())
        };
        A::ROUTES.iter().position(fits).map(|place| place as u16)
    }

    fn depth(&self) -> Depth {
        self.mailbox.depth()
    }

    fn intake(&self) -> &dyn Intake {
        &self.mailbox
    }

    fn put(&self, room: Room<'_>, route: u16, letter: &mut dyn Any) -> Result<Fate, Cause> {
        let route = A::ROUTES.get(usize::from(route)).ok_or(Cause::NotAccepted)?;
        let envelope = (route.tell)(letter, &self.node)?;
        Ok(self.commit(room, Letter { label: &route.label, ask: None, envelope }))
    }

    fn put_ask(
        &self,
        room: Room<'_>,
        route: u16,
        letter: &mut dyn Any,
        ask: Arc<dyn Ask>,
    ) -> Result<(), Cause> {
        let route = A::ROUTES.get(usize::from(route)).ok_or(Cause::NotAccepted)?;
        let envelope = (route.ask)(letter, &self.node)?;
        self.commit(room, Letter { label: &route.label, ask: Some(ask), envelope });
        Ok(())
    }

    fn deadlines(&self) -> &Deadlines {
        self.node.deadlines()
    }
}

impl<A: Handlers> Inbox for Cell<A> {
    fn id(&self) -> u64 {
        u64::from(self.key.generation) << 32 | u64::from(self.key.index)
    }

    fn accepted(&self) -> Vec<Accepted> {
        A::ROUTES.iter().map(|route| route.accepted).collect()
    }

    fn deliver(&self, run: &mut Vec<Deliveries>) -> Result<(), Refusal> {
        self.mailbox.push_remote(run, Arrival::from).map_err(|_closed| Refusal::Closed)
    }

    fn signal(&self, signal: u16) {
        match signal {
            signals::STOP => self.halt(Halt::Stop),
            signals::KILL => self.halt(Halt::Kill),
            signals::DRAIN => self.halt(Halt::Drain),
            // `TOUCH`, and what a later version may send.
            _ => {}
        }
    }

    fn on_close(&self, notice: CloseNotice) {
        let mut notices = self.notices.lock();
        let unkept: Vec<_> = match notices.as_mut() {
            Some(notices) => {
                // Those of links that ended: a peer that relinks gives a new one each time.
                let stale = notices.extract_if(.., |notice| notice.is_stale()).collect();
                notices.push(notice);
                stale
            }
            None => vec![notice],
        };
        drop(notices);
        drop(unkept);
    }
}
