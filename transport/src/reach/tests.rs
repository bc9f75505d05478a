//! Peers that do not keep to the protocol.

mod model;
mod mute;
mod patience;
mod slow;

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::timeout;
use zeroize::Zeroizing;

use mute::{Mute, Posts};

use super::*;
use crate::cause::NotShared;
use crate::fabric::one_sided::{
    Executor, Grant, Granting, Kind, Locked, Making, OneSided, OneSidedConfig, Opening, Operation,
    Outcome,
};
use crate::fabric::sim::{self, World};
use crate::fabric::{self, FabricError, Limits, PostError, QueuePairConfig, Status};
use crate::limits;
use crate::memory::{Buffer, Region, Words};
use crate::profile::Lending;
use crate::shares::Share;

/// One side of a link, with a share.
struct OneSide {
    reach: Arc<Reach>,
    share: Share,
}

fn one_side(world: &World, node: &str, side: Side) -> OneSide {
    let (_, fabric) = world.network(node);
    let reach = Reach::new();
    let shares = Shares::new(world.entropy());
    let share = shares.share(&Arc::new(Words::zeroed(64).unwrap()), 0, 64, Access::ALL).unwrap();
    let (binding, runtime) = (vec![1; 32], Handle::current());
    let room = LendingRoom::new(&Lending::default()).of_peer();
    let own = runtime.clone();
    reach.attach(Means {
        peer: peer(),
        fabric,
        way: None,
        side,
        binding,
        shares,
        room,
        own,
        runtime,
    });
    OneSide { reach, share }
}

/// One of the messages that there are, with numbers that may be right.
fn any_message(
    world: &World,
    shares: &[ShareId],
    offer: &Zeroizing<Vec<u8>>,
    last: u32,
) -> Sharing {
    let below = |most| world.entropy().below(most);
    let number = if below(2) == 0 { below(6) as u32 } else { last + below(2) as u32 };
    let share = shares[below(shares.len() as u64) as usize];
    match below(10) {
        0 => Sharing::Want,
        1 => {
            let is_garbage = below(3) == 0;
            let queue_pair = if is_garbage { vec![7; 20].into() } else { offer.clone() };
            Sharing::Offer { number, queue_pair }
        }
        2 => Sharing::Connected { number, fence: None },
        3 => Sharing::Unable { number, reason: "it is a test".into() },
        4 => Sharing::Ask(share),
        5 => {
            let key = Key { number, base: 0 };
            Sharing::Granted { share, key, bytes: 64, access: Access::ALL, is_elsewhere: false }
        }
        6 => Sharing::Denied { share, why: Denial::Unable(String::new()) },
        7 => Sharing::Revoke(share),
        8 => Sharing::Later,
        _ => Sharing::Revoked(share),
    }
}

/// One of the messages about queue pairs that the other side takes, whatever it is at.
fn any_opening(world: &World, is_dialer: bool, last: u32, offer: &Zeroizing<Vec<u8>>) -> Sharing {
    match (world.entropy().below(3), is_dialer) {
        (0, false) => Sharing::Offer { number: last + 1, queue_pair: offer.clone() },
        (0, true) => Sharing::Want,
        (1, _) => Sharing::Unable { number: last, reason: "it is a test".into() },
        _ => Sharing::Connected { number: last, fence: None },
    }
}

