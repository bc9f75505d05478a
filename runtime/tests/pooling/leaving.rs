//! Pools whose node shuts down.

use futures::FutureExt;
use ringpost::prelude::*;

use super::{Job, MINUTE, MS, builder, hold, job};
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
