//! `AskSet`: asks that are awaited together.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, Stream, StreamExt};
use tokio::task::unconstrained;

use crate::error::{AskError, TooFewAnswers};
use crate::node::Node;
use crate::spans;

/// A set of asks, to one or to many actors, that are awaited together. They are numbered from 0 in
/// the order in which they are added, and all sent when the set is first awaited. Their outcomes
/// are taken in the order in which they arrive: one by one with [`next`](AskSet::next) or as a
/// [`Stream`], or as soon as there are enough answers with [`first`](AskSet::first).
///
/// ```
/// use ringpost::prelude::*;
/// use ringpost::send::{AskSet, TooFewAnswers};
///
/// #[actor]
/// struct Replica(u64);
///
/// #[handlers]
/// impl Replica {
///     #[handler]
///     fn read(&self) -> u64 {
///         self.0
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let node = Node::builder("alpha").start().await?;
/// let mut replicas = Vec::new();
/// for number in 0..3 {
///     replicas.push(node.spawn_anonymous(Replica(number)).await?);
/// }
/// replicas[1].stop().await?;
///
/// // Two of three are a quorum.
/// let mut reads: AskSet<u64> = replicas.iter().map(|replica| replica.read()).collect();
/// let mut values = reads.first(2).await?;
/// values.sort();
/// assert_eq!(values, [(0, 0), (2, 2)]);
///
/// replicas[2].stop().await?;
/// let mut reads: AskSet<u64> = replicas.iter().map(|replica| replica.read()).collect();
/// let TooFewAnswers { wanted, answered, failed, .. } = reads.first(2).await.unwrap_err();
/// assert!(wanted == 2 && answered <= 1 && failed.len() == 2);
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
/// Dropping the set takes back the asks that are in flight, as described for
/// [`Ask`](crate::send::Ask). After [`detach`](AskSet::detach) they continue.
#[must_use = "nothing is sent until this is awaited"]
pub struct AskSet<'a, R> {
    asks: FuturesUnordered<BoxFuture<'a, NumberedAnswer<R>>>,
    /// Outcomes that have arrived and were not taken.
    came: VecDeque<NumberedAnswer<R>>,
    /// The number of asks ever added.
    added: usize,
}

/// The number of an ask, and its answer.
type NumberedAnswer<R> = (usize, Result<R, AskError>);

impl<R> AskSet<'_, R> {
    /// Returns how many asks are in flight, or have an outcome that was not taken.
    fn left(&self) -> usize {
        self.asks.len() + self.came.len()
    }
}

