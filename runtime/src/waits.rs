//! Waits between actors: for the log, for snapshots, and so that no ask waits for its own asker.
//!
//! - **CH-1 the chain of an ask**: an ask that a handler awaits knows that handler, which knows the
//!   ask that it handles, and so on. An ask of an actor in its own chain fails at once. An ask that
//!   is handed on keeps its chain: the actor or task that hands it on does not wait.
//! - **CH-2 no false cycle**: an actor of a chain counts while its handler runs and waits for the
//!   answer: its own node knows each of its waits by a number. (Of a wait that an actor of another
//!   node has given up, this node learns a moment later.)

pub(crate) mod wire;

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use pin_project_lite::pin_project;

use crate::address::{Address, Identity};
use crate::duty::Duty;
use crate::limits;

/// The handler or hook of an actor that waits, and for which actors: under one lock, which is that
/// actor's. There from the first one on that did, or from the first sender on that waited for room
/// in its mailbox.
#[derive(Default)]
pub(crate) struct Waits {
    /// The actor is among those at which the log's look-out looks.
    pub(crate) is_listed: bool,
    pub(crate) handler: Option<&'static Duty>,
    /// When it was first polled, or first found to wait, by the coarse clock of [`crate::busy`].
    pub(crate) since: u64,
    /// Which one it is: the next one has another number.
    pub(crate) number: u32,
    /// One for each send of the handler that waits: at most [`limits::WAITS_MAX`].
    pub(crate) actors: Vec<WaitsFor>,
    /// The number of the last of these that was noted.
    pub(crate) noted: u64,
}

/// An actor for which a handler waits.
pub(crate) struct WaitsFor {
    /// The number of the wait: no other wait of its actor has it.
    pub(crate) number: u64,
    pub(crate) whom: Whom,
    pub(crate) what: Awaits,
    /// Since when, by the coarse clock.
    pub(crate) since: u64,
    /// The handler, as its asks know it.
    pub(crate) chain: Arc<Chain>,
}

/// An actor that is waited for.
#[derive(Clone)]
pub(crate) enum Whom {
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
    /// Room in the mailbox; of an actor of another node also the way to it.
    Room,
    /// The start of an actor that it has spawned.
    Start,
    /// The end of the actor.
    End,
}

impl Awaits {
    /// Returns the words for it that come before the name of the actor.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Awaits::Answer => "an answer of",
            Awaits::Room => "room in the mailbox of",
            Awaits::Start => "the start of",
            Awaits::End => "the end of",
        }
    }
}

/// An actor of this node whose handlers wait.
pub(crate) trait WaitingActor: Send + Sync {
    /// Returns true if this is its [token](crate::resident::Resident::token).
    fn has_token(&self, token: usize) -> bool;

    /// Returns a number that is the same for the actors of its node, and for no others.
    fn home(&self) -> usize;

    /// Returns which actor of which run of its node it is.
    fn identity(&self) -> Option<Identity>;

    /// Returns what people call it.
    fn called(&self) -> String;

    /// Returns which of its handlers waits, and for which actors.
    fn waits(&self) -> &Mutex<Option<Box<Waits>>>;
}

impl dyn WaitingActor + '_ {
    /// Returns the handler that has the wait with this number, if that goes on.
    pub(crate) fn chain_of(&self, wait: u64) -> Option<Arc<Chain>> {
        let waits = self.waits().lock();
        let mut all = waits.iter().flat_map(|waits| &waits.actors);
        all.find(|one| one.number == wait).map(|one| one.chain.clone())
    }
}

/// A handler that has asked, or an actor of another node as a peer tells of it. A link of the
/// chains of its asks, which share it. Made with the first wait of the handler.
pub(crate) struct Chain {
    who: Who,
    /// The ask that the handler handles, while that runs; `None` if no handler awaits it.
    asked: Mutex<Option<Arc<dyn Asked>>>,
}

enum Who {
    Near(Arc<dyn WaitingActor>),
    Far(Identity, Box<str>),
}

/// An ask that is handled.
pub(crate) trait Asked: Send + Sync {
    /// Returns the handler that waits for the answer: `None` where none does, or no longer.
    fn asker(&self) -> Option<Asker>;
}

/// A wait of a handler for the answer to an ask.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) chain: Arc<Chain>,
    /// The number of the wait on the handler's node.
    pub(crate) wait: u64,
}

impl Chain {
    pub(crate) fn new(who: Arc<dyn WaitingActor>, asked: Option<Arc<dyn Asked>>) -> Arc<Self> {
        Arc::new(Chain { who: Who::Near(who), asked: Mutex::new(asked) })
    }

    /// Returns the actor, which is one of this node.
    pub(crate) fn near(&self) -> Option<&Arc<dyn WaitingActor>> {
        match &self.who {
            Who::Near(actor) => Some(actor),
            Who::Far(..) => None,
        }
    }

    /// Returns the wait of the actor that asked this one.
    pub(crate) fn asker(&self) -> Option<Asker> {
        let asked = self.asked.lock().clone();
        asked?.asker()
    }

