//! Waits between actors: for the log, for snapshots, and to prevent cycles of asks.
//!
//! The *chain* of an ask: an ask whose answer a handler awaits refers to that handler, which refers
//! to the ask that it handles, and so on. An ask of an actor in its own chain fails at once. A
//! forwarded ask keeps its chain, because the actor or task that forwards it does not wait. An
//! actor of a chain counts only while its handler runs and waits for the answer: its own node knows
//! each of its waits by a number. (If an actor of another node gives up a wait, this node learns it
//! a moment later.)

pub(crate) mod wire;

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use pin_project_lite::pin_project;

use crate::address::{Address, Identity};
use crate::duty::HandlerInfo;
use crate::limits;

/// The waiting handler or hook of an actor, and the actors that it waits for. It is under a lock of
/// its actor. Created with the actor's first wait, or with the first sender that waits for room in
/// its mailbox.
#[derive(Default)]
pub(crate) struct HandlerWaits {
    /// The actor is listed for the log's periodic look at long waits.
    pub(crate) is_listed: bool,
    pub(crate) handler: Option<&'static HandlerInfo>,
    /// Start of the poll in which `handler` was first found to wait, by the coarse clock of
    /// [`crate::busy`].
    pub(crate) since: u64,
    /// The number of this run of the handler; the next run has another number.
    pub(crate) number: u32,
    /// One entry per waiting send of the handler: at most [`limits::WAITS_MAX`].
    pub(crate) actors: Vec<WaitEntry>,
    /// The number of the last noted wait.
    pub(crate) noted: u64,
}

/// One wait of a handler for an actor.
pub(crate) struct WaitEntry {
    /// The number of the wait, unique among the waits of its actor.
    pub(crate) number: u64,
    pub(crate) whom: WaitTarget,
    pub(crate) what: Awaits,
    /// Start of the wait, by the coarse clock.
    pub(crate) since: u64,
    /// The handler's element in the chains of its asks.
    pub(crate) chain: Arc<ChainElement>,
}

/// An actor that a handler waits for.
#[derive(Clone)]
pub(crate) enum WaitTarget {
    /// The actor of this node with this number.
    Near(u64),
    /// An actor of another node, with the name of its type, if known.
    Far(Address, &'static str),
}

/// The kind of a handler's wait for an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Awaits {
    /// The answer to an ask.
    Answer,
    /// Room in the mailbox; for an actor of another node, also the connection to it.
    Room,
    /// The start of an actor that it has spawned.
    Start,
    /// The end of the actor.
    End,
}

impl Awaits {
    /// Returns the words that precede the name of the actor in the log.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Awaits::Answer => "an answer of",
            Awaits::Room => "room in the mailbox of",
            Awaits::Start => "the start of",
            Awaits::End => "the end of",
        }
    }
}

/// An actor of this node, whose handlers may wait for other actors.
pub(crate) trait WaitingActor: Send + Sync {
    /// Returns true if this is its token, by which [`crate::busy`] knows it.
    fn has_token(&self, token: usize) -> bool;

    /// Returns a number that is the same for all actors of its node, and different for other nodes.
    fn node_number(&self) -> usize;

    /// Returns its identity: its key and the run of its node.
    fn identity(&self) -> Option<Identity>;

    /// Returns its name for people.
    fn called(&self) -> String;

    /// Returns which of its handlers waits, and for which actors.
    fn waits(&self) -> &Mutex<Option<Box<HandlerWaits>>>;

    /// Lists the actor for the log's periodic look at long waits, because its handler waits, or
    /// because a sender waits for room in its mailbox.
    fn list(&self);
}

impl dyn WaitingActor + '_ {
    /// Returns the handler that has the wait with this number, if that wait still goes on.
    pub(crate) fn chain_of(&self, wait: u64) -> Option<Arc<ChainElement>> {
        let waits = self.waits().lock();
        let mut all = waits.iter().flat_map(|waits| &waits.actors);
        all.find(|one| one.number == wait).map(|one| one.chain.clone())
    }
}

