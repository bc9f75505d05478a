//! One-sided access by doubles: the test executes the operations, and is the peer and the devices.

mod double;
mod granting;
mod lending;
mod model;

use std::mem::replace;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use double::{Control, Destroys, Device, Double, Locks, Maker, Queue, Whim};

use super::*;
use crate::cause::NotShared;
use crate::entropy::Entropy;
use crate::fabric::one_sided::{Grant, Granting, Kind, Locked, Making, Operation, Outcome};
use crate::fabric::{FabricError, PostError, Status};
use crate::limits;
use crate::memory::{Buffer, Region};
use crate::profile::Lending;
use crate::shares::Share;

/// The share of the peer that tasks use.
const WANTED: ShareId = ShareId(9);
const READ: Act = Act::On { kind: Kind::Read, at: 0, bytes: 8 };

/// Runs a test, whose time passes when nothing else can.
fn run<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(test)
}

/// One side of a link.
struct OneSide {
    reach: Arc<Reach>,
    shares: Arc<Shares>,
    queue: Arc<Mutex<Queue>>,
}

impl OneSide {
    /// A side of which this makes memory.
    fn new(maker: impl Maker + 'static) -> Self {
        Self::with(maker, Handle::current())
    }

    /// The same, of a node whose own runtime is this one.
    fn with(maker: impl Maker + 'static, own: Handle) -> Self {
        let shares = Shares::new(Entropy::seeded(1));
        let room = LendingRoom::new(&Lending::default()).of_peer();
        let (reach, maker) = (Reach::new(), Arc::new(maker));
        let queue = begin(&reach, maker, means(Box::new(|_| ()), &shares, &room, own));
        OneSide { reach, shares, queue }
    }

    /// Shares memory of this node.
    fn share(&self) -> Share {
        let memory = Arc::new(Words::zeroed(64).unwrap());
        self.shares.share(&memory, 0, 64, Access::ALL).unwrap()
    }

    /// Returns the next message.
    async fn said(&self) -> String {
        let said = timeout(Duration::from_secs(60), self.reach.outgoing()).await;
        format!("{:?}", said.expect("it says something"))
    }

    /// Returns the messages to be sent now.
    fn said_now(&self) -> Vec<Sharing> {
        self.reach.outgoing().now_or_never().unwrap_or_default()
    }

    fn hear(&self, message: Sharing) {
        self.reach.handle(message).unwrap();
    }

    /// The share of the peer, which it has granted by this key.
    async fn ready(&self, number: u32) -> Ready {
        let reach = self.reach.clone();
        let ready = tokio::spawn(async move { reach.access(WANTED, false).await.ok().unwrap() });
        assert_eq!(self.said().await, "[Ask]");
        self.hear(granted(WANTED, number));
        ready.await.unwrap()
    }

    /// All operations under way succeed.
    fn succeed(&self) {
        let queue = &mut *self.queue.lock();
        (0..queue.pending.len()).for_each(|_| queue.finish(Status::Success));
    }
}

fn means(end_link: EndLink, shares: &Arc<Shares>, room: &PeerRoom, own: Handle) -> Means {
    let (peer, runtime) = (NodeName::new("peer").unwrap(), Handle::current());
    Means { peer, end_link, shares: shares.clone(), room: room.clone(), runtime, own }
}

/// Begins with a double. Returns its operations.
fn begin(reach: &Arc<Reach>, maker: Arc<dyn Maker>, means: Means) -> Arc<Mutex<Queue>> {
    let queue = Arc::default();
    reach.begin(Box::new(Double { queue: Arc::clone(&queue), maker }), means);
    queue
}

fn granted(share: ShareId, number: u32) -> Sharing {
    let (key, access) = (Key { number, base: 0 }, Access::ALL);
    Sharing::Granted { share, key, bytes: 64, access, is_elsewhere: false }
}

/// Posts `count` operations on the first word, and returns the receivers of their ends.
fn post(
    ready: &Ready,
    act: Act,
    count: usize,
) -> Result<Vec<oneshot::Receiver<Finished>>, NotPosted> {
    ready.post((0..count).map(|_| Wanted { act, piece: ready.try_piece(8).unwrap() }).collect())
}

async fn sleep_a_moment() {
    for _ in 0..100 {
        yield_now().await;
    }
}

