//! Room at a worker that is stopped before it is used, and orders to a worker that come at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::{Order, Pool};
use crate::actor::cell::{Body, Renewed};
use crate::prelude::*;
use crate::resident::{Halt, Resident};

const MS: std::time::Duration = std::time::Duration::from_millis(1);

#[actor]
#[derive(Default)]
struct Counter(u64);

#[handlers]
impl Counter {
    #[handler]
    fn count(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// PL-1. The sender looks for another worker.
#[tokio::test]
async fn room_at_a_worker_that_was_stopped_since_is_void_until_it_is_made_anew() {
    let node = Node::builder("alpha").start().await.unwrap();
    let pool = Pool::builder(Counter::default).size(2).spawn(&node, "pool").await.unwrap();
    let ring = pool.shared.ring();
    let room = ring[0].reserve::<Count>().await.unwrap();
    assert!(!room.is_void());
    ring[0].stop().await.unwrap();
    assert!(room.is_void());
    // What looks for room now finds it at the other one.
    let order = Order::all_from(0);
    let (worker, other) = pool.room::<Count>(&ring, order, &[]).await.unwrap();
    assert_eq!(worker, &ring[1]);
    assert!(!other.is_void());
    other.tell(Count).unwrap();
    assert_eq!(ring[1].count().await, Ok(2));
    while room.is_void() {
        tokio::task::yield_now().await;
    }
    room.tell(Count).unwrap();
    assert_eq!(ring[0].count().await, Ok(2));
}

/// PL-4. A handler stops its worker, and another thread removes that when the stop was ordered and
/// the mailbox is not stopped yet.
#[tokio::test]
async fn a_worker_that_stops_itself_while_it_is_removed_handles_what_it_has() {
    let node = Node::builder("alpha").start().await.unwrap();
    let pool = Pool::builder(Counter::default).restart_backoff(MS, MS);
    let pool = pool.spawn(&node, "pool").await.unwrap();
    let worker = pool.workers().remove(0);
    let mut asked = Box::pin(worker.count());
    assert!(futures::poll!(&mut asked).is_pending());
    let cell = worker.near_cell().unwrap();
    assert!(!cell.ends().stop(true));
    worker.dismiss();
    cell.intake().stop();
    assert_eq!(asked.await, Ok(1));
    assert_eq!(worker.wait_stopped().await, ActorExit::Stopped);
}

/// PL-4. A worker that was dismissed begins anew for what it has, and others stop it after it has
/// looked whether it is to.
#[tokio::test]
async fn a_stop_of_a_worker_that_was_removed_is_not_lost_as_it_begins_anew() {
    for is_seen in [false, true] {
        let node = Node::builder("alpha").start().await.unwrap();
        let pool = Pool::builder(Counter::default).spawn(&node, "pool").await.unwrap();
        let worker = pool.workers().remove(0);
        let cell = worker.near_cell().unwrap();
        cell.halt(Halt::Stop);
        worker.dismiss();
        let is_revived = cell.ends().is_revived();
        // It may have seen the dismissal by then.
        assert!(is_revived && (!is_seen || cell.ends().dismiss_now()));
        cell.halt(Halt::Stop);
        let me: &dyn Body = cell;
        assert_eq!(me.renew(is_revived), Renewed::Never, "is seen: {is_seen}");
        assert!(cell.intake().is_stopping());
        assert_eq!(worker.wait_stopped().await, ActorExit::Stopped);
    }
}

/// Tells its own pool more than it has room for.
#[actor]
struct Teller(Arc<OnceLock<Pool<Teller>>>);

#[handlers]
impl Teller {
    #[handler]
    async fn tell_pool(&mut self) -> String {
        let pool = self.0.get().expect("it was spawned");
        while pool.try_tell(Nothing).is_ok() {}
        let told = pool.tell(Nothing).await;
        told.map_or_else(|error| error.cause.to_string(), |()| "told".into())
    }

    #[handler]
    fn nothing(&mut self) {}
}

/// A pool that fails tells its workers to stop one after the other: the last one learns that the
/// others are closed, and only then that it is to stop itself.
#[tokio::test(start_paused = true)]
async fn a_worker_that_tells_its_pool_is_told_when_it_is_stopped_after_all_others() {
    let node = Node::builder("alpha").start().await.unwrap();
    let cell = Arc::new(OnceLock::new());
    let own = cell.clone();
    let pool = Pool::builder(move || Teller(own.clone())).size(2).mailbox_capacity(1);
    let pool = pool.spawn(&node, "pool").await.unwrap();
    assert!(cell.set(pool.clone()).is_ok());
    let [first, second] = <[_; 2]>::try_from(pool.workers()).unwrap();
    second.retire(Halt::Stop);
    assert_eq!(second.wait_stopped().await, ActorExit::Stopped);
    let asked = tokio::spawn(first.ask(TellPool).timeout(1_000 * MS).into_ask());
    tokio::time::sleep(MS).await;
    assert!(!asked.is_finished());
    first.retire(Halt::Stop);
    assert_eq!(asked.await.unwrap(), Ok(Cause::Stopped.to_string()));
}

/// A shutdown that begins as a worker is placed does not drain it, as it does other actors: its
/// pool dismisses it.
#[tokio::test]
async fn a_worker_is_led_by_its_pool_from_when_it_has_its_place() {
    let node = Node::builder("alpha").start().await.unwrap();
    let pool = Pool::builder(Counter::default).spawn(&node, "pool").await.unwrap();
    let kind = pool.workers()[0].near_cell().unwrap().kind();
    let (looks, is_over) = (node.clone(), Arc::new(AtomicBool::new(false)));
    let ends = is_over.clone();
    let is_alone = move |actor: &Arc<dyn Resident>| actor.kind() == kind && !actor.is_led();
    let found = std::thread::spawn(move || {
        let mut found = 0;
        while !ends.load(Ordering::Relaxed) {
            found += looks.residents().all().iter().filter(|actor| is_alone(actor)).count();
        }
        found
    });
    for _ in 0..2_000 {
        pool.resize(2).await.unwrap();
        pool.resize(1).await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    assert_eq!(found.join().unwrap(), 0);
}
