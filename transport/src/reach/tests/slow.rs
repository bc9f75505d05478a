//! A device that takes its time to lock memory, and to let go of it.

mod shares;

use std::sync::mpsc;

use rkyv::util::AlignedVec;

use super::*;
use crate::proto::fetches::Lent;
use crate::proto::loans::{LentAt, NotLent};
use crate::reach::LentMemory;
use crate::shares::Share;

/// A device that waits until it is let.
pub(super) struct Device {
    steps: Mutex<mpsc::Receiver<()>>,
    done: mpsc::Sender<&'static str>,
    /// Threads that wait for it, and the most that ever did at one time.
    pub(super) waiting: AtomicUsize,
    most: AtomicUsize,
    /// The end of the next thing that it locks.
    next: Mutex<Whim>,
}

/// The outcome of locking.
#[derive(Default, Clone, Copy)]
enum Whim {
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

    pub(super) fn wait_and(&self, what: &'static str) {
        let waiting = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(waiting, Ordering::SeqCst);
        // A test that has ended lets everything go on.
        let _ = self.steps.lock().recv();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let _ = self.done.send(what);
    }

    /// Makes memory, when it is let.
    pub(super) fn make(device: &Arc<Self>, bytes: usize) -> Making<Locked> {
        let device = device.clone();
        Making::Slow(Box::new(move || {
            device.wait_and("made");
            let memory = Locked::plain(Region::heap(bytes), bytes);
            memory.ok_or(FabricError::Offer("no memory"))
        }))
    }

