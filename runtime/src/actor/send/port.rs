//! Ports: what `tell` and `ask` need of the destination of a reference.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use ringpost_transport::log;
use ringpost_transport::memory::{InvalidArchive, Payload};
use tokio::time::Instant;

use super::wait::WaitGuard;
use crate::actor::{Reply, ReplyTo};
use crate::busy::is_running;
use crate::deadlines::ExpiryCause;
use crate::error::{AskCause, Cause, NotBegun};
use crate::fate::Fate;
use crate::mailbox::{ErasedMailbox, MailboxRoom, OutlinedOption, WakeOnDrop};
use crate::message::Message;
use crate::node::Node;
use crate::remote::{self, Confirmation, LinkCause, MessageForms, PendingReply, Waiter};
use crate::resident::LocalActor;
use crate::schema::ActorKind;
use crate::slot::{AskerEnd, OpenAsk, slot};
use crate::waits::Awaits;

/// A handle to an actor of this node, as lookups create it.
pub trait LocalHandle: Sized {
    /// Returns the actor without its type.
    #[doc(hidden)]
    fn actor(&self) -> AnyActor<'_>;

    /// Returns the type that an actor of another node must have.
    #[doc(hidden)]
    fn kind() -> ActorKind;

    /// Creates the handle to an actor of this node. Fails if the actor has another type, or does
    /// not accept the messages of the handle.
    #[doc(hidden)]
    fn of(actor: SharedActor) -> Result<Self, Cause>;
}

/// A handle through which an actor of this node is sent an `M`. The handle knows the actor's type,
/// or only that the actor accepts certain messages. Implemented by this crate only.
pub trait Port<M: Message>: LocalHandle {
    /// The answer to an ask.
    type Reply: Send + 'static;

    /// For a tell to another node: the message's id, and the layouts of its archive that this build
    /// knows.
    #[doc(hidden)]
    const TOLD: MessageForms;

    /// Returns the index of the message in the actor's table.
    #[doc(hidden)]
    fn route(&self) -> u16;

    /// Puts a message into the mailbox if there is room now, no other sender waits for room, and no
    /// user code must run first. `asked` is the ask of the message, or `None` for a tell. A sender
    /// that has waited with this `turn`, which success ends, needs only the room that it was woken
    /// for. Returns false if it did nothing. (Small, because it is compiled into every sender.)
    #[inline]
    #[doc(hidden)]
    fn try_put(
        &self,
        _message: &mut Option<M>,
        _asked: Option<&mut NewAsk<Self::Reply>>,
        _turn: &mut Option<u64>,
    ) -> bool {
        false
    }

    /// Begins to handle an ask on this thread, if the actor waits for messages and no user code
    /// must run before the handler. Returns false if it did nothing.
    #[doc(hidden)]
    fn try_handle_here(&self, _message: &mut Option<M>, _asked: &mut NewAsk<Self::Reply>) -> bool {
        false
    }
}

/// A port whose actor answers the message.
pub trait AskPort<M: Message>: Port<M, Reply: Reply> {
    /// For an ask to another node: the message's id, and the layouts of its archive and of the
    /// reply's archive that this build knows.
    #[doc(hidden)]
    const ASKED: MessageForms;
}

/// An actor of this node, without its type.
pub struct AnyActor<'a>(pub(crate) &'a dyn LocalActor);

/// An actor of this node, without its type and shared.
pub struct SharedActor(pub(crate) Arc<dyn LocalActor>);

/// An ask that is about to be sent. On this node its slot is created only when the mailbox has
/// room.
pub struct NewAsk<'a, R> {
    pub(crate) deadline: Instant,
    /// The asker's waker, which is cloned into the slot.
    waker: &'a Waker,
    /// `Some` once the ask was sent.
    pub(crate) answer: Option<PendingAnswer<R>>,
    /// The wait of the asking handler, if a handler asks: recorded before the message is in a
    /// mailbox.
    pub(crate) wait: Option<WaitGuard>,
    /// Set if the asker polls for the answer right after the send: it may then take the actor's
    /// turn.
    pub(crate) in_place: bool,
    /// The task of the actor, if the task waits for this message.
    pub(crate) called: WakeOnDrop,
}

impl<'a, R> NewAsk<'a, R> {
    pub(crate) fn new(deadline: Instant, waker: &'a Waker) -> Self {
        let called = WakeOnDrop::default();
        NewAsk { deadline, waker, answer: None, wait: None, in_place: false, called }
    }

