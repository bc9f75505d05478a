//! The part of a cell that does not name the type of its actor.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use ringpost_transport::log;
use ringpost_transport::memory::Payload;

use super::arrival::{RemoteMessage, begin_ask};
use super::route::{EncodedMessage, EnvelopeError, Label};
use super::turn::TurnLock;
use crate::address::{Address, Identity};
use crate::busy::AskContext;
use crate::dead_letter::{DeadLetter, DeadLetterCause};
use crate::ends::{ExitControl, RestartPolicy};
use crate::exit::ActorExit;
use crate::node::Node;
use crate::registry::Key;
use crate::remote::{Form, Note, Replier, code};
use crate::resident::LocalActor;
use crate::slot::OpenAsk;
use crate::spans::{self, Scope, SpanFields};
use crate::tally::ActorStats;
use crate::waits::wire::{self, MalformedChain};
use crate::waits::{Asker, HandledAsk, HandlerWaits};

/// The part of a cell that does not name the actor's type: code that uses it is compiled once, and
/// not for each actor of a program. Laid out by hand: the fields that every message needs come
/// last, beside the mailbox.
#[repr(C)]
pub(crate) struct CellBase {
    pub(super) name: Option<Arc<str>>,
    /// Created at first use: most actors never need it.
    rare: OnceLock<Box<CellExtras>>,
    turn: TurnLock,
    pub(super) ends: ExitControl,
    pub(super) key: Key,
    pub(super) node: Node,
}

/// A cell without the type of its actor, as the task of the actor sees it.
pub(crate) trait ErasedCell: LocalActor {
    fn base(&self) -> &CellBase;

    /// Returns the name of the actor's type, as metrics show it.
    fn name(&self) -> &'static str;
}

/// A message from another node that was begun and must be decoded next.
pub(super) struct UndecodedMessage {
    pub(super) far: EncodedMessage,
    is_tell: bool,
    in_hand: AskContext,
    /// The length of its payload.
    pub(super) bytes: u32,
    note: Option<Note>,
}

/// An ask from another node whose answer a handler there awaits.
struct FarAsk<W> {
    asker: Asker,
    is_awaited: W,
}

impl<W: Fn() -> bool + Send + Sync> HandledAsk for FarAsk<W> {
    fn asker(&self) -> Option<Asker> {
        (self.is_awaited)().then(|| self.asker.clone())
    }
}

/// The part of a cell that few actors need.
struct CellExtras {
    address: Address,
    tally: OnceLock<Arc<ActorStats>>,
    waits: Mutex<Option<Box<HandlerWaits>>>,
}

impl CellBase {
    pub(crate) fn new(
        node: Node,
        key: Key,
        name: Option<Arc<str>>,
        revival: RestartPolicy,
    ) -> Self {
        CellBase {
            name,
            rare: OnceLock::new(),
            turn: TurnLock::new(),
            ends: ExitControl::new(revival),
            key,
            node,
        }
    }

    pub(crate) fn ends(&self) -> &ExitControl {
        &self.ends
    }

