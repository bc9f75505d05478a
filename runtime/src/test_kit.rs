//! Nodes on a simulated network with virtual time, faults drawn from a seed, and probes: for tests
//! of programs that use this crate. Behind the cargo feature `test-kit`:
//!
//! ```toml
//! [dev-dependencies]
//! # From the same source as under `[dependencies]`.
//! ringpost = { path = "../ringpost/runtime", features = ["test-kit"] }
//! ```
//!
//! A test is a body that gets a [`Cluster`] and runs once for each seed: messages take other times
//! and come in other orders with each. Minutes of a cluster take milliseconds, since time passes at
//! once when nothing can run.
//!
//! # A first test
//!
//! ```
//! use std::time::Duration;
//!
//! use ringpost::prelude::*;
//! use ringpost::test_kit::{self, Cluster};
//!
//! #[actor]
//! #[derive(Default)]
//! struct Counter {
//!     total: u64,
//! }
//!
//! #[handlers]
//! impl Counter {
//!     #[handler]
//!     fn add(&mut self, amount: u64) -> u64 {
//!         self.total += amount;
//!         self.total
//!     }
//! }
//!
//! /// The body: nodes start, work is done, and what came of it is asserted.
//! async fn additions_count_once(cluster: Cluster) {
//!     let [alpha, beta] = [cluster.node("alpha").await, cluster.node("beta").await];
//!     alpha.spawn("counter", Counter::default()).await.unwrap();
//!     let counter = beta.actor::<Counter>("alpha/counter").await.unwrap();
//!     // Both are on their way at once, and come in an order that the seed draws.
//!     let (first, second) = tokio::join!(counter.add(1), counter.add(1));
//!     assert_eq!(first.unwrap() + second.unwrap(), 1 + 2);
//!     // A fault: no word passes between the two, until a minute of virtual time is over.
//!     cluster.cut("alpha", "beta");
//!     assert!(counter.add(1).await.is_err());
//!     cluster.sleep(Duration::from_secs(60)).await;
//!     cluster.mend("alpha", "beta");
//!     cluster.settle().await;
//!     assert!(counter.add(1).await.unwrap() >= 3);
//! }
//!
//! # let hidden = || {
//! #[test]
//! fn additions_count_once_for_each_seed() {
//!     test_kit::check(0..20, additions_count_once);
//! }
//! # };
//! # hidden();
//! # test_kit::check(0..20, additions_count_once);
//! ```
//!
//! It is a plain `#[test]`, since a run makes its runtime itself. [`run`] runs a body with one seed
//! and returns what it returns; [`Cluster::seeded`] has settings, too: a limit of virtual time
//! ([`Simulation::limit`], 10 minutes when not set) and how fast links are ([`Simulation::links`]).
//!
//! # How many seeds
//!
//! - In code: the range that [`check`] is given. Some hundred take seconds, and find what depends
//!   on the order of two messages; what needs several faults at the right moments takes thousands.
//! - `RINGPOST_TEST_CASES=5000 cargo test` has each [`check`] run as many instead, more or fewer:
//!   the first ones of its range, and then the numbers that follow. With 0 each of them fails.
//! - `RINGPOST_TEST_SEED=12` has it run that one alone.
//!
//! A test that draws much should also count the states that it is for, such as an ask that was cut
//! off from its answer, and assert that all seeds together reached each of them.
//!
//! # A seed that fails
//!
//! A run fails when its body panics, so when an assertion of it does; when it waits for what never
//! comes; or when it is over its limit. The message of the test names the seed, the actors that
//! have work, the end of the log of what happened, and the command that replays it:
//!
//! ```text
//! seed 12: the body panicked: assertion `left == right` failed: a coupon was paid out twice ...
//! The end of the log without frames, in nanoseconds of virtual time:
//!   151337 alpha: linked to beta
//!   ...
//! To replay it with the whole log:
//!   RINGPOST_TEST_SEED=12 cargo test coupons::one_is_paid_out_once -- --exact --nocapture
//! ```
//!
//! The replay is the same run, to the byte of the log. So add [`Cluster::log`] to what is to be
//! understood, and replay: a line changes nothing else. The log has links that come and go, faults,
//! your own lines, and how many bytes were sent; it has no messages. [`find`] returns the failure
//! instead of panicking.
//!
//! # A race, found and replayed
//!
//! ```
//! use std::collections::HashSet;
//! use std::time::Duration;
//!
//! use ringpost::prelude::*;
//! use ringpost::test_kit::{self, Cluster};
//!
//! /// Knows which coupons were paid out.
//! #[actor]
//! #[derive(Default)]
//! struct Ledger {
//!     paid: HashSet<u64>,
//! }
//!
//! #[handlers]
//! impl Ledger {
//!     #[handler]
//!     fn is_paid(&self, coupon: u64) -> bool {
//!         self.paid.contains(&coupon)
//!     }
//!
//!     #[handler]
//!     fn pay(&mut self, coupon: u64) {
//!         self.paid.insert(coupon);
//!     }
//! }
//!
//! /// Pays a coupon out, unless it was. Here is the mistake: two asks, where one would do.
//! async fn cash(from: &Node, coupon: u64) -> Result<u64, BoxError> {
//!     let ledger = from.actor::<Ledger>("alpha/ledger").await?;
//!     if ledger.is_paid(coupon).await? {
//!         return Ok(0);
//!     }
//!     ledger.pay(coupon).await?;
//!     Ok(100)
//! }
//!
//! async fn a_coupon_is_paid_out_once(cluster: Cluster) {
//!     let alpha = cluster.node("alpha").await;
//!     alpha.spawn("ledger", Ledger::default()).await.unwrap();
//!     let (beta, gamma) = (cluster.node("beta").await, cluster.node("gamma").await);
//!     // Both start at a moment that the seed draws.
//!     let till = async |node: &Node| {
//!         cluster.sleep_up_to(Duration::from_millis(5)).await;
//!         cash(node, 7).await.unwrap()
//!     };
//!     let (first, second) = tokio::join!(till(&beta), till(&gamma));
//!     assert_eq!(first + second, 100, "a coupon was paid out twice");
//! }
//!
//! // In a test: `test_kit::check(0..100, a_coupon_is_paid_out_once)`, which panics.
//! let found = test_kit::find(0..100, a_coupon_is_paid_out_once).expect("some seed fails");
//! assert!(found.to_string().contains("a coupon was paid out twice"));
//! // Other seeds pass.
//! let passes = |seed| Cluster::seeded(seed).try_run(a_coupon_is_paid_out_once).is_ok();
//! assert!((0..100).any(passes));
//!
//! // Again: the same failure, with the same log, down to the byte.
//! let again = Cluster::seeded(found.seed()).try_run(a_coupon_is_paid_out_once);
//! assert_eq!(again, Err(found));
//! ```
//!
//! # What a test can do
//!
//! - Nodes: [`Cluster::node`], [`nodes`](Cluster::nodes), [`node_with`](Cluster::node_with) for
//!   settings; [`kill`](Cluster::kill), as `kill -9` does, and [`restart`](Cluster::restart).
//! - The network: [`cut`](Cluster::cut), [`cut_one_way`](Cluster::cut_one_way),
//!   [`isolate`](Cluster::isolate), [`pause`](Cluster::pause), and [`mend_all`](Cluster::mend_all);
//!   [`set_links`](Cluster::set_links) for latency, jitter and bandwidth; faults drawn by the seed
//!   with [`shake`](Cluster::shake); [`settle`](Cluster::settle) waits until all links stand.
//! - Time: [`sleep`](Cluster::sleep) and tokio's own timers, which pass at once, and
//!   [`sleep_up_to`](Cluster::sleep_up_to), which has things meet in another order with each seed.
//! - Actors: a [`Probe`] stands for one that takes one type of message, and answers as the test
//!   likes: give the code under test its `recipient()` or `asker()`. It works on ordinary nodes,
//!   too.
//!
//! # Faults
//!
//! A fault is done by the body, at a moment that it chooses or that [`sleep_up_to`](
//! Cluster::sleep_up_to) draws, or by [`shake`](Cluster::shake), which draws kinds and moments for
//! a time ([`Faults`] says which: [`mild`](Faults::mild) ones find no node down, [`harsh`](
//! Faults::harsh) ones do). Run it beside the work:
//!
//! ```
//! use std::time::Duration;
//!
//! use ringpost::test_kit::{self, Faults};
//!
//! test_kit::check(0..4, |cluster| async move {
//!     cluster.nodes(3).await;
//!     let work = async { /* asks, whose errors are counted */ };
//!     tokio::join!(work, cluster.shake(Faults::harsh(), Duration::from_secs(10)));
//!     // A node that dies in the middle, and comes again without its actors.
//!     cluster.kill("n2").await;
//!     cluster.sleep_up_to(Duration::from_secs(10)).await;
//!     cluster.node("n2").await;
//!     // What is asserted after the faults must not depend on when links stand again.
//!     cluster.mend_all();
//!     cluster.settle().await;
//! });
//! ```
//!
//! [`Cluster::world`] has more: single frames that are late or lost, dials, devices, names in DNS.
//!
//! # What is simulated, and what is not
//!
//! - Simulated: the network between nodes of the cluster, all timers of tokio (`sleep`, `timeout`,
//!   `Instant`), the deadlines of asks, heartbeats, the pauses before restarts and dials. Nodes run
//!   the same code as elsewhere, but for the sockets.
//! - Not shown: what a send costs, throughput, sockets and their buffers, encryption, which the
//!   simulated network has none of, and memory.
//! - A reference sends from the node that it was made by. A body that takes one from `alpha` and
//!   gives it to code that stands for `beta` goes past the network: look the actor up on `beta`, or
//!   have the reference come in a message.
//! - Not simulated: `std::time`, threads, `spawn_blocking`, `block_in_place`, files, sockets of
//!   your own. What depends on them differs from run to run, and time does not wait for it. All
//!   nodes run on one thread, so no two handlers run at once: for races of threads there is loom.
//! - Only a panic of the body fails a run. A handler's panic ends its actor, as always, and that of
//!   a spawned task stays in its handle: assert in the body, on an answer, a [`Probe`], or what
//!   [`Probe::expect_down`] returns.
//! - The runtime has no driver for input and output: what `tokio::net`, `process` and `signal`
//!   make panics. Write a plain `#[test]` function: a run makes its runtime itself.
//! - A handler takes no virtual time, however long it computes; what waits does.
//! - So that a seed gives the same run each time, a body and its actors draw numbers from
//!   [`Cluster::random`] only, do not depend on the order in which a `HashMap` or `HashSet` is
//!   iterated, write `biased` in `tokio::select!`, and share nothing between runs.
//! - A task that spins until time has passed spins for ever: time stands still while any task can
//!   run. One that spins on [`Cluster::now`] is found.
//! - A node that is killed has its actors dropped, so their `Drop` runs; tasks that the test has
//!   spawned with `tokio::spawn` are of no node, and go on.
//!
//! # Invariants
//!
//! - **TK-1 replayed**: all chance is drawn from the seed; two runs of one body with one seed have
//!   the same log and end alike.
//! - **TK-2 found**: a body that panics, waits for what never comes or takes too long fails with
//!   its seed, its log and what actors waited for.
//! - **TK-3 killed**: after `kill` nothing of the node reaches any other node, and no actor of it
//!   handles another message.

