//! A job scheduler: jobs are tried on the pools of two nodes, and tried again, each time after a
//! longer pause, until they are done or were tried too often.
//!
//! `cargo run --example jobs` prints, beside the reports of panics:
//!
//! ```text
//! 40 jobs: 38 done, 2 given up, by 2 nodes
//! 20 tries failed: 16 said so, 4 were panics
//! beta has left
//! 40 jobs: 38 done, 2 given up, by 1 node
//! ```
#![deny(warnings)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ringpost::pool::{Pool, Routing};
use ringpost::prelude::*;

const JOBS: u64 = 40;
const TRIES_MAX: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(5);

/// Tries a job. Answered with its result and the node that has it.
#[message]
#[derive(Debug, Clone)]
struct Run {
    job: u64,
    attempt: u32,
}

#[message]
struct Output {
    square: u64,
    node: String,
}

#[actor]
#[derive(Default)]
struct Worker;

#[handlers]
impl Worker {
    /// Some jobs fail at first, some panic at first, and some never succeed.
    #[handler]
    fn run(&mut self, msg: Run, cx: &mut Context<Self>) -> Result<Output, String> {
        let Run { job, attempt } = msg;
        match job % 20 {
            3 | 8 | 13 | 18 if attempt < 2 => Err(format!("job {job} is not ready")),
            7 if attempt < 3 => panic!("job {job} cannot be done yet"),
            19 => Err(format!("job {job} cannot be done")),
            _ => Ok(Output { square: job * job, node: cx.node().name().to_string() }),
        }
    }
}

/// The outcome of all jobs.
#[message]
#[derive(Debug, Default)]
struct Report {
    squares: BTreeMap<u64, u64>,
    given_up: BTreeMap<u64, String>,
    nodes: BTreeSet<String>,
    refused: u64,
    panics: u64,
}

/// Hands jobs to the pools, one after the other, and tries those again that fail.
#[actor]
struct Scheduler {
    pools: Vec<Recipient<Run, Result<Output, String>>>,
    next: usize,
    /// Jobs that are neither done nor given up.
    open: BTreeSet<u64>,
    report: Report,
    reply: Option<ReplyTo<Report>>,
}

#[handlers]
impl Scheduler {
    /// Does as many jobs; answers when all are done or given up.
    #[handler]
    fn begin(&mut self, jobs: u64, reply: ReplyTo<Report>, cx: &mut Context<Self>) {
        self.reply = Some(reply);
        self.open = (0..jobs).collect();
        for job in 0..jobs {
            self.attempt(Run { job, attempt: 1 }, cx);
        }
    }

    /// A pause is over.
    #[handler]
    fn try_again(&mut self, run: Run, cx: &mut Context<Self>) {
        self.attempt(run, cx);
    }
}

impl Scheduler {
    fn attempt(&mut self, run: Run, cx: &mut Context<Self>) {
        let pool = &self.pools[self.next % self.pools.len()];
        self.next += 1;
        // The answer comes in this actor's turn; it handles other messages meanwhile.
        let asked = pool.ask(run.clone()).timeout(PATIENCE).into_ask();
        cx.pipe(asked, move |scheduler, answer, cx| scheduler.answered(run, answer, cx));
    }

    fn answered(
        &mut self,
        run: Run,
        answer: Result<Result<Output, String>, AskError>,
        cx: &mut Context<Self>,
    ) {
        let why = match answer {
            Ok(Ok(Output { square, node })) => {
                self.report.squares.insert(run.job, square);
                self.report.nodes.insert(node);
                return self.close(run.job);
            }
            Ok(Err(why)) => {
                self.report.refused += 1;
                why
            }
            // No worker has begun it, and trying again can help: the next pool does.
            Err(error) if error.is_retryable() => {
                return cx.tell_after(run.job, FIRST_PAUSE, TryAgain { run });
            }
            // It may have been done: a job has to bear that it is done twice.
            Err(error) => {
                self.report.panics += u64::from(error.cause == AskCause::Panicked);
                error.to_string()
            }
        };
        if run.attempt >= TRIES_MAX {
            self.report.given_up.insert(run.job, why);
            return self.close(run.job);
        }
        let pause = FIRST_PAUSE * 2_u32.pow(run.attempt - 1);
        let again = Run { job: run.job, attempt: run.attempt + 1 };
        cx.tell_after(run.job, pause, TryAgain { run: again });
    }

    fn close(&mut self, job: u64) {
        self.open.remove(&job);
        if self.open.is_empty()
            && let Some(reply) = self.reply.take()
        {
            reply.send(std::mem::take(&mut self.report));
        }
    }
}

/// Spawns a pool of workers on a node, and an actor with a name that hands jobs to them.
async fn work(node: &Node) -> Result<Pool<Worker>, BoxError> {
    let pool = Pool::builder(Worker::default)
        .size(4)
        .routing(Routing::LeastLoaded)
        .restart_at_most(100, Duration::from_secs(60))
        .spawn(node, "workers")
        .await?;
    node.spawn("run", pool.router::<Run>()).await?;
    Ok(pool)
}

async fn run(scheduler: &ActorRef<Scheduler>) -> Result<Report, BoxError> {
    let report = scheduler.ask(Begin { jobs: JOBS }).timeout(4 * PATIENCE).await?;
    let (done, given_up, nodes) = (report.squares.len(), report.given_up.len(), report.nodes.len());
    let plural = if nodes == 1 { "" } else { "s" };
    println!("{JOBS} jobs: {done} done, {given_up} given up, by {nodes} node{plural}");
    let squares: BTreeMap<_, _> =
        (0..JOBS).filter(|job| job % 20 != 19).map(|job| (job, job * job)).collect();
    check(report.squares == squares, "a result is missing or wrong")?;
    check(report.given_up.keys().eq(&[19, 39]), "another job was given up")?;
    Ok(report)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let alpha = Node::builder("alpha").listen("127.0.0.1:0").start().await?;
    let beta = Node::builder("beta").listen("127.0.0.1:0").seeds(alpha.addresses()).start().await?;
    alpha.ready(1).await?;
    let (pool, _) = (work(&alpha).await?, work(&beta).await?);
    // Follows the names: leads to the pools of later runs of these nodes, too.
    let pools = vec![alpha.named_recipient("alpha/run")?, alpha.named_recipient("beta/run")?];
    let scheduler =
        Scheduler { pools, next: 0, open: BTreeSet::new(), report: Report::default(), reply: None };
    let scheduler = alpha.spawn("scheduler", scheduler).await?;

    let report = run(&scheduler).await?;
    let failed = report.refused + report.panics;
    let (refused, panics) = (report.refused, report.panics);
    println!("{failed} tries failed: {refused} said so, {panics} were panics");
    check(report.nodes.len() == 2, "a node did nothing")?;
    check((refused, panics) == (16, 4), "not as many tries failed as should")?;

    // A send to a node that has left fails at once, and is tried on the other one.
    beta.shutdown(PATIENCE).await;
    println!("beta has left");
    pool.resize(8).await?;
    let report = run(&scheduler).await?;
    check(report.nodes.iter().eq(["alpha"]), "a node worked that had left")?;

    alpha.shutdown(PATIENCE).await;
    Ok(())
}

fn check(is_so: bool, otherwise: &str) -> Result<(), BoxError> {
    if is_so { Ok(()) } else { Err(otherwise.into()) }
}
