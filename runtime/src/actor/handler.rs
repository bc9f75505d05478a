//! How an actor handles messages: the trait that is written by hand, and those that `#[handlers]`
//! writes.

use std::future::Future;
use std::pin::Pin;

use super::{Actor, Context, Raw, Reply, ReplyTo, Route};
use crate::message::Message;
use crate::view::Input;

/// Handles one message: `M` taken owned (`Handler<M>`) or read where it arrived (`Handler<View<M>>`).
/// A hand-written one is listed in the actor's block: `#[handlers(M)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler for `{I}`",
    note = "write `impl Handler<{I}> for {Self}` or remove it from `#[handlers(..)]`"
)]
pub trait Handler<I: Input>: Handlers {
    /// What the sender gets when it asks.
    type Reply: Reply;

    /// Handles one message. No other is handled meanwhile.
    fn handle(
        &mut self,
        msg: I,
        cx: &mut Context<Self>,
    ) -> impl Future<Output = Self::Reply> + Send;
}

/// An actor that can be sent `M`. Written by `#[handlers]`; a bound for generic code.
#[diagnostic::on_unimplemented(
    message = "actor `{Self}` does not accept `{M}`",
    label = "no handler of `{Self}` takes `{M}`",
    note = "add a `#[handler]` method for it to the `#[handlers]` block of `{Self}`",
    note = "a hand-written `impl Handler<..> for {Self}` must be listed: `#[handlers({M})]` or `#[handlers(View<{M}>)]`"
)]
pub trait Accepts<M: Message>: Handlers {
    /// The form its handler takes it in.
    type Input: Input<Message = M>;
    /// What the sender gets when it asks.
    type Reply: Reply;
    #[doc(hidden)]
    fn envelope(input: Self::Input, reply: ReplyTo<Self::Reply>) -> Self::Envelope;
}

/// All handlers of an actor: its envelope, its table of messages, its client. Written by `#[handlers]`.
#[diagnostic::on_unimplemented(
    message = "actor `{Self}` has no `#[handlers]` block",
    note = "write `#[handlers] impl {Self} {{ .. }}`"
)]
pub trait Handlers: Actor {
    #[doc(hidden)]
    type Envelope: Send + 'static;
    /// What an `ActorRef` of it dereferences to: a method for each handler.
    type Client: Client<Self>;
    #[doc(hidden)]
    const ROUTES: &'static [Route<Self>];
    #[doc(hidden)]
    fn receive(
        &mut self,
        envelope: Self::Envelope,
        cx: &mut Context<Self>,
    ) -> impl Future<Output = ()> + Send;
    #[doc(hidden)]
    fn task(task: Task<Self>) -> Self::Envelope;
}

/// Generated beside the actor: one method for each handler.
pub trait Client<A: Handlers>: Clone + Send + Sync + 'static {
    #[doc(hidden)]
    fn new(raw: Raw<A>) -> Self;
    #[doc(hidden)]
    fn raw(&self) -> &Raw<A>;
}

/// A piece of work for an actor, as a value.
pub type Task<A> = Box<dyn for<'a> FnOnce(&'a mut A, &'a mut Context<A>) -> Work<'a> + Send>;
type Work<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The boxed way in, for a hand-written handler that cannot be listed because it is one `impl` for
/// endlessly many messages: `impl Accepts<M> for A` calls it in `envelope`. Such a message stays on its
/// node, and no [`Recipient`](super::Recipient) knows of it.
pub fn boxed<A: Handler<I>, I: Input>(
    input: I,
    reply: ReplyTo<<A as Handler<I>>::Reply>,
) -> A::Envelope {
    A::task(Box::new(move |actor, cx| {
        Box::pin(async move { reply.send(actor.handle(input, cx).await) })
    }))
}