    pub(crate) fn turn(&self) -> &TurnLock {
        &self.turn
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    fn rare(&self) -> &CellExtras {
        self.rare.get_or_init(|| {
            let incarnation = self.node.id().incarnation;
            let identity = Identity { incarnation, key: self.key };
            let node = self.node.shared_name().clone();
            let address = Address::of(node, identity, self.name.clone());
            Box::new(CellExtras { address, tally: OnceLock::new(), waits: Mutex::new(None) })
        })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.rare().address
    }

    /// Returns the actor's counters, which snapshots show.
    pub(crate) fn tally(&self) -> &Arc<ActorStats> {
        self.rare().tally.get_or_init(Arc::default)
    }

    /// See [`Inbox::id`](crate::remote::Inbox::id).
    pub(crate) fn id(&self) -> u64 {
        self.key.id()
    }

    /// Returns the token of the actor, as in [`LocalActor`]: a cell and its base have the same
    /// address.
    pub(crate) fn token(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns the actor's counters, if they have been created.
    pub(super) fn known_tally(&self) -> Option<&ActorStats> {
        self.rare.get()?.tally.get().map(|tally| &**tally)
    }

    pub(crate) fn waits(&self) -> &Mutex<Option<Box<HandlerWaits>>> {
        &self.rare().waits
    }

    /// Clears the waits of a handler that has ended: a task may still hold its futures, but the
    /// handler waits for none of them.
    pub(crate) fn end_waits(&self) {
        let Some(rare) = self.rare.get() else { return };
        let ended = match &mut *rare.waits.lock() {
            Some(waits) if !waits.actors.is_empty() => std::mem::take(&mut waits.actors),
            _ => return,
        };
        drop(ended);
    }

    /// Begins a message of this node. Returns `None` for an ask whose asker has given up, which
    /// must not be handled.
    pub(super) fn begin(
        &self,
        label: &Label,
        ask: Option<Arc<dyn OpenAsk>>,
    ) -> Option<(AskContext, Option<Box<Scope>>)> {
        let mut in_hand = AskContext::default();
        if let Some(ask) = &ask {
            let Some(deadline) = ask.begin() else {
                self.skipped(label);
                return None;
            };
            in_hand.deadline = deadline;
            if ask.is_of_handler() {
                in_hand.asked = Some(ask.clone());
            }
        }
        let scope = || {
            let is_ask = ask.as_ref().is_some_and(|ask| ask.is_ask());
            self.scope(label, is_ask, ask.as_ref().and_then(|ask| ask.sent_in()))
        };
        Some((in_hand, spans::is_on().then(scope)))
    }

    /// Creates the scope for handling a message that was sent in the scope `sent_in`.
    #[cold]
    pub(crate) fn scope(&self, label: &Label, is_ask: bool, sent_in: Option<&Scope>) -> Box<Scope> {
        let subject = SpanFields {
            node: self.node.name(),
            entropy: self.node.entropy(),
            actor_type: label.duty.actor(),
            message: label.name(),
            is_ask,
        };
        Scope::handling(&subject, self.address(), sent_in)
    }

    /// Begins a message from another node, which arrived in the version `form`. Returns `None` if
    /// its asker has given up, or the chain of its ask cannot be read.
    pub(super) fn open(
        &self,
        label: &Label,
        unopened: RemoteMessage,
        form: Form,
    ) -> Option<UndecodedMessage> {
        let RemoteMessage { mut payload, ask, note, .. } = unopened;
        let bytes = payload.len() as u32;
        let (mut replier, mut asked, mut in_hand) = (None, None, AskContext::default());
        if let Some((ask, deadline)) = ask {
            let Some(begun) = begin_ask(ask, deadline) else {
                self.skipped(label);
                return None;
            };
            match self.take_chain(&mut payload, &begun) {
                Ok(chain) => asked = chain,
                Err(error) => {
                    self.refuse(label, Some(begun));
                    let (actor, name) = (self.address(), label.name());
                    log::warn!(%actor, name, %error, "a message could not be read: it is dropped");
                    return None;
                }
            }
            in_hand = AskContext { deadline, asked: asked.clone() };
            replier = Some(begun);
        }
        let is_tell = replier.is_none();
        Some(UndecodedMessage {
            far: EncodedMessage { payload, replier, asked, form },
            is_tell,
            in_hand,
            bytes,
            note,
        })
    }

    /// Removes the chain from the end of the payload of an ask from another node. Returns the ask
    /// if a handler on that node awaits the answer.
    fn take_chain(
        &self,
        payload: &mut Payload,
        replier: &Replier,
    ) -> Result<Option<Arc<dyn HandledAsk>>, MalformedChain> {
        let asker = wire::take(payload, |actor, wait| self.node.residents().waits_at(actor, wait))?;
        let asked =
            |asker| Arc::new(FarAsk { asker, is_awaited: replier.watch() }) as Arc<dyn HandledAsk>;
        Ok(asker.map(asked))
    }

    /// Returns the deadline and the asker of a decoded message from another node, and the scope in
    /// which it is handled.
    pub(super) fn opened(
        &self,
        label: &Label,
        opened: UndecodedMessage,
    ) -> (AskContext, Option<Box<Scope>>) {
        let UndecodedMessage { is_tell, in_hand, note, .. } = opened;
        let scope = || self.scope(label, !is_tell, note.as_ref().map(Scope::of).as_ref());
        (in_hand, spans::is_on().then(scope))
    }

    /// Logs that a message could not be read, and refuses it.
    #[cold]
    pub(super) fn unread(&self, label: &Label, opened: UndecodedMessage, error: EnvelopeError) {
        let (actor, name) = (self.address(), label.name());
        let error = error.text();
        self.refuse(label, opened.far.replier);
        log::warn!(%actor, name, %error, "a message could not be read: it is dropped");
    }

    /// Refuses a message that could not be read: fails an ask; a tell becomes a dead letter.
    #[cold]
    pub(super) fn refuse(&self, label: &Label, replier: Option<Replier>) {
        match replier {
            Some(replier) => replier.fail(code::INVALID_ASK),
            None => self.bury(label, DeadLetterCause::InvalidArchive),
        }
    }

    fn skipped(&self, label: &Label) {
        let name = label.name();
        log::debug!(actor = %self.address(), name, "skipped an ask whose asker has given up");
    }

    pub(crate) fn bury(&self, label: &Label, cause: DeadLetterCause) {
        self.node.dead_letters().bury(DeadLetter {
            to: self.address().clone(),
            message: label.id,
            name: Some(label.name()),
            cause,
        });
    }

    /// Frees the name of the actor, and tells the links to other nodes how it ended.
    pub(super) fn close(&self, exit: &ActorExit) {
        self.node.residents().remove(self.key, self.name.as_deref());
        self.ends.close(exit);
    }

    /// See [`WaitingActor::list`](crate::waits::WaitingActor::list).
    pub(crate) fn list(&self) {
        let mut waits = self.waits().lock();
        let was_listed = std::mem::replace(&mut waits.get_or_insert_default().is_listed, true);
        drop(waits);
        if !was_listed {
            self.node.residents().list(self.key.id());
        }
    }
}

impl dyn ErasedCell + '_ {
    /// Prepares the mailbox for a new incarnation. Returns false if there must not be one. A stop
    /// or a drain is undone only if the actor is restarted after these, too (`is_revived`).
    pub(crate) fn renew(&self, is_revived: bool) -> bool {
        let (mailbox, ends) = (self.intake(), self.ends());
        if is_revived {
            mailbox.reopen();
        }
        // After reopening: an order to end is set before its stop, so it is seen here if that stop
        // was undone.
        if ends.is_final() {
            mailbox.stop();
            return false;
        }
        if is_revived && !ends.is_revived() {
            // It was dismissed meanwhile, and the drain found the mailbox still stopped.
            mailbox.drain();
        }
        is_revived || !mailbox.is_stopping()
    }
}