#![allow(clippy::test_attr_in_doctest, reason = "it shows how a test is written")]

mod cluster;
mod failure;
mod faults;
mod probe;
mod simulation;

pub use cluster::Cluster;
pub use failure::{Failure, FailureCause};
pub use faults::Faults;
pub use probe::{Probe, ProbeActor};
pub use ringpost_transport::fabric::sim::{LinkModel, World};
pub use simulation::Simulation;

/// Runs a body once, with this seed: [`Cluster::seeded`] with the usual settings. With the variable
/// `RINGPOST_TEST_SEED` it runs with that seed instead.
///
/// # Panics
/// When it fails, as [`Simulation::run`] does.
#[track_caller]
pub fn run<T, F>(seed: u64, body: impl FnOnce(Cluster) -> F) -> T
where
    F: Future<Output = T>,
{
    Cluster::seeded(seed).run(body)
}

/// Runs a body once for each seed, up to the first that fails. With the variable
/// `RINGPOST_TEST_SEED` it runs with that seed only, and prints the whole log; with
/// `RINGPOST_TEST_CASES` it runs with as many seeds: the first ones, and then those that follow.
/// [`Simulation::check`] does the same with a limit of time and links of its own.
///
/// # Panics
/// When one fails, as [`Simulation::run`] does; when a variable is no number, or says 0 seeds.
#[track_caller]
pub fn check<F>(seeds: impl IntoIterator<Item = u64>, body: impl Fn(Cluster) -> F)
where
    F: Future<Output = ()>,
{
    Cluster::seeded(0).check(seeds, body);
}

/// Runs a body once for each seed, up to the first that fails, and returns how. No variable changes
/// the seeds.
pub fn find<F>(seeds: impl IntoIterator<Item = u64>, body: impl Fn(Cluster) -> F) -> Option<Failure>
where
    F: Future<Output = ()>,
{
    Cluster::seeded(0).find(seeds, body)
}
