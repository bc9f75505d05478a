//! The state that an actor of this node shares with its senders: its mailbox and its end.

mod inlet;

use std::any::{Any, TypeId};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use parking_lot::Mutex;

use super::Handlers;
use super::arrival::{Arrival, Unopened, begin_ask};
use super::ends::Ends;
use super::kind_of;
use super::route::{self, Label};
use super::tether::TIE;
use crate::address::{Address, Identity};
use crate::busy::InHand;
use crate::dead_letter::{DeadLetter, DeadLetterCause};
use crate::deadlines::Deadlines;
use crate::error::Cause;
use crate::exit::ActorExit;
use crate::fate::Fate;
use crate::link_end::LinkEnd;
use crate::mailbox::{Depth, Hand, Intake, Mailbox, Room, Taken};
use crate::node::Node;
use crate::registry::Key;
use crate::remote::Inbox;
use crate::resident::{Halt, Resident};
use crate::rest::Pause;
use crate::schema::Kind;
use crate::slot::{OpenAsk, scoped};
use crate::spans::{self, Scope, Subject};
use crate::state::ActorState;
use crate::tally::Tally;
use crate::waits::Waits;

/// An actor of this node, from outside its task. Laid out by hand: what each message needs comes
/// first.
#[repr(C)]
pub(crate) struct Cell<A: Handlers> {
    ends: Ends,
    key: Key,
    node: Node,
    mailbox: ActorMailbox<A>,
    waits: Mutex<Option<Box<Waits>>>,
    name: Option<Arc<str>>,
    /// There from the first look on: for most actors no caller asks for it.
    rare: OnceLock<Box<Rare>>,
}

/// The part of a cell that few actors need.
struct Rare {
    address: Address,
    tally: OnceLock<Arc<Tally>>,
}

pub(super) type ActorMailbox<A> = Mailbox<Letter<<A as Handlers>::Envelope>, Arrival>;
pub(super) type ActorHand<A> = Hand<Letter<<A as Handlers>::Envelope>, Arrival>;

/// A message sent on this node.
pub(super) struct Letter<E> {
    /// `None` once its handler has begun.
    pub(super) envelope: Option<E>,
    pub(super) label: &'static Label,
    /// The ask, to be begun, with its scope if it has one; `None` for a tell without a scope.
    pub(super) ask: Option<Arc<dyn OpenAsk>>,
}

/// A message that is to be handled now.
pub(super) struct Begun<A: Handlers> {
    pub(super) label: &'static Label,
    pub(super) envelope: A::Envelope,
    pub(super) in_hand: InHand,
    /// The scope that it is handled in.
    pub(super) scope: Option<Box<Scope>>,
}

impl<A: Handlers> Cell<A> {
    pub(super) fn new(
        node: Node,
        key: Key,
        name: Option<Arc<str>>,
        capacity: usize,
        is_restarted: bool,
    ) -> Self {
        Cell {
            mailbox: Mailbox::new(capacity),
            ends: Ends::new(is_restarted),
            key,
            node,
            waits: Mutex::new(None),
            name,
            rare: OnceLock::new(),
        }
    }

    pub(super) fn mailbox(&self) -> &ActorMailbox<A> {
        &self.mailbox
    }

    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    pub(super) fn ends(&self) -> &Ends {
        &self.ends
    }

    fn rare(&self) -> &Rare {
        self.rare.get_or_init(|| {
            let incarnation = self.node.id().incarnation;
            let identity = Identity { incarnation, key: self.key };
            let node = self.node.shared_name().clone();
            let address = Address::of(node, identity, self.name.clone());
            Box::new(Rare { address, tally: OnceLock::new() })
        })
    }

    /// Returns the figures that a snapshot shows of it.
    pub(super) fn tally(&self) -> &Arc<Tally> {
        self.rare().tally.get_or_init(Arc::default)
    }

