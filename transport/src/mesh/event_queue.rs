//! The events of a node's peers, and what else all its peers share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::driver::settle;
use crate::host::{Host, PeerEvent};
use crate::id::NodeName;
use crate::limits;
use crate::unresolved::Settled;

use super::meter;

/// The queue of what the layer above is told of peers.
pub(super) struct EventQueue {
    host: Arc<dyn Host>,
    queue: Mutex<Queue>,
    linked: watch::Sender<usize>,
    closing: Arc<Closing>,
    wants: mpsc::UnboundedSender<NodeName>,
    down_after: Duration,
    /// How many more lost nodes may be dialled without being wanted (MS-14).
    relinks: Arc<Semaphore>,
}

/// The flag that the node is closing, and those that wait for it. (A watch channel would wake its
/// waiters in a random order, and a simulated run has to be repeatable.) A task that sees "not
/// closing" under the lock is already registered, so it cannot miss the wake-up.
#[derive(Default)]
struct Closing {
    now: Mutex<bool>,
    told: Notify,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    telling: bool,
}

/// One thing that the layer above is told; they are told in order.
enum Event {
    Peer(PeerEvent),
    /// Fates of messages to this peer.
    Settled(NodeName, Settled),
}

impl EventQueue {
    /// Returns a queue, and the receiver of the names of peers that are to be reached.
    pub(super) fn new(
        host: Arc<dyn Host>,
        down_after: Duration,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<NodeName>) {
        let (wants, wanted) = mpsc::unbounded_channel();
        let events = EventQueue {
            host,
            queue: Mutex::default(),
            linked: watch::Sender::new(0),
            closing: Arc::default(),
            wants,
            down_after,
            relinks: Arc::new(Semaphore::new(limits::RELINKS_MAX)),
        };
        (Arc::new(events), wanted)
    }

    /// Returns the layer above.
    pub(super) fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// Returns the silence after which a node is down.
    pub(super) fn down_after(&self) -> Duration {
        self.down_after
    }

    /// Returns the right to have a lost node dialled without being wanted, if there is one left.
    pub(super) fn relink(&self) -> Option<OwnedSemaphorePermit> {
        self.relinks.clone().try_acquire_owned().ok()
    }

    /// Queues an event. To be called under the lock of the peer it is about, so that its events
    /// keep their order; [`tell`](Self::tell) has to follow without it.
    pub(super) fn push(&self, event: PeerEvent) {
        self.queue.lock().events.push_back(Event::Peer(event));
    }

    /// Queues the fates of messages to `peer`, as [`push`](Self::push) does an event.
    pub(super) fn settle(&self, peer: &NodeName, settled: Settled) {
        if !settled.is_empty() {
            self.queue.lock().events.push_back(Event::Settled(peer.clone(), settled));
        }
    }

    /// Tells the layer above what is queued: one task at a time, in order, without any lock.
    pub(super) fn tell(&self) {
        let mut queue = self.queue.lock();
        if queue.telling {
            return;
        }
        queue.telling = true;
        while let Some(event) = queue.events.pop_front() {
            drop(queue);
            self.tell_one(event);
            queue = self.queue.lock();
        }
        queue.telling = false;
    }

    fn tell_one(&self, event: Event) {
        match event {
            Event::Peer(event) => {
                tracing::info!(?event, "peer");
                meter::count(&event);
                self.host.event(event);
            }
            Event::Settled(peer, settled) => {
                for (tell, fate) in settled {
                    settle(&*self.host, &peer, tell, fate);
                }
            }
        }
    }

    /// Returns how many peers are linked.
    pub(super) fn linked(&self) -> &watch::Sender<usize> {
        &self.linked
    }

    /// Has a peer reached for.
    pub(super) fn want(&self, name: &NodeName) {
        // An error says that the receiver is gone: the node is closing.
        let _ = self.wants.send(name.clone());
    }

    /// Returns true if the node is closing: no new links.
    pub(super) fn is_closing(&self) -> bool {
        *self.closing.now.lock()
    }

    /// Lets no new link come about from now on.
    pub(super) fn close(&self) {
        *self.closing.now.lock() = true;
        self.closing.told.notify_waiters();
    }

    /// Returns a future that is ready when the node is closing.
    pub(super) fn closing(&self) -> impl Future<Output = ()> + Send + 'static {
        let closing = self.closing.clone();
        async move {
            // Registered before the look, so that no wake-up falls between the two.
            let told = closing.told.notified();
            let now = *closing.now.lock();
            if !now {
                told.await;
            }
        }
    }
}
