//! Devices that grant and execute as the model knows.

use std::collections::VecDeque;
use std::sync::mpsc;

use tokio::time::Instant;

use super::*;

/// The states that the seeds are to bring.
pub(super) const STATES: [&str; 15] = [
    "operations done",
    "refused since another executor has it",
    "denied",
    "operations whose end is unknown",
    "times without a queue pair",
    "asks that waited for a device",
    "grants that came too late",
    "times that an executor followed another one",
    "operations on what was taken back",
    "acts of the processor",
    "acts that were refused",
    "queue pairs lost",
    "links lost",
    "operations done after their end was unknown",
    "queue pairs that waited until the one before was gone",
];

/// One side of a link: which link, and which side.
pub(super) type Place = (usize, usize);

/// The model's knowledge of all devices.
#[derive(Default)]
pub(super) struct Books {
    pub(super) chance: fastrand::Rng,
    /// The live grants, by the number of their key.
    pub(super) live: BTreeMap<u32, Live>,
    keys: u32,
    pub(super) halves: BTreeMap<(Place, u32), Arc<Mutex<Half>>>,
    /// Queue pairs that a thread waits for a device to destroy.
    pub(super) ending: BTreeMap<(Place, u32), mpsc::Sender<()>>,
    /// No device is waited for any more.
    pub(super) is_over: bool,
    /// The last queue pair by which something of each side was done.
    done_by: BTreeMap<Place, u32>,
    /// Times at which shares ended, by their memory and their place in it.
    pub(super) ended: BTreeMap<(u64, u64), Instant>,
    /// Keys that were taken back from peers that did not let go in time.
    pub(super) taken_back: Vec<u32>,
    /// The executor that was last granted the atomics, of each memory.
    last: BTreeMap<u64, Executor>,
    pub(super) faults: Vec<String>,
    /// How often each of the states was reached.
    pub(super) met: BTreeMap<&'static str, usize>,
}

impl Books {
    pub(super) fn note_if(&mut self, state: &'static str, is_so: bool) {
        *self.met.entry(state).or_default() += usize::from(is_so);
    }

    /// RE-13: an operation is done that one side has posted by this queue pair.
    pub(super) fn note_done(&mut self, (place, number): (Place, u32)) {
        let last = self.done_by.entry(place).or_default();
        if *last > number {
            self.faults.push(format!("RE-13: {number} of {place:?} does something after {last}"));
        }
        *last = number.max(*last);
    }
}

#[derive(Clone)]
pub(super) struct Live {
    pub(super) by: Place,
    /// The memory, and the place in it.
    pub(super) memory: (u64, u64),
    executor: Executor,
    pub(super) access: Access,
}

/// One side's queue pair.
#[derive(Default)]
pub(super) struct Half {
    pub(super) pending: VecDeque<Operation>,
    pub(super) outcomes: VecDeque<Outcome>,
    waker: Option<Waker>,
    pub(super) is_connected: bool,
    pub(super) has_ended: bool,
    /// Operations of which this side does not know whether they are done: they may be, while the
    /// other one has its queue pair.
    pub(super) in_doubt: usize,
    pub(super) is_gone: bool,
}

impl Half {
    pub(super) fn end(&mut self, status: Status) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.in_doubt += self.pending.len();
            let flushed = self.pending.drain(..).map(|it| it.slot);
            let done = |slot| Outcome::Done { slot, status: Status::Flushed };
            self.outcomes.extend(flushed.map(done));
            self.outcomes.push_back(Outcome::Ended(status));
        }
        self.wake();
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

#[derive(Clone)]
pub(super) struct Model {
    pub(super) books: Arc<Mutex<Books>>,
    pub(super) place: Place,
    pub(super) executor: Executor,
    pub(super) device: Arc<Device>,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Model")
    }
}

impl Fabric for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn limits(&self) -> Limits {
        Limits {
            send_queue_max: 1_000,
            recv_queue_max: 1_000,
            frame_bytes_max: 65_536,
            inline_bytes_max: 0,
            tail_bytes_max: 0,
            acknowledges: true,
            lends: false,
        }
    }

    fn alloc(&self, bytes: usize) -> Result<Region, FabricError> {
        Ok(Region::heap(bytes))
    }

    fn open(&self, _: QueuePairConfig) -> Result<Box<dyn fabric::Opening>, FabricError> {
        Err(FabricError::Offer("there are no frames"))
    }

    fn open_one_sided(&self, config: OneSidedConfig) -> Result<Box<dyn Opening>, FabricError> {
        let number = u32::from_le_bytes(*config.binding.last_chunk().unwrap());
        // Those of later links have greater numbers.
        let number = number + 10_000 * u32::from(config.binding[0]);
        let half = Arc::new(Mutex::new(Half::default()));
        self.books.lock().halves.insert((self.place, number), half.clone());
        Ok(Box::new(ModelSide(self.clone(), half, number)))
    }
}

