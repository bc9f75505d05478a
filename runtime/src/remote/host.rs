//! Events from other nodes: opens, signals, lost messages, and changes of links and nodes.

use std::sync::Arc;
use std::time::Duration;

use ringpost_transport::host::{Fate, Host, Lost, PeerEvent};
use ringpost_transport::id::NodeId;
use ringpost_transport::log;
use ringpost_transport::open_request::OpenRequest;
use tokio::sync::broadcast;

use super::{Inbox, OpenRefusal, Target};
use crate::address::{Address, Identity, RESERVED, check_name};
use crate::busy::RuntimeWatchdog;
use crate::dead_letter::{DeadLetter, DeadLetterCause, DeadLetters};
use crate::event::NodeEvent;
use crate::registry::Key;

/// Signals that one node's runtime sends to an actor of another node.
pub(crate) mod signals {
    /// Stop after the running handler.
    pub(crate) const STOP: u16 = 1;
    /// Stop now.
    pub(crate) const KILL: u16 = 2;
    /// Stop after all messages sent before.
    pub(crate) const DRAIN: u16 = 3;
}

/// Codes with which a node tells others how an actor ended.
pub(crate) mod ends {
    /// It was stopped or drained.
    pub(crate) const STOPPED: u16 = 1;
    /// It failed; with a text.
    pub(crate) const FAILED: u16 = 2;
    /// It panicked; with the panic's message.
    pub(crate) const PANICKED: u16 = 3;
    /// It was killed.
    pub(crate) const KILLED: u16 = 4;
}

/// Codes of the reason why an ask of another node gets no answer.
pub(crate) mod code {
    /// The ask's bytes are not an archive of the message.
    pub(crate) const INVALID_ASK: u16 = 1;
    /// The reply could not be archived.
    pub(crate) const INVALID_REPLY: u16 = 2;
    /// The actor has its maximum number of links.
    pub(crate) const TOO_MANY_LINKS: u16 = 3;
    /// The actor waits for the asker: it is in the chain of the ask.
    pub(crate) const CYCLE: u16 = 4;
}

/// Finds the actors of this node for its peers.
pub(crate) trait Directory: Send + Sync + 'static {
    /// Returns the inbox of the actor with the address `target` and the type hash `kind` (0: any).
    fn find(&self, target: &Target, kind: u128) -> Result<Arc<dyn Inbox>, OpenRefusal>;
}

/// The receivers of lost messages, and of events about links and nodes.
#[derive(Clone)]
pub(crate) struct Observers {
    pub(crate) dead_letters: Arc<DeadLetters>,
    pub(crate) events: broadcast::Sender<NodeEvent>,
}

/// Opens this node's actors for the transport, and receives the transport's events.
pub(super) struct ActorHost {
    directory: Arc<dyn Directory>,
    observers: Observers,
    watch: RuntimeWatchdog,
}

impl ActorHost {
    pub(super) fn new(
        directory: Arc<dyn Directory>,
        observers: Observers,
        watch: RuntimeWatchdog,
    ) -> Self {
        ActorHost { directory, observers, watch }
    }

    /// Returns how long this node's runtime has not run a task, or `None` if that is not too long.
    pub(super) fn blocked(&self) -> Option<Duration> {
        self.watch.blocked()
    }
}

impl Host for ActorHost {
    fn open(&self, peer: &NodeId, request: &OpenRequest) -> Result<Arc<dyn Inbox>, OpenRefusal> {
        let found = self.directory.find(&request.target, request.kind);
        if let Err(refusal) = &found {
            log::debug!(peer = %peer.name, ?request, ?refusal, "refused to open an actor");
        }
        found
    }

    fn lost(&self, lost: Lost) {
        let cause = match lost.fate {
            Fate::NotSent => DeadLetterCause::NotSent,
            Fate::Refused(_) => DeadLetterCause::Refused,
            _ => DeadLetterCause::Unknown,
        };
        let to = address_of(lost.peer.as_str().into(), lost.target, None);
        self.observers.dead_letters.bury(DeadLetter {
            to,
            message: lost.message,
            name: None,
            cause,
        });
    }

    fn event(&self, event: PeerEvent) {
        let event = match event {
            PeerEvent::LinkUp { peer, fabric } => NodeEvent::LinkUp { node: peer, fabric },
            PeerEvent::LinkDown { peer, cause } => NodeEvent::LinkDown { node: peer, cause },
            PeerEvent::NodeLeaving { peer } => NodeEvent::NodeLeaving { node: peer },
            PeerEvent::Refused { error } => NodeEvent::Refused { error },
            PeerEvent::Paused { lasted } => NodeEvent::Paused { lasted },
            PeerEvent::NodeDown { peer, cause } => NodeEvent::NodeDown { node: peer, cause },
            _ => return,
        };
        // An error only means that there is no observer.
        drop(self.observers.events.send(event));
    }

    fn liveness(&self, late: Duration) {
        self.watch.liveness(late);
    }
}

/// Returns the target by which links identify the actor at `address`, or `None` if no actor can
/// have this address.
pub(super) fn target_of(address: &Address) -> Option<Target> {
    match (address.identity(), address.name()) {
        (Some(Identity { incarnation, key }), _) => {
            Some(Target::Identity { incarnation, id: key.id() })
        }
        (None, Some(name)) if name.starts_with(RESERVED) || check_name(name).is_ok() => {
            Some(Target::Name(name.to_owned()))
        }
        (None, _) => None,
    }
}

/// Returns the address of the actor that links identify by `target`, with its `name` if it is
/// known.
pub(super) fn address_of(node: Arc<str>, target: Target, name: Option<Arc<str>>) -> Address {
    match target {
        Target::Name(name) => Address::by_name(node, name.into()),
        Target::Identity { incarnation, id } => {
            Address::of(node, Identity { incarnation, key: Key::of(id) }, name)
        }
    }
}