    /// Makes its mailbox ready for a new incarnation. Returns false when there is to be none. A
    /// stop and a drain are taken back only where the actor is restarted after those, too
    /// (`is_revived`).
    pub(super) fn renew(&self, is_revived: bool) -> bool {
        if is_revived {
            self.mailbox.reopen();
        }
        // In this order: an order to end comes before the stop, or the drain, that it goes with.
        if self.ends.is_final() {
            self.mailbox.stop();
            return false;
        }
        if is_revived && !self.ends.is_revived() {
            self.mailbox.drain();
        }
        is_revived || !self.mailbox.is_stopping()
    }

    /// Ends an actor that is restarted however it ends, when it has handled what it has.
    pub(super) fn dismiss(&self) {
        self.ends.dismiss();
        self.mailbox.drain();
    }

    /// Notes that no handler waits: one whose futures others have now has ended (WC-2).
    pub(super) fn end_waits(&self) {
        let ended = match &mut *self.waits.lock() {
            Some(waits) if !waits.actors.is_empty() => std::mem::take(&mut waits.actors),
            _ => return,
        };
        drop(ended);
    }

    /// Ends the links of an incarnation that ended so.
    pub(super) fn end_links(&self, exit: &ActorExit) {
        self.ends.end_links(self, exit);
    }

    /// Commits a message. An actor that was stopped between the reservation and now has accepted it
    /// all the same, and a tell is a dead letter (DL-1).
    pub(super) fn commit(&self, room: Room<'_>, letter: Letter<A::Envelope>) -> Fate {
        let Err(letter) = self.mailbox.fill(room, letter) else { return Fate::Delivered };
        if let Some(label) = letter.told() {
            self.bury(label, DeadLetterCause::Stopped);
        }
        Fate::Refused
    }

    /// Begins a message of this node. Returns `None` when it must not be handled: an ask whose
    /// asker has given up.
    #[inline]
    pub(super) fn begin(
        &self,
        letter: &mut Letter<A::Envelope>,
    ) -> Option<(InHand, Option<Box<Scope>>)> {
        let ask = letter.ask.take();
        let in_hand = match &ask {
            None => InHand::default(),
            Some(ask) => match ask.begin() {
                Some(in_hand) => in_hand,
                None => {
                    // Not when the batch is: what it holds may be large.
                    letter.envelope = None;
                    self.skipped(letter.label);
                    return None;
                }
            },
        };
        let scope = || {
            let is_ask = ask.as_ref().is_some_and(|ask| ask.is_ask());
            self.scope(letter.label, is_ask, ask.as_ref().and_then(|ask| ask.sent_in()))
        };
        Some((in_hand, spans::is_on().then(scope)))
    }

    /// Makes the scope in which a message is handled that was sent in another one (SP-2).
    #[cold]
    pub(super) fn scope(&self, label: &Label, is_ask: bool, sent_in: Option<&Scope>) -> Box<Scope> {
        let subject = Subject {
            node: self.node.name(),
            entropy: self.node.entropy(),
            actor_type: A::NAME,
            message: label.name(),
            is_ask,
        };
        Scope::handling(&subject, self.address(), sent_in)
    }

    /// Begins a message of another node, and reads it. Returns `None` when there is nothing to
    /// handle.
    #[inline]
    pub(super) fn open(&self, unopened: Unopened) -> Option<Begun<A>> {
        let Unopened { ordinal, payload, ask, note } = unopened;
        let (route, form) = route::at::<A>(ordinal)?;
        let label = &route.label;
        let (is_tell, mut until, mut replier) = (ask.is_none(), None, None);
        if let Some((asked, deadline)) = ask {
            replier = begin_ask(asked, deadline);
            if replier.is_none() {
                self.skipped(label);
                return None;
            }
            until = deadline;
        }
        match (route.open)(payload, &self.node, replier, form) {
            Ok(envelope) => {
                let in_hand = InHand { deadline: until, ask: 0 };
                let scope = || self.scope(label, !is_tell, note.as_ref().map(Scope::of).as_ref());
                Some(Begun { label, envelope, in_hand, scope: spans::is_on().then(scope) })
            }
            Err(error) => {
                let (actor, name) = (self.address(), label.name());
                tracing::warn!(%actor, name, %error, "a message could not be read: it is dropped");
                if is_tell {
                    self.bury(label, DeadLetterCause::InvalidArchive);
                }
                None
            }
        }
    }

