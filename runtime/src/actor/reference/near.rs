//! The port of an actor of this node whose type is known.

use std::sync::{Arc, Weak};

use crate::actor::cell::route::{self, Label, forms};
use crate::actor::cell::{ActorCell, ErasedCell, LocalMessage, in_place};
use crate::actor::send::port::{AnyActor, AskPort, LocalHandle, NewAsk, Port, SharedActor};
use crate::actor::{Accepts, Handlers, ReplyTo, kind_of};
use crate::error::Cause;
use crate::message::Message;
use crate::remote::MessageForms;
use crate::schema::ActorKind;
use crate::slot::scoped;
use crate::spans::Scope;
use crate::view::Input;

/// The port of an actor of this node whose type is known.
pub struct ActorPort<A: Handlers>(Arc<dyn TypedCell<A>>);

/// A cell, as references hold it. A trait object, so that the compiler does not look through it
/// into the envelope when it checks for `Send`: an error in one message would be reported again at
/// every handler of the actor.
trait TypedCell<A: Handlers>: Send + Sync {
    fn cell(&self) -> &ActorCell<A>;

    fn shared(self: Arc<Self>) -> Arc<ActorCell<A>>;
}

impl<A: Handlers> TypedCell<A> for ActorCell<A> {
    #[inline]
    fn cell(&self) -> &ActorCell<A> {
        self
    }

    fn shared(self: Arc<Self>) -> Arc<ActorCell<A>> {
        self
    }
}

impl<A: Handlers> ActorPort<A> {
    pub(crate) fn new(cell: Arc<ActorCell<A>>) -> Self {
        ActorPort(cell)
    }

    #[inline]
    pub(crate) fn cell(&self) -> &ActorCell<A> {
        self.0.cell()
    }

    pub(crate) fn shared(&self) -> Arc<ActorCell<A>> {
        self.0.clone().shared()
    }

    pub(crate) fn downgrade(&self) -> WeakActorPort<A> {
        WeakActorPort(Arc::downgrade(&self.0))
    }
}

impl<A: Handlers> LocalHandle for ActorPort<A> {
    fn actor(&self) -> AnyActor<'_> {
        AnyActor(self.cell())
    }

    fn kind() -> ActorKind {
        kind_of::<A>()
    }

    fn of(SharedActor(resident): SharedActor) -> Result<Self, Cause> {
        let found = resident.kind();
        match resident.as_any().downcast::<ActorCell<A>>() {
            Ok(cell) => Ok(ActorPort::new(cell)),
            Err(_) => Err(wrong_type(kind_of::<A>(), found)),
        }
    }
}

#[cold]
fn wrong_type(asked: ActorKind, found: ActorKind) -> Cause {
    Cause::WrongActorType { asked: asked.name, found: found.name.into() }
}

impl<A: Accepts<M>, M: Message> Port<M> for ActorPort<A> {
    type Reply = A::Reply;

    const TOLD: MessageForms = forms::<M, A::Reply>();

    #[inline]
    fn route(&self) -> u16 {
        route::place_of::<A, M>()
    }

    #[inline(always)]
    fn try_put(
        &self,
        message: &mut Option<M>,
        mut asked: Option<&mut NewAsk<A::Reply>>,
        turn: &mut Option<u64>,
    ) -> bool {
        if !A::Input::IS_MESSAGE || message.is_none() {
            return false;
        }
        // A subscriber runs here, so not under the lock of the mailbox.
        let scope = Scope::here();
        let mailbox = self.cell().mailbox();
        let vacancy = match *turn {
            None => mailbox.try_vacancy(),
            Some(turn) => mailbox.vacancy_in_turn(turn),
        };
        let Ok(vacancy) = vacancy else { return false };
        let Some(input) = A::Input::take_at_once(message) else { return false };
        let called = match turn.take() {
            None => vacancy.fill(letter::<A, M>(input, asked.as_deref_mut(), scope)),
            Some(turn) => {
                vacancy.fill_in_turn(turn, letter::<A, M>(input, asked.as_deref_mut(), scope))
            }
        };
        if let Some(asked) = asked {
            asked.called = called;
        }
        true
    }

    fn try_handle_here(&self, message: &mut Option<M>, asked: &mut NewAsk<A::Reply>) -> bool {
        if !A::Input::IS_MESSAGE {
            return false;
        }
        // A subscriber runs here, so not within the turn.
        let (cell, scope) = (self.cell(), Scope::here());
        let Some(turn) = in_place::turn_of(cell.base(), cell.mailbox()) else { return false };
        let Some(input) = A::Input::take_at_once(message) else { return false };
        in_place::handle(turn, &mut letter::<A, M>(input, Some(asked), scope));
        true
    }
}

/// Returns the message as the mailbox holds it. `asked` is its ask, or `None` for a tell.
#[inline(always)]
fn letter<A: Accepts<M>, M: Message>(
    input: A::Input,
    asked: Option<&mut NewAsk<A::Reply>>,
    scope: Option<Box<Scope>>,
) -> LocalMessage<A::Envelope> {
    let (reply, ask) = match asked.map(NewAsk::open) {
        Some((reply, ask)) => (reply, Some(ask)),
        None => (ReplyTo::nobody(), None),
    };
    let envelope = Some(A::envelope(input, reply)).into();
    LocalMessage { label: const { &Label::of::<A, M>() }, ask: scoped(ask, scope), envelope }
}

impl<A: Accepts<M>, M: Message> AskPort<M> for ActorPort<A> {
    const ASKED: MessageForms = forms::<M, A::Reply>();
}

impl<A: Handlers> Clone for ActorPort<A> {
    fn clone(&self) -> Self {
        ActorPort(self.0.clone())
    }
}

/// An [`ActorPort`] that keeps nothing alive.
pub(crate) struct WeakActorPort<A: Handlers>(Weak<dyn TypedCell<A>>);

impl<A: Handlers> WeakActorPort<A> {
    pub(crate) fn upgrade(&self) -> Option<ActorPort<A>> {
        self.0.upgrade().map(ActorPort)
    }
}

impl<A: Handlers> Clone for WeakActorPort<A> {
    fn clone(&self) -> Self {
        WeakActorPort(self.0.clone())
    }
}
