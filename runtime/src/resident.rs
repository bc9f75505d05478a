//! An actor of this node, seen without its type: by links, by lookups, by recipients, by shutdown.

use std::any::{Any, TypeId};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use ringpost_transport::id::Incarnation;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};

use crate::address::{Address, Identity, Shown};
use crate::busy::Duty;
use crate::deadlines::Deadlines;
use crate::error::{Cause, SpawnError};
use crate::exit::ActorExit;
use crate::fate::Fate;
use crate::limits;
use crate::mailbox::{Depth, Intake, Room};
use crate::registry::{Key, Refused, Registry};
use crate::remote::{Directory, Inbox, OpenRefusal, Target};
use crate::schema::Kind;
use crate::slot::OpenAsk;

/// How an actor is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// After what it accepted so far.
    Drain,
    /// After the message it is handling.
    Stop,
    /// At the next await of the message it is handling.
    Kill,
}

/// The handler or hook of an actor that waits, and for which actors. There from the first one on
/// that did.
#[derive(Default)]
pub(crate) struct Waits {
    pub(crate) handler: Option<&'static Duty>,
    /// Which one it is: the next one has another number.
    pub(crate) number: u32,
    /// One for each send of the handler that waits: [`limits::WAITS_MAX`] at most.
    pub(crate) actors: Vec<WaitsFor>,
    /// The number of the last of these that was noted.
    pub(crate) noted: u64,
}

/// An actor for which a handler waits.
pub(crate) struct WaitsFor {
    /// The number of the wait: no other wait of its handler has it.
    pub(crate) number: u64,
    /// The number of the actor; 0 of one of another node.
    pub(crate) whom: u64,
    pub(crate) what: Awaits,
    /// The ask that the handler handles, by its number.
    pub(crate) in_hand: usize,
}

