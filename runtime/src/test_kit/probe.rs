//! `Probe`: an actor that passes its messages to a test.

use std::any::type_name;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use crate::actor::{ActorRef, Recipient, Reply, ReplyTo, SpawnOptions, Watchable};
use crate::busy::at_rest;
use crate::error::SpawnError;
use crate::exit::ActorExit;
use crate::message::Message;
use crate::node::Node;
use crate::{actor, handlers, limits};

/// Default time-out of expectations.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of messages that a failed expectation shows.
const SHOWN_MAX: usize = 16;

/// An actor that takes messages `M`, answers them with `R`, and passes them to a test one after the
/// other. It is spawned on any node, simulated or not, and stops when the probe is dropped.
///
/// Expectations wait [10 s](Self::patience), in virtual time if it is simulated, and then panic
/// with the messages that did arrive. Up to 1,024 messages wait for the test, and further ones in
/// the mailbox.
///
/// ```
/// use std::time::Duration;
///
/// use ringpost::prelude::*;
/// use ringpost::test_kit::{self, Probe};
///
/// #[message]
/// #[derive(Debug, PartialEq)]
/// struct Price {
///     cents: u64,
/// }
///
/// /// Tells a reader each price that differs from the last one.
/// #[actor]
/// struct Filter {
///     last: u64,
///     reader: Recipient<Price>,
/// }
///
/// #[handlers]
/// impl Filter {
///     #[handler]
///     async fn price(&mut self, msg: Price) {
///         if msg.cents != std::mem::replace(&mut self.last, msg.cents) {
///             self.reader.tell(msg).await.ok();
///         }
///     }
/// }
///
/// test_kit::run(1, |cluster| async move {
///     let [alpha, beta] = [cluster.node("alpha").await, cluster.node("beta").await];
///     let mut probe = Probe::spawn(&alpha, "reader").await.unwrap();
///     let filter = beta.spawn("filter", Filter { last: 0, reader: probe.recipient() }).await;
///     let filter = filter.unwrap();
///     for cents in [5, 5, 7] {
///         filter.tell(Price { cents }).await.unwrap();
///     }
///     assert_eq!(probe.expect().await, Price { cents: 5 });
///     assert_eq!(probe.expect().await, Price { cents: 7 });
///     probe.expect_none(Duration::from_secs(60)).await;
/// });
/// ```
pub struct Probe<M: Message, R: Reply = ()> {
    arrivals: mpsc::Receiver<ReceivedMessage<M, R>>,
    actor: ActorRef<ProbeActor<M, R>>,
    answer: SharedAnswerFn<M, R>,
    patience: Duration,
    /// The last messages that the test got or that were skipped, for people.
    shown: VecDeque<String>,
    received: usize,
}

/// A message, and the [`ReplyTo`] for its answer, which drops the answer if the message was told or
/// answered.
type ReceivedMessage<M, R> = (M, ReplyTo<R>);
/// A function that creates answers.
type AnswerFn<M, R> = Box<dyn FnMut(&M) -> R + Send>;
type SharedAnswerFn<M, R> = Arc<Mutex<Option<AnswerFn<M, R>>>>;

/// The actor behind a [`Probe`].
#[actor(name = "ringpost::Probe")]
pub struct ProbeActor<M: Message, R: Reply> {
    arrivals: mpsc::Sender<ReceivedMessage<M, R>>,
    answer: SharedAnswerFn<M, R>,
}

#[handlers]
impl<M: Message, R: Reply> ProbeActor<M, R> {
    #[handler]
    async fn arrive(&mut self, msg: M, reply: ReplyTo<R>) {
        let answered = self.answer.lock().as_mut().map(|answer| answer(&msg));
        let reply = match answered {
            Some(answer) => {
                reply.send(answer);
                ReplyTo::nobody()
            }
            None => reply,
        };
        // An error means that the probe was dropped, and that this actor will stop.
        drop(at_rest(self.arrivals.send((msg, reply))).await);
    }
}

impl<M: Message + fmt::Debug> Probe<M> {
    /// Spawns a probe with a name, for messages that are told.
    ///
    /// # Errors
    /// As for [`Node::spawn`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the actor may live until the node shuts down.
    pub async fn spawn(node: &Node, name: impl Into<String>) -> Result<Self, SpawnError> {
        Probe::spawn_with(node, SpawnOptions::named(name)).await
    }
}

impl<M: Message + fmt::Debug, R: Reply> Probe<M, R> {
    /// Spawns a probe with a name, which also answers asks: `Probe::<Question, u64>::asked(..)`.
    ///
    /// # Errors
    /// As for [`Node::spawn`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the actor may live until the node shuts down.
    pub async fn asked(node: &Node, name: impl Into<String>) -> Result<Self, SpawnError> {
        Probe::spawn_with(node, SpawnOptions::named(name)).await
    }

    /// Spawns a probe with these options.
    ///
    /// # Errors
    /// As for [`Node::spawn_with`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the actor may live until the node shuts down.
    pub async fn spawn_with(node: &Node, options: SpawnOptions) -> Result<Self, SpawnError> {
        let (sender, arrivals) = mpsc::channel(limits::MAILBOX_CAPACITY);
        let answer = SharedAnswerFn::<M, R>::default();
        let actor = ProbeActor { arrivals: sender, answer: answer.clone() };
        let actor = node.spawn_with(options, actor).await?;
        let (patience, shown) = (PATIENCE, VecDeque::new());
        Ok(Probe { arrivals, actor, answer, patience, shown, received: 0 })
    }

