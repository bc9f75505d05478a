//! The port of an actor of this node whose type is known.

use std::sync::{Arc, Weak};

use crate::actor::cell::route::{self, Label, forms};
use crate::actor::cell::{Body, Cell, Letter, in_place};
use crate::actor::send::port::{AnyActor, AskPort, LocalHandle, NewAsk, Port, SharedActor};
use crate::actor::{Accepts, Handlers, ReplyTo, kind_of};
use crate::error::Cause;
use crate::message::Message;
use crate::remote::MessageForms;
use crate::schema::Kind;
use crate::slot::scoped;
use crate::spans::Scope;
use crate::view::Input;

/// The port of an actor of this node whose type is known.
pub struct Near<A: Handlers>(Arc<dyn Typed<A>>);

/// A cell, as references hold it. A trait object, so that the compiler does not look through it
/// into the envelope when it checks for `Send`: an error in one message would be reported again at
/// every handler of the actor.
trait Typed<A: Handlers>: Send + Sync {
    fn cell(&self) -> &Cell<A>;

    fn shared(self: Arc<Self>) -> Arc<Cell<A>>;
}

impl<A: Handlers> Typed<A> for Cell<A> {
    #[inline]
    fn cell(&self) -> &Cell<A> {
        self
    }

    fn shared(self: Arc<Self>) -> Arc<Cell<A>> {
        self
    }
}

impl<A: Handlers> Near<A> {
    pub(crate) fn new(cell: Arc<Cell<A>>) -> Self {
        Near(cell)
    }

    #[inline]
    pub(crate) fn cell(&self) -> &Cell<A> {
        self.0.cell()
    }

    pub(crate) fn shared(&self) -> Arc<Cell<A>> {
        self.0.clone().shared()
    }

    pub(crate) fn downgrade(&self) -> WeakNear<A> {
        WeakNear(Arc::downgrade(&self.0))
    }
}

impl<A: Handlers> LocalHandle for Near<A> {
    fn actor(&self) -> AnyActor<'_> {
        AnyActor(self.cell())
    }

    fn kind() -> Kind {
        kind_of::<A>()
    }

    fn of(SharedActor(resident): SharedActor) -> Result<Self, Cause> {
        let found = resident.kind();
        match resident.as_any().downcast::<Cell<A>>() {
            Ok(cell) => Ok(Near::new(cell)),
            Err(_) => Err(wrong_type(kind_of::<A>(), found)),
        }
    }
}

#[cold]
fn wrong_type(asked: Kind, found: Kind) -> Cause {
    Cause::WrongActorType { asked: asked.name, found: found.name.into() }
}

impl<A: Accepts<M>, M: Message> Port<M> for Near<A> {
    type Reply = A::Reply;

    const TOLD: MessageForms = forms::<M, A::Reply>();

    #[inline]
    fn route(&self) -> u16 {
        route::place_of::<A, M>()
    }

    #[inline(always)]
    fn try_put(&self, message: &mut Option<M>, mut asked: Option<&mut NewAsk<A::Reply>>) -> bool {
        if !A::Input::IS_MESSAGE || message.is_none() {
            return false;
        }
        // Before the mailbox's lock is taken (SP-3).
        let scope = Scope::here();
        let Ok(vacancy) = self.cell().mailbox().try_vacancy() else { return false };
        let Some(input) = A::Input::take_at_once(message) else { return false };
        let called = vacancy.fill(letter::<A, M>(input, asked.as_deref_mut(), scope));
        if let Some(asked) = asked {
            asked.called = called;
        }
        true
    }

    fn try_handle_here(&self, message: &mut Option<M>, asked: &mut NewAsk<A::Reply>) -> bool {
        if !A::Input::IS_MESSAGE {
            return false;
        }
        // Not within the turn (SP-3).
        let (cell, scope) = (self.cell(), Scope::here());
        let Some(turn) = in_place::turn_of(cell.base(), cell.mailbox()) else { return false };
        let Some(input) = A::Input::take_at_once(message) else { return false };
        in_place::handle(turn, &mut letter::<A, M>(input, Some(asked), scope));
        true
    }
}

/// Returns a message as its actor gets it, as the ask `asked` if there is one.
#[inline(always)]
fn letter<A: Accepts<M>, M: Message>(
    input: A::Input,
    asked: Option<&mut NewAsk<A::Reply>>,
    scope: Option<Box<Scope>>,
) -> Letter<A::Envelope> {
    let (reply, ask) = match asked.map(NewAsk::open) {
        Some((reply, ask)) => (reply, Some(ask)),
        None => (ReplyTo::nobody(), None),
    };
    let envelope = Some(A::envelope(input, reply)).into();
    Letter { label: const { &Label::of::<A, M>() }, ask: scoped(ask, scope), envelope }
}

impl<A: Accepts<M>, M: Message> AskPort<M> for Near<A> {
    const ASKED: MessageForms = forms::<M, A::Reply>();
}

impl<A: Handlers> Clone for Near<A> {
    fn clone(&self) -> Self {
        Near(self.0.clone())
    }
}

/// A [`Near`] that keeps nothing alive.
pub(crate) struct WeakNear<A: Handlers>(Weak<dyn Typed<A>>);

impl<A: Handlers> WeakNear<A> {
    pub(crate) fn upgrade(&self) -> Option<Near<A>> {
        self.0.upgrade().map(Near)
    }
}

impl<A: Handlers> Clone for WeakNear<A> {
    fn clone(&self) -> Self {
        WeakNear(self.0.clone())
    }
}
