//! The time for which a queue pair, an answer or a peer is waited for.

use tokio::sync::oneshot::error::TryRecvError;
use tokio::task::yield_now;

use super::slow::{Device, acceptor, offer, share, sleep_a_moment};
use super::*;
use crate::bootstrap::Question;
use crate::proto::fetches::Lent;
use crate::proto::loans::LentAt;
use crate::shares::Grantee;

/// Runs the ready tasks of a runtime, by a thread of its own.
fn run_ready(runtime: &tokio::runtime::Runtime) {
    let ready = async {
        for _ in 0..10 {
            yield_now().await;
        }
    };
    std::thread::scope(|scope| scope.spawn(|| runtime.block_on(ready)).join().unwrap());
}

/// Posts a read on a queue pair that is driven on this runtime, which runs only while this does.
async fn read_by(
    reach: &Arc<Reach>,
    links: &tokio::runtime::Runtime,
) -> oneshot::Receiver<Finished> {
    {
        let mut state = reach.state.lock();
        let means = Arc::get_mut(state.means.as_mut().unwrap()).unwrap();
        means.runtime = links.handle().clone();
    }
    let mut connected = pin!(ready(reach));
    let ready = loop {
        run_ready(links);
        if let Some(ready) = timeout(LOOK, connected.as_mut()).now_or_never() {
            break ready.unwrap();
        }
        sleep_a_moment().await;
    };
    let piece = ready.try_piece(8).unwrap();
    let act = Act::On { kind: Kind::Read, at: 0, bytes: 8 };
    ready.post(vec![Wanted { act, piece }]).unwrap().remove(0)
}

/// RE-12: a program blocks the runtime on which queue pairs are driven for longer than anything is
/// waited for. Outcomes that came meanwhile are found when it goes on. Before, the queue pair was
/// given up without a look at it, and finished operations ended as unknown.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_program_that_blocks_its_runtime_keeps_its_queue_pairs() {
    sim::run(1, |world| async move {
        let links = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::Done);
        let finished = read_by(&reach, &links).await;
        look_for(&reach, 10 * limits::ONE_SIDED_PATIENCE).await;
        run_ready(&links);
        let (status, came) = finished.await.expect("it was done");
        assert_eq!((status, came.len()), (Status::Success, 8));
        links.shutdown_background();
    });
}

/// RE-12: a peer's program that blocks its runtime does not cost queue pairs either.
#[test]
fn a_peer_that_says_that_its_driver_does_not_run_is_waited_for() {
    sim::run(1, |world| async move {
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::Kept);
        let ready = ready(&reach).await;
        let piece = ready.try_piece(8).unwrap();
        let act = Act::On { kind: Kind::FetchAdd(1), at: 0, bytes: 8 };
        let mut finished = ready.post(vec![Wanted { act, piece }]).unwrap().remove(0);
        for _ in 0..100 {
            tokio::time::sleep(LOOK).await;
            reach.look(false);
        }
        assert_eq!(finished.try_recv().err(), Some(TryRecvError::Empty));
        look_for(&reach, limits::ONE_SIDED_PATIENCE).await;
        assert!(finished.await.is_err());
    });
}

/// RE-3: an ended share is taken back in time, whether or not the peer's program runs. Before, it
/// was kept for as long as the peer said that it does not.
#[test]
fn a_stalled_peer_does_not_keep_what_has_ended() {
    sim::run(1, |world| async move {
        let (reach, shares) = acceptor(&world, Posts::Kept);
        offer(&reach, 1).await;
        let kept = share(&shares);
        reach.handle(Sharing::Ask(kept.id())).unwrap();
        for _ in 0..3 * limits::SHARING_UNANSWERED_MAX {
            let share = share(&shares);
            reach.handle(Sharing::Ask(share.id())).unwrap();
            reach.outgoing().await;
        }
        tokio::time::sleep(limits::REVOKE_PATIENCE - LOOK).await;
        assert!(reach.state.lock().grants.granted.len() > limits::SHARING_UNANSWERED_MAX);
        tokio::time::sleep(2 * LOOK).await;
        reach.look(false);
        let said = {
            let state = reach.state.lock();
            assert!(matches!(state.stage, Stage::Connected(_)), "its program may go on");
            assert_eq!(state.grants.granted.len(), 1, "without a look at its link");
            state.unanswered[Question::Revoke as usize].unsent.len()
        };
        // It hears of each of them: an honest peer uses none.
        assert_eq!(said, 2 * limits::SHARING_UNANSWERED_MAX);
    });
}

