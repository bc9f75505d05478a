//! The way into an actor of this node whose type is known.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use crate::actor::cell::{ActorVacancy, Cell, Letter};
use crate::actor::port::{
    self, AnyActor, AskPort, Find, Line, NearRoom, NewAsk, Port, SharedActor,
};
use crate::actor::route::{Label, forms};
use crate::actor::{Accepts, Handlers, ReplyTo, kind_of};
use crate::error::Cause;
use crate::fate::Fate;
use crate::message::Message;
use crate::node::Node;
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

    pub(in crate::actor) fn downgrade(&self) -> WeakNear<A> {
        WeakNear(Arc::downgrade(&self.0))
    }
}

/// Takes the message and puts it into the mailbox.
#[inline(always)]
fn fill<A: Accepts<M>, M: Message>(
    vacancy: ActorVacancy<'_, A>,
    message: &mut Option<M>,
    asked: Option<&mut NewAsk<A::Reply>>,
    scope: Option<Box<Scope>>,
    node: &Node,
) -> Result<Fate, Cause> {
    match A::Input::take_local(message, node) {
        Ok(input) => {
            vacancy.fill(letter::<A, M>(input, asked, scope));
            Ok(Fate::Delivered)
        }
        Err(cause) => Err(cause),
    }
}

#[inline(always)]
fn letter<A: Accepts<M>, M: Message>(
    input: A::Input,
    asked: Option<&mut NewAsk<A::Reply>>,
    scope: Option<Box<Scope>>,
) -> Letter<A::Envelope> {
    let (reply, ask) = way_back(asked, scope);
    Letter { label: const { &Label::of::<A, M>() }, ask, envelope: Some(A::envelope(input, reply)) }
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
        let found = resident.kind().name;
        let cell = resident.as_any().downcast::<Cell<A>>();
        let wrong = |_| Cause::WrongActorType { asked: kind_of::<A>().name, found: found.into() };
        cell.map(Near::new).map_err(wrong)
    }
}

impl<A: Accepts<M>, M: Message> Port<M> for Near<A> {
    type Reply = A::Reply;

    const TOLD: MessageForms = forms::<M, A::Reply>();

    fn put(
        &self,
        NearRoom(room): NearRoom<'_>,
        message: &mut Option<M>,
        asked: Option<&mut NewAsk<A::Reply>>,
    ) -> Result<Fate, Cause> {
        let cell = self.cell();
        if message.is_none() {
            return Ok(Fate::NotSent);
        }
        let input = A::Input::take_local(message, cell.node())?;
        Ok(cell.commit(room, letter::<A, M>(input, asked, Scope::here())))
    }

    #[inline]
    fn poll_put(
        &self,
        message: &mut Option<M>,
        asked: Option<&mut NewAsk<A::Reply>>,
        line: &mut Line,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Fate, Cause>> {
        let cell = self.cell();
        if A::Input::IS_MESSAGE {
            // Not under the mailbox's lock (SP-3).
            let scope = Scope::here();
            return match cell.poll_vacancy(line, cx) {
                Poll::Ready(Ok(vacancy)) => {
                    Poll::Ready(fill::<A, M>(vacancy, message, asked, scope, cell.node()))
                }
                Poll::Ready(Err(cause)) => Poll::Ready(Err(cause)),
                Poll::Pending => Poll::Pending,
            };
        }
        let room = ready!(line.poll_room(cell.intake(), cell.token(), cx))?;
        Poll::Ready(self.put(NearRoom(room), message, asked))
    }

    fn try_put(
        &self,
        message: &mut Option<M>,
        asked: Option<&mut NewAsk<A::Reply>>,
    ) -> Result<Fate, Cause> {
        let cell = self.cell();
        if A::Input::IS_MESSAGE {
            let scope = Scope::here();
            return fill::<A, M>(cell.try_vacancy()?, message, asked, scope, cell.node());
        }
        self.put(NearRoom(port::try_room(cell.intake())?), message, asked)
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