    /// Ends the actor: its name is free, its senders and all that wait for its end are told, and a
    /// tell that it never began is a dead letter. `hand` is what it had taken.
    pub(super) fn end(&self, hand: &mut ActorHand<A>, exit: ActorExit) {
        self.mailbox.close(hand);
        self.node.residents().remove(self.key, self.name.as_deref());
        self.ends.close(&exit);
        self.bury_unbegun(hand);
        self.ends.tell(exit, self);
    }

    /// Closes the mailbox of an actor that begins nothing any more and has not ended yet: a tell
    /// that it never began is a dead letter, and askers are told. `hand` is what it had taken.
    pub(super) fn leave_unbegun(&self, hand: &mut ActorHand<A>) {
        self.mailbox.empty(hand);
        self.bury_unbegun(hand);
    }

    fn bury_unbegun(&self, hand: &mut ActorHand<A>) {
        for taken in hand.take_unbegun() {
            let label = match &taken {
                Taken::Local(letter) => letter.told(),
                Taken::Remote(unopened) => unopened.told::<A>(),
            };
            if let Some(label) = label {
                self.bury(label, DeadLetterCause::Stopped);
            }
            // A panicking `Drop` of a message must not stop the remaining cleanup.
            drop(catch_unwind(AssertUnwindSafe(|| drop(taken))));
        }
    }

    fn skipped(&self, label: &Label) {
        let name = label.name();
        tracing::debug!(actor = %self.address(), name, "skipped an ask whose asker has given up");
    }

    pub(super) fn bury(&self, label: &Label, cause: DeadLetterCause) {
        self.node.dead_letters().bury(DeadLetter {
            to: self.address().clone(),
            message: label.id,
            name: Some(label.name()),
            cause,
        });
    }
}

impl<E> Letter<E> {
    /// Returns which message it is, if it is a tell that was not begun: the failure of an ask is
    /// its asker's to know (DL-1).
    fn told(&self) -> Option<&'static Label> {
        let is_tell = self.ask.as_ref().is_none_or(|ask| !ask.is_ask());
        (is_tell && self.envelope.is_some()).then_some(self.label)
    }
}

impl<A: Handlers> Resident for Cell<A> {
    fn address(&self) -> &Address {
        &self.rare().address
    }

    fn kind(&self) -> Kind {
        kind_of::<A>()
    }

    fn is_tie(&self) -> bool {
        self.kind() == const { Kind::of(TIE) }
    }

    fn halt(&self, halt: Halt) {
        match halt {
            Halt::Drain => self.mailbox.drain(),
            Halt::Stop => self.mailbox.stop(),
            Halt::Kill => {
                // In this order: an actor that sees the stop sees the kill too, and runs no
                // `on_stop`.
                self.ends.kill();
                if self.ends.is_final() {
                    self.mailbox.stop();
                }
                self.mailbox.wake();
            }
        }
    }

    fn retire(&self, halt: Halt) {
        self.ends.retire();
        self.halt(halt);
        // It may rest, or wait for its next incarnation.
        self.mailbox.wake();
    }

    fn fail(&self, reason: Arc<str>) {
        self.ends.fail(reason);
        self.mailbox.wake();
    }

    fn fail_linked(&self, reason: Arc<str>) {
        self.ends.fail_linked(reason);
        self.mailbox.wake();
    }

    fn link(&self, with: usize, link: LinkEnd) -> bool {
        self.ends.link(with, link)
    }

