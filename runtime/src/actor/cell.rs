//! The state that an actor of this node shares with its senders: its mailbox and its end.

mod base;
mod in_place;
mod inlet;
mod turn;

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use ringpost_transport::shield;

use super::Handlers;
use super::arrival::{Arrival, Unopened};
use super::ends::Ends;
use super::kind_of;
use super::route::{self, Label, Source};
use super::tether::TIE;
use crate::address::{Address, Identity};
use crate::busy::InHand;
use crate::dead_letter::DeadLetterCause;
use crate::deadlines::Deadlines;
use crate::error::Cause;
use crate::exit::ActorExit;
use crate::fate::Fate;
use crate::link_end::LinkEnd;
use crate::mailbox::{Called, Depth, Hand, Intake, Mailbox, Outlined, OutlinedOption, Room};
use crate::node::Node;
use crate::resident::{Halt, Resident};
use crate::rest::Pause;
use crate::schema::Kind;
use crate::slot::{AskInPlace, OpenAsk, scoped};
use crate::spans::{self, Scope};
use crate::state::ActorState;
use crate::tally::Tally;
use crate::waits::{WaitingActor, Waits};

pub(super) use base::{Base, Body};
use turn::Turn;
pub(super) use turn::{LargeLife, Resting, Seat, Seated, SmallLife};

/// An actor of this node, from outside its task.
#[repr(C)]
pub(crate) struct Cell<A: Handlers> {
    base: Outlined<Base>,
    mailbox: ActorMailbox<A>,
}

pub(super) type ActorMailbox<A> = Mailbox<Letter<<A as Handlers>::Envelope>, Arrival>;
pub(super) type ActorHand<A> = Hand<Letter<<A as Handlers>::Envelope>, Arrival>;

/// A message sent on this node.
pub(super) struct Letter<E> {
    /// `None` once its handler has begun.
    pub(super) envelope: OutlinedOption<E>,
    pub(super) label: &'static Label,
    /// The ask, to be begun, with its scope if it has one; `None` for a tell without a scope.
    pub(super) ask: Option<Arc<dyn OpenAsk>>,
}

/// A message that is to be handled now.
pub(super) struct Begun<A: Handlers> {
    pub(super) label: &'static Label,
    /// It is there.
    pub(super) envelope: OutlinedOption<A::Envelope>,
    pub(super) in_hand: InHand,
    /// The bytes in which it came from another node.
    pub(super) bytes: u32,
    /// The scope that it is handled in.
    pub(super) scope: Option<Box<Scope>>,
}

impl<A: Handlers> Cell<A> {
    pub(super) fn new(base: Base, capacity: usize) -> Self {
        Cell { base: Outlined::new(base), mailbox: Mailbox::new(capacity) }
    }

    pub(super) fn mailbox(&self) -> &ActorMailbox<A> {
        &self.mailbox
    }

    pub(super) fn node(&self) -> &Node {
        &self.base.node
    }

    pub(super) fn ends(&self) -> &Ends {
        &self.base.ends
    }

    /// Returns the figures that a snapshot shows of it.
    pub(super) fn tally(&self) -> &Arc<Tally> {
        self.base.tally()
    }

    /// Commits a message. An actor that was stopped between the reservation and now has accepted it
    /// all the same, and a tell is a dead letter (DL-1).
    pub(super) fn commit(&self, room: Room<'_>, letter: Letter<A::Envelope>) -> (Fate, Called) {
        let letter = match self.mailbox.fill(room, letter) {
            Ok(called) => return (Fate::Delivered, called),
            Err(letter) => letter,
        };
        if let Some(label) = letter.told() {
            self.base.bury(label, DeadLetterCause::Stopped);
        }
        (Fate::Refused, Called::default())
    }

    /// Begins a message of this node. Returns `None` when it must not be handled: an ask whose
    /// asker has given up.
    #[inline]
    pub(super) fn begin(
        &self,
        letter: &mut Letter<A::Envelope>,
    ) -> Option<(InHand, Option<Box<Scope>>)> {
        let begun = match letter.ask.take() {
            None if !spans::is_on() => return Some((InHand::default(), None)),
            ask => self.base.begin(letter.label, ask),
        };
        if begun.is_none() {
            // Not when the batch is: what it holds may be large.
            letter.envelope.clear();
        }
        begun
    }

