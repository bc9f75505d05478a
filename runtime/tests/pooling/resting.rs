//! Workers that rest, or start again, while others are at work.

use std::sync::Arc;
use std::time::Duration;

use ringpost::ActorState;
use ringpost::pool::Pool;
use ringpost::prelude::*;
use tokio::sync::Semaphore;

use super::{MINUTE, MS, StopAndHold, Worker, builder, hold, job, until_in_hand};
use crate::actors::node;
use crate::cause;

/// Longer than a test takes: what waits for it waits in vain.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// Waits until so many workers are in a state.
async fn until_in(node: &Node, state: ActorState, count: usize) {
    let is_in = |actor: &&ringpost::ActorView| actor.state == state;
    while node.snapshot().actors.iter().filter(is_in).count() != count {
        tokio::time::sleep(MS).await;
    }
}

/// PL-5. The sender waits for the worker that is at work and has no room. When that rests, too, the
/// other one has room as good as its own.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn what_waits_goes_to_a_worker_that_rests_when_the_last_one_at_work_begins_to() {
    let node = node().await;
    let (desk, builder) = builder();
    let builder = builder.size(2).mailbox_capacity(2).restart_backoff(WEEK, WEEK);
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let workers = pool.workers();
    let _gate = hold(&desk, &workers[1]).await;
    for number in 0..2 {
        workers[1].tell(job(number)).await.unwrap();
    }
    assert_eq!(cause(workers[0].fail().await), Err(AskCause::Panicked));
    until_in(&node, ActorState::Resting, 1).await;
    let start = tokio::time::Instant::now();
    let mut tell = Box::pin(pool.tell(job(2)));
    let mut ask = Box::pin(pool.ask(job(3)).timeout(2 * WEEK).into_future());
    assert!(futures::poll!(&mut tell).is_pending());
    assert!(futures::poll!(&mut ask).is_pending());
    workers[1].kill().await.unwrap();
    tell.await.unwrap();
    assert!(futures::poll!(&mut ask).is_pending());
    assert!(start.elapsed() < WEEK / 2, "it waited until a worker was made anew");
    let snapshot = node.snapshot();
    let waiting = |worker: &ActorRef<Worker>| {
        let views = snapshot.actors.iter().filter(|actor| actor.address == *worker.address());
        views.map(|actor| actor.mailbox.local).sum::<usize>()
    };
    assert_eq!([waiting(&workers[0]), waiting(&workers[1])], [2, 2]);
    // It is handled when its worker begins anew.
    assert_eq!(ask.await, Ok(workers[0].address().to_string()));
    desk.until_done(4).await;
    assert_eq!(desk.done_by(&workers[0]), [2, 3]);
}

/// PL-3. A worker that stops takes nothing; when it has stopped, it rests and has room. The other
/// one, if there is one, rests and is full.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn what_waits_goes_to_a_worker_that_has_stopped_as_soon_as_that_rests() {
    for size in [1, 2] {
        let node = node().await;
        let (desk, builder) = builder();
        let builder = builder.size(size).mailbox_capacity(2).restart_backoff(WEEK, WEEK);
        let pool = builder.spawn(&node, "pool").await.unwrap();
        let workers = pool.workers();
        for other in &workers[1..] {
            assert_eq!(cause(other.fail().await), Err(AskCause::Panicked));
            until_in(&node, ActorState::Resting, 1).await;
            for number in 0..2 {
                other.tell(job(number)).await.unwrap();
            }
        }
        workers[0].tell(StopAndHold).await.unwrap();
        desk.held.notified().await;
        let start = tokio::time::Instant::now();
        let mut tell = Box::pin(pool.tell(job(2)));
        let mut ask = Box::pin(pool.ask(job(3)).timeout(2 * WEEK).into_future());
        assert!(futures::poll!(&mut tell).is_pending());
        assert!(futures::poll!(&mut ask).is_pending());
        desk.gate(&workers[0].address().to_string()).add_permits(1);
        let (told, asked) = tokio::join!(
            async { (tell.await, start.elapsed()) },
            // It has its place, and is handled when the worker begins anew.
            ask,
        );
        told.0.unwrap();
        assert!(told.1 < WEEK / 2, "{size}: it waited until the worker was made anew");
        assert_eq!(asked, Ok(workers[0].address().to_string()), "{size}");
        let mut done = desk.done_by(&workers[0]);
        done.sort_unstable();
        assert_eq!(done, [2, 3], "{size}");
    }
}

/// Waits for a permit each time that it starts.
struct Starter {
    starts: Arc<Semaphore>,
}

#[actor]
impl Actor for Starter {
    async fn on_start(&mut self, _: &mut Context<Self>) -> Result<(), BoxError> {
        self.starts.acquire().await?.forget();
        Ok(())
    }
}

#[handlers]
impl Starter {
    /// Returns the address of the worker.
    #[handler]
    fn who_works(&self, cx: &mut Context<Self>) -> String {
        cx.actor().address().to_string()
    }

    #[handler]
    fn fail(&self) {
        panic!("as it was told")
    }

    /// Waits for a permit of this gate.
    #[handler(local)]
    async fn hold(&self, gate: Arc<Semaphore>) {
        gate.acquire().await.unwrap().forget();
    }
}

/// PL-5. A worker that is made anew and has not started yet can take nothing.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_worker_that_starts_again_is_passed_over_until_it_has_started() {
    for routing in [Routing::RoundRobin, Routing::LeastLoaded] {
        let node = node().await;
        let starts = Arc::new(Semaphore::new(2));
        let permits = starts.clone();
        let pool = Pool::builder(move || Starter { starts: permits.clone() });
        let pool = pool.size(2).mailbox_capacity(1).routing(routing).restart_backoff(MS, MS);
        let pool = pool.spawn(&node, "pool").await.unwrap();
        let workers = pool.workers();
        let names = [0, 1].map(|place: usize| workers[place].address().to_string());
        assert_eq!(cause(workers[0].fail().await), Err(AskCause::Panicked));
        until_in(&node, ActorState::Starting, 1).await;
        for _ in 0..4 {
            let asked = pool.ask(WhoWorks).timeout(MINUTE).await;
            assert_eq!(asked.as_ref(), Ok(&names[1]), "{routing:?}");
        }
        // The other one has no room. What waits goes to the first one when that has started.
        let gate = Arc::new(Semaphore::new(0));
        workers[1].tell(Hold { gate: gate.clone() }).await.unwrap();
        until_in_hand(&node, "Hold").await;
        workers[1].tell(WhoWorks).await.unwrap();
        let mut ask = Box::pin(pool.ask(WhoWorks).timeout(MINUTE).into_future());
        assert!(futures::poll!(&mut ask).is_pending());
        starts.add_permits(1);
        assert_eq!(ask.await.as_ref(), Ok(&names[0]), "{routing:?}");
        // Where all of them start, one is given what is sent.
        workers[0].tell(Fail).await.unwrap();
        workers[1].kill().await.unwrap();
        until_in(&node, ActorState::Starting, 2).await;
        pool.try_tell(WhoWorks).unwrap();
        starts.add_permits(2);
        assert!(pool.ask(WhoWorks).timeout(MINUTE).await.is_ok());
        gate.add_permits(1);
    }
}