    /// Takes the turn of `to` on this thread, if this ask may do so and the actor's task waited for
    /// the message.
    #[inline]
    pub(crate) fn take_turn(&mut self, to: &dyn LocalActor) {
        if self.in_place
            && let Some(task) = self.called.take()
        {
            to.take_turn(task);
        }
    }
}

impl<R: Send + 'static> NewAsk<'_, R> {
    /// Creates the slot. Returns the `ReplyTo`, and the ask as its actor sees it; the asker's end
    /// of the slot is stored in `answer`.
    pub(crate) fn open(&mut self) -> (ReplyTo<R>, Arc<dyn OpenAsk>) {
        // An asker that polls for the answer right after the send needs no wake-up yet.
        let waker = if self.in_place { Waker::noop() } else { self.waker };
        let waiting = self.wait.as_ref().map(|wait| wait.asker().clone());
        let (asker, answerer, ask) = slot(self.deadline, waker.clone(), waiting);
        self.answer = Some(PendingAnswer::Local(asker));
        (ReplyTo::local(answerer), ask)
    }
}

/// The fate of a message that was sent: known now, or reported later.
pub(crate) enum PendingFate {
    /// The fate is known.
    Known(Fate),
    /// The other node will report the fate.
    Remote(Confirmation),
}

impl PendingFate {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Fate> {
        match self {
            PendingFate::Known(fate) => Poll::Ready(*fate),
            PendingFate::Remote(confirmation) => Pin::new(confirmation).poll(cx).map(remote::fate),
        }
    }
}

/// The wait of a send: for room in a mailbox of this node, or for another node. Small, because most
/// sends never wait.
#[derive(Default)]
pub(crate) struct SendWait {
    pub(crate) remote: Waiter,
    near: OutlinedOption<Box<LocalWait>>,
}

/// The wait of a send on this node, and of the sending handler.
#[derive(Default)]
struct LocalWait {
    turn: Option<u64>,
    /// The wait of the sending handler. `Some` while a handler waits, even for an actor of another
    /// node.
    wait: Option<WaitGuard>,
}

impl SendWait {
    /// Calls `look`, which looks for room, with this send's turn in the queue for room (`None` if
    /// it has none), and stores the turn that `look` leaves.
    #[inline]
    pub(crate) fn look<T>(&mut self, look: impl FnOnce(&mut Option<u64>) -> T) -> T {
        let mut turn = self.turn();
        let seen = look(&mut turn);
        if turn.is_some() || self.near.is_some() {
            self.near.get_or_insert_default().turn = turn;
        }
        seen
    }

    /// Waits for room in a mailbox of this node. An actor that would wait for room in its own
    /// mailbox would wait forever, so it gets [`Cause::MailboxFull`].
    pub(crate) fn poll_room<'a>(
        &mut self,
        intake: &'a dyn ErasedMailbox,
        token: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<MailboxRoom<'a>, Cause>> {
        match self.look(|turn| intake.poll_room(turn, cx)) {
            Poll::Pending if is_running(token) => Poll::Ready(Err(Cause::MailboxFull)),
            room => room,
        }
    }

    /// Lists the actor `whom`, so that the log reports long waits for it, and records that the
    /// sending handler, if there is one, waits for room in the mailbox of `whom`.
    #[cold]
    pub(crate) fn wait_for_room(&mut self, whom: &dyn LocalActor) {
        whom.list();
        let near = self.near.get_or_insert_default();
        match &near.wait {
            Some(wait) => wait.set(Awaits::Room),
            None => near.wait = WaitGuard::begin(whom, Awaits::Room),
        }
    }

    /// Records that the sending handler waits for room in a mailbox of another node, or for a link
    /// to that node. `begin` creates the wait.
    #[cold]
    pub(crate) fn wait_elsewhere(&mut self, begin: impl FnOnce() -> Option<WaitGuard>) {
        let near = self.near.get_or_insert_default();
        match &near.wait {
            Some(wait) => wait.set(Awaits::Room),
            None => near.wait = begin(),
        }
    }

    /// Takes the wait of the asking handler, if it waited for room. The handler waits for the
    /// answer from now on.
    #[inline]
    pub(crate) fn take_wait(&mut self) -> Option<WaitGuard> {
        let wait = self.near.as_mut()?.wait.take()?;
        wait.set(Awaits::Answer);
        Some(wait)
    }

    /// Stores the wait of the asking handler, which waits for room from now on.
    #[cold]
    pub(crate) fn keep_wait(&mut self, wait: Option<WaitGuard>) {
        if let Some(wait) = wait {
            wait.set(Awaits::Room);
            self.near.get_or_insert_default().wait = Some(wait);
        }
    }

    /// Ends the wait on this node: gives up the turn in the queue for room, if there is one.
    #[inline]
    pub(crate) fn leave<'a>(&mut self, intake: impl FnOnce() -> &'a dyn ErasedMailbox) {
        if let Some(near) = self.near.take()
            && let Some(turn) = near.turn
        {
            intake().leave(turn);
        }
    }

    /// Ends the wait for an actor of another node.
    #[inline]
    pub(crate) fn leave_elsewhere(&mut self) {
        self.near.clear();
    }

    /// Returns true if the send waits, or has waited, for room on this node, or if the wait of its
    /// handler was recorded.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.near.is_some()
    }

    #[inline]
    fn turn(&self) -> Option<u64> {
        self.near.as_ref().and_then(|near| near.turn)
    }
}