    /// Begins a message of another node, and reads it. Returns `None` when there is nothing to
    /// handle.
    pub(super) fn open(&self, unopened: Unopened) -> Option<Begun<A>> {
        let Some((route, form)) = route::at::<A>(unopened.ordinal) else {
            let label = unopened.label(route::head_of::<A>);
            self.base.refuse(label, unopened.ask.map(|(replier, _)| replier));
            return None;
        };
        let label = &route.head.label;
        let mut opened = self.base.open(label, unopened, form)?;
        match (route.take)(&mut Source::Far(&mut opened.far), &self.base.node) {
            Ok(envelope) => {
                let bytes = opened.bytes;
                let (in_hand, scope) = self.base.opened(label, opened);
                Some(Begun { label, envelope: Some(envelope).into(), in_hand, bytes, scope })
            }
            Err(error) => {
                self.base.unread(label, opened, error);
                None
            }
        }
    }

    /// Ends the actor: its name is free, its senders and all that wait for its end are told, and a
    /// tell that it never began is a dead letter. `hand` is what it had taken.
    pub(super) fn end(&self, hand: &mut ActorHand<A>, exit: ActorExit) {
        self.mailbox.close(hand);
        self.base.close(&exit);
        self.bury_unbegun(hand);
        self.base.ends.tell(exit, self);
    }

    /// Closes the mailbox of an actor that begins nothing any more and has not ended yet: a tell
    /// that it never began is a dead letter, and askers are told. `hand` is what it had taken.
    pub(super) fn leave_unbegun(&self, hand: &mut ActorHand<A>) {
        self.mailbox.empty(hand);
        self.bury_unbegun(hand);
    }

    fn bury_unbegun(&self, hand: &mut ActorHand<A>) {
        while let Some(letter) = hand.take_local() {
            bury_one(&self.base, letter.told(), &mut || letter.clear());
        }
        bury_far(&self.base, hand.take_remote(), route::head_of::<A>);
    }
}

/// Buries the messages of other nodes that an actor never began.
fn bury_far(me: &Base, unbegun: impl Iterator<Item = Unopened>, heads: route::HeadAt) {
    for unopened in unbegun {
        let (label, mut left) = (unopened.told(heads), Some(unopened));
        bury_one(me, label, &mut || left = None);
    }
}

/// Buries a message that was not begun, if it is a tell, and drops it.
fn bury_one(me: &Base, told: Option<&'static Label>, drop_it: &mut dyn FnMut()) {
    if let Some(label) = told {
        me.bury(label, DeadLetterCause::Stopped);
    }
    shield::run(drop_it);
}

impl<A: Handlers> Seated for Cell<A> {
    fn turn(&self) -> &Turn {
        self.base.turn()
    }
}

impl<A: Handlers> Body for Cell<A> {
    fn base(&self) -> &Base {
        &self.base
    }

    fn name(&self) -> &'static str {
        A::NAME
    }
}

impl<E> Letter<E> {
    /// Drops what it holds: all of it, also where a part panics as it is dropped.
    fn clear(&mut self) {
        drop((self.ask.take(), std::mem::replace(&mut self.envelope, None.into())));
    }

    /// Returns which message it is, if it is a tell that was not begun: the failure of an ask is
    /// its asker's to know (DL-1).
    fn told(&self) -> Option<&'static Label> {
        let is_tell = self.ask.as_ref().is_none_or(|ask| !ask.is_ask());
        (is_tell && self.envelope.is_some()).then_some(self.label)
    }
}

impl<A: Handlers> WaitingActor for Cell<A> {
    fn has_token(&self, token: usize) -> bool {
        self.base.token() == token
    }

    fn home(&self) -> usize {
        std::ptr::from_ref(self.base.node.residents()).addr()
    }

    fn identity(&self) -> Option<Identity> {
        self.base.address().identity()
    }

    fn called(&self) -> String {
        self.shown().to_string()
    }

    fn waits(&self) -> &Mutex<Option<Box<Waits>>> {
        self.base.waits()
    }
}

impl<A: Handlers> Resident for Cell<A> {
    fn address(&self) -> &Address {
        self.base.address()
    }

    fn kind(&self) -> Kind {
        kind_of::<A>()
    }