/// A peer is granted no more shares while it has to let go of too many, whatever it says of others.
/// It is not cut for it: an honest peer lets go of them, however many end at once.
#[test]
fn a_peer_is_granted_no_more_than_it_lets_go_of() {
    sim::run(1, |world| async move {
        let (reach, shares) = acceptor(&world, Posts::Kept);
        offer(&reach, 1).await;
        let all: Vec<_> = (0..=limits::ENDS_UNHEARD_MAX).map(|_| share(&shares)).collect();
        let ids: Vec<_> = all.iter().map(Share::id).collect();
        for id in &ids {
            reach.handle(Sharing::Ask(*id)).unwrap();
            reach.outgoing().await;
        }
        drop(all);
        tokio::time::sleep(limits::REVOKE_PATIENCE + LOOK).await;
        let revokes = reach.outgoing().await;
        assert_eq!(revokes.len(), limits::SHARING_UNANSWERED_MAX);
        let next = share(&shares);
        reach.handle(Sharing::Ask(next.id())).unwrap();
        {
            let state = reach.state.lock();
            assert!(matches!(state.stage, Stage::Connected(_)), "they are taken back, all at once");
            assert!(state.grants.granted.is_empty(), "and this one is not granted");
        }
        reach.look(true);
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Later]");
        reach.handle(Sharing::Revoked(ids[0])).unwrap();
        let said = format!("{:?}", reach.outgoing().await);
        assert_eq!(said, "[Granted, Revoke]");
        for id in &ids[1..] {
            reach.handle(Sharing::Revoked(*id)).unwrap();
            while timeout(Duration::ZERO, reach.outgoing()).await.is_ok() {}
        }
        let state = reach.state.lock();
        assert_eq!((state.grants.granted.len(), state.speaks()), (1, false));
    });
}

/// RE-6: a queue pair that a device does not make is given up in the end, and tasks that wait for
/// it hear that.
#[test]
fn a_queue_pair_that_is_never_made_is_given_up() {
    sim::run(1, |world| async move {
        let (reach, shares) = acceptor(&world, Posts::Kept);
        let _share = share(&shares);
        let never = tokio::spawn(std::future::pending::<()>()).abort_handle();
        {
            let mut state = reach.state.lock();
            state.number = 1;
            state.stage = Stage::Connecting(state.patience.now(), Task(never));
        }
        let task = tokio::spawn({
            let reach = reach.clone();
            async move { reach.access(ShareId(7), false).await.map(drop) }
        });
        look_for(&reach, limits::OPENING_PATIENCE - limits::ONE_SIDED_PATIENCE).await;
        assert!(!task.is_finished() && matches!(reach.state.lock().stage, Stage::Connecting(..)));
        look_for(&reach, limits::ONE_SIDED_PATIENCE).await;
        let ended = task.await.unwrap();
        assert!(matches!(ended, Err(Unready::Unable(_))), "{ended:?}");
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Unable]");
    });
}

/// RE-6: a queue pair whose driver is gone is given up at the next look. Before, patience did not
/// count.
#[test]
fn a_queue_pair_without_a_driver_is_given_up() {
    sim::run(1, |world| async move {
        let links = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::Kept);
        let finished = read_by(&reach, &links).await;
        links.shutdown_background();
        reach.look(true);
        assert!(finished.await.is_err());
        assert!(matches!(reach.state.lock().stage, Stage::Closed));
        // A queue pair that comes up after the runtime has ended never has a driver.
        offer(&reach, 2).await;
        assert!(matches!(reach.state.lock().stage, Stage::Connected(_)));
        reach.look(true);
        assert!(matches!(reach.state.lock().stage, Stage::Closed));
    });
}

/// RE-12: a peer that stands still while it lets go of a share is waited for, however late its
/// heartbeats say so; a peer that does not answer an ASK is not waited for as long.
#[test]
fn a_stall_that_is_known_late_costs_no_queue_pair() {
    sim::run(1, |world| async move {
        let beat = Duration::from_secs(10);
        let (reach, shares) = acceptor(&world, Posts::Kept);
        reach.expect_beats(beat);
        offer(&reach, 1).await;
        let share = share(&shares);
        reach.handle(Sharing::Ask(share.id())).unwrap();
        reach.outgoing().await;
        drop(share);
        assert!(format!("{:?}", reach.outgoing().await).contains("Revoke"));
        look_for(&reach, 3 * beat).await;
        for _ in 0..100 {
            tokio::time::sleep(LOOK).await;
            reach.look(false);
        }
        assert!(matches!(reach.state.lock().stage, Stage::Connected(_)));
        look_for(&reach, limits::DRAINING_PATIENCE + beat).await;
        assert!(matches!(reach.state.lock().stage, Stage::Closed));
    });
}

