//! From the events of a device to the queue pairs that they end. Which queue pair's owner reads
//! them does not matter: each tells all that are concerned.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use futures::task::AtomicWaker;
use parking_lot::Mutex;

use crate::fabric::Status;

/// Something that happened to a device. Queues are known by their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    QueuePair(usize),
    CompletionQueue(usize),
    PortDown(u8),
    DeviceFatal,
    /// Nothing that ends a queue pair, by its number.
    Other(i32),
}

/// Those that listen to one device's events.
#[derive(Default)]
pub(super) struct Listeners(Mutex<BTreeMap<usize, Listener>>);

struct Listener {
    completion_queue: usize,
    port: u8,
    end: Arc<End>,
}

/// The effect of an event on one queue pair.
#[derive(Default)]
pub(super) struct End {
    status: Mutex<Option<Status>>,
    waker: AtomicWaker,
}

impl End {
    /// Why the queue pair is over, if it is. Otherwise `waker` is woken when it is.
    pub(super) fn check(&self, waker: &Waker) -> Option<Status> {
        self.waker.register(waker);
        *self.status.lock()
    }
}

impl Listeners {
    /// Listens for a queue pair with this completion queue and port.
    pub(super) fn add(&self, queue_pair: usize, completion_queue: usize, port: u8) -> Arc<End> {
        let end = Arc::<End>::default();
        let listener = Listener { completion_queue, port, end: end.clone() };
        self.0.lock().insert(queue_pair, listener);
        end
    }

    /// To be called before the queue pair is destroyed: its address may be used again.
    pub(super) fn remove(&self, queue_pair: usize) {
        self.0.lock().remove(&queue_pair);
    }

    pub(super) fn tell(&self, event: Event) {
        let concerned = |queue_pair: usize, listener: &Listener| match event {
            Event::QueuePair(it) => (it == queue_pair).then_some(Status::Fatal),
            Event::CompletionQueue(it) => {
                (it == listener.completion_queue).then_some(Status::Fatal)
            }
            Event::PortDown(port) => (port == listener.port).then_some(Status::PortDown),
            Event::DeviceFatal => Some(Status::Fatal),
            Event::Other(_) => None,
        };
        let mut ended = Vec::new();
        for (queue_pair, listener) in self.0.lock().iter() {
            if let Some(status) = concerned(*queue_pair, listener) {
                listener.end.status.lock().get_or_insert(status);
                ended.push(listener.end.clone());
            }
        }
        // No waker is called under the lock.
        ended.iter().for_each(|end| end.waker.wake());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VB-5: an event ends the queue pairs it concerns, with a cause, and no others.
    #[test]
    fn an_event_ends_those_it_concerns() {
        let listeners = Listeners::default();
        let ends = [listeners.add(10, 20, 1), listeners.add(11, 21, 1), listeners.add(12, 22, 2)];
        let told = || ends.each_ref().map(|end| end.check(Waker::noop()));
        listeners.tell(Event::Other(9));
        assert_eq!(told(), [None; 3]);
        listeners.tell(Event::CompletionQueue(21));
        assert_eq!(told(), [None, Some(Status::Fatal), None]);
        listeners.tell(Event::PortDown(1));
        assert_eq!(told(), [Some(Status::PortDown), Some(Status::Fatal), None]);
        listeners.remove(12);
        listeners.tell(Event::QueuePair(12));
        listeners.tell(Event::DeviceFatal);
        assert_eq!(told()[2], None, "it does not listen any more");
    }
}