    fn is_tie(&self) -> bool {
        self.kind() == const { Kind::of(TIE) }
    }

    fn halt(&self, halt: Halt) {
        self.base.halt(halt, self.intake());
    }

    fn retire(&self, halt: Halt) {
        self.base.ends.retire();
        self.halt(halt);
        // It may rest, or wait for its next incarnation.
        self.intake().wake();
    }

    fn dismiss(&self) {
        // First: `renew` reopens the mailbox of a restart, then checks for this, and drains it.
        self.base.ends.dismiss();
        self.mailbox.drain();
        // It may rest, and have been stopped before.
        self.intake().wake();
    }

    fn fail(&self, reason: Arc<str>) {
        self.base.ends.fail(reason);
        self.intake().wake();
    }

    fn fail_linked(&self, reason: Arc<str>) {
        self.base.ends.fail_linked(reason);
        self.intake().wake();
    }

    fn link(&self, with: usize, link: LinkEnd) -> bool {
        self.base.ends.link(with, link)
    }

    fn unlink(&self, with: usize, reason: Option<Arc<str>>) {
        self.base.ends.unlink(with, reason);
        self.intake().wake();
    }

    fn pause(&self, pause: Pause) {
        self.base.ends.pause(pause);
        self.intake().wake();
    }

    fn kill_unless_resting(&self) {
        self.base.ends.kill_unless_resting();
        self.intake().wake();
    }

    fn is_killed(&self) -> bool {
        self.base.ends.is_killed()
    }

    fn leave_killed(&self) {
        self.base.ends.close(&ActorExit::Killed);
        self.base.ends.end_links(self, &ActorExit::Killed);
    }

    fn is_ending(&self) -> bool {
        self.intake().is_closed() && !self.base.ends.is_forced()
    }

    fn has_ended(&self) -> bool {
        self.base.ends.has_ended()
    }

    fn poll_exit(&self, place: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<ActorExit> {
        self.base.ends.poll(place, cx)
    }

    fn leave_exit(&self, place: u64) {
        self.base.ends.leave(place);
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn token(&self) -> usize {
        self.base.token()
    }

    fn route(&self, message: TypeId, reply: Option<TypeId>) -> Option<u16> {
        route::place(route::head_of::<A>, message, reply)
    }

    fn depth(&self) -> Depth {
        self.intake().depth()
    }

    fn state(&self) -> ActorState {
        self.base.state(self.intake())
    }

    fn tally(&self) -> Option<&Tally> {
        self.base.known_tally()
    }

    fn intake(&self) -> &dyn Intake {
        &self.mailbox
    }

    fn put(
        &self,
        room: Room<'_>,
        route: u16,
        letter: &mut dyn Any,
        ask: Option<(&mut dyn Any, Arc<dyn OpenAsk>)>,
    ) -> Result<(Fate, Called), Cause> {
        let route = A::ROUTES.get(usize::from(route)).ok_or(Cause::NotAccepted)?;
        let (reply, ask) = ask.unzip();
        let envelope = (route.take)(&mut Source::Near(letter, reply), &self.base.node)?;
        let ask = scoped(ask, Scope::here());
        let label = &route.head.label;
        Ok(self.commit(room, Letter { label, ask, envelope: Some(envelope).into() }))
    }

    fn is_node_leaving(&self) -> bool {
        self.base.node.residents().is_closed()
    }

    fn deadlines(&self) -> &Deadlines {
        self.base.node.deadlines()
    }

    fn neighbour(&self, id: u64) -> Option<Arc<dyn Resident>> {
        self.base.node.residents().by_id(id)
    }

    fn list(&self) {
        self.base.list();
    }

    #[inline]
    fn is_idle(&self) -> bool {
        A::IN_PLACE
            && self.base.turn().is_free()
            && in_place::is_allowed(self.base.node.runtime().id())
    }

    fn answer(&self, ask: &mut AskInPlace<'_>) {
        let route = A::ROUTES.get(usize::from(ask.route));
        if route.is_some_and(|route| route.answer.is_some()) && !spans::is_on() {
            in_place::answer(&self.base, &self.mailbox, ask);
        }
    }

    fn take_turn(&self, task: Waker) {
        in_place::run(self.base.turn(), task);
    }
}
