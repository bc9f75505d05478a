//! The archives made for a sender that waits, counted by a field that counts its archivings.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringpost::net::Profile;
use ringpost::prelude::*;
use ringpost::send::Fate;
use rkyv::rancor::Fallible;
use rkyv::{Archive, Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::{end, pair};
use crate::process::within;

/// How often a tell is polled while it waits for room.
const TICKS: u32 = 100;
/// More than any mailbox's window: it waits until its mailbox is empty.
const LARGE: usize = 16 * 1024 * 1024;
const MEDIUM: usize = 600 * 1024;

/// How often the parcels of each test were archived.
static ARCHIVED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Counts each time it is archived, at its place in [`ARCHIVED`].
#[derive(Archive, Deserialize)]
pub struct Tally {
    place: u8,
}

impl<S: Fallible + ?Sized> Serialize<S> for Tally {
    fn serialize(&self, serializer: &mut S) -> Result<Self::Resolver, S::Error> {
        ARCHIVED[usize::from(self.place)].fetch_add(1, Ordering::Relaxed);
        Ok(TallyResolver { place: self.place.serialize(serializer)? })
    }
}

/// Some bytes, and a count of how often they were archived.
#[message]
pub struct Parcel {
    /// The count.
    #[message(opaque)]
    pub tally: Tally,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Takes parcels, one for each permit of its gate.
#[actor]
struct Depot {
    gate: Arc<Semaphore>,
}

#[handlers]
impl Depot {
    /// Takes a parcel.
    #[handler]
    async fn parcel(&mut self, msg: Parcel) {
        self.gate.acquire().await.unwrap().forget();
        assert!(usize::from(msg.tally.place) < ARCHIVED.len());
    }
}

fn parcel(place: u8, bytes: usize) -> Parcel {
    Parcel { tally: Tally { place }, bytes: vec![0; bytes] }
}

fn archived(place: u8) -> u64 {
    ARCHIVED[usize::from(place)].load(Ordering::Relaxed)
}

/// Two nodes, and a depot of the second that takes nothing yet.
async fn depot() -> (Node, Node, ActorRef<Depot>, Arc<Semaphore>) {
    let (alpha, beta) = pair(Profile::default()).await;
    let gate = Arc::new(Semaphore::new(0));
    beta.spawn("depot", Depot { gate: gate.clone() }).await.unwrap();
    let depot = alpha.actor::<Depot>("beta/depot").await.unwrap();
    (alpha, beta, depot, gate)
}

/// A large tell that waits in a `select!` beside a tick is archived once in all, however often it
/// is polled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tell_that_waits_for_room_is_archived_once() {
    let (alpha, beta, depot, gate) = depot().await;
    // The actor has begun one parcel and another waits, so the mailbox is not empty.
    for _ in 0..2 {
        let fate = within(depot.tell(parcel(0, 10)).confirmed()).await.unwrap();
        assert_eq!(fate, Fate::Delivered);
    }
    let before = archived(0);
    let mut told = pin!(depot.tell(parcel(0, LARGE)));
    for _ in 0..TICKS {
        tokio::select! {
            biased;
            _ = &mut told => panic!("there is no room yet"),
            () = tokio::task::yield_now() => {}
        }
    }
    let waiting = archived(0) - before;
    gate.add_permits(3);
    within(told).await.unwrap();
    let committed = archived(0) - before;
    println!("archived {waiting} times in {TICKS} polls that waited, {committed} times in all");
    assert_eq!(committed, 1, "a tell that waits is archived once");
    end([&alpha, &beta]).await;
}

/// A `try_tell` is archived at most once, and where no message of any size has room, never.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_tell_without_room_is_not_archived() {
    let (alpha, beta, depot, gate) = depot().await;
    let mut accepted = 0;
    while depot.try_tell(parcel(1, 10)).is_ok() {
        accepted += 1;
        assert!(accepted < 100_000, "the mailbox has a bound");
    }
    assert!(archived(1) <= accepted + 1, "one archive for each call");
    // After a refusal, the other node reports the parcel that the actor has begun.
    within(async {
        while depot.try_tell(parcel(1, 10)).is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    accepted += 1;
    let before = archived(1);
    for _ in 0..TICKS {
        let refused = depot.try_tell(parcel(1, LARGE)).unwrap_err();
        assert_eq!((refused.cause, refused.message.bytes.len()), (Cause::MailboxFull, LARGE));
    }
    let again = archived(1) - before;
    println!("{TICKS} calls at a full mailbox archived {again} times, of {accepted} accepted");
    assert_eq!(again, 0, "a message that cannot have room is not archived");
    gate.add_permits(2 * accepted as usize);
    end([&alpha, &beta]).await;
}

/// With the default profile two messages of more than half a MiB wait in one mailbox.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tells_of_600_kib_are_outstanding_at_once() {
    let (alpha, beta) = pair(Profile::default()).await;
    let held = super::Held::stuck(&beta, "stuck").await;
    let there = alpha.actor::<super::Stack>("beta/stuck").await.unwrap();
    within(there.tell(super::load(0, MEDIUM)).confirmed()).await.unwrap();
    let second = there.try_tell(super::load(1, MEDIUM));
    assert_eq!(second.map_err(|error| error.cause), Ok(()), "the window has room for it");
    held.release();
    assert_eq!(within(async { there.numbers().await }).await, Ok(vec![0, 1]));
    end([&alpha, &beta]).await;
}