/// RE-1, RE-10: whatever the peer says, in whatever order, there is one queue pair at most; the
/// messages to send grow no more than each message asks for, and not by messages about queue pairs
/// while none is sent; and tasks that want to operate end, when the link ends at the latest.
#[test]
fn a_peer_that_says_anything_gains_nothing_by_it() {
    let [mut refused, mut granted, mut connected, mut piled] = [0; 4];
    for seed in 0..400 {
        let met = sim::run(seed, |world| async move {
            let dialer = || Side::Dialer { address: "beta:7700".into() };
            let side = if seed % 2 == 0 { dialer() } else { Side::Acceptor };
            let alpha = one_side(&world, "alpha", side);
            let other = if seed % 2 == 0 { Side::Acceptor } else { dialer() };
            let beta = one_side(&world, "beta", other);
            let offer = beta.reach.state.lock().means.clone().unwrap().open(1).unwrap().offer();
            let wanted = ShareId(9);
            let shares = [alpha.share.id(), wanted, ShareId(1)];
            let reach = alpha.reach.clone();
            let task = tokio::spawn(async move { reach.access(wanted, false).await.map(|_| ()) });
            let mut met = [0; 4];
            // The peer of some reads nothing.
            let reads = seed % 8 < 6;
            for _ in 0..60 {
                let last = alpha.reach.state.lock().number;
                let message = match reads {
                    true => any_message(&world, &shares, &offer, last),
                    false => any_opening(&world, seed % 2 == 0, last, &offer),
                };
                if alpha.reach.handle(message) == Err(requests::Unexpected) {
                    met[0] += 1;
                    // The session ends the link.
                    break;
                }
                let said = async {
                    if reads { alpha.reach.outgoing().await } else { std::future::pending().await }
                };
                let said = timeout(Duration::ZERO, said).await.unwrap_or_default();
                assert!(said.len() <= 3, "{said:?}");
                {
                    let state = alpha.reach.state.lock();
                    let about = state.outbox.iter().filter(|said| !said.is_answer());
                    let about: Vec<_> = about.collect();
                    assert!(about.len() <= 5, "{about:?}");
                    met[3] += usize::from(about.len() >= 2);
                }
                let is_grant = |said: &&Sharing| matches!(said, Sharing::Granted { .. });
                met[1] += said.iter().filter(is_grant).count();
                tokio::time::sleep(Duration::from_micros(world.entropy().below(300))).await;
                let state = alpha.reach.state.lock();
                met[2] += usize::from(matches!(state.stage, Stage::Connected(_)));
                assert!(state.grants.granted.len() <= 1 && state.keys.len() <= 1);
                let is_connected = matches!(state.stage, Stage::Connected(_));
                assert!(is_connected || state.grants.granted.is_empty());
            }
            alpha.reach.end();
            let _ended = task.await.unwrap();
            met
        });
        refused += met[0];
        granted += met[1];
        connected += met[2];
        piled += met[3];
    }
    println!(
        "{refused} links refused, {granted} grants, {connected} times connected, {piled} piles"
    );
    assert!(refused > 100 && connected > 20 && granted > 2 && piled > 20);
}

/// The name of the peer.
fn peer() -> NodeName {
    NodeName::new("peer").unwrap()
}

/// A side that did not dial, over a fabric that brings nothing, and its share.
fn mute_acceptor(world: &World, posts: Posts) -> OneSide {
    let side = one_side(world, "alpha", Side::Acceptor);
    let fabric = Arc::new(Mute(world.network("alpha").1, posts));
    let shares = Shares::new(world.entropy());
    let (side_is, binding, runtime) = (Side::Acceptor, Vec::new(), Handle::current());
    let (way, room) = (None, LendingRoom::new(&Lending::default()).of_peer());
    let own = runtime.clone();
    side.reach.attach(Means {
        peer: peer(),
        fabric,
        way,
        side: side_is,
        binding,
        shares,
        room,
        own,
        runtime,
    });
    side
}

/// Connects the queue pair of this number, which the peer offers.
async fn connect(reach: &Arc<Reach>, number: u32) {
    let offer = Sharing::Offer { number, queue_pair: Zeroizing::default() };
    reach.handle(offer).unwrap();
    reach.handle(Sharing::Connected { number, fence: None }).unwrap();
    while !format!("{:?}", reach.outgoing().await).contains("Ask") {}
}

/// The time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// Looks now and then for so long, as a session does. Returns what the last look did.
async fn look_for(reach: &Reach, time: Duration) -> Option<u32> {
    let mut ended_before = reach.look(true);
    for _ in 0..time.as_secs() {
        tokio::time::sleep(LOOK).await;
        ended_before = reach.look(true);
    }
    ended_before
}

/// Returns a share of the peer that was granted on the first queue pair.
async fn ready(reach: &Arc<Reach>) -> Ready {
    granted(reach, false).await
}

