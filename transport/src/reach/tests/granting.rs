//! Shares that the peer is granted, at once or when a device has registered them.

use super::*;
use crate::bootstrap::Question;
use crate::shares::{Grantee, Holder, ShareHolder};

/// RE-3: an ended share is taken back in time, whether or not the peer's program runs, or says
/// anything.
#[test]
fn a_stalled_peer_does_not_keep_what_has_ended() {
    run(async {
        let side = OneSide::new(());
        let kept = side.share();
        side.hear(Sharing::Ask(kept.id()));
        for _ in 0..3 * limits::SHARING_UNANSWERED_MAX {
            let share = side.share();
            side.hear(Sharing::Ask(share.id()));
            side.said().await;
        }
        let granted = || side.reach.state.lock().grants.granted.len();
        sleep(limits::REVOKE_PATIENCE - Duration::from_millis(1)).await;
        assert_eq!(granted(), 3 * limits::SHARING_UNANSWERED_MAX + 1);
        sleep(Duration::from_millis(2)).await;
        assert_eq!(granted(), 1);
        // It hears of each of them: an honest peer uses none.
        let state = side.reach.state.lock();
        let unsent = &state.unanswered[Question::Revoke as usize].unsent;
        assert_eq!(unsent.len(), 2 * limits::SHARING_UNANSWERED_MAX);
    });
}

/// A peer is granted no more shares while it has to let go of too many, whatever it says of others.
/// It is not cut for it: an honest peer lets go of them, however many end at once.
#[test]
fn a_peer_is_granted_no_more_than_it_lets_go_of() {
    run(async {
        let side = OneSide::new(());
        let all: Vec<_> = (0..=limits::ENDS_UNHEARD_MAX).map(|_| side.share()).collect();
        let ids: Vec<_> = all.iter().map(Share::id).collect();
        for id in &ids {
            side.hear(Sharing::Ask(*id));
            side.said().await;
        }
        drop(all);
        sleep(2 * limits::REVOKE_PATIENCE).await;
        assert_eq!(side.said_now().len(), limits::SHARING_UNANSWERED_MAX, "REVOKEs");
        let next = side.share();
        side.hear(Sharing::Ask(next.id()));
        side.hear(Sharing::Revoked(WANTED));
        assert!(side.reach.state.lock().grants.granted.is_empty(), "they are all taken back");
        assert_eq!(format!("{:?}", side.said_now()), "[]");
        side.hear(Sharing::Revoked(ids[0]));
        assert_eq!(side.said().await, "[Granted, Revoke]");
        for id in &ids[1..] {
            side.hear(Sharing::Revoked(*id));
            side.said_now();
        }
        let state = side.reach.state.lock();
        assert_eq!((state.grants.granted.len(), state.speaks()), (1, false));
    });
}

/// RE-3, SM-3: a peer that has asked again for a share that it is to let go of, and does not let go
/// of it, has its answer when the share is taken back.
#[test]
fn who_asked_again_is_answered_when_the_share_is_taken_back() {
    run(async {
        let side = OneSide::new(());
        let share = side.share();
        let id = share.id();
        side.hear(Sharing::Ask(id));
        assert_eq!(side.said().await, "[Granted]");
        sleep(limits::EXECUTOR_KEPT).await;
        side.reach.recall(id, &Executor::Device("other".into()));
        assert_eq!(side.said().await, "[Revoke]");
        side.hear(Sharing::Ask(id));
        side.hear(Sharing::Revoked(WANTED));
        assert_eq!(format!("{:?}", side.said_now()), "[]", "it has let go of another one");
        drop(share);
        sleep(limits::REVOKE_PATIENCE).await;
        assert_eq!(side.said().await, "[Denied]");
        assert!(side.reach.state.lock().grants.granted.is_empty());
    });
}

/// RE-7: however much a peer was granted, one thread gives it back when the link ends.
#[test]
fn one_thread_gives_back_what_a_link_leaves() {
    run(async {
        let (device, control) = Device::new();
        let side = OneSide::new(Locks(device.clone()));
        let granted: Vec<_> = (0..20).map(|_| side.share()).collect();
        for share in &granted {
            side.hear(Sharing::Ask(share.id()));
            assert_eq!(control.step(), "locked");
            assert_eq!(side.said().await, "[Granted]");
        }
        device.most.store(0, Ordering::SeqCst);
        side.reach.end();
        let ends: Vec<_> = granted.into_iter().map(|share| tokio::spawn(share.end())).collect();
        while device.waiting.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(device.most.load(Ordering::SeqCst), 1);
        sleep_a_moment().await;
        // SM-2: until then the device may write.
        assert!(ends.iter().all(|end| !end.is_finished()));
        ends.iter().for_each(|_| assert_eq!(control.step(), "let go"));
        for end in ends {
            end.await.unwrap();
        }
    });
}