/// An answer that the asker has not taken yet.
pub(crate) enum PendingAnswer<R> {
    /// From a handler that has run on this thread; `None` if the handler has panicked.
    Here(Option<R>),
    /// From an actor of this node.
    Local(AskerEnd<R>),
    /// From an actor of another node.
    Remote(RemoteAnswer),
}

/// An answer from another node, and the node that receives it.
pub(crate) struct RemoteAnswer {
    answer: PendingReply,
    node: Node,
}

impl RemoteAnswer {
    pub(crate) fn new(answer: PendingReply, node: &Node) -> Self {
        RemoteAnswer { answer, node: node.clone() }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Payload, AskCause>> {
        Pin::new(&mut self.answer).poll(cx).map_err(remote::lost)
    }
}

/// Logs that the archive of a reply is invalid, and returns the error for the asker.
#[cold]
fn unread(error: InvalidArchive) -> AskCause {
    log::warn!(%error, "a reply could not be read: InvalidReply is told");
    AskCause::InvalidReply
}

impl<R: Reply> PendingAnswer<R> {
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<R, AskCause>> {
        match self {
            PendingAnswer::Here(answer) => Poll::Ready(answer.take().ok_or(AskCause::Panicked)),
            PendingAnswer::Local(asker) => asker.poll(cx),
            PendingAnswer::Remote(remote) => {
                let payload = ready!(remote.poll(cx))?;
                let codec = R::CODEC.ok_or(AskCause::InvalidReply)?;
                let RemoteAnswer { answer, node } = remote;
                Poll::Ready((codec.decode)(&payload, node, answer.form()).map_err(unread))
            }
        }
    }

    /// Gives up the ask. Returns the answer if an actor of this node has sent it already; otherwise
    /// the error says whether that actor has begun the ask.
    pub(crate) fn give_up(self, expired: ExpiryCause) -> Result<R, AskCause> {
        match (self, expired) {
            (PendingAnswer::Here(answer), _) => answer.ok_or(AskCause::Panicked),
            (PendingAnswer::Local(asker), ExpiryCause::Deadline) => {
                asker.give_up(NotBegun::Timeout, AskCause::Timeout)
            }
            (PendingAnswer::Local(asker), ExpiryCause::RuntimeGone) => {
                asker.give_up(NotBegun::Stopped, AskCause::NoReply)
            }
            (PendingAnswer::Remote(mut remote), ExpiryCause::Deadline) => {
                let unsent = remote.answer.give_up();
                Err(if unsent { AskCause::NotSent(Cause::Timeout) } else { AskCause::Timeout })
            }
            (PendingAnswer::Remote(_), ExpiryCause::RuntimeGone) => {
                Err(AskCause::LinkDown(LinkCause::Shutdown))
            }
        }
    }
}

/// Panic text. A port keeps the message if and only if it was not sent.
pub(crate) const UNSENT: &str = "a message that was not sent is still there";

/// Returns the cause of the failure of a send that has expired.
pub(crate) fn unsent(expired: ExpiryCause) -> Cause {
    match expired {
        ExpiryCause::Deadline => Cause::Timeout,
        ExpiryCause::RuntimeGone => Cause::Shutdown,
    }
}