/// The same, of a share on which another executor may do atomics.
async fn granted(reach: &Arc<Reach>, is_elsewhere: bool) -> Ready {
    let (wanted, other) = (ShareId(9), reach.clone());
    let ready = tokio::spawn(async move { other.access(wanted, false).await.ok().unwrap() });
    assert_eq!(format!("{:?}", reach.outgoing().await), "[Want]");
    connect(reach, 1).await;
    let (share, key, access) = (wanted, Key { number: 1, base: 0 }, Access::ALL);
    reach.handle(Sharing::Granted { share, key, bytes: 64, access, is_elsewhere }).unwrap();
    ready.await.unwrap()
}

/// RE-1: both sides tell that a queue pair has ended; what the peer says of it is not taken for an
/// answer to the wish for the next one.
#[test]
fn what_the_peer_says_of_the_last_queue_pair_does_not_fail_the_next() {
    sim::run(1, |world| async move {
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::Kept);
        let wanted = ShareId(9);
        for number in 1..=3 {
            let other = reach.clone();
            let task = tokio::spawn(async move { other.access(wanted, false).await.map(|_| ()) });
            assert_eq!(format!("{:?}", reach.outgoing().await), "[Want]");
            let unable = |number| Sharing::Unable { number, reason: "it has ended".into() };
            reach.handle(unable(number - 1)).unwrap();
            connect(&reach, number).await;
            let key = Key { number, base: 0 };
            let granted = Sharing::Granted {
                share: wanted,
                key,
                bytes: 64,
                access: Access::ALL,
                is_elsewhere: false,
            };
            reach.handle(granted).unwrap();
            assert_eq!(task.await.unwrap(), Ok(()));
            reach.handle(unable(number)).unwrap();
        }
        let other = reach.clone();
        let task = tokio::spawn(async move { other.access(wanted, false).await.map(|_| ()) });
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Want]");
        reach.handle(Sharing::Unable { number: 4, reason: "no device".into() }).unwrap();
        let why = "the peer says: no device".into();
        assert_eq!(task.await.unwrap(), Err(Unready::Unable(why)));
    });
}

/// RE-6: a peer that never answers keeps nobody, and no task that has gone is kept.
#[test]
fn a_peer_that_owes_an_answer_is_waited_for_for_a_while() {
    sim::run(1, |world| async move {
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::Kept);
        let wanted = ShareId(9);
        for stage in 0..3 {
            let other = reach.clone();
            let task = tokio::spawn(async move { other.access(wanted, false).await.map(|_| ()) });
            assert_eq!(format!("{:?}", reach.outgoing().await), "[Want]");
            if stage == 1 {
                let (number, queue_pair) = (1, Zeroizing::default());
                reach.handle(Sharing::Offer { number, queue_pair }).unwrap();
            }
            if stage == 2 {
                connect(&reach, 2).await;
                for _ in 0..100 {
                    let access = reach.access(wanted, false);
                    assert!(timeout(Duration::from_millis(1), access).await.is_err());
                }
                let state = reach.state.lock();
                let Some(Known::Asked(tasks)) = state.keys.get(&wanted) else { panic!() };
                assert!(tasks.len() <= 2, "{}", tasks.len());
            }
            let opens = if stage < 2 {
                limits::OPENING_PATIENCE - limits::ONE_SIDED_PATIENCE
            } else {
                Duration::ZERO
            };
            look_for(&reach, opens + limits::ONE_SIDED_PATIENCE - LOOK).await;
            assert!(!task.is_finished(), "stage {stage}");
            look_for(&reach, LOOK).await;
            assert!(matches!(task.await.unwrap(), Err(Unready::Unable(_))), "stage {stage}");
            reach.outgoing().await;
        }
    });
}

