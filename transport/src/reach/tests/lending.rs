//! Messages that are lent and fetched, by a device that takes its time.

use rkyv::util::AlignedVec;

use super::*;
use crate::proto::fetches::Lent;
use crate::proto::loans::{LentAt, NotLent};

/// Bytes that a thread registers which may block.
const LARGE: usize = 4 * 1024 * 1024;

/// The end of a loan or a fetch, which keeps the lent memory.
type Ended = Arc<Mutex<Option<Result<Option<LentMemory>, NotLent>>>>;

fn lend(side: &OneSide) -> Ended {
    let ended = Ended::default();
    let (mut body, told) = (AlignedVec::<16>::new(), ended.clone());
    body.resize(LARGE, 7);
    let lent = side.reach.lend(&Arc::new(body.into()), move |lent| {
        assert!(told.lock().replace(lent.map(Some)).is_none(), "it has one end");
    });
    assert!(lent.is_none(), "it is registered by another thread");
    ended
}

fn fetch(side: &OneSide) -> Ended {
    let ended = Ended::default();
    let told = ended.clone();
    let lent = Lent { number: 1, at: LentAt { key: (1, 0) }, bytes: LARGE as u32 };
    side.reach.fetch(lent, move |fetched| {
        assert!(told.lock().replace(fetched.map(|_| None)).is_none(), "it has one end");
    });
    ended
}

/// Loans and fetches over a device.
struct Scene {
    side: OneSide,
    room: PeerRoom,
    chance: fastrand::Rng,
    device: Arc<Device>,
    control: Control,
    loans: Vec<Ended>,
    fetches: Vec<Ended>,
    has_ended: bool,
    /// How loans and fetches ended: done, failed, too late.
    met: [usize; 3],
}

impl Scene {
    fn new(seed: u64, own: Handle) -> Self {
        let (device, control) = Device::new();
        let side = OneSide::with(Locks(device.clone()), own);
        let room = side.reach.state.lock().means.as_ref().unwrap().room.clone();
        let mut chance = fastrand::Rng::with_seed(seed);
        let count = chance.usize(..4);
        let loans = (0..count).map(|_| lend(&side)).collect();
        let fetches = (count..4).map(|_| fetch(&side)).collect();
        let (has_ended, met) = (false, [0; 3]);
        Scene { side, room, chance, device, control, loans, fetches, has_ended, met }
    }

    /// Neither the session nor a driver waits for a device.
    fn look(&self) {
        assert!(self.side.reach.state.try_lock().is_some());
        self.side.reach.look();
        self.side.reach.take_outcomes();
        self.side.hear(Sharing::Ask(WANTED));
        let said = format!("{:?}", self.side.said_now());
        assert_eq!(said, if self.has_ended { "[]" } else { "[Denied]" });
    }

    fn end(&mut self) {
        self.side.reach.end();
        self.has_ended = true;
    }

    /// Returns how many loans have ended: with memory, with nothing, and too late for the link.
    fn ended(&self) -> [usize; 3] {
        let mut count = [0; 3];
        for ended in &self.loans {
            match &*ended.lock() {
                Some(Ok(_)) => count[0] += 1,
                Some(Err(NotLent::NotYet)) => count[2] += 1,
                Some(Err(_)) => count[1] += 1,
                None => {}
            }
        }
        count
    }

    /// The device does one thing more, if there is one. A loan then ends as it has to.
    async fn step_device(&mut self) {
        if self.device.waiting.load(Ordering::SeqCst) == 0 {
            return sleep_a_moment().await;
        }
        let whim = [Whim::Locks, Whim::Locks, Whim::Refuses, Whim::Panics][self.chance.usize(..4)];
        *self.device.next.lock() = whim;
        let mut expected = self.ended();
        if self.control.step() != "locked" {
            return;
        }
        let at = match (whim, self.has_ended) {
            (Whim::Locks, false) => 0,
            (Whim::Locks, true) => 2,
            _ => 1,
        };
        expected[at] += 1;
        while self.ended().iter().sum::<usize>() < expected.iter().sum() {
            std::thread::yield_now();
        }
        assert_eq!(self.ended(), expected, "{whim:?}");
    }

    fn are_over(&self) -> bool {
        self.loans.iter().chain(&self.fetches).all(|ended| ended.lock().is_some())
    }

    async fn play(mut self) -> [usize; 3] {
        while !self.are_over() {
            match self.chance.u8(..32) {
                0 => self.end(),
                1..16 => self.step_device().await,
                16..24 => self.side.succeed(),
                _ => sleep_a_moment().await,
            }
            self.look();
        }
        let mut lent = self.ended()[0];
        while self.room.lent.taken() > (lent * LARGE) as u64 {
            self.step_device().await;
        }
        self.met = self.ended();
        for fetched in take(&mut self.fetches) {
            let is_done = matches!(*fetched.lock(), Some(Ok(None)));
            self.met[usize::from(!is_done)] += 1;
        }
        // LO-1: lent memory counts until the device has let go of it.
        self.end();
        for loan in take(&mut self.loans) {
            let memory = loan.lock().take();
            assert_eq!(self.room.lent.taken(), (lent * LARGE) as u64);
            let is_lent = matches!(memory, Some(Ok(Some(_))));
            drop(memory);
            lent -= usize::from(is_lent);
            while self.room.lent.taken() > (lent * LARGE) as u64 {
                assert!(is_lent);
                self.step_device().await;
            }
        }
        while !self.room.is_unused() {
            sleep_a_moment().await;
        }
        self.met
    }
}

/// RE-7, RE-9: a device takes its time to register messages and memory to land in, refuses some or
/// panics, while the link may end: each loan has the one end that it has to have, each fetch has
/// one, nothing waits for the device, and all memory and all room is given back.
#[test]
fn four_loans_fail_at_once_in_every_way() {
    let mut met = [0; 3];
    for seed in 0..200 {
        let ends = run(async { Scene::new(seed, Handle::current()).play().await });
        (0..3).for_each(|at| met[at] += ends[at]);
    }
    println!("{} done, {} failed, {} after the link's end", met[0], met[1], met[2]);
    assert!(met[0] > 50 && met[1] > 100 && met[2] > 20);
}

/// RE-7: where all threads that may block are taken, what needs one waits, and nothing else does:
/// neither what the peer says, nor the end of the link. Then all is given back.
#[test]
fn a_full_pool_of_blocking_threads_keeps_nothing_else() {
    let mut pool = tokio::runtime::Builder::new_multi_thread();
    let pool = pool.worker_threads(1).max_blocking_threads(1).enable_time().build().unwrap();
    for seed in 0..10 {
        run(async {
            let (release, taken) = std::sync::mpsc::channel::<()>();
            let full = pool.spawn_blocking(move || taken.recv().is_err());
            let mut scene = Scene::new(seed, pool.handle().clone());
            let shared = scene.side.share();
            scene.side.hear(Sharing::Ask(shared.id()));
            sleep_a_moment().await;
            scene.look();
            assert_eq!(scene.device.waiting.load(Ordering::SeqCst), 0, "no thread is there for it");
            scene.end();
            drop((release, replace(&mut scene.control, Device::new().1)));
            assert!(full.await.unwrap());
            while !scene.are_over() || !scene.room.is_unused() {
                std::thread::sleep(Duration::from_millis(1));
                sleep_a_moment().await;
            }
            let has_failed = |it: &Ended| it.lock().as_ref().is_some_and(Result::is_err);
            assert!(scene.loans.iter().chain(&scene.fetches).all(has_failed));
            shared.end().await;
        });
    }
    pool.shutdown_background();
}