impl<'a, R: 'a> AskSet<'a, R> {
    /// Returns a set without asks.
    pub fn new() -> Self {
        AskSet { asks: FuturesUnordered::new(), came: VecDeque::new(), added: 0 }
    }

    /// Adds an ask of an actor, a recipient or a pool, or any other future of an answer. Returns
    /// its number.
    pub fn push<F>(&mut self, ask: F) -> usize
    where
        F: IntoFuture<Output = Result<R, AskError>, IntoFuture: Send + 'a>,
    {
        let (number, ask) = (self.added, ask.into_future());
        self.added += 1;
        self.asks.push(ask.map(move |came| (number, came)).boxed());
        number
    }

    /// Returns how many asks are in the set: in flight, or with an outcome that was not taken.
    pub fn len(&self) -> usize {
        self.left()
    }

    /// Returns true if no ask is in the set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until the next ask is answered or fails, and removes it from the set. Returns its
    /// number and outcome, or `None` if the set is empty.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<(usize, Result<R, AskError>)> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Waits for `count` answers, removes them from the set, and returns them in the order in which
    /// they arrived, each with its number. Everything else stays in the set: asks in flight,
    /// further answers and failures. With a `count` of 0 it returns at once and sends nothing.
    ///
    /// # Errors
    /// [`TooFewAnswers`] as soon as `count` answers cannot be reached any more, because too many
    /// asks have failed or too few are in the set. Nothing is removed from the set then.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: the outcomes stay in the set.
    pub async fn first(&mut self, count: usize) -> Result<Vec<(usize, R)>, TooFewAnswers> {
        let mut answered = count_answers(&self.came);
        let is_enough = poll_fn(|cx| {
            loop {
                match () {
                    () if answered >= count => return Poll::Ready(true),
                    () if answered + self.asks.len() < count => return Poll::Ready(false),
                    () => {}
                }
                let known = self.came.len();
                self.gather(cx);
                if self.came.len() == known {
                    return Poll::Pending;
                }
                answered += count_answers(self.came.range(known..));
            }
        });
        if is_enough.await { Ok(self.take_answers(count)) } else { Err(self.too_few(count)) }
    }

    /// Polls all asks that were woken, which sends every ask that can be sent, and moves their
    /// outcomes to `came`.
    fn gather(&mut self, cx: &mut Context<'_>) {
        let mut gather = pin!(unconstrained(poll_fn(|cx| {
            while let Poll::Ready(Some(came)) = self.asks.poll_next_unpin(cx) {
                self.came.push_back(came);
            }
            Poll::Ready(())
        })));
        let (Poll::Ready(()) | Poll::Pending) = gather.as_mut().poll(cx);
    }

    fn take_answers(&mut self, count: usize) -> Vec<(usize, R)> {
        let mut answers = Vec::with_capacity(count);
        let came = std::mem::take(&mut self.came);
        for (number, came) in came {
            match came {
                Ok(answer) if answers.len() < count => answers.push((number, answer)),
                came => self.came.push_back((number, came)),
            }
        }
        answers
    }

    fn too_few(&self, wanted: usize) -> TooFewAnswers {
        let answered = count_answers(&self.came);
        let failed =
            |(number, came): &NumberedAnswer<R>| Some((*number, came.as_ref().err()?.clone()));
        TooFewAnswers { wanted, answered, failed: self.came.iter().filter_map(failed).collect() }
    }
}

fn count_answers<'c, R: 'c>(came: impl IntoIterator<Item = &'c NumberedAnswer<R>>) -> usize {
    came.into_iter().filter(|(_, came)| came.is_ok()).count()
}

impl<R: Send + 'static> AskSet<'static, R> {
    /// Runs the asks that are in flight on the runtime of `node` until they are answered or fail,
    /// and drops their answers. Available for asks that own their references
    /// ([`into_ask`](crate::send::Ask::into_ask)).
    pub fn detach(self, node: &Node) {
        let mut asks = self.asks;
        let rest = spans::keep(async move { while asks.next().await.is_some() {} });
        node.runtime().spawn(rest);
    }
}

impl<'a, R: 'a> Default for AskSet<'a, R> {
    fn default() -> Self {
        AskSet::new()
    }
}

impl<'a, R: 'a, F> Extend<F> for AskSet<'a, R>
where
    F: IntoFuture<Output = Result<R, AskError>, IntoFuture: Send + 'a>,
{
    fn extend<I: IntoIterator<Item = F>>(&mut self, asks: I) {
        for ask in asks {
            self.push(ask);
        }
    }
}

impl<'a, R: 'a, F> FromIterator<F> for AskSet<'a, R>
where
    F: IntoFuture<Output = Result<R, AskError>, IntoFuture: Send + 'a>,
{
    fn from_iter<I: IntoIterator<Item = F>>(asks: I) -> Self {
        let mut set = AskSet::new();
        set.extend(asks);
        set
    }
}

impl<'a, R: 'a> Stream for AskSet<'a, R> {
    type Item = (usize, Result<R, AskError>);

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.gather(cx);
        match self.came.pop_front() {
            Some(came) => Poll::Ready(Some(came)),
            None if self.asks.is_empty() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left(), Some(self.left()))
    }
}

impl<R> Unpin for AskSet<'_, R> {}

impl<R> fmt::Debug for AskSet<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskSet")
            .field("added", &self.added)
            .field("on_their_way", &self.asks.len())
            .field("came", &self.came.len())
            .finish()
    }
}