struct ModelSide(Model, Arc<Mutex<Half>>, u32);

impl Opening for ModelSide {
    fn offer(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::default()
    }

    fn ways(&self, _: &[u8]) -> Vec<u32> {
        Vec::new()
    }

    fn connect(
        self: Box<Self>,
        _: Zeroizing<Vec<u8>>,
        _: usize,
    ) -> BoxFuture<'static, Result<Box<dyn OneSided>, FabricError>> {
        async move {
            self.1.lock().is_connected = true;
            Ok(self as Box<dyn OneSided>)
        }
        .boxed()
    }
}

/// It takes its device a while.
impl Drop for ModelSide {
    fn drop(&mut self) {
        let ModelSide(Model { books, place, .. }, half, number) = self;
        let is_connected = {
            let half = &mut *half.lock();
            half.end(Status::Flushed);
            half.is_connected
        };
        if is_connected && !books.lock().is_over {
            let (let_go, wait) = mpsc::channel();
            books.lock().ending.insert((*place, *number), let_go);
            if wait.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
                books.lock().faults.push("RE-7: what destroys a queue pair is in the way".into());
            }
        }
        half.lock().is_gone = true;
    }
}

/// A grant, from when the device begins to register it until it has ended.
struct LetGo(Arc<Mutex<Books>>, u32);

impl Drop for LetGo {
    fn drop(&mut self) {
        let books = &mut *self.0.lock();
        let Some(live) = books.live.remove(&self.1) else { return };
        let ended = books.ended.get(&live.memory);
        if ended.is_some_and(|at| at.elapsed() >= limits::REVOKE_PATIENCE) {
            books.taken_back.push(self.1);
        }
    }
}

impl OneSided for ModelSide {
    fn grant(&mut self, memory: &Arc<Words>, at: u64, _: u64, access: Access) -> Granting {
        let Model { books, place, executor, device } = &self.0;
        let number = memory.number();
        let live = Live { by: *place, memory: (number, at), executor: executor.clone(), access };
        let (key, is_slow, goes_slowly) = {
            let books = &mut *books.lock();
            // SM-3: an executor is alone, also while it is registered for it.
            let is_other = |it: &&Live| {
                it.memory.0 == number && it.access.atomic && it.executor != live.executor
            };
            if access.atomic {
                if let Some(other) = books.live.values().find(is_other) {
                    let who = (&live.executor, &other.executor);
                    books.faults.push(format!("SM-3: two executors: {who:?}"));
                }
                let last = books.last.insert(number, live.executor.clone());
                books.note_if(STATES[7], last.is_some_and(|it| it != live.executor));
            }
            books.keys += 1;
            books.live.insert(books.keys, live);
            let is_fence = memory.bytes() == 8;
            let is_slow = !is_fence && books.chance.u8(..4) > 0;
            (books.keys, is_slow, is_slow && books.chance.bool())
        };
        let (let_go, device) = (LetGo(books.clone(), key), device.clone());
        let key = Key { number: key, base: 0 };
        let grant = move || match goes_slowly {
            true => Grant::slow(key, let_go),
            false => Grant::new(key, let_go),
        };
        if !is_slow {
            return Granting::Done(Ok(grant()));
        }
        Granting::Slow(Box::new(move || {
            device.wait_and("locked");
            Ok(grant())
        }))
    }

    fn executor(&self) -> Executor {
        self.0.executor.clone()
    }

    fn lend(&mut self, _: &Arc<Buffer>) -> Granting {
        Granting::Done(Err(FabricError::Offer("it lends nothing")))
    }

    fn alloc(&self, bytes: usize) -> Making<Locked> {
        Making::Done(Ok(Locked::plain(Region::heap(bytes), bytes).unwrap()))
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn post(&mut self, batch: &mut Vec<Operation>) -> Result<(), PostError> {
        let half = &mut *self.1.lock();
        if half.has_ended {
            let done = |it: Operation| Outcome::Done { slot: it.slot, status: Status::Flushed };
            half.outcomes.extend(batch.drain(..).map(done));
            half.wake();
        } else {
            half.pending.extend(batch.drain(..));
        }
        Ok(())
    }

    fn poll(&mut self, outcomes: &mut Vec<Outcome>, max: usize) -> usize {
        let half = &mut *self.1.lock();
        let count = half.outcomes.len().min(max);
        outcomes.extend(half.outcomes.drain(..count));
        count
    }

    fn arm(&mut self) {}

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let half = &mut *self.1.lock();
        half.waker = Some(cx.waker().clone());
        if half.outcomes.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn close(&mut self) {
        self.1.lock().end(Status::Flushed);
    }
}
