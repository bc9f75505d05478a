//! The events of a node's peers, and what else all its peers share.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;

use crate::cause::{NodeDown, NodeDownCause};
use crate::driver::settle;
use crate::host::{Host, PeerEvent};
use crate::id::NodeName;
use crate::limits;
use crate::log;
use crate::log_limiter::LogLimiter;
use crate::shield;
use crate::unresolved::Settled;

use super::meter;
use super::seeds::Seeds;

/// The queue of what the layer above is told of peers.
pub(super) struct EventQueue {
    host: Arc<dyn Host>,
    queue: Mutex<Queue>,
    linked: watch::Sender<usize>,
    closing: Arc<Closing>,
    /// True once this node has begun to shut down.
    leaving: Mutex<bool>,
    changes: Changes,
    clock: RunClock,
    wants: mpsc::UnboundedSender<NodeName>,
    seeds: Seeds,
    down_after: Duration,
    /// How many more lost nodes may be dialled without being wanted.
    relinks: Arc<Semaphore>,
    /// How many more lost nodes may be waited for longer than this node's own `down_after`.
    patience: Arc<Semaphore>,
    metrics_by_peer: bool,
    /// The lines of links and nodes that come and go, or are not reached: a thousand at once do not
    /// fill the log.
    lines: LogLimiter,
}

/// The cause for which the node closes, and the tasks that wait for that. (A watch channel would
/// wake its waiters in a random order, and a simulated run has to be repeatable.) A task that sees
/// "not closing" under the lock is already registered, so it cannot miss the wake-up.
#[derive(Default)]
struct Closing {
    cause: Mutex<Option<NodeDownCause>>,
    told: Notify,
}

