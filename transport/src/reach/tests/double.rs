//! One-sided access by which nothing comes of itself, and a device that waits until it is let.

use std::sync::mpsc;

use super::*;

/// The operations of one side, which the test executes.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) pending: VecDeque<Operation>,
    outcomes: VecDeque<Outcome>,
    waker: Option<Waker>,
    pub(super) has_ended: bool,
    /// Operations of which this side does not know whether they are done: they may be, until the
    /// other one has ended, too.
    pub(super) in_doubt: usize,
    /// The number of operations that it still takes before it refuses them; all, if not set.
    pub(super) takes: Option<usize>,
}

impl Queue {
    /// Ends the oldest operation, and all others with it if it does not succeed.
    pub(super) fn finish(&mut self, status: Status) {
        let slot = self.pending.pop_front().expect("one is under way").slot;
        self.outcomes.push_back(Outcome::Done { slot, status });
        match status {
            Status::Success => self.wake(),
            _ => {
                self.in_doubt += usize::from(status != Status::RemoteAccess);
                self.end(status);
            }
        }
    }

    /// Ends all operations, as a queue pair does that is lost.
    pub(super) fn end(&mut self, status: Status) {
        if !replace(&mut self.has_ended, true) {
            self.in_doubt += self.pending.len();
            let flushed = self.pending.drain(..).map(|it| it.slot);
            let done = |slot| Outcome::Done { slot, status: Status::Flushed };
            self.outcomes.extend(flushed.map(done));
            self.outcomes.push_back(Outcome::Ended(status));
        }
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Makes and ends memory for a double. By default this takes no time.
pub(super) trait Maker: Send + Sync {
    fn executor(&self) -> Executor {
        Executor::Processor
    }

    fn grant(&self, _: &Arc<Words>, _: u64, _: Access) -> Granting {
        self.lend()
    }

    fn lend(&self) -> Granting {
        Granting::Done(Ok(Grant::new(Key { number: 1, base: 0 }, ())))
    }

    fn alloc(&self, bytes: usize) -> Making<Locked> {
        Making::Done(heap(bytes))
    }

    /// Destroys the queue pair; a slow one takes its time for it.
    fn destroy(&self) {}

    fn is_slow(&self) -> bool {
        false
    }
}

/// That no device makes.
impl Maker for () {}

fn heap(bytes: usize) -> Result<Locked, FabricError> {
    Locked::plain(Region::heap(bytes), bytes).ok_or(FabricError::Offer("no memory"))
}

pub(super) struct Double {
    pub(super) queue: Arc<Mutex<Queue>>,
    pub(super) maker: Arc<dyn Maker>,
}

impl Drop for Double {
    fn drop(&mut self) {
        {
            let queue = &mut *self.queue.lock();
            queue.end(Status::Flushed);
            // The test keeps no slots.
            queue.outcomes.clear();
        }
        self.maker.destroy();
    }
}

impl OneSided for Double {
    fn grant(&mut self, memory: &Arc<Words>, at: u64, _: u64, access: Access) -> Granting {
        self.maker.grant(memory, at, access)
    }

    fn executor(&self) -> Executor {
        self.maker.executor()
    }

    fn lend(&mut self, _: &Arc<Buffer>) -> Granting {
        self.maker.lend()
    }

    fn alloc(&self, bytes: usize) -> Making<Locked> {
        self.maker.alloc(bytes)
    }

    fn is_slow(&self) -> bool {
        self.maker.is_slow()
    }

    fn post(&mut self, batch: &mut Vec<Operation>) -> Result<(), PostError> {
        let queue = &mut *self.queue.lock();
        let count = queue.takes.map_or(batch.len(), |takes| takes.min(batch.len()));
        if queue.has_ended {
            let done = |it: Operation| Outcome::Done { slot: it.slot, status: Status::Flushed };
            queue.outcomes.extend(batch.drain(..count).map(done));
            queue.wake();
        } else {
            queue.pending.extend(batch.drain(..count));
        }
        if batch.is_empty() { Ok(()) } else { Err(PostError::Device(12)) }
    }

    fn poll(&mut self, outcomes: &mut Vec<Outcome>, max: usize) -> usize {
        let queue = &mut *self.queue.lock();
        let count = queue.outcomes.len().min(max);
        outcomes.extend(queue.outcomes.drain(..count));
        count
    }

    fn arm(&mut self) {}

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let queue = &mut *self.queue.lock();
        queue.waker = Some(cx.waker().clone());
        if queue.outcomes.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn close(&mut self) {
        self.queue.lock().end(Status::Flushed);
    }
}

/// A device that waits until it is let.
pub(super) struct Device {
    steps: Mutex<mpsc::Receiver<()>>,
    done: mpsc::Sender<&'static str>,
    /// Threads that wait for it, and the most that ever did at one time.
    pub(super) waiting: AtomicUsize,
    pub(super) most: AtomicUsize,
    /// The end of the next thing that it locks.
    pub(super) next: Mutex<Whim>,
}

/// The outcome of locking.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whim {
    #[default]
    Locks,
    Refuses,
    Panics,
}

/// The control of a device: makes it go on, and sees its steps.
pub(super) struct Control {
    steps: mpsc::Sender<()>,
    done: mpsc::Receiver<&'static str>,
}

impl Control {
    /// Makes the device do one step more, and waits for that.
    pub(super) fn step(&self) -> &'static str {
        self.steps.send(()).unwrap();
        self.done.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

impl Device {
    pub(super) fn new() -> (Arc<Self>, Control) {
        let ((steps, taken), (telling, done)) = (mpsc::channel(), mpsc::channel());
        let (waiting, most, next) = Default::default();
        let device = Device { steps: Mutex::new(taken), done: telling, waiting, most, next };
        (Arc::new(device), Control { steps, done })
    }

    fn wait(&self) {
        let waiting = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(waiting, Ordering::SeqCst);
        // A test that has ended lets everything go on.
        let _ = self.steps.lock().recv();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn wait_and(&self, what: &'static str) {
        self.wait();
        let _ = self.done.send(what);
    }

    /// Waits, and then ends as the next thing has to.
    fn wait_and_lock(&self, what: &'static str) -> Result<(), FabricError> {
        self.wait();
        let whim = take(&mut *self.next.lock());
        let _ = self.done.send(what);
        match whim {
            Whim::Locks => Ok(()),
            Whim::Refuses => Err(FabricError::Offer("it is a test")),
            Whim::Panics => panic!("a device panics"),
        }
    }
}

/// A device locks memory and lets go of it.
pub(super) struct Locks(pub(super) Arc<Device>);

impl Maker for Locks {
    fn lend(&self) -> Granting {
        let device = self.0.clone();
        Granting::Slow(Box::new(move || {
            device.wait_and_lock("locked")?;
            Ok(Grant::slow(Key { number: 1, base: 0 }, LetGo(device)))
        }))
    }

    fn alloc(&self, bytes: usize) -> Making<Locked> {
        if bytes <= limits::ONE_SIDED_SLOTS as usize * limits::ONE_SIDED_SLOT_BYTES {
            return Making::Done(heap(bytes));
        }
        let device = self.0.clone();
        Making::Slow(Box::new(move || {
            device.wait_and_lock("made")?;
            heap(bytes)
        }))
    }
}

/// Memory that is locked.
struct LetGo(Arc<Device>);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.wait_and("let go");
    }
}

/// A device destroys the queue pair.
pub(super) struct Destroys(pub(super) Arc<Device>);

impl Maker for Destroys {
    fn destroy(&self) {
        self.0.wait_and("destroyed");
    }

    fn is_slow(&self) -> bool {
        true
    }
}
