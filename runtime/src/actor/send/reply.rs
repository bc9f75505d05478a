//! Replies, and the `ReplyTo` of an asker.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use ringpost_transport::log;
use ringpost_transport::memory::buffer;
use rkyv::util::AlignedVec;
use tokio::time::{Instant, timeout_at};

use crate::error::{AskCause, Cause, NotBegun};
use crate::limits;
use crate::mailbox::OutlinedOption;
use crate::message::{Codec, EncodeFn, Wire};
use crate::remote::{self, Replier, code};
use crate::slot::Answerer;
use crate::waits::HandledAsk;

/// A type that a handler may return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a reply",
    label = "a reply must be able to cross nodes",
    note = "`usize` and `isize` cannot, as they are as wide as their machine: use `u64` and `i64`",
    note = "put `#[message]` on it if it is your type, or return `Local<{Self}>`: askers on other \
         nodes then get `Cause::LocalOnly`"
)]
pub trait Reply: Sized + Send + 'static {
    #[doc(hidden)]
    const CODEC: Option<Codec<Self>>;
}

#[diagnostic::do_not_recommend]
impl<T: Wire> Reply for T {
    const CODEC: Option<Codec<T>> = Some(Codec::of());
}

/// A reply that cannot leave its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local<T>(pub T);

impl<T: Send + 'static> Reply for Local<T> {
    const CODEC: Option<Codec<Self>> = None;
}

/// A handle for answering an asker. A handler that takes one, `reply: ReplyTo<u64>`, may answer at
/// any time. It may be stored, moved to a task, sent to another actor of its node in a
/// `#[message(local)]`, or passed on with [`forward`](ReplyTo::forward). If it is dropped unused,
/// the asker gets [`AskCause::NoReply`](crate::AskCause::NoReply), or
/// [`Panicked`](crate::AskCause::Panicked) if a panic drops it. If an actor stops or is drained,
/// the log counts the `ReplyTo`s that are dropped with its state or its tasks.
///
/// A tell has no asker: a reply to it goes nowhere.
pub struct ReplyTo<R>(OutlinedOption<ReplyTarget<R>>);

thread_local! {
    /// The number of `ReplyTo`s that this thread has dropped unused while their askers waited.
    static UNANSWERED: Cell<usize> = const { Cell::new(0) };
}

/// Returns how many `ReplyTo`s `act` drops unused, on this thread, while their askers wait.
pub(crate) fn unanswered(act: impl FnOnce()) -> usize {
    let before = UNANSWERED.get();
    act();
    UNANSWERED.get().wrapping_sub(before)
}

impl<R> Drop for ReplyTo<R> {
    #[inline]
    fn drop(&mut self) {
        #[cold]
        fn count() {
            UNANSWERED.set(UNANSWERED.get().wrapping_add(1));
        }
        if self.is_awaited() && !self.is_given_up() {
            count();
        }
    }
}

/// The asker that a reply goes to.
enum ReplyTarget<R> {
    Local(Answerer<R>),
    Remote(Replier, EncodeFn<R>),
    /// An asker on another node, for an ask whose answer a handler awaits.
    Chained(Box<(Replier, EncodeFn<R>, Arc<dyn HandledAsk>)>),
}

impl<R> ReplyTarget<R> {
    fn near(&self) -> Result<&Answerer<R>, &Replier> {
        match self {
            ReplyTarget::Local(answerer) => Ok(answerer),
            ReplyTarget::Remote(replier, _) => Err(replier),
            ReplyTarget::Chained(far) => Err(&far.0),
        }
    }

    fn into_near(self) -> Result<Answerer<R>, (Replier, EncodeFn<R>)> {
        match self {
            ReplyTarget::Local(answerer) => Ok(answerer),
            ReplyTarget::Remote(replier, encode) => Err((replier, encode)),
            ReplyTarget::Chained(far) => {
                let (replier, encode, _) = *far;
                Err((replier, encode))
            }
        }
    }
}