/// The version of the state of the peers, and the tasks that wait for the next one. (Not a watch
/// channel, for the reason given at [`Closing`].)
#[derive(Default)]
struct Changes {
    version: Mutex<u64>,
    /// The version for which tasks were woken last. They are woken for each version once: a task
    /// that also waits for a link has the peer's task look again whenever it is woken.
    told_version: Mutex<u64>,
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
        metrics_by_peer: bool,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<NodeName>) {
        let (wants, wanted) = mpsc::unbounded_channel();
        let events = EventQueue {
            host,
            queue: Mutex::default(),
            linked: watch::Sender::new(0),
            closing: Arc::default(),
            leaving: Mutex::new(false),
            changes: Changes::default(),
            clock: RunClock::new(),
            wants,
            seeds: Seeds::default(),
            down_after,
            relinks: Arc::new(Semaphore::new(limits::RELINKS_MAX)),
            patience: Arc::new(Semaphore::new(limits::PATIENCE_MAX)),
            metrics_by_peer,
            lines: LogLimiter::new(limits::PEER_LINES_MAX),
        };
        (Arc::new(events), wanted)
    }

    /// Returns the layer above.
    pub(super) fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// Returns the seeds of this node.
    pub(super) fn seeds(&self) -> &Seeds {
        &self.seeds
    }

    /// Returns the silence after which a node is down.
    pub(super) fn down_after(&self) -> Duration {
        self.down_after
    }

    /// Returns the right to have a lost node dialled without being wanted, if there is one left.
    pub(super) fn relink(&self) -> Option<OwnedSemaphorePermit> {
        self.relinks.clone().try_acquire_owned().ok()
    }

    /// Returns the silence after which a node is down that asked for `asked`, if that is longer
    /// than this node's own and there is the right left to wait so long for a lost node.
    pub(super) fn patience(&self, asked: Duration) -> Option<(Duration, OwnedSemaphorePermit)> {
        let longer = (asked > self.down_after).then(|| self.patience.clone().try_acquire_owned());
        Some((asked, longer?.ok()?))
    }

    /// Returns the clock by which silence is counted.
    pub(super) fn clock(&self) -> &RunClock {
        &self.clock
    }

    /// Returns the time by that clock. When it finds that this node stood still, it queues that as
    /// [`push`](Self::push) does.
    pub(super) fn now(&self) -> Instant {
        let (now, pause) = self.clock.look();
        if let Some(lasted) = pause {
            self.push(PeerEvent::Paused { lasted });
        }
        now
    }

    /// Checks the clock for a pause, tells all queued events, and logs counts of suppressed lines.
    pub(super) fn look(&self) {
        self.now();
        self.tell();
        self.log_suppressed();
    }

    /// Logs how many lines of each kind were left out of periods that are over.
    fn log_suppressed(&self) {
        let left_out = self.lines.take_suppressed(Instant::now());
        if !left_out.is_empty() {
            log::info!(?left_out, "lines about peers were left out of the log");
        }
    }

    /// Returns true if there is to be a line of this kind about a peer now; counts it if not.
    pub(super) fn admit_line(&self, kind: &'static str) -> bool {
        self.log_suppressed();
        self.lines.admit(kind, Instant::now()).is_some()
    }

    /// Returns true if metrics have a series for each peer.
    pub(super) fn metrics_by_peer(&self) -> bool {
        self.metrics_by_peer
    }

    /// Queues an event. To be called under the lock of the peer it is about, so that its events
    /// keep their order; [`tell`](Self::tell) has to follow without it.
    pub(super) fn push(&self, event: PeerEvent) {
        self.bump();
        self.queue.lock().events.push_back(Event::Peer(event));
    }

    /// Makes the version another one without an event; [`tell`](Self::tell) has to follow.
    pub(super) fn bump(&self) {
        *self.changes.version.lock() += 1;
    }

    /// Queues the fates of messages to `peer`, as [`push`](Self::push) does an event.
    pub(super) fn settle(&self, peer: &NodeName, settled: Settled) {
        if !settled.is_empty() {
            self.queue.lock().events.push_back(Event::Settled(peer.clone(), settled));
        }
    }

    /// Tells the layer above all queued events: one task at a time, in order, without any lock. A
    /// panic of that layer, a subscriber or a recorder ends neither this nor the caller.
    pub(super) fn tell(&self) {
        let version = self.version();
        if std::mem::replace(&mut *self.changes.told_version.lock(), version) != version {
            self.changes.told.notify_waiters();
        }
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
                self.log(&event);
                meter::count(&event, self.metrics_by_peer);
                shield::run(|| self.host.event(event));
            }
            Event::Settled(peer, settled) => {
                for (tell, fate) in settled {
                    shield::run(|| settle(&*self.host, &peer, tell, fate));
                }
            }
        }
    }

    fn log(&self, event: &PeerEvent) {
        let kind = match event {
            PeerEvent::LinkUp { .. } => "links up",
            PeerEvent::LinkDown { .. } => "links down",
            PeerEvent::NodeDown { .. } => "nodes down",
            PeerEvent::NodeLeaving { .. } => "nodes leaving",
            PeerEvent::Refused { .. } => "refusals",
            PeerEvent::Paused { lasted } => {
                return log::warn!(
                    ?lasted,
                    "this node stood still: links may be lost, and others may have found it down"
                );
            }
        };
        if !self.admit_line(kind) {
            return log::debug!(?event, "a peer came or went");
        }
        match event {
            PeerEvent::LinkUp { peer, fabric } => {
                let run = peer.incarnation.to_string();
                log::info!(peer = %peer.name, run, fabric, "a link is up");
            }
            PeerEvent::LinkDown { peer, cause } => {
                log::info!(peer = %peer.name, %cause, "a link ended");
            }
            PeerEvent::NodeLeaving { peer } => {
                log::info!(peer = %peer.name, "a node is shutting down");
            }
            PeerEvent::Refused { error } => {
                let (address, failure) = (&error.address, error.text());
                log::warn!(address, failure, "a seed refuses this node");
            }
            PeerEvent::NodeDown { peer, cause } => {
                let run = peer.incarnation.to_string();
                log::info!(peer = %peer.name, run, %cause, "a node is down");
            }
            PeerEvent::Paused { .. } => {}
        }
    }

    /// Returns the version of the state of the peers, which grows with each event.
    pub(super) fn version(&self) -> u64 {
        *self.changes.version.lock()
    }

    /// Waits until the version is another than `seen`. Returns false when it is not, and the node
    /// is closing.
    pub(super) async fn changed(&self, seen: u64) -> bool {
        let mut closing = pin!(self.closing());
        loop {
            let mut told = pin!(self.changes.told.notified());
            // Registered before the look, so that no wake-up falls between the two.
            told.as_mut().enable();
            if self.version() != seen {
                return true;
            }
            tokio::select! {
                biased;
                () = told => {}
                () = &mut closing => return self.version() != seen,
            }
        }
    }

    /// Returns true if this node has begun to shut down: its peers are to ask nothing more of it.
    pub(super) fn is_leaving(&self) -> bool {
        *self.leaving.lock()
    }

    /// Records that this node begins to shut down.
    pub(super) fn leave(&self) {
        *self.leaving.lock() = true;
    }

    /// Returns how many peers are linked.
    pub(super) fn linked(&self) -> &watch::Sender<usize> {
        &self.linked
    }

    /// Asks for a task that reaches for a peer.
    pub(super) fn want(&self, name: &NodeName) {
        // An error says that the receiver is gone: the node is closing.
        let _ = self.wants.send(name.clone());
    }

    /// Returns true if the node is closing: no new links.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.cause.lock().is_some()
    }

    /// Returns what senders are told once the node is closing.
    pub(super) fn node_down(&self) -> NodeDown {
        let cause = self.closing.cause.lock().clone().unwrap_or(NodeDownCause::Shutdown);
        NodeDown { cause, down_ms: 0 }
    }

    /// Lets no new link come about from now on. The first `cause` counts.
    pub(super) fn close(&self, cause: NodeDownCause) {
        self.closing.cause.lock().get_or_insert(cause);
        self.closing.told.notify_waiters();
    }

    /// Returns a future that is ready when the node is closing.
    pub(super) fn closing(&self) -> impl Future<Output = ()> + Send + 'static {
        let closing = self.closing.clone();
        async move {
            // Registered before the look, so that no wake-up falls between the two.
            let told = closing.told.notified();
            let now = closing.cause.lock().is_some();
            if !now {
                told.await;
            }
        }
    }
}

