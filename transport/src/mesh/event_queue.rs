//! The events of a node's peers, and what else all its peers share.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

    /// Tells the layer above what is queued: one task at a time, in order, without any lock. A
    /// panic of it, of a subscriber or of a recorder ends neither this nor the calling task.
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
                harmless(|| tracing::info!(?event, "peer"));
                harmless(|| meter::count(&event));
                harmless(|| self.host.event(event));
            }
            Event::Settled(peer, settled) => {
                for (tell, fate) in settled {
                    harmless(|| settle(&*self.host, &peer, tell, fate));
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

/// Runs code that is not this crate's: what panics there has been reported by the panic hook, and
/// the events behind this one are told all the same.
fn harmless(run: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(run)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::OpenRefusal;
    use crate::host::{Inbox, Lost, NodeDownCause};
    use crate::id::{Incarnation, NodeId};
    use crate::open_request::OpenRequest;

    /// Panics at each event, after it has noted it.
    #[derive(Default)]
    struct Fragile(Mutex<Vec<PeerEvent>>);

    impl Host for Fragile {
        fn open(&self, _: &NodeId, _: &OpenRequest) -> Result<Arc<dyn Inbox>, OpenRefusal> {
            Err(OpenRefusal::NoSuchMailbox)
        }

        fn lost(&self, _: Lost) {}

        fn event(&self, event: PeerEvent) {
            self.0.lock().push(event);
            panic!("a subscriber that fails");
        }
    }

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn a_subscriber_that_panics_is_told_of_all_that_follows() {
        let host = Arc::new(Fragile::default());
        let (events, _) = EventQueue::new(host.clone(), Duration::from_secs(8));
        let down = |number| PeerEvent::NodeDown {
            peer: NodeId {
                name: NodeName::new("peer").expect("a name"),
                incarnation: Incarnation(number),
            },
            cause: NodeDownCause::Left,
        };
        events.push(down(1));
        events.push(down(2));
        events.tell();
        events.push(down(3));
        events.tell();
        assert_eq!(*host.0.lock(), [down(1), down(2), down(3)]);
    }
}
