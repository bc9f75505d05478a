//! Spans of messages, which show the message that caused a handler to run, on one node and across
//! nodes.
//!
//! - Without a subscriber that takes spans of [`TARGET`], no scope is created or kept, no id is
//!   drawn, and nothing about spans is sent. Each place then only checks one number.
//! - A message is handled in a span of its own, whose parent is the current span of its sender. On
//!   one node the parent is a span of the same subscriber; between nodes the parent is named by its
//!   ids, which travel with the message.
//! - A subscriber is the user's code, and so is the drop of a scope. Neither runs under a lock, and
//!   if it panics, the message is handled without its span.
//! - At most [`CHAINED_MAX`] spans of messages are nested in the subscriber. The next span names
//!   its parent by ids, as between nodes. A message sent by a task with a handler's span
//!   (`in_current_span`) has no known depth: its span has no parent, and follows from the handler's
//!   span. (For a span of the program, the depth is unknown, too: a message sent by a task in such
//!   a span is nested below it, and counted from there.)

use std::cell::Cell;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use ringpost_transport::entropy::Entropy;
use ringpost_transport::note::{NOTE_BYTES, Note};
use ringpost_transport::shield;
use tracing::level_filters::LevelFilter;
use tracing::span::{Entered, Id};
use tracing::{Dispatch, Level, Span, dispatcher, span, span_enabled};

use crate::address::Address;
use crate::mailbox::OutlinedDrop;

/// The target of all spans of messages.
const TARGET: &str = "ringpost::message";

/// Maximum depth of nested message spans in the subscriber. A span stays open while a span below it
/// is open, so an endless chain of messages would keep all of its spans.
const CHAINED_MAX: u16 = 1024;

/// The ids of a span, of the sizes in W3C's trace context: the id of its trace, and its own id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SpanIds {
    trace: [u8; 16],
    span: [u8; 8],
    /// Number of message spans above it in the subscriber.
    above: u16,
}

/// A span in which messages are sent, or a message is handled. A message holds it until it is
/// handled, then its handler.
#[derive(Debug)]
pub(crate) struct Scope {
    /// `Span::none` for a span of another node.
    span: OutlinedDrop<Span>,
    /// `None` if the span is not a message's span.
    ids: Option<SpanIds>,
}

/// The fields of a message's span: the message is to be handled, or sent to another node.
pub(crate) struct SpanFields<'a> {
    /// The name of this node, and its source of ids.
    pub(crate) node: &'a str,
    pub(crate) entropy: &'a Entropy,
    /// The names of the actor's type and of the message.
    pub(crate) actor_type: &'static str,
    pub(crate) message: &'static str,
    pub(crate) is_ask: bool,
}

thread_local! {
    /// The ids of the innermost scope that this thread is in.
    static CURRENT: Cell<Option<SpanIds>> = const { Cell::new(None) };
}

/// Returns true if a subscriber takes spans of messages.
#[inline]
pub(crate) fn is_on() -> bool {
    LevelFilter::current() >= LevelFilter::TRACE && is_taken()
}

#[cold]
fn is_taken() -> bool {
    shield::run(|| span_enabled!(target: TARGET, Level::TRACE)).unwrap_or_default()
}

impl SpanIds {
    /// Draws the ids of a span below `parent`.
    fn below(parent: Option<SpanIds>, entropy: &Entropy) -> Self {
        let trace = parent.map_or_else(|| entropy.u128().to_be_bytes(), |parent| parent.trace);
        let mut span = [0; 8];
        entropy.fill(&mut span);
        let above = parent.map_or(0, |parent| (parent.above + 1) % CHAINED_MAX);
        SpanIds { trace, span, above }
    }

    fn note(self) -> Note {
        let mut bytes = [0; NOTE_BYTES];
        bytes[..16].copy_from_slice(&self.trace);
        bytes[16..].copy_from_slice(&self.span);
        Note::new(bytes)
    }

    fn of(note: &Note) -> Self {
        let (mut trace, mut span) = ([0; 16], [0; 8]);
        trace.copy_from_slice(&note.bytes()[..16]);
        span.copy_from_slice(&note.bytes()[16..]);
        SpanIds { trace, span, above: 0 }
    }
}