/// One of the messages that there are.
fn any_message(chance: &mut fastrand::Rng, shares: &[ShareId]) -> Sharing {
    let share = shares[chance.usize(..shares.len())];
    match chance.u8(..7) {
        0 | 1 => Sharing::Ask(share),
        2 => granted(share, chance.u32(..3)),
        3 => Sharing::Denied { share, why: Denial::NotShared(NotShared::Revoked) },
        4 => Sharing::Revoke(share),
        5 => Sharing::Revoked(share),
        _ => Sharing::Fence(Key { number: chance.u32(..3), base: 0 }),
    }
}

/// Whatever the peer says, in whatever order: a message asks for one answer at most, and answers to
/// a peer that does not read them are bounded; it is granted shares that exist, and this side knows
/// of shares that its tasks have asked for. Tasks that want to operate end with the link at the
/// latest, and nothing is granted any more then.
#[test]
fn a_peer_that_says_anything_gains_nothing_by_it() {
    let [mut refused, mut grants, mut ready] = [0; 3];
    for seed in 0..200 {
        run(async {
            let (side, reads) = (OneSide::new(()), seed % 8 < 7);
            let (share, mut chance) = (side.share(), fastrand::Rng::with_seed(seed));
            let (reach, shares) = (side.reach.clone(), [share.id(), WANTED, ShareId(1)]);
            let task = tokio::spawn(async move { reach.access(WANTED, false).await.map(drop) });
            for _ in 0..if reads { 60 } else { 8 * limits::SHARING_UNANSWERED_MAX } {
                let mut said = Vec::new();
                if reads {
                    sleep_a_moment().await;
                    said = side.said_now();
                }
                if side.reach.handle(any_message(&mut chance, &shares)).is_err() {
                    // The session ends the link.
                    assert!(!reads, "seed {seed}");
                    refused += 1;
                    break;
                }
                assert!(said.len() <= 2, "seed {seed}: {said:?}");
                let is_grant = |said: &&Sharing| matches!(said, Sharing::Granted { .. });
                grants += said.iter().filter(is_grant).count();
                let state = side.reach.state.lock();
                assert!(state.outbox.len() <= 2 * limits::SHARING_UNANSWERED_MAX);
                assert!(state.grants.granted.len() <= 1 && state.keys.len() <= 1);
            }
            side.reach.end();
            ready += usize::from(task.await.unwrap().is_ok());
            assert!(!share.is_held(), "seed {seed}");
        });
    }
    println!("{refused} links refused, {grants} grants, {ready} tasks with a key");
    assert!(refused > 10 && grants > 100 && ready > 50);
}

/// No more questions are on their way to the peer than the connection has room for.
#[test]
fn so_many_questions_are_unanswered_at_one_time() {
    run(async {
        let side = OneSide::new(());
        let count = limits::SHARING_UNANSWERED_MAX + 50;
        let access = |number| {
            let reach = side.reach.clone();
            tokio::spawn(async move { reach.access(ShareId(number), false).await.map(drop) })
        };
        let tasks: Vec<_> = (0..count as u128).map(access).collect();
        sleep_a_moment().await;
        let mut asked = side.said_now();
        assert_eq!(asked.len(), limits::SHARING_UNANSWERED_MAX);
        // Meanwhile the peer's questions are answered, or two such nodes would wait for each other.
        let own = side.share();
        for (share, answer) in [(ShareId(u128::MAX), "[Denied]"), (own.id(), "[Granted]")] {
            side.hear(Sharing::Ask(share));
            assert_eq!(side.said().await, answer);
        }
        // So is the end of a share told, whose time does not wait (RE-3).
        drop(own);
        assert_eq!(side.said().await, "[Revoke]");
        let mut answered = 0;
        while let Some(question) = asked.pop() {
            let Sharing::Ask(share) = question else { panic!("{question:?}") };
            side.hear(Sharing::Denied { share, why: Denial::NotShared(NotShared::Revoked) });
            answered += 1;
            asked.extend(side.said_now());
        }
        assert_eq!(answered, count);
        for task in tasks {
            assert_eq!(task.await.unwrap(), Err(Unready::NotShared(NotShared::Revoked)));
        }
    });
}

/// A peer that asks and takes no answers does not have any number of them wait.
#[test]
fn a_flood_of_questions_is_a_breach() {
    run(async {
        let side = OneSide::new(());
        let mut asks = (0..10_000).map(|it| side.reach.handle(Sharing::Revoke(ShareId(it))));
        let breach = asks.position(|answer| answer == Err(Unexpected));
        assert_eq!(breach, Some(2 * limits::SHARING_UNANSWERED_MAX));
    });
}

