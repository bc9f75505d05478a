//! Pools that change their size.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringpost::limits;
use ringpost::pool::Pool;
use ringpost::prelude::*;
use ringpost::spawn::SpawnError;

use super::{MINUTE, builder, fill, job};
use crate::actors::node;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn asks_are_answered_while_the_size_changes() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(4).spawn(&node, "pool").await.unwrap();
    let asking: Vec<_> = (0..8)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move {
                for number in 0..300 {
                    pool.ask(job(number)).timeout(MINUTE).await.unwrap();
                }
            })
        })
        .collect();
    for size in [1, 4, 2, 3].into_iter().cycle() {
        pool.resize(size).await.unwrap();
        if asking.iter().all(|asking| asking.is_finished()) {
            break;
        }
    }
    for asking in asking {
        asking.await.unwrap();
    }
    assert_eq!(desk.done().len(), 8 * 300);
}

#[tokio::test]
async fn a_pool_has_a_most_of_workers() {
    let node = node().await;
    let pool = builder().1.size(usize::MAX).spawn(&node, "pool").await.unwrap();
    assert_eq!(pool.workers().len(), limits::POOL_WORKERS_MAX);
    pool.resize(0).await.unwrap();
    assert_eq!(pool.workers().len(), 1);
    pool.resize(usize::MAX).await.unwrap();
    assert_eq!(pool.workers().len(), limits::POOL_WORKERS_MAX);
    pool.ask(job(1)).await.unwrap();
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_worker_that_is_removed_handles_what_it_has_and_one_that_is_added_is_told() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(2).spawn(&node, "pool").await.unwrap();
    let workers = pool.workers();
    let gates = fill(&desk, &pool).await;
    let mut tell = Box::pin(pool.tell(job(1)));
    let mut ask = Box::pin(pool.ask(job(2)).timeout(MINUTE).into_future());
    assert!(futures::poll!(&mut tell).is_pending());
    assert!(futures::poll!(&mut ask).is_pending());
    pool.resize(1).await.unwrap();
    assert_eq!(pool.workers(), workers[..1]);
    assert!(futures::poll!(&mut tell).is_pending());
    assert!(futures::poll!(&mut ask).is_pending());
    gates[1].add_permits(1);
    assert_eq!(workers[1].wait_stopped().await, ActorExit::Stopped);
    assert_eq!(desk.done_by(&workers[1]), [0]);
    pool.resize(2).await.unwrap();
    tell.await.unwrap();
    assert_eq!(ask.await, Ok(pool.workers()[1].address().to_string()));
    assert_eq!(desk.done_by(&pool.workers()[1]), [1, 2]);
    workers[0].kill().await.unwrap();
}

#[tokio::test]
async fn a_pool_whose_new_workers_do_not_start_keeps_the_old_ones() {
    struct Picky(Arc<AtomicU64>);
    #[actor]
    impl Actor for Picky {
        async fn on_start(&mut self, _: &mut Context<Self>) -> Result<(), BoxError> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                0..3 => Ok(()),
                _ => Err("there are three".into()),
            }
        }
    }
    #[handlers]
    impl Picky {}
    let (node, started) = (node().await, Arc::<AtomicU64>::default());
    let pool = Pool::builder(move || Picky(started.clone())).size(2);
    let pool = pool.restart_at_most(0, MINUTE).spawn(&node, "pool").await.unwrap();
    let workers = pool.workers();
    assert!(matches!(pool.resize(4).await, Err(SpawnError::Start(_))));
    assert_eq!(pool.workers(), workers);
}