/// An element of the chains of asks: a handler that has waited, or an actor of another node
/// according to a peer. The chains of all asks of a handler share its element. Created with the
/// first wait of the handler.
pub(crate) struct ChainElement {
    who: ChainActor,
    /// The ask that the handler handles, while it runs; `None` if no handler waits for the answer.
    asked: Mutex<Option<Arc<dyn HandledAsk>>>,
}

enum ChainActor {
    Near(Arc<dyn WaitingActor>),
    Far(Identity, Box<str>),
}

/// An ask that is being handled.
pub(crate) trait HandledAsk: Send + Sync {
    /// Returns the handler that waits for the answer, or `None` if none waits, or none waits any
    /// more.
    fn asker(&self) -> Option<Asker>;
}

/// A wait of a handler for the answer to an ask.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) chain: Arc<ChainElement>,
    /// The number of the wait on the handler's node.
    pub(crate) wait: u64,
}

impl ChainElement {
    pub(crate) fn new(who: Arc<dyn WaitingActor>, asked: Option<Arc<dyn HandledAsk>>) -> Arc<Self> {
        Arc::new(ChainElement { who: ChainActor::Near(who), asked: Mutex::new(asked) })
    }

    /// Returns the actor if it is an actor of this node.
    pub(crate) fn near(&self) -> Option<&Arc<dyn WaitingActor>> {
        match &self.who {
            ChainActor::Near(actor) => Some(actor),
            ChainActor::Far(..) => None,
        }
    }

    /// Returns the wait for the answer to the ask that this handler handles; `None` if no handler
    /// waits for it.
    pub(crate) fn asker(&self) -> Option<Asker> {
        let asked = self.asked.lock().clone();
        asked?.asker()
    }

    fn called(&self) -> String {
        match &self.who {
            ChainActor::Near(actor) => actor.called(),
            ChainActor::Far(_, name) => name.to_string(),
        }
    }
}

impl Asker {
    /// Calls `see` with each waiting actor, the nearest first, until `see` returns true. Returns
    /// true if it did.
    fn find(self, mut see: impl FnMut(&Asker) -> bool) -> bool {
        let mut next = Some(self);
        for _ in 0..limits::CHAIN_MAX {
            let Some(asker) = next.filter(Asker::waits) else { return false };
            if see(&asker) {
                return true;
            }
            next = asker.chain.asker();
        }
        false
    }

    fn waits(&self) -> bool {
        self.chain.near().is_none_or(|actor| actor.chain_of(self.wait).is_some())
    }

    /// Returns true if the actor of this node with this token is in the chain.
    pub(crate) fn leads_to(self, token: usize) -> bool {
        self.find(|asker| asker.chain.near().is_some_and(|actor| actor.has_token(token)))
    }

    /// Returns a text that names the actors of the cycle that an ask of the actor `whom` closes.
    /// `whom` is its name in the chain. (If the chain has no such name, all actors are named.)
    pub(crate) fn cycle_with(self, whom: &str) -> String {
        let mut names: Vec<String> = Vec::new();
        let is_found = self.find(|asker| {
            names.push(asker.chain.called());
            names.last().is_some_and(|name| name == whom)
        });
        if !is_found {
            names.push(whom.to_owned());
        }
        let asker = names[0].clone();
        names.reverse();
        format!("{asker} waits for {}", names.join(", which waits for "))
    }
}

/// The chain for asks of a handler, or of a task that forwards an ask. Owned by the handler or
/// task, and held by the thread while it polls the owner. One word in size, because each actor has
/// one.
#[derive(Default)]
pub(crate) struct AskChain(Option<Box<AskChainState>>);

enum AskChainState {
    /// The handler handles this ask, for which another handler waits, and has not waited for an
    /// actor.
    HandledAsk(Arc<dyn HandledAsk>),
    /// The handler has waited.
    Waits(HandlerGuard),
    /// The task forwards an ask, for which this handler waits, if any.
    HandsOn(Option<Asker>),
}

/// The chain element of a running handler. Dropped when the handler ends: then the element refers
/// to no ask any more.
pub(crate) struct HandlerGuard(Arc<ChainElement>);

impl Drop for HandlerGuard {
    fn drop(&mut self) {
        let asked = self.0.asked.lock().take();
        drop(asked);
    }
}

