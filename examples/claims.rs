//! Workers on other nodes claim jobs in a region and write their results to another one. They go on
//! whatever becomes of each other, of their links and of their shares; one of them is killed.
//!
//! `cargo run --example claims` prints:
//!
//! ```text
//! bob has finished: the squares of 12 numbers sum up to 650
//! ```
#![deny(warnings)]

use std::{collections::HashMap, sync::Arc, time::Duration};

use ringpost::prelude::*;
use tokio::time::sleep;

const JOBS: usize = 12;
/// Elements of a result: so many that a device takes them from a draft.
const LEN: usize = 20_000;
/// A job has the number of the worker that does it, or one of these.
const FREE: u64 = 0;
const DONE: u64 = u64::MAX;

/// What a worker is given: jobs and results, by shares of its own.
type Desk = (RemoteRegion<u64>, RemoteRegion<u64>);

#[actor]
struct Board {
    jobs: Region<u64>,
    results: Arc<Region<u64>>,
    desks: HashMap<Address, (u64, Desk)>,
}

#[handlers]
impl Board {
    #[handler]
    fn join(&mut self, worker: ActorRef<Worker>, number: u64, cx: &mut Context<Self>) -> Desk {
        let jobs = self.jobs.share(Access::READ | Access::ATOMIC).expect("all of it");
        let desk = (jobs, self.results.share(Access::WRITE).expect("all of it"));
        cx.watch(&worker);
        let before = self.desks.insert(worker.address().clone(), (number, desk.clone()));
        drop(before.map(|(_, desk)| self.revoke(&desk)));
        desk
    }

    /// A worker that is down may only be cut off, and go on writing: its jobs are free when nothing
    /// of it reaches the memory any more. Nobody else writes to what has its number.
    #[handler]
    fn down(&mut self, msg: Down, cx: &mut Context<Self>) {
        let Some((number, desk)) = self.desks.remove(&msg.actor) else { return };
        cx.pipe(self.revoke(&desk), move |board, _, _| {
            for job in (0..JOBS).filter(|job| board.jobs.get(*job) == Ok(number)) {
                board.jobs.set(job, FREE).expect("there is such a job");
            }
        });
    }
}

impl Board {
    fn revoke(&self, (jobs, results): &Desk) -> impl Future<Output = ()> + use<> {
        let (jobs, results) = (self.jobs.revoke(jobs), self.results.revoke(results));
        async { (_, _) = tokio::join!(jobs, results) }
    }
}

#[actor]
struct Worker {
    node: Node,
    number: u64,
}

#[handlers]
impl Worker {
    /// Works until all is done.
    #[handler]
    async fn work(&self, cx: &mut Context<Self>) -> Result<(), String> {
        for _ in 0..20 {
            // By its name: also after a restart of its node, and when that is linked again.
            let board = self.node.when_named::<Board>("alpha/board").await;
            let board = board.map_err(|error| error.to_string())?;
            let desk = board.join(cx.actor().clone(), self.number).await;
            match self.do_all(desk.map_err(|error| error.to_string())?).await {
                Ok(()) => return Ok(()),
                // Another share is there at once.
                Err(RegionError::Revoked | RegionError::NodeDown { .. }) => {}
                // The same again: a claim finds itself, and a result is what it was.
                Err(error) if error.may_be_done() || error.is_retryable() => {
                    sleep(Duration::from_millis(500)).await;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Err("it has joined too often".into())
    }
}

impl Worker {
    /// Does all jobs that are free, or its own, until all are done.
    async fn do_all(&self, (jobs, results): Desk) -> Result<(), RegionError> {
        let mut writer = results.writer();
        while jobs.read(..).await? != [DONE; JOBS] {
            for job in 0..JOBS {
                let claimed = jobs.compare_exchange(job, FREE, self.number).await?;
                // Claimed now, or by a call whose end it did not learn.
                if claimed.is_ok() || claimed == Err(self.number) {
                    let mut result = writer.draft(LEN).await?;
                    result.fill((job as u64 + 1).pow(2));
                    writer.write_draft(job * LEN, result).await?;
                    // All that find it done find what was written.
                    writer.flush().await?;
                    let _ = jobs.compare_exchange(job, self.number, DONE).await?;
                }
            }
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let alpha = Node::builder("alpha").listen("127.0.0.1:0").start().await?;
    let (jobs, results) = (alpha.region(JOBS)?, Arc::new(alpha.region(JOBS * LEN)?));
    let board = Board { jobs, results: results.clone(), desks: HashMap::new() };
    alpha.spawn("board", board).await?;
    let (mut nodes, mut workers) = (vec![alpha.clone()], Vec::new());
    for (name, number) in [("ada", 1), ("bob", 2)] {
        let node = Node::builder(name).listen("127.0.0.1:0").seeds(alpha.addresses());
        nodes.push(node.start().await?);
        let node = nodes[nodes.len() - 1].clone();
        workers.push(node.spawn("worker", Worker { node: node.clone(), number }).await?);
    }
    workers[0].tell(Work {}).await?;
    sleep(Duration::from_millis(10)).await;
    workers[0].kill().await?;
    workers[1].ask(Work {}).timeout(Duration::from_secs(60)).await??;
    let sum = results.read(..)?.iter().sum::<u64>() / LEN as u64;
    println!("bob has finished: the squares of {JOBS} numbers sum up to {sum}");
    for node in nodes {
        node.shutdown(Duration::from_secs(5)).await;
    }
    Ok(())
}