/// No more questions are on their way to the peer than the connection has room for.
#[test]
fn so_many_questions_are_unanswered_at_one_time() {
    sim::run(1, |world| async move {
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::Kept);
        let count = limits::SHARING_UNANSWERED_MAX + 50;
        let tasks: Vec<_> = (0..count as u128)
            .map(|number| {
                let reach = reach.clone();
                tokio::spawn(async move { reach.access(ShareId(number), false).await.map(|_| ()) })
            })
            .collect();
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Want]");
        let offer = Sharing::Offer { number: 1, queue_pair: Zeroizing::default() };
        reach.handle(offer).unwrap();
        reach.handle(Sharing::Connected { number: 1, fence: None }).unwrap();
        let mut asked = Vec::new();
        while let Ok(said) = timeout(Duration::from_secs(1), reach.outgoing()).await {
            asked.extend(said);
        }
        let asks =
            |said: &[Sharing]| said.iter().filter(|it| matches!(it, Sharing::Ask(_))).count();
        assert_eq!(asks(&asked), limits::SHARING_UNANSWERED_MAX);
        // Meanwhile the peer's questions are answered, or two such nodes would wait for each other.
        reach.handle(Sharing::Ask(ShareId(u128::MAX))).unwrap();
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Denied]");
        // So is the end of a share told, whose time does not wait (RE-3).
        let shares = reach.state.lock().means.clone().unwrap().shares.clone();
        let own = shares.share(&Arc::new(Words::zeroed(64).unwrap()), 0, 64, Access::ALL).unwrap();
        reach.handle(Sharing::Ask(own.id())).unwrap();
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Granted]");
        drop(own);
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Revoke]");
        let mut answered = 0;
        while answered < count {
            for message in std::mem::take(&mut asked) {
                let Sharing::Ask(share) = message else { continue };
                let why = Denial::NotShared(NotShared::Expired);
                reach.handle(Sharing::Denied { share, why }).unwrap();
                answered += 1;
            }
            if answered < count {
                asked = reach.outgoing().await;
            }
        }
        for task in tasks {
            assert_eq!(task.await.unwrap(), Err(Unready::NotShared(NotShared::Expired)));
        }
    });
}

/// A peer that asks and takes no answers does not have any number of them wait.
#[test]
fn a_flood_of_questions_is_a_breach() {
    sim::run(1, |world| async move {
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::Kept);
        drop(ready(&reach).await);
        let mut asks = (0..10_000).map(|share| reach.handle(Sharing::Revoke(ShareId(share))));
        let breach = asks.position(|answer| answer == Err(Unexpected));
        assert_eq!(breach, Some(2 * limits::SHARING_UNANSWERED_MAX));
    });
}

/// RE-4, RE-6: an operation that brings nothing ends after a while, and has its slot until then,
/// even if its task has gone.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_queue_pair_that_brings_nothing_is_given_up() {
    sim::run(1, |world| async move {
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::Kept);
        let ready = ready(&reach).await;
        let posted = || {
            let piece = ready.try_piece(8).unwrap();
            let act = Act::On { kind: Kind::Read, at: 0, bytes: 8 };
            ready.post(vec![Wanted { act, piece }]).unwrap().remove(0)
        };
        let (kept, dropped) = (posted(), posted());
        drop(dropped);
        assert_eq!(ready.room_left(), limits::ONE_SIDED_OPERATIONS as usize - 2);
        assert!(!reach.rest(), "RE-5");
        look_for(&reach, limits::ONE_SIDED_PATIENCE - LOOK).await;
        assert!(reach.state.lock().pair(1).is_some());
        look_for(&reach, LOOK).await;
        assert!(kept.await.is_err(), "its end is unknown");
        assert!(ready.piece(8).await.is_err());
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Unable]");
        assert!(reach.rest());
    });
}

/// RE-2: what waited while its share was let go of and granted again, is not posted by the key of
/// the grant that has ended.
#[test]
fn nothing_is_posted_by_the_key_of_an_earlier_grant() {
    sim::run(1, |world| async move {
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::Kept);
        let ready = ready(&reach).await;
        let piece = ready.piece(8).await.unwrap();
        let share = ShareId(9);
        reach.handle(Sharing::Revoke(share)).unwrap();
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Revoked]");
        let other = reach.clone();
        let again = tokio::spawn(async move { other.access(share, false).await.ok().unwrap() });
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Ask]");
        let (key, access) = (Key { number: 2, base: 0 }, Access::ALL);
        let granted = Sharing::Granted { share, key, bytes: 64, access, is_elsewhere: false };
        reach.handle(granted).unwrap();
        let again = again.await.unwrap();
        let act = Act::On { kind: Kind::Read, at: 0, bytes: 8 };
        let posted = ready.post(vec![Wanted { act, piece }]);
        assert_eq!(posted.err(), Some(NotPosted::NotBegun));
        assert!(ready.fetch(0, 64).await.is_none());
        let piece = again.piece(8).await.unwrap();
        assert!(again.post(vec![Wanted { act, piece }]).is_ok());
        assert_eq!(again.room_left(), limits::ONE_SIDED_OPERATIONS as usize - 1);
    });
}

