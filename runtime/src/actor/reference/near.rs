//! The way into an actor of this node whose type is known.

use std::any::TypeId;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use crate::actor::cell::{Cell, Letter};
use crate::actor::port::{
    self, AnyActor, AskPort, Find, Line, NearRoom, NewAsk, Port, SharedActor,
};
use crate::actor::recipient::Entry;
use crate::actor::route::{self, Label, forms};
use crate::actor::{Accepts, Handlers, ReplyTo, kind_of};
use crate::error::Cause;
use crate::fate::Fate;
use crate::message::Message;
use crate::remote::MessageForms;
use crate::resident::Resident;
use crate::schema::Kind;
use crate::slot::{OpenAsk, scoped};
use crate::spans::Scope;
use crate::view::Input;

/// The way into an actor of this node whose type is known.
pub struct Near<A: Handlers>(Arc<dyn Home<A>>);

/// A cell as references hold it. A trait object, so that the compiler does not look for what is
/// `Send` through a reference into the envelope: an error in one message would be reported again at
/// every handler of the actor.
trait Home<A: Handlers>: Send + Sync {
    fn cell(&self) -> &Cell<A>;

    fn shared(self: Arc<Self>) -> Arc<Cell<A>>;
}

impl<A: Handlers> Home<A> for Cell<A> {
    #[inline]
    fn cell(&self) -> &Cell<A> {
        self
    }

    fn shared(self: Arc<Self>) -> Arc<Cell<A>> {
        self
    }
}

impl<A: Handlers> Near<A> {
    pub(in crate::actor) fn new(cell: Arc<Cell<A>>) -> Self {
        Near(cell)
    }

    #[inline]
    pub(in crate::actor) fn cell(&self) -> &Cell<A> {
        self.0.cell()
    }

    pub(in crate::actor) fn shared(&self) -> Arc<Cell<A>> {
        self.0.clone().shared()
    }

    /// Returns the place of a message in the actor's table.
    fn entry<M: Message>(&self) -> Entry<'_>
    where
        A: Accepts<M>,
    {
        let guess = const { route::place_of::<A, M>() };
        let route = route::checked(guess, route::head_of::<A>, TypeId::of::<M>());
        Entry { actor: self.cell(), route }
    }

    pub(in crate::actor) fn downgrade(&self) -> WeakNear<A> {
        WeakNear(Arc::downgrade(&self.0))
    }
}

/// Returns the way back of a message, and its ask as its actor sees it. Compiled once for each type
/// of a reply.
#[inline(always)]
fn way_back<R: Send + 'static>(
    asked: Option<&mut NewAsk<R>>,
    scope: Option<Box<Scope>>,
) -> (ReplyTo<R>, Option<Arc<dyn OpenAsk>>) {
    match asked {
        None => (ReplyTo::nobody(), scoped(None, scope)),
        Some(asked) => {
            let (reply, ask) = asked.open();
            (reply, scoped(Some(ask), scope))
        }
    }
}

impl<A: Handlers> Find for Near<A> {
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

    fn put(
        &self,
        room: NearRoom<'_>,
        message: &mut Option<M>,
        mut asked: Option<&mut NewAsk<A::Reply>>,
    ) -> Result<Fate, Cause> {
        if message.is_none() {
            return Ok(Fate::NotSent);
        }
        // Through the table: what makes a letter of the message is compiled for that already.
        if <A as Accepts<M>>::IN_TABLE {
            return self.entry::<M>().put(room, message, asked);
        }
        let cell = self.cell();
        let input = A::Input::take_local(message, cell.node())?;
        let (reply, ask) = way_back(asked.as_deref_mut(), Scope::here());
        let label = const { &Label::of::<A, M>() };
        let letter = Letter { label, ask, envelope: Some(A::envelope(input, reply)).into() };
        let (fate, called) = cell.commit(room.0, letter);
        if let Some(asked) = asked {
            asked.called = called;
        }
        Ok(fate)
    }

    fn poll_put(
        &self,
        message: &mut Option<M>,
        asked: Option<&mut NewAsk<A::Reply>>,
        line: &mut Line,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Fate, Cause>> {
        if message.is_none() {
            return Poll::Ready(Ok(Fate::NotSent));
        }
        if <A as Accepts<M>>::IN_TABLE {
            return self.entry::<M>().poll_put(message, asked, line, cx);
        }
        let cell = self.cell();
        let room = ready!(line.poll_room(cell.intake(), cell.token(), cx))?;
        Poll::Ready(self.put(NearRoom(room), message, asked))
    }

    #[inline(always)]
    fn put_at_once(
        &self,
        message: &mut Option<M>,
        mut asked: Option<&mut NewAsk<A::Reply>>,
    ) -> Option<Fate> {
        if !A::Input::IS_MESSAGE || message.is_none() {
            return None;
        }
        // Not under the mailbox's lock (SP-3).
        let scope = Scope::here();
        let Ok(vacancy) = self.cell().mailbox().try_vacancy() else { return None };
        // Before the message is taken: nothing is between that and the mailbox.
        let (reply, ask) = way_back(asked.as_deref_mut(), scope);
        let input = A::Input::take_at_once(message)?;
        let label = const { &Label::of::<A, M>() };
        let letter = Letter { label, ask, envelope: Some(A::envelope(input, reply)).into() };
        let called = vacancy.fill(letter);
        if let Some(asked) = asked {
            asked.called = called;
        }
        Some(Fate::Delivered)
    }

    fn try_put(
        &self,
        message: &mut Option<M>,
        mut asked: Option<&mut NewAsk<A::Reply>>,
    ) -> Result<Fate, Cause> {
        if let Some(fate) = self.put_at_once(message, asked.as_deref_mut()) {
            return Ok(fate);
        }
        self.put(NearRoom(port::try_room(self.cell().intake())?), message, asked)
    }
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
pub(in crate::actor) struct WeakNear<A: Handlers>(Weak<dyn Home<A>>);

impl<A: Handlers> WeakNear<A> {
    pub(in crate::actor) fn upgrade(&self) -> Option<Near<A>> {
        self.0.upgrade().map(Near)
    }
}

impl<A: Handlers> Clone for WeakNear<A> {
    fn clone(&self) -> Self {
        WeakNear(self.0.clone())
    }
}