    /// Sets the time-out of expectations.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Returns a reference to its actor, for tells and asks.
    pub fn reference(&self) -> &ActorRef<ProbeActor<M, R>> {
        &self.actor
    }

    /// Returns a recipient for tells of `M` to the probe.
    pub fn recipient(&self) -> Recipient<M> {
        self.actor.recipient()
    }

    /// Returns a recipient for asks with `M` to the probe.
    pub fn asker(&self) -> Recipient<M, R> {
        self.actor.asker()
    }

    /// Answers each later message with the result of `answer`. The test still gets the messages.
    pub fn answer(&self, answer: impl FnMut(&M) -> R + Send + 'static) {
        *self.answer.lock() = Some(Box::new(answer));
    }

    /// Returns the number of messages that the test has got, including skipped ones.
    pub fn received(&self) -> usize {
        self.received
    }

    /// Waits for the next message. If it was an ask and not [answered](Self::answer), the asker
    /// gets [`AskCause::NoReply`](crate::AskCause::NoReply).
    ///
    /// # Panics
    /// Panics if no message arrives in time.
    ///
    /// # Cancel safety
    /// The future can be dropped at any time without loss.
    pub async fn expect(&mut self) -> M {
        self.expect_ask().await.0
    }

    /// Waits for the next message, and returns it with the [`ReplyTo`] for its answer. If the
    /// message was told or [answered](Self::answer), an answer sent there is dropped.
    ///
    /// # Panics
    /// Panics if no message arrives in time.
    ///
    /// # Cancel safety
    /// The future can be dropped at any time without loss.
    pub async fn expect_ask(&mut self) -> (M, ReplyTo<R>) {
        match timeout(self.patience, self.arrivals.recv()).await {
            Ok(Some(arrival)) => self.note(arrival),
            Ok(None) => panic!("{}", self.complaint("its node has shut down")),
            Err(_) => panic!("{}", self.complaint(&format!("none came in {:?}", self.patience))),
        }
    }

    /// Waits for a message for which `matches` returns true. Earlier messages are skipped.
    ///
    /// # Panics
    /// Panics if no such message arrives in time, including the time for skipped messages.
    ///
    /// # Cancel safety
    /// If the future is dropped, skipped messages are lost.
    pub async fn expect_matching(&mut self, mut matches: impl FnMut(&M) -> bool) -> M {
        let end = Instant::now() + self.patience;
        loop {
            match timeout_at(end, self.arrivals.recv()).await {
                Ok(Some(arrival)) => {
                    let (message, _) = self.note(arrival);
                    if matches(&message) {
                        return message;
                    }
                }
                Ok(None) => panic!("{}", self.complaint("its node has shut down")),
                Err(_) => {
                    let why = format!("none that matches came in {:?}", self.patience);
                    panic!("{}", self.complaint(&why))
                }
            }
        }
    }

    /// Waits for this time, in which no message may arrive.
    ///
    /// # Panics
    /// Panics if a message arrives, or has arrived before and not been given to the test, or if the
    /// node ends.
    ///
    /// # Cancel safety
    /// The future can be dropped at any time without loss.
    pub async fn expect_none(&mut self, time: Duration) {
        match timeout(time, self.arrivals.recv()).await {
            Err(_) => {}
            Ok(Some(arrival)) => {
                let (message, _) = self.note(arrival);
                let text = format!("{message:?} came, and none should in {time:?}");
                panic!("{}", self.complaint(&text));
            }
            Ok(None) => panic!("{}", self.complaint("its node has ended")),
        }
    }

    /// Waits for the end of an actor, here or on another node, and returns how it ended. (Messages
    /// that the actor sent to the probe before may arrive later.)
    ///
    /// # Panics
    /// Panics if the actor does not end in time.
    ///
    /// # Cancel safety
    /// The future can be dropped at any time without loss.
    pub async fn expect_down(&self, actor: &impl Watchable) -> ActorExit {
        let (address, exit) = crate::actor::exit_of(actor);
        match timeout(self.patience, exit).await {
            Ok(exit) => exit,
            Err(_) => panic!("{address} has not ended in {:?}", self.patience),
        }
    }

    fn note(&mut self, arrival: ReceivedMessage<M, R>) -> ReceivedMessage<M, R> {
        self.received += 1;
        if self.shown.len() == SHOWN_MAX {
            self.shown.pop_front();
        }
        self.shown.push_back(format!("{:?}", arrival.0));
        arrival
    }

    /// Returns the text of a failed expectation.
    fn complaint(&self, why: &str) -> String {
        let (actor, kind, count) = (self.actor.address(), type_name::<M>(), self.received);
        let mut text = format!("probe {actor} of {kind}: {why}. It was sent {count} before");
        if let Some(first) = self.shown.front() {
            text.push_str(&format!(", at last: {first}"));
            self.shown.iter().skip(1).for_each(|shown| text.push_str(&format!(", {shown}")));
        }
        text
    }
}

impl<M: Message, R: Reply> Drop for Probe<M, R> {
    fn drop(&mut self) {
        // Never fails, because it is an actor of this node.
        self.actor.request_stop().ok();
    }
}

impl<M: Message, R: Reply> fmt::Debug for Probe<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Probe({})", self.actor.address())
    }
}