/// RE-6, RE-12: the operations under way on a recalled share take longer than anything is waited
/// for, though no single one does. A task that asked for the share again waits for them, even while
/// the peer's driver stands still for a time that is known late. Before, that lost the queue pair.
#[test]
fn a_share_that_drains_slowly_costs_no_queue_pair() {
    sim::run(1, |world| async move {
        let (lets, beat) = (Arc::new(AtomicUsize::new(0)), Duration::from_secs(10));
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::Lets(lets.clone()));
        reach.expect_beats(beat);
        let ready = granted(&reach, true).await;
        let read = || {
            let act = Act::On { kind: Kind::Read, at: 0, bytes: 8 };
            let piece = ready.try_piece(8).unwrap();
            ready.post(vec![Wanted { act, piece }]).unwrap().remove(0)
        };
        let reads: Vec<_> = (0..6).map(|_| read()).collect();
        let other = reach.clone();
        let again = tokio::spawn(async move { other.access(ShareId(9), true).await.map(drop) });
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Ask]");
        reach.handle(Sharing::Revoke(ShareId(9))).unwrap();
        look_for(&reach, limits::ONE_SIDED_PATIENCE + beat).await;
        for read in reads {
            look_for(&reach, limits::ONE_SIDED_PATIENCE - LOOK).await;
            lets.store(1, Ordering::SeqCst);
            reach.look(true);
            let (status, _) = read.await.expect("its queue pair is there");
            assert_eq!(status, Status::Success);
        }
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Revoked]");
        look_for(&reach, limits::ONE_SIDED_PATIENCE - LOOK).await;
        let (share, key) = (ShareId(9), Key { number: 2, base: 0 });
        let (bytes, access, is_elsewhere) = (64, Access::ALL, false);
        reach.handle(Sharing::Granted { share, key, bytes, access, is_elsewhere }).unwrap();
        assert_eq!(again.await.unwrap(), Ok(()));
    });
}

/// RE-3, SM-3: a peer that has asked again for a share that it is to let go of, and does not let go
/// of it, has its answer when the share is taken back. Before, it had none.
#[test]
fn who_asked_again_is_answered_when_the_share_is_taken_back() {
    sim::run(1, |world| async move {
        let (reach, shares) = acceptor(&world, Posts::Kept);
        offer(&reach, 1).await;
        let share = share(&shares);
        let id = share.id();
        reach.handle(Sharing::Ask(id)).unwrap();
        assert!(format!("{:?}", reach.outgoing().await).contains("Granted"));
        tokio::time::sleep(Duration::from_secs(20)).await;
        reach.recall(id, &Executor::Device("other".into()));
        assert!(format!("{:?}", reach.outgoing().await).contains("Revoke"));
        reach.handle(Sharing::Ask(id)).unwrap();
        assert!(timeout(Duration::ZERO, reach.outgoing()).await.is_err());
        drop(share);
        tokio::time::sleep(limits::REVOKE_PATIENCE).await;
        assert!(format!("{:?}", reach.outgoing().await).contains("Denied"));
        assert!(reach.state.lock().grants.granted.is_empty());
    });
}

/// RE-6: a peer that never says that it has let go of ended shares costs this side no more than its
/// queue pair holds. Before, each such share stayed in the outbox.
#[test]
fn a_peer_that_lets_go_of_nothing_is_given_up() {
    sim::run(1, |world| async move {
        let (reach, shares) = acceptor(&world, Posts::Kept);
        offer(&reach, 1).await;
        for _ in 0..3 * limits::SHARING_UNANSWERED_MAX {
            let share = share(&shares);
            reach.handle(Sharing::Ask(share.id())).unwrap();
            reach.outgoing().await;
        }
        look_for(&reach, limits::DRAINING_PATIENCE).await;
        let state = reach.state.lock();
        assert!(matches!(state.stage, Stage::Closed) && state.grants.granted.is_empty());
        assert_eq!(format!("{:?}", state.outbox), "[Unable]");
    });
}