/// RE-7: each ASK has one answer, whenever it comes: also while the thread that has registered a
/// share goes on to the next one, with the state unlocked between. The session goes on meanwhile:
/// what needs no device is answered at once.
#[test]
fn each_ask_has_its_answer_whenever_it_comes() {
    const ASKS: usize = 12;
    for seed in 0..100 {
        run(async {
            let mut chance = fastrand::Rng::with_seed(seed);
            let (device, control) = Device::new();
            let side = OneSide::new(Locks(device.clone()));
            let first = side.share();
            for share in [first.id(), first.id(), WANTED] {
                side.hear(Sharing::Ask(share));
            }
            assert_eq!(side.said().await, "[Denied]", "the first one is registered yet");
            assert!(!side.reach.rest(), "RE-5: the peer waits");
            let steps = std::thread::spawn(move || {
                (0..ASKS).for_each(|_| assert_eq!(control.step(), "locked"));
                control
            });
            let all: Vec<_> = (1..ASKS).map(|_| side.share()).collect();
            let mut answers = Vec::new();
            for share in &all {
                side.hear(Sharing::Ask(share.id()));
                (0..chance.u32(..2_000)).for_each(|_| std::hint::spin_loop());
                answers.extend(side.said_now());
            }
            while answers.len() < ASKS {
                answers.extend(side.reach.outgoing().await);
            }
            let granted = answers.iter().filter(|it| matches!(it, Sharing::Granted { .. }));
            assert_eq!((granted.count(), answers.len()), (ASKS, ASKS), "seed {seed}");
            assert_eq!(device.most.load(Ordering::SeqCst), 1, "one at a time");
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

/// Returns the next messages, even if a thread sends them that the test's time does not know.
fn said(side: &OneSide) -> Vec<Sharing> {
    loop {
        match &mut side.said_now() {
            said if said.is_empty() => std::thread::sleep(Duration::from_millis(1)),
            said => return take(said),
        }
    }
}

/// Returns true if this grant includes atomics.
fn is_atomic(said: &[Sharing]) -> bool {
    let [Sharing::Granted { access, .. }] = said else { panic!("{said:?}") };
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
        // The test's time stands still while threads of its own runtime work.
        run(async {
            let (device, control) = Device::new();
            let side = OneSide::with(Locks(device), pool.handle().clone());
            let [wanted, other] = [side.share(), side.share()];
            let (id, shares) = (wanted.id(), &side.shares);
            let busy = Arc::new(Busy(Executor::Device("mlx5_0".into()), Mutex::default()));
            assert!(busy.asks(shares, id));
            side.hear(Sharing::Ask(id));
            assert_eq!(control.step(), "locked");
            assert!(!is_atomic(&said(&side)));
            side.hear(Sharing::Ask(other.id()));
            side.hear(Sharing::Ask(id));
            assert!(!is_atomic(&said(&side)) && !busy.asks(shares, id), "it was recalled");
            side.hear(Sharing::Ask(id));
            assert_eq!(format!("{:?}", said(&side)), "[Revoke]");
            if is_late {
                sleep(2 * limits::EXECUTOR_RESERVED).await;
                assert!(busy.asks(shares, id), "its peer took too long");
            }
            side.hear(Sharing::Revoked(id));
            for _ in 0..20 {
                sleep(limits::EXECUTOR_RESERVED / 4).await;
                assert!(!busy.asks(shares, id), "the peer waits for this node's device");
            }
            // The grant that was let go of has its turn at the device, too.
            (0..3).for_each(|_| assert!(!control.step().is_empty()));
            let mut granted = said(&side);
            while granted.len() < 2 {
                granted.extend(said(&side));
            }
            let is_granted = |it: &Sharing| match it {
                Sharing::Granted { share, access, .. } => *share == id && access.atomic,
                _ => false,
            };
            assert!(granted.iter().any(is_granted), "{granted:?}, late: {is_late}");
            side.reach.end();
        });
    }
    pool.shutdown_background();
}
