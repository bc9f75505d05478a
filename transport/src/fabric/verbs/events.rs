//! Delivery of a device's events to the queue pairs that they end, and to the record of its ports.
//! Any queue pair's owner may read them: each tells all that are concerned.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::fabric::Status;
use crate::limits::VERBS_PORT_GRACE;

/// Something that happened to a device. Queues are known by their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    QueuePair(usize),
    CompletionQueue(usize),
    PortDown(u8),
    PortUp(u8),
    /// Addresses, partitions or the subnet manager are others.
    PortChanged,
    DeviceFatal,
    /// Nothing that ends a queue pair, by its number.
    Other(i32),
}

/// The listeners to one device's events, and the state of the device that its events reported.
#[derive(Default)]
pub(super) struct Listeners(Mutex<Told>);

#[derive(Default)]
struct Told {
    listeners: BTreeMap<usize, Listener>,
    /// Events after which ports are to be looked at again.
    changes: u64,
    failed: bool,
}

struct Listener {
    completion_queue: usize,
    port: u8,
    end: Arc<End>,
}

/// The effect of events on one queue pair.
#[derive(Default)]
pub(super) struct End {
    fate: Mutex<Fate>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Fate {
    status: Option<Status>,
    /// When it is over because its port is down, unless the port is up again before.
    down_until: Option<Instant>,
}

impl End {
    /// Returns why the queue pair is over, if it is; otherwise when it will be, if its port is
    /// down. `waker` is woken when either changes.
    pub(super) fn check(&self, waker: &Waker) -> Result<Option<Instant>, Status> {
        self.waker.register(waker);
        let fate = self.fate.lock();
        fate.status.map_or(Ok(fate.down_until), Err)
    }
}

/// The wait of a queue pair whose port is down.
#[derive(Default)]
pub(super) struct Grace(Option<Pin<Box<Sleep>>>);

impl Grace {
    /// Ready when the time has come, if there is one.
    pub(super) fn poll(&mut self, until: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(until) = until else {
            self.0 = None;
            return Poll::Pending;
        };
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if sleep.deadline() != until {
            sleep.as_mut().reset(until);
        }
        sleep.as_mut().poll(cx)
    }
}

impl Listeners {
    /// Listens for a queue pair with this completion queue and port.
    pub(super) fn add(&self, queue_pair: usize, completion_queue: usize, port: u8) -> Arc<End> {
        let end = Arc::<End>::default();
        let listener = Listener { completion_queue, port, end: end.clone() };
        self.0.lock().listeners.insert(queue_pair, listener);
        end
    }

    /// To be called before the queue pair is destroyed: its address may be used again.
    pub(super) fn remove(&self, queue_pair: usize) {
        self.0.lock().listeners.remove(&queue_pair);
    }

    /// Returns a number that grows when ports are to be looked at again.
    pub(super) fn changes(&self) -> u64 {
        self.0.lock().changes
    }

    /// Returns true if the device is of no use until it is opened again.
    pub(super) fn has_failed(&self) -> bool {
        self.0.lock().failed
    }

    pub(super) fn tell(&self, event: Event) {
        let until = Instant::now() + VERBS_PORT_GRACE;
        let mut concerned = Vec::new();
        {
            let told = &mut *self.0.lock();
            match event {
                Event::DeviceFatal => (told.failed, told.changes) = (true, told.changes + 1),
                Event::PortDown(_) | Event::PortUp(_) | Event::PortChanged => told.changes += 1,
                Event::QueuePair(_) | Event::CompletionQueue(_) | Event::Other(_) => {}
            }
            for (queue_pair, listener) in &told.listeners {
                if listener.heed(*queue_pair, event, until) {
                    concerned.push(listener.end.clone());
                }
            }
        }
        // No waker is called under the lock.
        concerned.iter().for_each(|end| end.waker.wake());
    }
}

impl Listener {
    /// Returns true if the event concerns the queue pair.
    fn heed(&self, queue_pair: usize, event: Event, until: Instant) -> bool {
        let fate = &mut *self.end.fate.lock();
        let ends = match event {
            Event::QueuePair(it) => it == queue_pair,
            Event::CompletionQueue(it) => it == self.completion_queue,
            Event::DeviceFatal => true,
            Event::PortDown(port) if port == self.port => {
                fate.down_until.get_or_insert(until);
                return true;
            }
            Event::PortUp(port) if port == self.port => return fate.down_until.take().is_some(),
            Event::PortDown(_) | Event::PortUp(_) | Event::PortChanged | Event::Other(_) => false,
        };
        if ends {
            fate.status.get_or_insert(Status::Fatal);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VB-5: an event ends the queue pairs it concerns, with a cause, and no others.
    #[tokio::test]
    async fn an_event_ends_those_it_concerns() {
        let listeners = Listeners::default();
        let ends = [listeners.add(10, 20, 1), listeners.add(11, 21, 1), listeners.add(12, 22, 2)];
        let told = || ends.each_ref().map(|end| end.check(Waker::noop()).err());
        listeners.tell(Event::Other(9));
        listeners.tell(Event::PortChanged);
        assert_eq!(told(), [None; 3]);
        listeners.tell(Event::CompletionQueue(21));
        assert_eq!(told(), [None, Some(Status::Fatal), None]);
        listeners.tell(Event::QueuePair(10));
        assert_eq!(told(), [Some(Status::Fatal), Some(Status::Fatal), None]);
        listeners.remove(12);
        listeners.tell(Event::QueuePair(12));
        listeners.tell(Event::DeviceFatal);
        assert_eq!(told()[2], None, "it does not listen any more");
    }

    /// VB-5: a port that is soon up again ends no queue pair; a port that stays down ends its own.
    #[tokio::test(start_paused = true)]
    async fn a_port_that_is_down_for_a_moment_ends_no_queue_pair() {
        let listeners = Listeners::default();
        let [own, other] = [listeners.add(10, 20, 1), listeners.add(12, 22, 2)];
        let mut grace = Grace::default();
        let is_over = |end: &End, grace: &mut Grace| {
            let until = end.check(Waker::noop()).unwrap();
            grace.poll(until, &mut Context::from_waker(Waker::noop())).is_ready()
        };
        let almost = VERBS_PORT_GRACE * 3 / 4;
        listeners.tell(Event::PortDown(1));
        tokio::time::sleep(almost).await;
        assert!(!is_over(&own, &mut grace) && !is_over(&other, &mut Grace::default()));
        listeners.tell(Event::PortUp(2));
        listeners.tell(Event::PortUp(1));
        tokio::time::sleep(almost).await;
        assert!(!is_over(&own, &mut grace), "it is up");
        listeners.tell(Event::PortDown(1));
        assert!(!is_over(&own, &mut grace));
        tokio::time::sleep(almost).await;
        listeners.tell(Event::PortDown(1));
        tokio::time::sleep(almost).await;
        assert!(is_over(&own, &mut grace), "told twice, it is down since the first time");
        assert_eq!(other.check(Waker::noop()), Ok(None));
    }

    #[tokio::test]
    async fn ports_are_looked_at_again_after_events_about_them() {
        let listeners = Listeners::default();
        let about_ports = [Event::PortUp(1), Event::PortDown(1), Event::PortChanged];
        for (event, changes) in about_ports.into_iter().zip(1..) {
            listeners.tell(event);
            listeners.tell(Event::QueuePair(7));
            listeners.tell(Event::Other(17));
            assert_eq!((listeners.changes(), listeners.has_failed()), (changes, false));
        }
        listeners.tell(Event::DeviceFatal);
        assert_eq!((listeners.changes(), listeners.has_failed()), (4, true));
    }
}