/// The same holds for the operations of a batch that the device begins before it refuses the rest.
#[test]
fn an_end_of_a_part_of_a_batch_is_unknown_when_the_queue_pair_is_gone() {
    sim::run(1, |world| async move {
        let (device, control) = Device::new();
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::TakesOne(device));
        let ready = ready(&reach).await;
        let act = Act::On { kind: Kind::FetchAdd(1), at: 0, bytes: 8 };
        let wanted = (0..3).map(|_| Wanted { act, piece: ready.try_piece(8).unwrap() }).collect();
        let mut finished = ready.post(wanted).unwrap();
        assert!(ready.piece(8).await.is_err(), "nothing more is begun");
        assert!(matches!(reach.state.lock().stage, Stage::Closed));
        sleep_a_moment().await;
        assert_eq!(finished[0].try_recv().err(), Some(TryRecvError::Empty));
        assert_eq!(control.step(), "destroyed");
        for finished in finished {
            assert!(finished.await.is_err());
        }
    });
}

/// A task hears that the end of its operation is unknown when the device can no longer do it: the
/// bytes found then stay so. Before, it heard when the queue pair was handed over to be destroyed.
#[test]
fn an_end_is_unknown_when_the_queue_pair_is_gone() {
    sim::run(1, |world| async move {
        let (device, control) = Device::new();
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::Ends(device));
        let ready = ready(&reach).await;
        let piece = ready.try_piece(8).unwrap();
        let act = Act::On { kind: Kind::FetchAdd(1), at: 0, bytes: 8 };
        let mut finished = ready.post(vec![Wanted { act, piece }]).unwrap().remove(0);
        reach.handle(Sharing::Unable { number: 1, reason: "it has ended".into() }).unwrap();
        assert!(ready.piece(8).await.is_err(), "nothing more is begun");
        sleep_a_moment().await;
        assert_eq!(finished.try_recv().err(), Some(TryRecvError::Empty));
        assert_eq!(control.step(), "destroyed");
        assert!(finished.await.is_err());
    });
}

/// RE-6: a peer that lends by a queue pair, and never says that its own is connected, keeps no task
/// waiting. Before, each message that was fetched was a reason to wait on.
#[test]
fn a_peer_that_lends_and_is_never_connected_is_given_up() {
    sim::run(1, |world| async move {
        let (reach, _shares) = acceptor(&world, Posts::Done);
        let other = reach.clone();
        let task = tokio::spawn(async move { other.access(ShareId(9), false).await.map(drop) });
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Want]");
        reach.handle(Sharing::Offer { number: 1, queue_pair: Zeroizing::default() }).unwrap();
        let fetched = Arc::new(AtomicUsize::new(0));
        let pause = limits::ONE_SIDED_PATIENCE / 2;
        for _ in 0..limits::OPENING_PATIENCE.as_secs() / pause.as_secs() + 1 {
            look_for(&reach, pause).await;
            let at = LentAt { pair: 1, key: (2, 0) };
            let (lent, count) = (Lent { number: 1, at, bytes: 200_000 }, fetched.clone());
            reach.fetch(lent, move |ended| {
                count.fetch_add(usize::from(ended.is_ok()), Ordering::SeqCst);
            });
        }
        assert!(fetched.load(Ordering::SeqCst) > 3);
        assert!(matches!(task.await.unwrap(), Err(Unready::Unable(_))));
    });
}

/// SM-3, RE-6: a peer that answers for a share that it does not have keeps a recalled share no
/// longer than a silent peer. Before, it was not waited for any more, and kept the share.
#[test]
fn what_a_peer_lets_go_of_is_what_it_was_asked_for() {
    sim::run(1, |world| async move {
        let (reach, shares) = acceptor(&world, Posts::Kept);
        offer(&reach, 1).await;
        let share = share(&shares);
        reach.handle(Sharing::Ask(share.id())).unwrap();
        reach.outgoing().await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        reach.recall(share.id(), &Executor::Device("other".into()));
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Revoke]");
        for _ in 0..limits::DRAINING_PATIENCE.as_secs() {
            reach.handle(Sharing::Revoked(ShareId(u128::MAX))).unwrap();
            look_for(&reach, LOOK).await;
        }
        assert!(reach.state.lock().grants.granted.is_empty());
        assert!(matches!(reach.state.lock().stage, Stage::Closed));
    });
}
