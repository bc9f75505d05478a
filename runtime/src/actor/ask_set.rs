//! `AskSet`: asks that are on their way together.

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

/// Asks that are on their way together, of one or of many actors. Each has a number: the first is
/// 0. They are sent when this is first awaited, all at once, and what comes of them is taken in the
/// order in which it comes: one by one with [`next`](AskSet::next) or as a [`Stream`], or as many
/// answers as are enough with [`first`](AskSet::first).
///
/// ```
/// use ringpost::prelude::*;
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
/// Dropped, it takes back the asks that are on their way, each as [`Ask`](crate::Ask) says.
/// [`detach`](AskSet::detach) lets them go on.
#[must_use = "nothing is sent until this is awaited"]
pub struct AskSet<'a, R> {
    asks: FuturesUnordered<BoxFuture<'a, Outcome<R>>>,
    /// Outcomes that came while more answers were waited for, and were not taken.
    came: VecDeque<Outcome<R>>,
    /// How many asks were ever added.
    added: usize,
}

/// The number of an ask, and its answer.
type Outcome<R> = (usize, Result<R, AskError>);

impl<R> AskSet<'_, R> {
    /// Returns how many asks are on their way, or have an outcome that was not taken.
    fn left(&self) -> usize {
        self.asks.len() + self.came.len()
    }
}

impl<'a, R: 'a> AskSet<'a, R> {
    /// Returns a set without asks.
    pub fn new() -> Self {
        AskSet { asks: FuturesUnordered::new(), came: VecDeque::new(), added: 0 }
    }

    /// Adds an ask: of an actor, a recipient or a pool, or any other future of an answer. Returns
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

    /// Returns how many asks are in the set: on their way, or with an outcome that was not taken.
    pub fn len(&self) -> usize {
        self.left()
    }

    /// Returns true if no ask is in the set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for the next answer, or for the next ask that fails, and takes it out of the set, with
    /// its number. Returns `None` when the set is empty.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<(usize, Result<R, AskError>)> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Waits for so many answers, and takes these out of the set, in the order in which they came,
    /// each with its number. What else there is stays in the set: asks that are on their way, more
    /// answers, and those that failed. Of 0 answers none is waited for, and nothing is sent.
    ///
    /// # Errors
    /// [`TooFewAnswers`] as soon as so many cannot come any more: too many asks have failed, or
    /// fewer are in the set. Nothing is taken out of it then.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: what came stays in the set.
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

    /// Polls all asks that have news, so that each is sent that can be, and keeps what came of
    /// them.
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
        let failed = |(number, came): &Outcome<R>| Some((*number, came.as_ref().err()?.clone()));
        TooFewAnswers { wanted, answered, failed: self.came.iter().filter_map(failed).collect() }
    }
}

fn count_answers<'c, R: 'c>(came: impl IntoIterator<Item = &'c Outcome<R>>) -> usize {
    came.into_iter().filter(|(_, came)| came.is_ok()).count()
}

impl<R: Send + 'static> AskSet<'static, R> {
    /// Lets the asks that are on their way go on, on the runtime of this node, until they are
    /// answered or fail; their answers are dropped. For asks that own their references
    /// ([`into_ask`](crate::Ask::into_ask)).
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