/// The clock by which silence is counted: it does not count the time for which this node itself
/// stood still (MS-4). While it is watched, by [`liveness`](super::liveness), a long time between
/// two looks at it is one in which nothing ran.
pub(in crate::mesh) struct RunClock(Mutex<Ran>);

struct Ran {
    /// The last look; `None` while nothing looks again and again.
    last: Option<Instant>,
    /// Time that is not counted.
    paused: Duration,
}

impl RunClock {
    pub(in crate::mesh) fn new() -> Self {
        RunClock(Mutex::new(Ran { last: None, paused: Duration::ZERO }))
    }

    /// Begins or ends the search for pauses.
    pub(in crate::mesh) fn watch(&self, on: bool) {
        self.0.lock().last = on.then(Instant::now);
    }

    /// Returns the time, less all pauses; and the pause that this look finds.
    pub(in crate::mesh) fn look(&self) -> (Instant, Option<Duration>) {
        let ran = &mut *self.0.lock();
        let now = Instant::now();
        let gap = ran.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        // Another runtime's clock may be behind, in tests.
        ran.last = ran.last.map(|last| last.max(now));
        let pause = (gap >= limits::PAUSE_NOTICED).then_some(gap);
        ran.paused += pause.unwrap_or_default();
        (now - ran.paused, pause)
    }

    /// Returns when this clock shows `time`, if there is no further pause.
    pub(in crate::mesh) fn real(&self, time: Instant) -> Instant {
        time + self.0.lock().paused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::OpenRefusal;
    use crate::host::{Inbox, Lost};
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
        let (events, _) = EventQueue::new(host.clone(), Duration::from_secs(8), false);
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