    fn called(&self) -> String {
        match &self.who {
            Who::Near(actor) => actor.called(),
            Who::Far(_, name) => name.to_string(),
        }
    }
}

impl Asker {
    /// Calls `see` with each actor that waits, the nearest first, until it returns true; returns
    /// true then.
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

    /// Returns true if the actor of this node with this token is in the chain (CH-1).
    pub(crate) fn leads_to(self, token: usize) -> bool {
        self.find(|asker| asker.chain.near().is_some_and(|actor| actor.has_token(token)))
    }

    /// Returns the names of a cycle that an ask of `whom` closes, which is in the chain by this
    /// name. (If it is not, the whole chain is named.)
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

/// The chain for the asks of a handler, or of a task that hands on an ask. Owned by the handler or
/// task; the thread has it while it polls that. One word in size, as each actor has one.
#[derive(Default)]
pub(crate) struct Hand(Option<Box<Held>>);

enum Held {
    /// The handler handles this ask, for which another one waits, and has waited for no actor.
    Asked(Arc<dyn Asked>),
    /// The handler has waited.
    Waits(Waiting),
    /// The task hands on an ask for which this handler waits, if one does.
    HandsOn(Option<Asker>),
}

/// The handler that has a link of chains. Dropped, it has ended.
pub(crate) struct Waiting(Arc<Chain>);

impl Drop for Waiting {
    fn drop(&mut self) {
        let asked = self.0.asked.lock().take();
        drop(asked);
    }
}

thread_local! {
    /// The thread polls a task that hands on an ask.
    static HANDS_ON: Cell<bool> = const { Cell::new(false) };
    static HAND: Cell<Hand> = const { Cell::new(Hand(None)) };
}

impl Hand {
    /// Returns the hand of a handler of `asked`: an ask for which another handler waits, if any.
    pub(crate) fn of(asked: Option<Arc<dyn Asked>>) -> Self {
        Hand(asked.map(|asked| Box::new(Held::Asked(asked))))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Exchanges this with what the thread has.
    pub(crate) fn swap(&mut self) {
        // Where the thread ends, it has nothing.
        let _gone = HAND.try_with(|hand| *self = hand.replace(std::mem::take(self)));
    }

    /// Takes what the thread has.
    pub(crate) fn take() -> Self {
        let mut hand = Hand(None);
        hand.swap();
        hand
    }

    /// Calls `act` as a caller of whose asks the thread knows nothing.
    #[inline]
    pub(crate) fn apart<T>(act: impl FnOnce() -> T) -> T {
        let hands_on = HANDS_ON.replace(false);
        let mut hand = Hand::take();
        let done = act();
        hand.swap();
        HANDS_ON.set(hands_on);
        done
    }

    /// Returns the link of the handler that the caller is, which `make` makes for the ask in hand.
    pub(crate) fn chain(
        make: impl FnOnce(Option<Arc<dyn Asked>>) -> Option<Arc<Chain>>,
    ) -> Option<Arc<Chain>> {
        let mut hand = Hand::take();
        let made = match hand.0.as_deref() {
            Some(Held::Waits(Waiting(chain))) => {
                let chain = chain.clone();
                hand.swap();
                return Some(chain);
            }
            Some(Held::HandsOn(_)) => None,
            Some(Held::Asked(asked)) => make(Some(asked.clone())),
            None => make(None),
        };
        if let Some(chain) = &made {
            let waits = Held::Waits(Waiting(chain.clone()));
            match &mut hand.0 {
                Some(held) => **held = waits,
                none => *none = Some(Box::new(waits)),
            }
        }
        hand.swap();
        made
    }

    /// Returns the asker whose ask the caller hands on; `None` where it hands on none.
    #[inline]
    pub(crate) fn handed_on() -> Option<Option<Asker>> {
        if HANDS_ON.get() { Hand::find_handed_on() } else { None }
    }

    #[cold]
    fn find_handed_on() -> Option<Option<Asker>> {
        let mut hand = Hand::take();
        let asker = match hand.0.as_deref() {
            Some(Held::HandsOn(asker)) => Some(asker.clone()),
            _ => None,
        };
        hand.swap();
        asker
    }
}

pin_project! {
    /// A future that hands on an ask: the asks that it makes have the chain of that one (CH-1).
    pub(crate) struct HandingOn<F> {
        asker: Option<Asker>,
        #[pin]
        future: F,
    }
}

/// Has `future` make its asks for this handler, which waits for the ask that it hands on.
pub(crate) fn hand_on<F: Future>(asker: Option<Asker>, future: F) -> HandingOn<F> {
    HandingOn { asker, future }
}

impl<F: Future> Future for HandingOn<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        struct Lent(Hand, bool);
        impl Drop for Lent {
            fn drop(&mut self) {
                HANDS_ON.set(self.1);
                self.0.swap();
            }
        }
        let this = self.project();
        let mut lent =
            Lent(Hand(Some(Box::new(Held::HandsOn(this.asker.clone())))), HANDS_ON.replace(true));
        lent.0.swap();
        this.future.poll(cx)
    }
}