/// RE-2: what waited while its share was let go of and granted again, is not posted by the key of
/// the grant that has ended.
#[test]
fn nothing_is_posted_by_the_key_of_an_earlier_grant() {
    run(async {
        let side = OneSide::new(());
        let ready = side.ready(1).await;
        side.hear(Sharing::Revoke(WANTED));
        assert_eq!(side.said().await, "[Revoked]");
        let again = side.ready(2).await;
        assert_eq!(post(&ready, READ, 1).err(), Some(NotPosted::NotBegun));
        assert!(ready.fetch(0, 64).await.is_none());
        assert!(post(&again, READ, 1).is_ok());
        assert_eq!(again.room_left(), limits::ONE_SIDED_OPERATIONS as usize - 1);
    });
}

/// ME-11: tasks that view a peer's memory have half of what lands of that peer, however long they
/// keep it, until they drop it or give up.
#[test]
fn views_have_half_of_what_lands() {
    const MIB: usize = 1024 * 1024;
    run(async {
        let side = OneSide::new(());
        let ready = side.ready(1).await;
        let look = async || {
            sleep(Duration::from_millis(1)).await;
            side.succeed();
            side.reach.take_outcomes();
            side.reach.look();
        };
        let view = async |bytes| {
            let mut fetched = pin!(ready.fetch(0, bytes));
            loop {
                match fetched.as_mut().now_or_never() {
                    Some(fetched) => break fetched,
                    None => look().await,
                }
            }
        };
        let mut kept = Vec::new();
        while let Some(viewed) = view(11 * MIB).await {
            kept.push(viewed);
        }
        assert_eq!(kept.len(), 4);
        assert!(view(5 * MIB).await.is_none());
        drop(kept.pop());
        let room = side.reach.state.lock().means.as_ref().unwrap().room.clone();
        let before = room.landing.taken();
        assert!(view(11 * MIB).await.is_some() && room.landing.taken() == before, "used again");
        assert!(ready.fetch(0, 11 * MIB).now_or_never().is_none(), "it is given up");
        assert!(room.viewed.taken() > 33 * MIB as u64);
        while room.viewed.taken() > 33 * MIB as u64 {
            look().await;
        }
        drop(kept);
        assert_eq!((room.viewed.taken(), room.landing.taken()), (0, before));
    });
}

/// A device that takes no operation is told of, and not tried for ever. Where it takes some of a
/// batch these have their ends, and only the others are given up.
#[test]
fn an_operation_that_is_refused_ends_with_the_reason() {
    run(async {
        let side = OneSide::new(());
        let ready = side.ready(1).await;
        side.queue.lock().takes = Some(0);
        let refused = post(&ready, READ, 3).unwrap_err();
        let NotPosted::Refused(why) = refused else { panic!("{refused:?}") };
        assert!(why.starts_with("an operation cannot be posted: "), "{why}");
        assert_eq!(ready.room_left(), limits::ONE_SIDED_OPERATIONS as usize);
        side.queue.lock().takes = Some(1);
        let [mut begun, one, other] = post(&ready, READ, 3).unwrap().try_into().unwrap();
        assert!(one.await.is_err() && other.await.is_err());
        assert_eq!(begun.try_recv().err(), Some(TryRecvError::Empty));
        side.succeed();
        side.reach.take_outcomes();
        assert!(begun.await.is_ok_and(|(status, _)| status == Status::Success));
        side.hear(Sharing::Revoke(WANTED));
        assert_eq!(side.said().await, "[Revoked]", "nothing is under way");
    });
}

/// RE-5: no operation begins while the link rests, which it does when none is under way.
#[test]
fn nothing_is_under_way_while_the_link_rests() {
    run(async {
        let side = OneSide::new(());
        let ready = side.ready(1).await;
        let finished = post(&ready, READ, 1).unwrap();
        assert!(side.reach.take_use() && !side.reach.rest());
        side.succeed();
        side.reach.take_outcomes();
        assert!(side.reach.rest() && !side.reach.take_use());
        assert_eq!(post(&ready, READ, 1).err(), Some(NotPosted::NotBegun));
        assert!(ready.fetch(0, 64).await.is_none());
        let mut access = pin!(side.reach.access(WANTED, false));
        assert!(access.as_mut().now_or_never().is_none());
        side.reach.end_rest();
        let ready = access.await.ok().unwrap();
        let unfenced = Unfenced::new(&ready);
        assert!(!side.reach.rest(), "a task has not made sure of its writes");
        drop((unfenced, finished));
        assert!(post(&ready, READ, 1).is_ok());
    });
}