thread_local! {
    /// The thread polls a task that forwards an ask.
    static HANDS_ON: Cell<bool> = const { Cell::new(false) };
    static ASKS: Cell<AskChain> = const { Cell::new(AskChain(None)) };
}

impl AskChain {
    /// Returns the chain of a handler of the ask `asked`, whose answer another handler awaits.
    /// Without such an ask, returns the empty chain.
    pub(crate) fn of(asked: Option<Arc<dyn HandledAsk>>) -> Self {
        AskChain(asked.map(|asked| Box::new(AskChainState::HandledAsk(asked))))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Exchanges this with the chain that the thread holds.
    pub(crate) fn swap(&mut self) {
        // A thread that is ending has none.
        let _gone = ASKS.try_with(|asks| *self = asks.replace(std::mem::take(self)));
    }

    /// Takes the chain that the thread holds.
    pub(crate) fn take() -> Self {
        let mut asks = AskChain(None);
        asks.swap();
        asks
    }

    /// Calls `act` while the thread holds no chain, so asks of `act` have no chain.
    #[inline]
    pub(crate) fn apart<T>(act: impl FnOnce() -> T) -> T {
        let hands_on = HANDS_ON.replace(false);
        let mut asks = AskChain::take();
        let done = act();
        asks.swap();
        HANDS_ON.set(hands_on);
        done
    }

    /// Returns the calling handler's element in the chains of its asks. Its first wait creates it
    /// by `make`, from the ask that it handles, if any. `None` if it forwards, or none is made.
    pub(crate) fn chain(
        make: impl FnOnce(Option<Arc<dyn HandledAsk>>) -> Option<Arc<ChainElement>>,
    ) -> Option<Arc<ChainElement>> {
        let mut asks = AskChain::take();
        let made = match asks.0.as_deref() {
            Some(AskChainState::Waits(HandlerGuard(chain))) => {
                let chain = chain.clone();
                asks.swap();
                return Some(chain);
            }
            Some(AskChainState::HandsOn(_)) => None,
            Some(AskChainState::HandledAsk(asked)) => make(Some(asked.clone())),
            None => make(None),
        };
        if let Some(chain) = &made {
            let waits = AskChainState::Waits(HandlerGuard(chain.clone()));
            match &mut asks.0 {
                Some(held) => **held = waits,
                none => *none = Some(Box::new(waits)),
            }
        }
        asks.swap();
        made
    }

    /// Returns the asker of the ask that the caller forwards: `Some(None)` if no handler waits for
    /// that ask, and `None` if the caller forwards no ask.
    #[inline]
    pub(crate) fn handed_on() -> Option<Option<Asker>> {
        if HANDS_ON.get() { AskChain::find_handed_on() } else { None }
    }

    #[cold]
    fn find_handed_on() -> Option<Option<Asker>> {
        let mut asks = AskChain::take();
        let asker = match asks.0.as_deref() {
            Some(AskChainState::HandsOn(asker)) => Some(asker.clone()),
            _ => None,
        };
        asks.swap();
        asker
    }
}

pin_project! {
    /// A future that forwards an ask: its asks have the chain of that ask.
    pub(crate) struct ForwardingFuture<F> {
        asker: Option<Asker>,
        #[pin]
        future: F,
    }
}

/// Wraps `future`, which forwards an ask, so that its asks have the chain of `asker`: the handler
/// that waits for the forwarded ask, if any.
pub(crate) fn hand_on<F: Future>(asker: Option<Asker>, future: F) -> ForwardingFuture<F> {
    ForwardingFuture { asker, future }
}

impl<F: Future> Future for ForwardingFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        struct ChainGuard(AskChain, bool);
        impl Drop for ChainGuard {
            fn drop(&mut self) {
                HANDS_ON.set(self.1);
                self.0.swap();
            }
        }
        let this = self.project();
        let mut lent = ChainGuard(
            AskChain(Some(Box::new(AskChainState::HandsOn(this.asker.clone())))),
            HANDS_ON.replace(true),
        );
        lent.0.swap();
        this.future.poll(cx)
    }
}