impl<R> ReplyTo<R> {
    pub(crate) fn nobody() -> Self {
        ReplyTo(None.into())
    }

    pub(crate) fn local(answerer: Answerer<R>) -> Self {
        ReplyTo(Some(ReplyTarget::Local(answerer)).into())
    }

    /// Returns true if `reply` is `None`, or refers to an `Option<Self>` that is `Some`.
    pub(crate) fn is_in(reply: &Option<&mut dyn Any>) -> bool
    where
        R: 'static,
    {
        reply.as_ref().is_none_or(|reply| matches!(reply.downcast_ref(), Some(Some(Self(_)))))
    }

    /// Takes the `ReplyTo` out of `reply`, for which [`is_in`](Self::is_in) is true. If `reply` is
    /// `None`, returns a `ReplyTo` without an asker.
    pub(crate) fn taken(reply: &mut Option<&mut dyn Any>) -> Self
    where
        R: 'static,
    {
        let given = reply.as_mut().and_then(|reply| reply.downcast_mut::<Option<Self>>());
        given.and_then(Option::take).unwrap_or_else(ReplyTo::nobody)
    }

    /// Creates the `ReplyTo` of an asker on another node, if there is one. `form` is the index of
    /// the layout in which the asker wants the reply. No correct peer asks for a reply without a
    /// layout; a peer that does is told that no reply comes.
    pub(crate) fn far(
        (replier, asked): (Option<Replier>, Option<Arc<dyn HandledAsk>>),
        form: u8,
    ) -> Self
    where
        R: Reply,
    {
        match (replier, R::CODEC) {
            (Some(mut replier), Some(codec)) => {
                replier.set_form(form);
                let to = match asked {
                    None => ReplyTarget::Remote(replier, codec.encode),
                    Some(asked) => ReplyTarget::Chained(Box::new((replier, codec.encode, asked))),
                };
                ReplyTo(Some(to).into())
            }
            _ => ReplyTo::nobody(),
        }
    }

    /// Returns true if there is an asker, and false for a message that was told.
    pub fn is_awaited(&self) -> bool {
        self.0.is_some()
    }

    /// Returns true if the asker has given up: its time is over, it dropped its ask, or its node is
    /// down. A reply then goes nowhere. An asker on another node may have given up a moment before
    /// this node learns it.
    pub fn is_given_up(&self) -> bool {
        match self.0.as_ref().map(ReplyTarget::near) {
            Some(Ok(answerer)) => answerer.is_given_up(),
            Some(Err(replier)) => replier.is_given_up(),
            None => false,
        }
    }

    /// Waits until the asker has [given up](Self::is_given_up): its time is over, it dropped its
    /// ask, or its node is down. The work for its answer may then be abandoned. For a message that
    /// was told this waits forever.
    ///
    /// (A [pipe](crate::Context::pipe) is for such work too, if the actor needs the outcome. The
    /// log counts a pipe that a drain leaves undone.)
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use ringpost::prelude::*;
    ///
    /// #[actor]
    /// #[derive(Default)]
    /// struct Searcher;
    ///
    /// #[handlers]
    /// impl Searcher {
    ///     #[handler]
    ///     fn search(&mut self, text: String, mut reply: ReplyTo<u64>, cx: &mut Context<Self>) {
    ///         cx.spawn_task(async move {
    ///             tokio::select! {
    ///                 found = search(&text) => reply.send(found),
    ///                 () = reply.given_up() => {} // and the search is dropped
    ///             }
    ///         });
    ///     }
    /// }
    ///
    /// async fn search(text: &str) -> u64 {
    ///     tokio::time::sleep(Duration::from_millis(1)).await;
    ///     text.len() as u64
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BoxError> {
    /// let node = Node::builder("alpha").start().await?;
    /// let searcher = node.spawn("searcher", Searcher).await?;
    /// assert_eq!(searcher.search("needle".into()).await?, 6);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: this may be called again.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub async fn given_up(&mut self) {
        let deadline = self.deadline();
        let gone = poll_fn(|cx| self.poll_gone(cx));
        match deadline {
            Some(deadline) => drop(timeout_at(deadline, gone).await),
            None => gone.await,
        }
    }

