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

use ringpost::Address;
use ringpost::prelude::*;
use ringpost::region::{Access, Region, RegionError, RemoteRegion};
use tokio::time::sleep;

const JOBS: usize = 12;
/// Elements of a result: enough that an RDMA device reads them straight from a draft.
const LEN: usize = 20_000;
/// A job has the number of the desk that it is done at, or one of these.
const FREE: u64 = 0;
const DONE: u64 = u64::MAX;

/// The things that a worker is given when it joins: a number, and jobs and results by shares that
/// nobody else has.
type Desk = (u64, RemoteRegion<u64>, RemoteRegion<u64>);

#[actor]
struct Board {
    jobs: Region<u64>,
    results: Arc<Region<u64>>,
    desks: HashMap<Address, Desk>,
    last: u64,
}

#[handlers]
impl Board {
    /// Gives a worker a new desk in place of its last one.
    #[handler]
    fn join(&mut self, worker: ActorRef<Worker>, cx: &mut Context<Self>) -> Desk {
        self.clear(worker.address(), cx);
        cx.watch(&worker);
        self.last += 1;
        let jobs = self.jobs.share(Access::READ | Access::ATOMIC).expect("all of it");
        let desk = (self.last, jobs, self.results.share(Access::WRITE).expect("all of it"));
        self.desks.insert(worker.address().clone(), desk.clone());
        desk
    }

    #[handler]
    fn down(&mut self, msg: Down, cx: &mut Context<Self>) {
        self.clear(&msg.actor, cx);
    }
}

impl Board {
    /// A worker that is down may only be cut off, and go on writing: its jobs are free when nothing
    /// that was done at its desk reaches the memory any more.
    fn clear(&mut self, worker: &Address, cx: &mut Context<Self>) {
        let Some((number, jobs, results)) = self.desks.remove(worker) else { return };
        let (jobs, results) = (self.jobs.revoke(&jobs), self.results.revoke(&results));
        cx.pipe(async { tokio::join!(jobs, results) }, move |board, _, _| {
            for job in (0..JOBS).filter(|job| board.jobs.get(*job) == Ok(number)) {
                board.jobs.set(job, FREE).expect("there is such a job");
            }
        });
    }
}

#[actor]
struct Worker {
    node: Node,
}

#[handlers]
impl Worker {
    /// Works until all is done.
    #[handler]
    async fn work(&self, cx: &mut Context<Self>) -> Result<(), String> {
        use RegionError::{NodeDown, OtherRun, Revoked};
        for _ in 0..20 {
            // By its name: also after a restart of its node, and when that is linked again.
            let board = self.node.when_named::<Board>("alpha/board").await;
            let board = board.map_err(|error| error.to_string())?;
            // Whatever happened to its work at the last desk, it gets a new one.
            if let Ok(desk) = board.join(cx.actor().clone()).await {
                match do_all(desk).await {
                    Ok(()) => return Ok(()),
                    Err(Revoked | NodeDown { .. } | OtherRun(_)) => {}
                    Err(error) if error.may_be_done() || error.is_retryable() => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
            sleep(Duration::from_millis(500)).await;
        }
        Err("it has joined too often".into())
    }
}

/// Does all jobs that are free until all are done.
async fn do_all((number, jobs, results): Desk) -> Result<(), RegionError> {
    let mut writer = results.writer();
    while jobs.read(..).await? != [DONE; JOBS] {
        for job in 0..JOBS {
            if jobs.compare_exchange(job, FREE, number).await?.is_ok() {
                let mut result = writer.draft(LEN).await?;
                result.fill((job as u64 + 1).pow(2));
                writer.write_draft(job * LEN, result).await?;
                // A reader that sees the job as done must also see its result.
                writer.flush().await?;
                let done = jobs.compare_exchange(job, number, DONE).await?;
                assert!(done.is_ok(), "nobody else writes to what has its number");
            }
        }
        sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let alpha = Node::builder("alpha").listen("127.0.0.1:0").start().await?;
    let (jobs, results) = (alpha.region(JOBS)?, Arc::new(alpha.region(JOBS * LEN)?));
    let board = Board { jobs, results: results.clone(), desks: HashMap::new(), last: 0 };
    alpha.spawn("board", board).await?;
    let (mut nodes, mut workers) = (vec![alpha.clone()], Vec::new());
    for name in ["ada", "bob"] {
        let node = Node::builder(name).listen("127.0.0.1:0").seeds(alpha.addresses());
        nodes.push(node.start().await?);
        let node = nodes[nodes.len() - 1].clone();
        workers.push(node.spawn("worker", Worker { node: node.clone() }).await?);
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