impl Scope {
    /// Returns the caller's scope, for a message that is sent now; `None` if messages get no spans.
    #[inline]
    pub(crate) fn here() -> Option<Box<Scope>> {
        if is_on() { Some(Scope::current()) } else { None }
    }

    #[cold]
    fn current() -> Box<Scope> {
        let span = shield::run(Span::current).unwrap_or_else(Span::none);
        Box::new(Scope { span: OutlinedDrop::new(span), ids: CURRENT.get() })
    }

    /// Returns the scope on another node in which a message was sent, from the message's note.
    #[cold]
    pub(crate) fn of(note: &Note) -> Self {
        Scope { span: OutlinedDrop::new(Span::none()), ids: Some(SpanIds::of(note)) }
    }

    /// Creates the span in which `actor` handles a message that was sent in the scope `sent_in`, if
    /// any.
    #[cold]
    pub(crate) fn handling(
        subject: &SpanFields<'_>,
        actor: &Address,
        sent_in: Option<&Scope>,
    ) -> Box<Scope> {
        let parent_ids = sent_in.and_then(|scope| scope.ids);
        let ids = SpanIds::below(parent_ids, subject.entropy);
        let make = |parent: Option<Id>| {
            span!(
                target: TARGET,
                parent: parent,
                Level::TRACE,
                "handle",
                %actor,
                actor_type = subject.actor_type,
                message_name = subject.message,
                kind = subject.kind(),
                node = subject.node,
                trace_id = %Hex(&ids.trace),
                span_id = %Hex(&ids.span),
                parent_span_id = parent_ids.map(|ids| display(Hex(&ids.span).to_string())),
            )
        };
        let is_chained = parent_ids.is_none() || ids.above > 0;
        // Created by the parent's own subscriber, because other subscribers do not know the
        // parent's id.
        let below = || {
            sent_in.filter(|_| is_chained).and_then(|scope| {
                let is_carried = parent_ids.is_none() && scope.is_in_handler();
                scope.span.with_subscriber(|(id, subscriber)| {
                    dispatcher::with_default(subscriber, || {
                        if !is_carried {
                            return make(Some(id.clone()));
                        }
                        let next = make(None);
                        next.follows_from(id.clone());
                        next
                    })
                })
            })
        };
        let span = shield::run(|| below().unwrap_or_else(|| make(None)));
        let span = OutlinedDrop::new(span.unwrap_or_else(Span::none));
        Box::new(Scope { span, ids: Some(ids) })
    }

    /// Returns true if its span is the span of a handled message. If the scope also lacks ids, the
    /// sender is not the handler in this span, but a task that got the span from the handler.
    fn is_in_handler(&self) -> bool {
        self.span.metadata().is_some_and(|metadata| metadata.target() == TARGET)
    }

    /// Enters the scope on this thread, until the result is dropped.
    pub(crate) fn enter(&self) -> ScopeGuard<'_> {
        let span = shield::run(|| self.span.enter());
        ScopeGuard { outer: CURRENT.replace(self.ids), span }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        shield::discard(mem::replace(&mut *self.span, Span::none()));
    }
}

/// Creates the span of a message to `actor` on another node, and returns the note that travels with
/// it; `None` if messages get no spans.
#[inline]
pub(crate) fn send<'a, D: fmt::Display>(
    sending: impl FnOnce() -> (SpanFields<'a>, D),
) -> Option<Note> {
    if is_on() { Some(send_below(sending())) } else { None }
}

#[cold]
fn send_below<D: fmt::Display>((subject, actor): (SpanFields<'_>, D)) -> Note {
    let parent_ids = CURRENT.get();
    let ids = SpanIds::below(parent_ids, subject.entropy);
    shield::run(|| {
        drop(span!(
            target: TARGET,
            Level::TRACE,
            "send",
            %actor,
            actor_type = subject.actor_type,
            message_name = subject.message,
            kind = subject.kind(),
            node = subject.node,
            trace_id = %Hex(&ids.trace),
            span_id = %Hex(&ids.span),
            parent_span_id = parent_ids.map(|ids| display(Hex(&ids.span).to_string())),
        ))
    });
    ids.note()
}

impl SpanFields<'_> {
    fn kind(&self) -> &'static str {
        if self.is_ask { "ask" } else { "tell" }
    }
}

