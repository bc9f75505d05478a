//! Pools whose node shuts down.

use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use ringpost::pool::Pool;
use ringpost::prelude::*;
use tokio::sync::Semaphore;

use super::{Job, MINUTE, MS, builder, hold, job, until_in_hand};
use crate::actors::node;
use crate::remote::pair;

/// The worker answers as the last thing that its node does. On one thread the node has many turns
/// before the task has one that passes the answer on.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_shutdown_passes_on_the_answers_of_routed_asks_of_another_node() {
    for round in 0..2 {
        let (alpha, beta) = pair().await;
        let (desk, builder) = builder();
        let pool = builder.spawn(&alpha, "pool").await.unwrap();
        alpha.spawn("jobs", pool.router::<Job>()).await.unwrap();
        let router: Recipient<Job, String> = beta.recipient("alpha/jobs").await.unwrap();
        let worker = pool.workers().remove(0);
        let gate = hold(&desk, &worker).await;
        let asked = tokio::spawn(router.ask(job(1)).timeout(MINUTE).into_ask());
        // It has the ask when it has no room.
        while worker.reserve::<Job>().now_or_never().is_some() {
            tokio::time::sleep(MS).await;
        }
        let ends = alpha.clone();
        let shutdown = tokio::spawn(async move { ends.shutdown(MINUTE).await });
        while worker.try_tell(job(2)).unwrap_err().cause == Cause::MailboxFull {
            tokio::time::sleep(MS).await;
        }
        gate.add_permits(1);
        assert_eq!(asked.await.unwrap(), Ok(worker.address().to_string()), "round {round}");
        assert_eq!(shutdown.await.unwrap(), []);
        beta.shutdown(MINUTE).await;
    }
}

/// Tells its own pool, or stops.
struct Clerk {
    pool: Arc<OnceLock<Pool<Clerk>>>,
    /// A permit for each that may start.
    starts: Arc<Semaphore>,
}

#[actor]
impl Actor for Clerk {
    async fn on_start(&mut self, _: &mut Context<Self>) -> Result<(), BoxError> {
        self.starts.acquire().await?.forget();
        Ok(())
    }
}

#[handlers]
impl Clerk {
    #[handler]
    fn paper(&mut self) {}

    #[handler(local)]
    async fn tell_pool(&mut self, gate: Arc<Semaphore>) -> Result<(), String> {
        gate.acquire().await.unwrap().forget();
        let pool = self.pool.get().expect("it was spawned");
        pool.tell(Paper).await.map_err(|unsent| unsent.cause.to_string())
    }

    /// Takes nothing any more, and ends later.
    #[handler(local)]
    async fn stop_later(&mut self, gate: Arc<Semaphore>, cx: &mut Context<Self>) {
        cx.stop();
        gate.acquire().await.unwrap().forget();
    }
}

/// The pool grows meanwhile, in a handler of its supervisor, and what its router has is still to
/// come: then a worker ends too often. One that waits until that is made anew is told, and not when
/// all workers have ended.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_worker_that_tells_its_pool_is_told_when_that_fails_while_its_node_shuts_down() {
    let node = node().await;
    let [starts, gate, stops] = [2, 0, 0].map(|permits| Arc::new(Semaphore::new(permits)));
    let cell = Arc::new(OnceLock::new());
    let (own, may_start) = (cell.clone(), starts.clone());
    let pool = Pool::builder(move || Clerk { pool: own.clone(), starts: may_start.clone() });
    let pool = pool.size(2).mailbox_capacity(1).restart_at_most(0, MINUTE);
    let pool = pool.spawn(&node, "pool").await.unwrap();
    assert!(cell.set(pool.clone()).is_ok());
    let router = node.spawn("papers", pool.router::<Paper>()).await.unwrap();
    let [telling, stopping] = <[_; 2]>::try_from(pool.workers()).unwrap();
    stopping.tell(StopLater { gate: stops.clone() }).await.unwrap();
    until_in_hand(&node, "StopLater").await;
    let told =
        tokio::spawn(telling.ask(TellPool { gate: gate.clone() }).timeout(MINUTE).into_ask());
    until_in_hand(&node, "TellPool").await;
    telling.tell(Paper).await.unwrap();
    router.tell(Paper).await.unwrap();
    let grows = pool.clone();
    let grown = tokio::spawn(async move { grows.resize(3).await });
    until_in_hand(&node, "Resize").await;
    let ends = node.clone();
    let shutdown = tokio::spawn(async move { ends.shutdown(MINUTE / 2).await });
    tokio::time::sleep(MS).await;
    gate.add_permits(1);
    tokio::time::sleep(MS).await;
    assert!(!told.is_finished());
    stops.add_permits(1);
    assert_eq!(told.await.unwrap(), Ok(Err(Cause::Shutdown.to_string())));
    starts.add_permits(1);
    assert_eq!(shutdown.await.unwrap(), []);
    assert!(grown.await.unwrap().is_err());
}
