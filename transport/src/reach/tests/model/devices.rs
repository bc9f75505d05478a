//! Devices that grant and execute as the model knows.

use tokio::time::Instant;

use super::*;

/// The states that the seeds are to bring.
pub(super) const STATES: [&str; 17] = [
    "operations done",
    "refused since another executor has it",
    "denied",
    "operations whose end is unknown",
    "times without a link",
    "asks that waited for a device",
    "grants that came too late",
    "times that an executor followed another one",
    "operations on what was taken back",
    "acts of the processor",
    "acts that were refused",
    "queue pairs lost",
    "links lost",
    "operations done after their end was unknown",
    "rests",
    "shares that a device did not register",
    "links lost while a device registered a share",
];

/// One side of a link: which link, and which side.
pub(super) type Place = (usize, usize);

/// One side of one of the links that follow each other: the place, and how many were before.
pub(super) type Id = (Place, u32);

/// The model's knowledge of all devices.
#[derive(Default)]
pub(super) struct Books {
    pub(super) chance: fastrand::Rng,
    /// The live grants, by the number of their key.
    pub(super) live: BTreeMap<u32, Live>,
    keys: u32,
    pub(super) queues: BTreeMap<Id, Arc<Mutex<Queue>>>,
    /// Times at which shares ended, by their memory and their place in it.
    pub(super) ended: BTreeMap<(u64, u64), Instant>,
    /// Keys that were taken back from peers that did not let go in time.
    pub(super) taken_back: Vec<u32>,
    /// The executor that was last granted the atomics, of each memory.
    last: BTreeMap<u64, Executor>,
    /// Sides for which a device registers a share.
    registering: Vec<Id>,
    pub(super) faults: Vec<String>,
    /// How often each of the states was reached.
    pub(super) met: BTreeMap<&'static str, usize>,
}

impl Books {
    pub(super) fn note_if(&mut self, state: usize, is_so: bool) {
        *self.met.entry(STATES[state]).or_default() += usize::from(is_so);
    }

    /// RE-1: an operation is done that one side has posted by this link: before there is another.
    fn note_done(&mut self, (place, number): Id) {
        if self.queues.contains_key(&(place, number + 1)) {
            self.faults.push(format!("RE-1: {number} of {place:?} does something too late"));
        }
    }

    /// A device executes an operation that was posted. Returns false if there is none.
    pub(super) fn execute(&mut self, at: usize) -> bool {
        let is_pending = |(_, queue): &(&Id, &Arc<Mutex<Queue>>)| !queue.lock().pending.is_empty();
        let pending: Vec<_> = self.queues.iter().filter(is_pending).collect();
        let Some((id, queue)) = pending.get(at % pending.len().max(1)) else { return false };
        let (id, queue) = (**id, Arc::clone(queue));
        let ((link, side), number) = id;
        let other = ((link, 1 - side), number);
        let owner = self.queues[&other].clone();
        let Operation { key, kind, .. } = queue.lock().pending[0];
        let live = self.live.get(&key.number).filter(|it| it.by == other);
        let status = match (owner.lock().has_ended, live.is_some_and(|it| it.access.allows(kind))) {
            (true, _) => Status::RetryExceeded,
            (false, true) => Status::Success,
            (false, false) => Status::RemoteAccess,
        };
        queue.lock().finish(status);
        if status == Status::Success {
            self.note_done(id);
        }
        if status == Status::RemoteAccess {
            owner.lock().end(status);
            self.note_if(8, true);
            // RE-2, RE-3.
            if !self.taken_back.contains(&key.number) {
                self.faults.push(format!("RE-2: {kind:?} without a grant"));
            }
        }
        true
    }

    /// A device executes an operation of which the side that posted it has an unknown end. Returns
    /// false if there is none.
    pub(super) fn execute_late(&mut self, at: usize) -> bool {
        let is_in_doubt = |(((link, side), number), queue): &(&Id, &Arc<Mutex<Queue>>)| {
            let owner = &self.queues[&((*link, 1 - side), *number)];
            queue.lock().in_doubt > 0 && !owner.lock().has_ended
        };
        let in_doubt: Vec<_> = self.queues.iter().filter(is_in_doubt).collect();
        let Some((id, queue)) = in_doubt.get(at % in_doubt.len().max(1)) else { return false };
        queue.lock().in_doubt -= 1;
        let id = **id;
        self.note_done(id);
        self.note_if(13, true);
        true
    }

    /// SM-3: an executor is alone, also while memory is registered for it.
    fn note_atomic(&mut self, live: &Live) {
        let number = live.memory.0;
        let is_other =
            |it: &&Live| it.memory.0 == number && it.access.atomic && it.executor != live.executor;
        if let Some(other) = self.live.values().find(is_other) {
            let who = (&live.executor, &other.executor);
            self.faults.push(format!("SM-3: two executors: {who:?}"));
        }
        let last = self.last.insert(number, live.executor.clone());
        self.note_if(7, last.is_some_and(|it| it != live.executor));
    }

    /// RE-7: one share is registered at a time.
    fn note_registering(&mut self, by: Id) {
        if self.registering.contains(&by) {
            self.faults.push(format!("RE-7: two threads register for {by:?}"));
        }
        self.registering.push(by);
    }
}

#[derive(Clone)]
pub(super) struct Live {
    pub(super) by: Id,
    /// The memory, and the place in it.
    pub(super) memory: (u64, u64),
    executor: Executor,
    pub(super) access: Access,
}

/// The devices of one side.
pub(super) struct Model {
    pub(super) books: Arc<Mutex<Books>>,
    pub(super) id: Id,
    pub(super) executor: Executor,
    pub(super) registers: Arc<Device>,
    pub(super) destroys: Arc<Device>,
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

impl Maker for Model {
    fn executor(&self) -> Executor {
        self.executor.clone()
    }

    fn grant(&self, memory: &Arc<Words>, at: u64, access: Access) -> Granting {
        let (by, executor) = (self.id, self.executor.clone());
        let live = Live { by, memory: (memory.number(), at), executor, access };
        let is_fence = memory.bytes() == 8;
        let (key, is_slow, goes_slowly, whim) = {
            let books = &mut *self.books.lock();
            if access.atomic {
                books.note_atomic(&live);
            }
            books.keys += 1;
            books.live.insert(books.keys, live);
            let is_slow = !is_fence && books.chance.u8(..4) > 0;
            if is_slow {
                books.note_registering(by);
            }
            let whim = match books.chance.u8(..40) {
                _ if is_fence => Whim::Locks,
                0 => Whim::Refuses,
                1 if is_slow => Whim::Panics,
                _ => Whim::Locks,
            };
            (books.keys, is_slow, is_slow && books.chance.bool(), whim)
        };
        let (let_go, books) = (LetGo(self.books.clone(), key), self.books.clone());
        let device = self.registers.clone();
        let key = Key { number: key, base: 0 };
        let make = move || match whim {
            Whim::Locks if goes_slowly => Ok(Grant::slow(key, let_go)),
            Whim::Locks => Ok(Grant::new(key, let_go)),
            Whim::Refuses => Err(FabricError::Offer("it is a test")),
            Whim::Panics => panic!("a device panics"),
        };
        if !is_slow {
            return Granting::Done(make());
        }
        Granting::Slow(Box::new(move || {
            device.wait_and("registered");
            books.lock().registering.retain(|it| *it != by);
            make()
        }))
    }

    fn destroy(&self) {
        self.destroys.wait_and("destroyed");
    }

    fn is_slow(&self) -> bool {
        true
    }
}