/// Calls `act` without a span and a scope, as a separate task would, even if the caller has them.
pub(crate) fn outside<T>(act: impl FnOnce() -> T) -> T {
    if !dispatcher::has_been_set() {
        return act();
    }
    let _outer = ReentryGuard { ids: CURRENT.take(), left: leave_spans() };
    act()
}

/// Leaves the current spans of this thread; returns them with their subscriber, innermost first.
fn leave_spans() -> Vec<(Dispatch, Id)> {
    let mut left = Vec::new();
    shield::run(|| {
        dispatcher::get_default(|subscriber| {
            while left.len() < usize::from(CHAINED_MAX)
                && let Some(id) = subscriber.current_span().id().cloned()
            {
                subscriber.exit(&id);
                left.push((subscriber.clone(), id));
            }
        })
    });
    left
}

/// The ids of the scope, and the spans, that a thread has left. Dropping this restores them.
struct ReentryGuard {
    ids: Option<SpanIds>,
    left: Vec<(Dispatch, Id)>,
}

impl Drop for ReentryGuard {
    fn drop(&mut self) {
        CURRENT.set(self.ids);
        for (subscriber, id) in self.left.drain(..).rev() {
            shield::run(|| subscriber.enter(&id));
        }
    }
}

/// Guard of a scope that a thread has entered. Dropping it leaves the scope.
pub(crate) struct ScopeGuard<'a> {
    outer: Option<SpanIds>,
    span: Option<Entered<'a>>,
}

impl Drop for ScopeGuard<'_> {
    fn drop(&mut self) {
        shield::discard(self.span.take());
        CURRENT.set(self.outer);
    }
}

/// Bytes as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

pin_project! {
    /// A future that is polled in a scope.
    pub(crate) struct ScopedFuture<F> {
        scope: Option<Box<Scope>>,
        #[pin]
        future: F,
    }
}

/// Wraps a future, so that it is polled in the caller's scope.
pub(crate) fn keep<F: Future>(future: F) -> ScopedFuture<F> {
    keep_in(Scope::here(), future)
}

/// Wraps a future, so that it is polled in this scope, if there is one.
pub(crate) fn keep_in<F: Future>(scope: Option<Box<Scope>>, future: F) -> ScopedFuture<F> {
    ScopedFuture { scope, future }
}

impl<F: Future> Future for ScopedFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _within = this.scope.as_deref().map(Scope::enter);
        this.future.poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_the_wire_and_a_trace_goes_on_below_its_spans() {
        let entropy = Entropy::seeded(7);
        let root = SpanIds::below(None, &entropy);
        let below = SpanIds::below(Some(root), &entropy);
        assert_eq!(SpanIds::of(&below.note()), SpanIds { above: 0, ..below });
        assert!(below.trace == root.trace && below.span != root.span);
        assert_ne!(SpanIds::below(None, &entropy).trace, root.trace);
        assert_eq!(Hex(&[0, 0x1f, 0xa0]).to_string(), "001fa0");
    }

    #[test]
    fn a_thread_is_in_the_scope_it_was_in_when_an_inner_one_ends() {
        let entropy = Entropy::seeded(7);
        let scope = |ids| Scope { span: OutlinedDrop::new(Span::none()), ids };
        let outer = scope(Some(SpanIds::below(None, &entropy)));
        let inner = scope(None);
        let within = outer.enter();
        let further = inner.enter();
        assert_eq!(CURRENT.get(), None, "it is not one of a message");
        drop(further);
        assert_eq!(CURRENT.get(), outer.ids);
        drop(within);
        assert_eq!(CURRENT.get(), None);
    }

    #[test]
    fn without_a_subscriber_there_is_no_scope() {
        assert!(!is_on() && Scope::here().is_none());
        let note = send(|| -> (SpanFields<'_>, &str) { unreachable!("nobody listens") });
        assert!(note.is_none());
    }
}
