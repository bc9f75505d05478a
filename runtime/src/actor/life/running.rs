//! The handler that runs. It lies in a box of its own, so that an actor without a running handler
//! has no memory for one.
#![allow(unsafe_code, reason = "a handler borrows the actor and the context that lie beside it")]

use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context as TaskContext, Poll, ready};

use super::Life;
use crate::actor::cell::BegunMessage;
use crate::actor::{Context, Handlers};
use crate::busy::on_duty;

/// The handler of the current message, if one runs.
#[derive(Default)]
pub(super) struct CurrentHandler(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl<A: Handlers> Life<A> {
    /// Starts the handler of a message. No other one runs.
    pub(super) fn start(&mut self, begun: BegunMessage<A>) {
        let Life { actor: Some(actor), cx, running, .. } = self else { return };
        // SAFETY: the life is pinned with the future of its task (TN-3). It uses the actor and the
        // context for nothing else until the handler has ended or was cleared (LF-1).
        unsafe { running.start(actor, cx, begun) };
    }
}

impl CurrentHandler {
    /// Starts the handler of a message. It does nothing until it is polled.
    ///
    /// # Safety
    /// Until the handler has ended or this is dropped or [cleared](Self::clear), the actor and the
    /// context stay where they are, and only the handler uses them.
    pub(super) unsafe fn start<A: Handlers>(
        &mut self,
        actor: &mut A,
        cx: &mut Context<A>,
        begun: BegunMessage<A>,
    ) {
        let BegunMessage { label, mut envelope, in_hand, scope, .. } = begun;
        let envelope = envelope.take().expect("what has begun has an envelope");
        let (mut actor, mut cx) = (NonNull::from(actor), NonNull::from(cx));
        // SAFETY: the caller keeps the actor in place, and for the handler alone.
        let actor = unsafe { actor.as_mut() };
        // SAFETY: as above, of the context.
        let cx = unsafe { cx.as_mut() };
        self.0 = Some(Box::pin(on_duty(&label.duty, in_hand, scope, actor.receive(envelope, cx))));
    }

    /// Polls the handler. Returns true if one has ended, false if none runs.
    #[inline]
    pub(super) fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<bool> {
        let Some(handler) = &mut self.0 else { return Poll::Ready(false) };
        ready!(handler.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(true)
    }

    #[inline]
    pub(super) fn runs(&self) -> bool {
        self.0.is_some()
    }

    /// Drops the handler, if one runs.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}