    /// Locks memory, when it is let.
    pub(super) fn lock(device: &Arc<Self>) -> Granting {
        let device = device.clone();
        Granting::Slow(Box::new(move || {
            device.wait_and("locked");
            match take(&mut *device.next.lock()) {
                Whim::Locks => {}
                Whim::Refuses => return Err(FabricError::Offer("it is a test")),
                Whim::Panics => panic!("a device panics"),
            }
            Ok(Grant::slow(Key { number: 1, base: 0 }, LetGo(device)))
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

/// A connected side over such a device, its shares, and what controls the device.
async fn slow_side(world: &World) -> (Arc<Reach>, Arc<Shares>, Control) {
    let (device, control) = Device::new();
    let (reach, shares) = acceptor(world, Posts::Slow(device));
    offer(&reach, 1).await;
    (reach, shares, control)
}

pub(super) fn acceptor(world: &World, posts: Posts) -> (Arc<Reach>, Arc<Shares>) {
    acceptor_with(world, posts, Handle::current())
}

/// As [`acceptor`], of a node whose own runtime is this one.
fn acceptor_with(world: &World, posts: Posts, own: Handle) -> (Arc<Reach>, Arc<Shares>) {
    let shares = Shares::new(world.entropy());
    let reach = Reach::new();
    let fabric = Arc::new(Mute(world.network("alpha").1, posts));
    let (binding, runtime, peer) = (Vec::new(), Handle::current(), super::peer());
    let (way, side) = (None, Side::Acceptor);
    let (known, room) = (shares.clone(), LendingRoom::new(&Lending::default()).of_peer());
    let means = Means { peer, fabric, way, side, binding, shares: known, room, own, runtime };
    reach.attach(means);
    (reach, shares)
}

pub(super) async fn offer(reach: &Arc<Reach>, number: u32) {
    reach.handle(Sharing::Offer { number, queue_pair: Zeroizing::default() }).unwrap();
    while !format!("{:?}", reach.outgoing().await).contains("Connected") {}
    reach.handle(Sharing::Connected { number, fence: None }).unwrap();
}

pub(super) fn share(shares: &Arc<Shares>) -> Share {
    shares.share(&Arc::new(Words::zeroed(64).unwrap()), 0, 64, Access::ALL).unwrap()
}

pub(super) async fn sleep_a_moment() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// RE-13: a queue pair is said to be connected when the earlier one to the peer is gone, even if
/// that is of an earlier link. Before, an operation by the earlier one could be done after one by
/// the next.
#[test]
fn a_queue_pair_comes_when_the_one_before_is_gone() {
    sim::run(1, |world| async move {
        let (device, control) = Device::new();
        let (reach, _shares) = acceptor(&world, Posts::Ends(device.clone()));
        offer(&reach, 1).await;
        let said = |reach: Arc<Reach>| async move {
            sleep_a_moment().await;
            let said = timeout(Duration::ZERO, reach.outgoing()).await;
            format!("{:?}", said.unwrap_or_default())
        };
        let offered = Sharing::Offer { number: 2, queue_pair: Zeroizing::default() };
        reach.handle(offered.clone()).unwrap();
        while device.waiting.load(Ordering::SeqCst) == 0 {
            sleep_a_moment().await;
        }
        assert!(!said(reach.clone()).await.contains("Connected"), "the first one is there still");
        assert_eq!(control.step(), "destroyed");
        while !said(reach.clone()).await.contains("Connected") {}

        let (later, _shares) = acceptor(&world, Posts::Ends(device.clone()));
        let room = reach.state.lock().means.as_ref().unwrap().room.clone();
        if let Some(means) = later.state.lock().means.as_mut().and_then(Arc::get_mut) {
            means.room = room.clone();
        }
        reach.end();
        later.handle(Sharing::Offer { number: 1, queue_pair: Zeroizing::default() }).unwrap();
        assert!(!said(later.clone()).await.contains("Connected"), "that of a link before is there");
        assert!(!room.is_unused());
        assert_eq!(control.step(), "destroyed");
        while !said(later.clone()).await.contains("Connected") {}

        // A waiting queue pair is not in the way of anything, even if it is given up (RE-7).
        later.handle(offered).unwrap();
        assert!(!said(later.clone()).await.contains("Connected"));
        later.handle(Sharing::Unable { number: 2, reason: "it is a test".into() }).unwrap();
        while device.waiting.load(Ordering::SeqCst) == 0 {
            sleep_a_moment().await;
        }
        assert_eq!(control.step(), "destroyed");
        offer(&later, 3).await;
        let _stepping = tokio::task::spawn_blocking(move || control.step());
        later.end();
        while !room.is_unused() {
            sleep_a_moment().await;
        }
    });
}

/// Bytes that a thread registers which may block.
const LARGE: usize = 4 * 1024 * 1024;

type Ended<T> = Arc<Mutex<Option<Result<T, NotLent>>>>;

fn lend(reach: &Arc<Reach>, bytes: usize) -> Ended<LentMemory> {
    let ended = Ended::default();
    let (mut body, told) = (AlignedVec::<16>::new(), ended.clone());
    body.resize(bytes, 7);
    let lent = reach.lend(&Arc::new(body.into()), move |lent| *told.lock() = Some(lent));
    assert!(lent.is_none(), "it is registered by another thread");
    ended
}

/// RE-7: while a device registers a message, or lets go of it, nothing waits for the reach; a
/// message whose queue pair has ended meanwhile is not lent. Before, each was done under the lock.
#[test]
fn nothing_waits_for_a_device_that_registers_a_message() {
    sim::run(1, |world| async move {
        let (reach, _shares, device) = slow_side(&world).await;
        let ended = lend(&reach, LARGE);
        reach.look(true);
        reach.handle(Sharing::Later).unwrap();
        assert!(reach.state.try_lock().is_some() && ended.lock().is_none());
        assert_eq!(device.step(), "locked");
        while ended.lock().is_none() {
            sleep_a_moment().await;
        }
        let (at, held) = ended.lock().take().unwrap().ok().unwrap();
        assert_eq!(at.pair, 1);
        let means = reach.state.lock().means.clone().unwrap();
        let lent = || means.room.lent.taken();
        assert_eq!(lent(), LARGE as u64);
        drop(held);
        assert_eq!(lent(), LARGE as u64, "the device has it still");
        assert_eq!(device.step(), "let go");
        while lent() > 0 {
            sleep_a_moment().await;
        }
        let ended = lend(&reach, LARGE);
        reach.handle(Sharing::Unable { number: 1, reason: "it has ended".into() }).unwrap();
        assert_eq!([device.step(), device.step()], ["locked", "let go"]);
        while ended.lock().is_none() {
            sleep_a_moment().await;
        }
        let not_yet = |lent: &Result<LentMemory, NotLent>| matches!(lent, Err(NotLent::NotYet));
        assert!(ended.lock().as_ref().is_some_and(not_yet));
        drop(device);
    });
}

/// RE-7, RE-9: while a device makes memory to land in nothing waits for the reach; a fetch whose
/// queue pair has ended meanwhile fails, and keeps no room.
#[test]
fn nothing_waits_for_a_device_that_makes_landing_memory() {
    sim::run(1, |world| async move {
        let (reach, _shares, device) = slow_side(&world).await;
        let room = reach.state.lock().means.clone().unwrap().room.landing.clone();
        for number in 1..=2 {
            let at = LentAt { pair: number, key: (1, 0) };
            let lent = Lent { number: 1, at, bytes: LARGE as u32 };
            let ended = Ended::default();
            let told = ended.clone();
            reach.fetch(lent, move |fetched| *told.lock() = Some(fetched.map(drop)));
            sleep_a_moment().await;
            reach.look(true);
            assert!(reach.state.try_lock().is_some() && ended.lock().is_none());
            assert_eq!(room.taken(), LARGE as u64);
            if number == 1 {
                assert_eq!(device.step(), "made");
                while reach.state.lock().pair(1).unwrap().posted.is_empty() {
                    sleep_a_moment().await;
                }
            }
            reach.handle(Sharing::Unable { number, reason: "it has ended".into() }).unwrap();
            if number == 2 {
                assert_eq!(device.step(), "made");
            }
            while ended.lock().is_none() {
                sleep_a_moment().await;
            }
            assert!(ended.lock().as_ref().is_some_and(Result::is_err));
            while room.taken() > 0 {
                sleep_a_moment().await;
            }
            offer(&reach, number + 1).await;
        }
        drop(device);
    });
}

/// RE-10: a peer that offers one queue pair after the other has one thread of this node, and the
/// last one is connected. Drawn: what else the peer says, and when the device goes on.
#[test]
fn offers_do_not_pile_up() {
    let (mut offered, mut threads, mut connected) = (0, 0, 0);
    for seed in 0..40 {
        let met = sim::run(seed, |world| async move {
            let (device, control) = Device::new();
            let (reach, _shares) = acceptor(&world, Posts::Connects(device.clone()));
            let (mut number, mut steps) = (0, 0);
            for _ in 0..60 {
                match world.entropy().below(6) {
                    0 => reach.handle(Sharing::Unable { number, reason: "no".into() }).unwrap(),
                    1 if device.waiting.load(Ordering::SeqCst) > 0 => {
                        control.step();
                        steps += 1;
                    }
                    2 => sleep_a_moment().await,
                    _ => {
                        number += 1;
                        let queue_pair = Zeroizing::default();
                        reach.handle(Sharing::Offer { number, queue_pair }).unwrap();
                    }
                }
            }
            number += 1;
            reach.handle(Sharing::Offer { number, queue_pair: Zeroizing::default() }).unwrap();
            while reach.state.lock().pair(number).is_none() {
                if device.waiting.load(Ordering::SeqCst) > 0 {
                    control.step();
                    steps += 1;
                }
                sleep_a_moment().await;
            }
            let said = format!("{:?}", reach.outgoing().await);
            assert!(said.ends_with("Connected]"), "{said}");
            assert_eq!(device.most.load(Ordering::SeqCst), 1, "seed {seed}");
            drop(control);
            [number as usize, steps, 1]
        });
        offered += met[0];
        threads += met[1];
        connected += met[2];
    }
    println!("{offered} offered, {threads} threads blocked, {connected} connected");
    assert!(offered > 500 && threads < offered);
}

/// RE-7, RE-9: four loans at once of which the device refuses some, or panics, while the queue pair
/// may end and messages may not be wanted any more: each has its one end, and all memory and all
/// room is given back.
#[test]
fn four_loans_fail_at_once_in_every_way() {
    let [mut lent, mut failed, mut early] = [0; 3];
    for seed in 0..200 {
        let met = sim::run(seed, |world| async move {
            let below = |most| world.entropy().below(most);
            let (device, control) = Device::new();
            let (reach, _shares) = acceptor(&world, Posts::Slow(device.clone()));
            offer(&reach, 1).await;
            let room = reach.state.lock().means.clone().unwrap().room.lent.clone();
            let mut met = [0; 3];
            let ends: Vec<_> = (0..4).map(|_| lend(&reach, LARGE)).collect();
            assert_eq!(room.taken(), 4 * LARGE as u64);
            let ends_at = below(6);
            for step in 0..4 {
                if step == ends_at {
                    reach.handle(Sharing::Unable { number: 1, reason: "no".into() }).unwrap();
                }
                let whims = [Whim::Locks, Whim::Refuses, Whim::Panics];
                *device.next.lock() = whims[below(3) as usize];
                // Memory that is let go of has its turn, too.
                while control.step() != "locked" {}
            }
            let mut held = Vec::new();
            for end in &ends {
                while end.lock().is_none() {
                    if device.waiting.load(Ordering::SeqCst) > 0 {
                        control.step();
                    }
                    sleep_a_moment().await;
                }
                match end.lock().take() {
                    Some(Ok(memory)) => {
                        met[0] += 1;
                        held.push(memory);
                    }
                    Some(Err(NotLent::NotYet)) => met[2] += 1,
                    _ => met[1] += 1,
                }
            }
            drop(held);
            while room.taken() > 0 {
                if device.waiting.load(Ordering::SeqCst) > 0 {
                    control.step();
                }
                sleep_a_moment().await;
            }
            drop(control);
            met
        });
        lent += met[0];
        failed += met[1];
        early += met[2];
    }
    println!("{lent} lent, {failed} failed, {early} whose queue pair had ended");
    assert!(lent > 50 && failed > 100 && early > 20);
}

/// LO-4: what a peer says nothing of is taken back, with the queue pair, and not before its time;
/// of the node's bytes nothing is kept. Before, it was lent as long as the link lived.
#[test]
fn a_loan_without_an_answer_is_taken_back() {
    for seed in 0..20 {
        sim::run(seed, |world| async move {
            let (reach, _shares) = acceptor(&world, Posts::Kept);
            let room = reach.state.lock().means.clone().unwrap().room.lent.clone();
            for number in 1..=3 {
                offer(&reach, number).await;
                let count = 1 + world.entropy().below(4);
                let lent: Vec<_> = (0..count)
                    .map(|_| {
                        let mut body = AlignedVec::<16>::new();
                        body.resize(4096, 7);
                        let lent = reach.lend(&Arc::new(body.into()), |_| ()).unwrap();
                        lent.ok().unwrap()
                    })
                    .collect();
                assert_eq!(room.taken(), 4096 * count);
                assert!(look_for(&reach, limits::LOAN_PATIENCE - LOOK).await.is_none());
                assert!(reach.state.lock().pair(number).is_some());
                assert_eq!(look_for(&reach, LOOK).await, Some(number + 1));
                assert!(reach.state.lock().pair(number).is_none());
                assert_eq!(format!("{:?}", reach.outgoing().await), "[Unable]");
                drop(lent);
                assert_eq!(reach.look(true), None);
                assert_eq!(room.taken(), 0);
            }
        });
    }
}

/// RE-7: where all threads that may block are taken, what needs one waits, and nothing else does:
/// neither what the peer says, nor the end of the link. Then all is given back.
#[test]
fn a_full_pool_of_blocking_threads_keeps_nothing_else() {
    let pool = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let own = pool.handle().clone();
    for seed in 0..10 {
        let own = own.clone();
        sim::run(seed, |world| async move {
            // The simulation knows of its own threads alone: while one works, time stands still.
            let (_working, works) = mpsc::channel::<()>();
            tokio::task::spawn_blocking(move || works.recv().is_err());
            let (device, control) = Device::new();
            let (reach, shares) = acceptor_with(&world, Posts::Slow(device.clone()), own.clone());
            offer(&reach, 1).await;
            let means = reach.state.lock().means.clone().unwrap();
            let (release, taken) = mpsc::channel::<()>();
            let full = own.spawn_blocking(move || taken.recv().is_err());
            let shared = share(&shares);
            let mut fetched = Vec::new();
            let mut lent = Vec::new();
            for _ in 0..6 {
                match world.entropy().below(3) {
                    0 => lent.push(lend(&reach, LARGE)),
                    1 => {
                        let at = LentAt { pair: 1, key: (1, 0) };
                        let of = Lent { number: 1, at, bytes: LARGE as u32 };
                        let ended = Ended::default();
                        let told = ended.clone();
                        reach.fetch(of, move |it| *told.lock() = Some(it.map(drop)));
                        fetched.push(ended);
                    }
                    _ => reach.handle(Sharing::Ask(shared.id())).unwrap(),
                }
                sleep_a_moment().await;
                assert!(reach.state.try_lock().is_some());
                reach.look(true);
                reach.handle(Sharing::Ask(ShareId(5))).unwrap();
                let said = format!("{:?}", reach.outgoing().await);
                assert!(said.contains("Denied"), "{said}");
            }
            assert_eq!(device.waiting.load(Ordering::SeqCst), 0, "no thread is there for it");
            reach.end();
            drop((release, control));
            assert!(full.await.unwrap());
            let are_over = || {
                lent.iter().all(|end| end.lock().is_some())
                    && fetched.iter().all(|end| end.lock().is_some())
            };
            while !are_over() || means.room.lent.taken() + means.room.landing.taken() > 0 {
                std::thread::sleep(Duration::from_millis(1));
                sleep_a_moment().await;
            }
            assert!(lent.iter().all(|end| end.lock().as_ref().is_some_and(Result::is_err)));
            shared.end().await;
        });
    }
    pool.shutdown_background();
}
