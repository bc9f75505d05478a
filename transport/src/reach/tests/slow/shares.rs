//! Shares that a device registers.

use super::*;
use crate::shares::ShareHolder;
use crate::shares::{Grantee, Holder};

/// RE-7: while a device locks memory the session goes on: it says so now and then, hears other
/// questions, which have their turn, and answers when it is done.
#[test]
fn nothing_waits_for_a_device_that_locks_memory() {
    sim::run(1, |world| async move {
        let (reach, shares, device) = slow_side(&world).await;
        let [first, second] = [share(&shares), share(&shares)];
        for share in [&first, &second, &first] {
            reach.handle(Sharing::Ask(share.id())).unwrap();
        }
        reach.look(true);
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Later]");
        reach.look(true);
        assert!(timeout(Duration::ZERO, reach.outgoing()).await.is_err(), "not so often");
        assert!(!reach.rest(), "RE-5: the peer waits");
        reach.handle(Sharing::Ask(ShareId(5))).unwrap();
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Denied]");
        for _ in 0..2 {
            assert_eq!(device.step(), "locked");
            assert_eq!(format!("{:?}", reach.outgoing().await), "[Granted]");
        }
        assert!(reach.rest());
        // SM-2: the end of a share waits for the device, and nothing else does.
        let id = first.id();
        let end = tokio::spawn(first.end());
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Revoke]");
        reach.handle(Sharing::Revoked(id)).unwrap();
        sleep_a_moment().await;
        assert!(!end.is_finished(), "the device may still write");
        assert_eq!(device.step(), "let go");
        end.await.unwrap();
        drop(device);
    });
}

/// RE-7: a share that ends, or a queue pair, while a device locks memory for it, leaves nothing
/// locked, and the peer has its one answer. There is one share at the device at a time, however
/// many queue pairs the peer opens.
#[test]
fn what_ends_while_a_device_locks_memory_is_let_go() {
    sim::run(1, |world| async move {
        let (reach, shares, device) = slow_side(&world).await;
        let [first, second] = [share(&shares), share(&shares)];
        reach.handle(Sharing::Ask(first.id())).unwrap();
        let end = tokio::spawn(first.end());
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Denied]");
        assert_eq!(device.step(), "locked");
        sleep_a_moment().await;
        assert!(!end.is_finished());
        assert_eq!(device.step(), "let go");
        end.await.unwrap();
        assert!(timeout(Duration::ZERO, reach.outgoing()).await.is_err(), "one answer");
        // The share's end does not wait for the thread itself.
        while reach.state.lock().grants.is_registering() {
            sleep_a_moment().await;
        }

        reach.handle(Sharing::Ask(second.id())).unwrap();
        for number in 2..5 {
            offer(&reach, number).await;
            reach.handle(Sharing::Ask(second.id())).unwrap();
        }
        assert_eq!(device.step(), "locked");
        assert_eq!(device.step(), "let go");
        assert_eq!(device.step(), "locked");
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Granted]");
        let end = tokio::spawn(second.end());
        reach.end();
        assert_eq!(device.step(), "let go");
        end.await.unwrap();
        drop(device);
    });
}

/// RE-7: however much a peer was granted, one thread gives it back when the queue pair ends.
#[test]
fn one_thread_gives_back_what_a_queue_pair_leaves() {
    sim::run(1, |world| async move {
        let (device, control) = Device::new();
        let (reach, shares) = acceptor(&world, Posts::Slow(device.clone()));
        offer(&reach, 1).await;
        let granted: Vec<_> = (0..20).map(|_| share(&shares)).collect();
        for share in &granted {
            reach.handle(Sharing::Ask(share.id())).unwrap();
            assert_eq!(control.step(), "locked");
            assert_eq!(format!("{:?}", reach.outgoing().await), "[Granted]");
        }
        device.most.store(0, Ordering::SeqCst);
        reach.handle(Sharing::Unable { number: 1, reason: "it has ended".into() }).unwrap();
        let ends: Vec<_> = granted.into_iter().map(|share| tokio::spawn(share.end())).collect();
        while device.waiting.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(device.most.load(Ordering::SeqCst), 1);
        ends.iter().for_each(|_| assert_eq!(control.step(), "let go"));
        for end in ends {
            end.await.unwrap();
        }
        drop(control);
    });
}

/// RE-7: a panic while a share is registered is an answer, and the next share has its turn.
#[test]
fn a_panic_while_a_share_is_registered_is_an_answer() {
    sim::run(1, |world| async move {
        let (device, control) = Device::new();
        let (reach, shares) = acceptor(&world, Posts::Slow(device.clone()));
        offer(&reach, 1).await;
        let [first, second] = [share(&shares), share(&shares)];
        for share in [&first, &second] {
            reach.handle(Sharing::Ask(share.id())).unwrap();
        }
        *device.next.lock() = Whim::Panics;
        assert_eq!(control.step(), "locked");
        let said = reach.outgoing().await;
        let [Sharing::Denied { share, why }] = &said[..] else { panic!("{said:?}") };
        let wanted = Denial::Unable("cannot connect the queue pair: it panicked".into());
        assert_eq!((*share, why), (first.id(), &wanted));
        assert_eq!(control.step(), "locked");
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Granted]");
        // Nothing holds the share that was not granted.
        first.end().await;
        drop(control);
    });
}