    /// Waits until the asker has given up, except because its time is over.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.0.as_ref().map(ReplyTarget::near) {
            Some(Ok(answerer)) => answerer.poll_given_up(cx),
            Some(Err(replier)) => replier.poll_given_up(cx),
            None => Poll::Pending,
        }
    }

    /// Returns the ask, if a handler waits for the answer.
    pub(crate) fn asked(&self) -> Option<Arc<dyn HandledAsk>>
    where
        R: Send + 'static,
    {
        match &*self.0 {
            Some(ReplyTarget::Local(answerer)) => answerer.asked(),
            Some(ReplyTarget::Chained(far)) => Some(far.2.clone()),
            Some(ReplyTarget::Remote(..)) | None => None,
        }
    }

    /// Returns the time at which the asker gives up; `None` if no asker waits.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.0.as_ref().map(ReplyTarget::near) {
            Some(Ok(answerer)) => answerer.deadline(),
            Some(Err(replier)) => replier.deadline(),
            None => None,
        }
    }

    /// Sends the reply, unless the asker has given up.
    #[inline]
    pub fn send(mut self, reply: R) {
        if let Some(to) = self.0.take() {
            to.send(reply);
        }
    }
}

impl<R> ReplyTo<R> {
    /// Ends the ask without an answer. The asker gets this cause; on another node, only if the
    /// cause can cross nodes.
    fn fail(mut self, cause: AskCause) {
        match self.0.take().map(ReplyTarget::into_near) {
            None => {}
            Some(Ok(answerer)) => answerer.fail(cause),
            Some(Err((replier, _))) => replier.fail(remote::code_of(&cause)),
        }
    }
}

impl<R> ReplyTo<R> {
    /// Ends an ask that a handler or a router has begun and forwarded to an actor. That actor gave
    /// no answer, for this cause.
    pub(crate) fn unanswered_by(self, cause: AskCause) {
        let unsent = match cause {
            AskCause::NotSent(unsent) => unsent,
            cause => return self.fail(cause),
        };
        self.fail(match unsent {
            Cause::Stopped
            | Cause::NoSuchActor
            | Cause::NodeUnreachable(_)
            | Cause::Leaving
            | Cause::Shutdown => AskCause::NotBegun(NotBegun::Stopped),
            unsent if unsent.is_retryable() => AskCause::NotBegun(NotBegun::Timeout),
            cycle @ Cause::Cycle(_) => AskCause::NotSent(cycle),
            // Another attempt would fail, too.
            _ => AskCause::NoReply,
        });
    }
}

impl<R> ReplyTarget<R> {
    fn send(self, reply: R) {
        match self.into_near() {
            Ok(answerer) => answerer.send(reply),
            // If the asker has gone, the reply is not even archived.
            Err((replier, _)) if replier.is_given_up() => replier.fail(Replier::EXPIRED),
            Err((replier, encode)) => send_archive(replier, encode, &reply),
        }
    }
}

fn send_archive<R>(replier: Replier, encode: EncodeFn<R>, reply: &R) {
    thread_local! {
        static SCRATCH: RefCell<AlignedVec<16>> = RefCell::new(AlignedVec::new());
    }
    // Taken, not borrowed: the encoder runs the user's code.
    let mut archive = SCRATCH.take();
    archive.clear();
    match encode(reply, replier.form(), &mut archive) {
        Ok(()) => replier.send(&mut archive),
        Err(error) => {
            log::warn!(%error, "a reply could not be archived: its asker gets InvalidReply");
            replier.fail(code::INVALID_REPLY);
        }
    }
    if archive.capacity() > limits::SCRATCH_BYTES_MAX {
        buffer::give(std::mem::take(&mut archive));
    }
    SCRATCH.set(archive);
}