/// ME-11: tasks that view a peer's memory have half of what lands of that peer, however long they
/// keep it, until they drop it or give up.
#[test]
fn views_have_half_of_what_lands() {
    const MIB: usize = 1024 * 1024;
    sim::run(1, |world| async move {
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::Done);
        let ready = ready(&reach).await;
        let view = async |bytes| {
            let mut fetched = pin!(ready.fetch(0, bytes));
            loop {
                if let Some(fetched) = timeout(LOOK, fetched.as_mut()).now_or_never() {
                    break fetched.unwrap();
                }
                look_for(&reach, LOOK).await;
            }
        };
        let mut kept = Vec::new();
        while let Some(viewed) = view(11 * MIB).await {
            kept.push(viewed);
        }
        assert_eq!(kept.len(), 4);
        assert!(view(5 * MIB).await.is_none());
        drop(kept.pop());
        let room = reach.state.lock().means.as_ref().unwrap().room.clone();
        let before = room.landing.taken();
        assert!(view(11 * MIB).await.is_some() && room.landing.taken() == before, "used again");
        let given_up = timeout(Duration::ZERO, ready.fetch(0, 11 * MIB)).await;
        assert!(given_up.is_err() && room.viewed.taken() > 33 * MIB as u64);
        while room.viewed.taken() > 33 * MIB as u64 {
            look_for(&reach, LOOK).await;
        }
        drop(kept);
        assert_eq!((room.viewed.taken(), room.landing.taken()), (0, before));
    });
}

/// A device that takes no operation is told of, and not tried for ever.
#[test]
fn an_operation_that_is_refused_ends_with_the_reason() {
    sim::run(1, |world| async move {
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::Refused);
        let ready = ready(&reach).await;
        let piece = ready.piece(8).await.unwrap();
        let act = Act::On { kind: Kind::Read, at: 0, bytes: 8 };
        let refused = ready.post(vec![Wanted { act, piece }]).unwrap_err();
        let NotPosted::Refused(why) = refused else { panic!("{refused:?}") };
        assert!(why.starts_with("an operation cannot be posted: "), "{why}");
        assert_eq!(format!("{:?}", reach.outgoing().await), "[Unable]");
    });
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
    sim::run(1, |world| async move {
        let OneSide { reach, share: _share } = mute_acceptor(&world, Posts::Kept);
        let ready = ready(&reach).await;
        let mut pieces = Vec::new();
        while let Some(piece) = ready.try_piece(8) {
            pieces.push(piece);
        }
        let free = Arc::new(Free(reach.clone(), AtomicUsize::new(0)));
        let waker = Waker::from(free.clone());
        let mut cx = Context::from_waker(&waker);
        let (mut piece, mut outgoing) = (pin!(ready.piece(8)), pin!(reach.outgoing()));
        assert!(piece.as_mut().poll(&mut cx).is_pending());
        assert!(outgoing.as_mut().poll(&mut cx).is_pending());
        // Another share is asked for.
        let mut access = pin!(reach.access(ShareId(77), false));
        assert!(access.as_mut().poll(&mut cx).is_pending());
        assert_eq!(free.1.load(Ordering::Relaxed), 1);
        // The queue pair ends.
        reach.handle(Sharing::Unable { number: 1, reason: "it has ended".into() }).unwrap();
        assert!(free.1.load(Ordering::Relaxed) > 1);
        assert!(matches!(piece.as_mut().poll(&mut cx), Poll::Ready(Err(NotPosted::NotBegun))));
    });
}