/// What a handler waits for.
pub(crate) enum Awaits {
    /// It is about to send.
    Nothing,
    /// Room in the mailbox, with this turn.
    Room(u64),
    /// An answer.
    Answer(Arc<dyn OpenAsk>),
    /// Room in the mailbox of an actor of another node, or the way to it; with the name of the
    /// actor's type, as far as it is known.
    RoomElsewhere(Address, &'static str),
    /// An answer of such an actor.
    AnswerElsewhere(Address, &'static str),
    /// That the actor starts for the first time.
    Start,
    /// That the actor ends.
    End,
}

/// One end of a link: what an actor has while it is linked to another one. The link is told once,
/// when it ends here.
pub(crate) struct Link {
    /// The other end.
    pub(crate) to: Address,
    /// Tells the other end that the link has ended; with a text, that this end has failed.
    pub(crate) tell: Box<dyn FnOnce(Option<Arc<str>>) + Send>,
}

/// Returns why an actor fails that is linked to one that ended so.
pub(crate) fn linked_to(peer: &Address, exit: &ActorExit) -> Arc<str> {
    linked_text(&match exit {
        ActorExit::Failed(why) => format!("linked to {peer}, which failed: {why}"),
        ActorExit::Panicked(message) => format!("linked to {peer}, which panicked: {message}"),
        ActorExit::NoActor => format!("linked to {peer}, which had ended"),
        ActorExit::NodeDown => format!("linked to {peer}, whose node is down"),
        ActorExit::Stopped => format!("linked to {peer}, which stopped"),
        ActorExit::Killed => format!("linked to {peer}, which was killed"),
    })
}

/// Shortens such a text: each of a long row of links adds to it.
pub(crate) fn linked_text(text: &str) -> Arc<str> {
    if text.len() <= limits::LINKED_TEXT_BYTES_MAX {
        return text.into();
    }
    format!("{} ...", &text[..text.floor_char_boundary(limits::LINKED_TEXT_BYTES_MAX)]).into()
}

/// Told when an actor has started, or why it has not.
pub(crate) type Started = oneshot::Sender<Result<(), SpawnError>>;

/// Where an actor that is to rest says that it does.
pub(crate) type Pause = oneshot::Sender<Resting>;

/// An actor between two incarnations: nothing of it is left but its mailbox and its name.
pub(crate) struct Resting {
    /// How long it is to rest, after a failure.
    pub(crate) delay: Duration,
    /// Has it begin anew, and tells how that went. Dropped, it ends for good.
    pub(crate) resume: oneshot::Sender<Started>,
}

/// An actor of this node, seen without its type.
pub(crate) trait Resident: Inbox {
    fn address(&self) -> &Address;

    /// Returns its type.
    fn kind(&self) -> Kind;

    /// Returns true if it is a tie: no user knows it, and it tells another node how an actor ended.
    fn is_tie(&self) -> bool;

    /// Ends it, or, of a child that is restarted, what it is now.
    fn halt(&self, halt: Halt);

    /// Ends it for good: it is not restarted any more.
    fn retire(&self, halt: Halt);

    /// Ends it as [`Halt::Kill`] does, as a failure.
    fn fail(&self, reason: Arc<str>);

    /// Ends it as [`fail`](Self::fail) does, unless it traps the ends of what it is linked to.
    fn fail_linked(&self, reason: Arc<str>);

    /// Gives it a link, to what has the token `with`. Returns false when it has ended.
    fn link(&self, with: usize, link: Link) -> bool;

    /// Takes a link from it that has ended at the other end, and ends it as
    /// [`fail_linked`](Self::fail_linked) does if there is a reason.
    fn unlink(&self, with: usize, reason: Option<Arc<str>>);

    /// Has it rest after the message it is handling.
    fn pause(&self, pause: Pause);

    /// Ends what it is now as [`Halt::Kill`] does, if it was told to rest and does not yet.
    fn kill_unless_resting(&self);

    /// Returns true if what it is now was killed.
    fn is_killed(&self) -> bool;

    /// Tells other nodes, and what it is linked to, that it was killed, though it still runs: its
    /// handler never waits, and its node does not wait for it.
    fn leave_killed(&self);

    /// Returns true if it was stopped or drained, and ends when its handlers have: it was not
    /// killed.
    fn is_ending(&self) -> bool;

    /// Returns true if it has ended.
    fn has_ended(&self) -> bool;

    /// Waits for its end, and says how it ended. Give the same `place` to each poll of the same
    /// wait, and call [`leave_exit`](Self::leave_exit) with what is left in it.
    fn poll_exit(&self, place: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<ActorExit>;

    /// Gives up a wait for its end.
    fn leave_exit(&self, place: u64);

    /// Returns its type again.
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Returns the same for every view of this actor, and of no other that lives.
    fn token(&self) -> usize;

    /// Returns the place of a message in its table of messages; with `reply`, only if it answers
    /// so.
    fn route(&self, message: u128, reply: Option<TypeId>) -> Option<u16>;

    /// Returns what people call it.
    fn shown(&self) -> Shown<'_> {
        Shown { address: self.address(), kind: self.kind().name }
    }

    /// Returns what waits in its mailbox.
    fn depth(&self) -> Depth;

    /// Returns the room in its mailbox.
    fn intake(&self) -> &dyn Intake;

    /// Puts a message into reserved room. `letter` is an `Option<M>`, which is emptied. On an error
    /// the message is left in it.
    fn put(&self, room: Room<'_>, route: u16, letter: &mut dyn Any) -> Result<Fate, Cause>;

    /// As [`put`](Self::put), with an answer wanted: `letter` is an `Option<(M, ReplyTo<R>)>`, and
    /// `ask` the same ask, to be begun.
    fn put_ask(
        &self,
        room: Room<'_>,
        route: u16,
        letter: &mut dyn Any,
        ask: Arc<dyn OpenAsk>,
    ) -> Result<(), Cause>;

    /// Returns the deadlines of its node.
    fn deadlines(&self) -> &Deadlines;

    /// Returns the actors of its node.
    fn residents(&self) -> &Residents;

    /// Returns which of its handlers waits, and for which actor.
    fn waits(&self) -> &Mutex<Option<Box<Waits>>>;
}

/// Waits until an actor of this node has ended, and says how.
pub(crate) struct Ended {
    resident: Arc<dyn Resident>,
    place: Option<u64>,
}

impl Ended {
    pub(crate) fn of(resident: Arc<dyn Resident>) -> Self {
        Ended { resident, place: None }
    }
}

impl Future for Ended {
    type Output = ActorExit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ActorExit> {
        let Ended { resident, place } = &mut *self;
        resident.poll_exit(place, cx)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.resident.leave_exit(place);
        }
    }
}

/// The actors of this node, and which run of the node it is.
pub(crate) struct Residents {
    registry: Registry<dyn Resident>,
    /// Set when the node has started; nobody lives here before.
    incarnation: OnceLock<Incarnation>,
    /// Notified when a name is given.
    named: Notify,
}

impl Residents {
    pub(crate) fn new() -> Self {
        Residents { registry: Registry::new(), incarnation: OnceLock::new(), named: Notify::new() }
    }

    /// The node has started. Called once.
    pub(crate) fn start(&self, incarnation: Incarnation) {
        self.incarnation.get_or_init(|| incarnation);
    }

    /// Gives a place to the actor that `make` builds.
    ///
    /// # Errors
    /// [`Refused`] when the name is taken or the node is shutting down.
    pub(crate) fn insert<R: Resident>(
        &self,
        name: Option<Arc<str>>,
        make: impl FnOnce(Key) -> Arc<R>,
    ) -> Result<Arc<R>, Refused> {
        let is_named = name.is_some();
        let made = self.registry.insert(name, make, |made| made)?;
        if is_named {
            self.named.notify_waiters();
        }
        Ok(made)
    }

    /// Waits for the next name that is given. Make it before a look at what there is.
    pub(crate) fn next_name(&self) -> Notified<'_> {
        self.named.notified()
    }

    pub(crate) fn remove(&self, key: Key, name: Option<&str>) {
        drop(self.registry.remove(key, name));
    }

    /// Returns the actor at an address of this node.
    pub(crate) fn at(&self, address: &Address) -> Option<Arc<dyn Resident>> {
        match (address.identity(), address.name()) {
            (Some(identity), _) => self.exactly(identity),
            (None, Some(name)) => self.registry.named(name),
            (None, None) => None,
        }
    }

    /// From now on no actor is added.
    pub(crate) fn close(&self) {
        self.registry.close();
        // Names that are waited for are not given any more.
        self.named.notify_waiters();
    }

    /// Returns true if no actor is added any more: the node is shutting down.
    pub(crate) fn is_closed(&self) -> bool {
        self.registry.is_closed()
    }

    /// Returns all actors, the oldest places first.
    pub(crate) fn all(&self) -> Vec<Arc<dyn Resident>> {
        self.registry.all()
    }

    /// Returns the actors that `fits` finds, the oldest places first. It must not look for another
    /// one.
    pub(crate) fn select(&self, fits: impl Fn(&dyn Resident) -> bool) -> Vec<Arc<dyn Resident>> {
        self.registry.select(fits)
    }

    /// Returns the actor with this number: see [`Inbox::id`].
    pub(crate) fn by_id(&self, id: u64) -> Option<Arc<dyn Resident>> {
        self.registry.at(Key::of(id))
    }

    /// Returns for what the handler of an actor waits, for people.
    pub(crate) fn awaited_by(&self, actor: &dyn Resident) -> Option<String> {
        let waits = actor.waits().lock();
        let text = |WaitsFor { whom, what, .. }: &WaitsFor| {
            let near = || Some(self.by_id(*whom)?.shown().to_string());
            let far = |address, kind: &&'static str| Shown { address, kind };
            match what {
                Awaits::Nothing => None,
                Awaits::Room(_) => Some(format!("room in the mailbox of {}", near()?)),
                Awaits::Answer(_) => Some(format!("an answer of {}", near()?)),
                Awaits::Start => Some(format!("the start of {}", near()?)),
                Awaits::End => Some(format!("the end of {}", near()?)),
                Awaits::RoomElsewhere(address, kind) => {
                    Some(format!("room in the mailbox of {}", far(address, kind)))
                }
                Awaits::AnswerElsewhere(address, kind) => {
                    Some(format!("an answer of {}", far(address, kind)))
                }
            }
        };
        let mut texts: Vec<String> = waits.as_ref()?.actors.iter().filter_map(text).collect();
        texts.dedup();
        texts.truncate(limits::STALLS_REPORTED_MAX);
        (!texts.is_empty()).then(|| texts.join(" and "))
    }

    /// Returns whose handlers wait for room in the mailbox of the actor with this number, for
    /// people.
    pub(crate) fn senders_to(&self, id: u64) -> Vec<String> {
        let waits = |actor: &Arc<dyn Resident>| {
            let waits = actor.waits().lock();
            let mut notes = waits.iter().flat_map(|waits| &waits.actors);
            notes.any(|note| note.whom == id && matches!(note.what, Awaits::Room(_)))
        };
        let all = self.all();
        all.iter().filter(|actor| waits(actor)).map(|actor| actor.shown().to_string()).collect()
    }

    fn exactly(&self, identity: Identity) -> Option<Arc<dyn Resident>> {
        let ours = self.incarnation.get() == Some(&identity.incarnation);
        if ours { self.registry.at(identity.key) } else { None }
    }
}

impl Directory for Residents {
    fn find(&self, target: &Target, kind: u128) -> Result<Arc<dyn Inbox>, OpenRefusal> {
        let found = match *target {
            Target::Name(ref name) => self.registry.named(name),
            Target::Identity { incarnation, id } => {
                self.exactly(Identity { incarnation, key: Key::of(id) })
            }
        };
        let resident = found.ok_or(OpenRefusal::NoSuchMailbox)?;
        if kind != 0 && kind != resident.kind().hash {
            return Err(OpenRefusal::WrongKind { found: resident.kind().name.into() });
        }
        Ok(resident)
    }
}