/// RE-1, RE-4: a device's queue pair that is lost ends the link, and a link its operations. A task
/// hears that the end of its operation is unknown when the device can no longer do it: the bytes
/// found then stay so. Until then the operation has its slot, even if its task has gone.
#[test]
fn an_end_is_unknown_when_the_queue_pair_is_gone() {
    for loses_queue_pair in [false, true] {
        run(async {
            let ((device, control), link) = (Device::new(), crate::link::tests::opened(&[]));
            let (shares, reach) = (Shares::new(Entropy::seeded(1)), Reach::new());
            let room = LendingRoom::new(&Lending::default()).of_peer();
            let ended = link.clone();
            let end_link: EndLink = Box::new(move |cause| ended.close(cause));
            let means = means(end_link, &shares, &room, Handle::current());
            let queue = begin(&reach, Arc::new(Destroys(device)), means);
            let side = OneSide { reach, shares, queue };
            let ready = side.ready(1).await;
            let act = Act::On { kind: Kind::FetchAdd(1), at: 0, bytes: 8 };
            let finished = post(&ready, act, 3).unwrap();
            let [first, dropped, mut last] = finished.try_into().unwrap();
            drop(dropped);
            assert_eq!(ready.room_left(), limits::ONE_SIDED_OPERATIONS as usize - 3);
            let cause = if loses_queue_pair {
                side.queue.lock().finish(Status::RetryExceeded);
                side.reach.take_outcomes();
                let (status, _) = first.await.expect("it was told of it");
                Some(LinkCause::Fabric(status))
            } else {
                side.reach.end();
                None
            };
            assert_eq!(link.take_requests().close, cause);
            assert!(ready.piece(8).await.is_err(), "nothing more is begun");
            // The driver of a closed link does this.
            side.reach.end();
            assert_eq!(side.reach.access(WANTED, false).await.err(), Some(Unready::Ended));
            sleep_a_moment().await;
            assert_eq!(last.try_recv().err(), Some(TryRecvError::Empty));
            assert_eq!(control.step(), "destroyed");
            assert!(last.await.is_err());
        });
    }
}

/// A waker that looks whether the state of the reach is free.
struct Free(Arc<Reach>, AtomicUsize);

impl Wake for Free {
    fn wake(self: Arc<Self>) {
        assert!(self.0.state.try_lock().is_some(), "woken under the lock");
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

/// A task that is woken may run at once, on another thread: it finds the state's lock free.
#[test]
fn no_task_is_woken_under_the_lock() {
    run(async {
        let side = OneSide::new(());
        let ready = side.ready(1).await;
        let mut finished = post(&ready, READ, 2).unwrap();
        let mut pieces = Vec::new();
        while let Some(piece) = ready.try_piece(8) {
            pieces.push(piece);
        }
        let free = Arc::new(Free(side.reach.clone(), AtomicUsize::new(0)));
        let woken = || free.1.swap(0, Ordering::Relaxed);
        let waker = Waker::from(free.clone());
        let mut cx = Context::from_waker(&waker);
        let (mut piece, mut outgoing) = (pin!(ready.piece(8)), pin!(side.reach.outgoing()));
        assert!(piece.as_mut().poll(&mut cx).is_pending());
        assert!(outgoing.as_mut().poll(&mut cx).is_pending());
        // Another share is asked for.
        let mut access = pin!(side.reach.access(ShareId(77), false));
        assert!(access.as_mut().poll(&mut cx).is_pending());
        assert_eq!(woken(), 1);
        // An operation is done: its task is woken, and the task that waits for its room.
        assert!(finished[0].poll_unpin(&mut cx).is_pending());
        assert!(finished[1].poll_unpin(&mut cx).is_pending());
        side.queue.lock().finish(Status::Success);
        side.reach.take_outcomes();
        assert_eq!(woken(), 2);
        let mut other = pin!(ready.piece(8));
        assert!(other.as_mut().poll(&mut cx).is_pending());
        // The link ends.
        side.reach.end();
        assert!(woken() >= 3, "an operation, an access, and one that waits for room");
        assert!(matches!(other.as_mut().poll(&mut cx), Poll::Ready(Err(NotPosted::NotBegun))));
        assert!(matches!(access.as_mut().poll(&mut cx), Poll::Ready(Err(Unready::Ended))));
    });
}