/// RE-7: each ASK has one answer, whenever it comes: also while the thread that has registered a
/// share goes on to the next one, with the state unlocked between.
#[test]
fn each_ask_has_its_answer_whenever_it_comes() {
    for seed in 0..100 {
        sim::run(seed, |world| async move {
            let (reach, shares, device) = slow_side(&world).await;
            const ASKS: usize = 12;
            let all: Vec<_> = (0..ASKS).map(|_| share(&shares)).collect();
            let steps = std::thread::spawn(move || {
                (0..ASKS).for_each(|_| assert_eq!(device.step(), "locked"));
                device
            });
            let mut answers = Vec::new();
            for share in &all {
                reach.handle(Sharing::Ask(share.id())).unwrap();
                (0..world.entropy().below(2_000)).for_each(|_| std::hint::spin_loop());
                answers.extend(timeout(Duration::ZERO, reach.outgoing()).await.unwrap_or_default());
            }
            while answers.len() < ASKS {
                answers.extend(reach.outgoing().await);
            }
            let granted = answers.iter().filter(|it| matches!(it, Sharing::Granted { .. }));
            assert_eq!((granted.count(), answers.len()), (ASKS, ASKS), "seed {seed}");
            drop(steps.join().unwrap());
        });
    }
}

/// SM-3: another executor, a device that keeps the atomics until it is told to let go.
struct Busy(Executor, Mutex<Option<Holder>>);

impl Grantee for Busy {
    fn revoke(&self, _: ShareId) {}

    fn recall(&self, _: ShareId, executor: &Executor) {
        if self.0 != *executor {
            drop(self.1.lock().take());
        }
    }

    fn holder(&self, _: ShareId) -> Option<ShareHolder> {
        None
    }
}

impl Busy {
    /// Asks for the atomics. Returns true if it may do them.
    fn asks(self: &Arc<Self>, shares: &Arc<Shares>, id: ShareId) -> bool {
        let (piece, holder) = shares.open_for(id, &self.0, &(self.clone() as _)).unwrap();
        if piece.is_elsewhere {
            shares.recall(id, &self.0);
            return false;
        }
        *self.1.lock() = Some(holder);
        true
    }
}

/// Returns the next messages, even if a thread sends them that the simulation does not know.
fn said(reach: &Arc<Reach>) -> Vec<Sharing> {
    loop {
        match reach.outgoing().now_or_never() {
            Some(said) => return said,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Returns true if the next message, a grant, includes atomics.
fn granted(reach: &Arc<Reach>) -> bool {
    let said = said(reach);
    let [Sharing::Granted { access, .. }] = said[..] else { panic!("{said:?}") };
    access.atomic
}

/// SM-3: a peer that was refused atomics has its turn, even if another share of it takes a device
/// longer than a turn is kept, and even if its turn comes only then. Before, the first executor got
/// them back.
#[test]
fn a_turn_waits_for_a_device_that_registers_another_share() {
    let pool = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let pool = pool.unwrap();
    for is_late in [false, true] {
        // The simulation's time stands still while threads of its own work.
        let own = pool.handle().clone();
        sim::run(1, |world| async move {
            let (device, control) = Device::new();
            let (reach, shares) = acceptor_with(&world, Posts::Slow(device), own);
            let (number, queue_pair, fence) = (1, Zeroizing::default(), None);
            reach.handle(Sharing::Offer { number, queue_pair }).unwrap();
            while !format!("{:?}", said(&reach)).contains("Connected") {}
            reach.handle(Sharing::Connected { number, fence }).unwrap();
            let [wanted, other] = [share(&shares), share(&shares)];
            let id = wanted.id();
            let busy = Arc::new(Busy(Executor::Device("mlx5_0".into()), Mutex::default()));
            assert!(busy.asks(&shares, id));
            let ask = |id| reach.handle(Sharing::Ask(id)).unwrap();
            ask(id);
            assert_eq!(control.step(), "locked");
            assert!(!granted(&reach));
            ask(other.id());
            ask(id);
            assert!(!granted(&reach) && !busy.asks(&shares, id), "it was recalled");
            ask(id);
            assert_eq!(format!("{:?}", reach.outgoing().await), "[Revoke]");
            if is_late {
                tokio::time::sleep(2 * limits::EXECUTOR_RESERVED).await;
                assert!(busy.asks(&shares, id), "its peer took too long");
            }
            reach.handle(Sharing::Revoked(id)).unwrap();
            for _ in 0..20 {
                tokio::time::sleep(limits::EXECUTOR_RESERVED / 4).await;
                assert!(!busy.asks(&shares, id), "the peer waits for this node's device");
            }
            // The grant that was let go of has its turn at the device, too.
            (0..3).for_each(|_| assert!(!control.step().is_empty()));
            let mut granted = said(&reach);
            while granted.len() < 2 {
                granted.extend(said(&reach));
            }
            let is_granted = |it: &Sharing| match it {
                Sharing::Granted { share, access, .. } => *share == id && access.atomic,
                _ => false,
            };
            assert!(granted.iter().any(is_granted), "{granted:?}, late: {is_late}");
            reach.end();
            drop(control);
        });
    }
    pool.shutdown_background();
}