    fn unlink(&self, with: usize, reason: Option<Arc<str>>) {
        self.ends.unlink(with, reason);
        self.mailbox.wake();
    }

    fn pause(&self, pause: Pause) {
        self.ends.pause(pause);
        self.mailbox.wake();
    }

    fn kill_unless_resting(&self) {
        self.ends.kill_unless_resting();
        self.mailbox.wake();
    }

    fn is_killed(&self) -> bool {
        self.ends.is_killed()
    }

    fn leave_killed(&self) {
        self.ends.close(&ActorExit::Killed);
        self.end_links(&ActorExit::Killed);
    }

    fn is_ending(&self) -> bool {
        self.mailbox.is_closing() && !self.ends.is_forced()
    }

    fn is_to_rest(&self) -> bool {
        self.ends.is_to_rest() && !self.ends.is_forced()
    }

    fn rests_on(&self) -> bool {
        !self.ends.is_ordered() && (self.ends.is_revived() || !self.mailbox.is_stopping())
    }

    fn has_ended(&self) -> bool {
        self.ends.has_ended()
    }

    fn poll_exit(&self, place: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<ActorExit> {
        self.ends.poll(place, cx)
    }

    fn leave_exit(&self, place: u64) {
        self.ends.leave(place);
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn token(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn route(&self, message: TypeId, reply: Option<TypeId>) -> Option<u16> {
        let fits = |route: &super::Route<A>| {
            (route.message)() == message && reply.is_none_or(|reply| reply == (route.reply)())
        };
        A::ROUTES.iter().position(fits).map(|place| place as u16)
    }

    fn depth(&self) -> Depth {
        self.mailbox.depth()
    }

    fn state(&self) -> ActorState {
        match self.ends.stage() {
            ActorState::Starting | ActorState::Running if self.mailbox.is_stopping() => {
                ActorState::Stopping
            }
            ActorState::Starting | ActorState::Running if self.mailbox.is_closing() => {
                ActorState::Draining
            }
            stage => stage,
        }
    }

    fn tally(&self) -> Option<&Tally> {
        self.rare.get()?.tally.get().map(|tally| &**tally)
    }

    fn intake(&self) -> &dyn Intake {
        &self.mailbox
    }

    fn put(&self, room: Room<'_>, route: u16, letter: &mut dyn Any) -> Result<Fate, Cause> {
        let route = A::ROUTES.get(usize::from(route)).ok_or(Cause::NotAccepted)?;
        let envelope = (route.tell)(letter, &self.node)?;
        let ask = scoped(None, Scope::here());
        Ok(self.commit(room, Letter { label: &route.label, ask, envelope: Some(envelope) }))
    }

    fn put_ask(
        &self,
        room: Room<'_>,
        route: u16,
        letter: &mut dyn Any,
        ask: Arc<dyn OpenAsk>,
    ) -> Result<(), Cause> {
        let route = A::ROUTES.get(usize::from(route)).ok_or(Cause::NotAccepted)?;
        let envelope = (route.ask)(letter, &self.node)?;
        let ask = scoped(Some(ask), Scope::here());
        let letter = Letter { label: &route.label, ask, envelope: Some(envelope) };
        self.commit(room, letter);
        Ok(())
    }

    fn is_node_leaving(&self) -> bool {
        self.node.residents().is_closed()
    }

    fn deadlines(&self) -> &Deadlines {
        self.node.deadlines()
    }

    fn neighbour(&self, id: u64) -> Option<Arc<dyn Resident>> {
        self.node.residents().by_id(id)
    }

    fn waits(&self) -> &Mutex<Option<Box<Waits>>> {
        &self.waits
    }

    fn list(&self) {
        let mut waits = self.waits.lock();
        let was_listed = std::mem::replace(&mut waits.get_or_insert_default().is_listed, true);
        drop(waits);
        if !was_listed {
            self.node.residents().list(self.id());
        }
    }
}
