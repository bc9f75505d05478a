//! Nodes on a simulated network with virtual time, faults drawn from a seed, and probes, for tests
//! of programs that use this crate. Requires the cargo feature `test-kit`:
//!
//! ```toml
//! [dev-dependencies]
//! # From the same source as under `[dependencies]`.
//! ringpost = { path = "../ringpost/runtime", features = ["test-kit"] }
//! ```
//!
//! A test is a body that gets a [`Cluster`] and runs once per seed: with each seed, messages take
//! different times and arrive in different orders. Minutes of a cluster take milliseconds, because
//! time jumps ahead when nothing can run.
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
//! /// The body starts nodes, uses them, and asserts on the results.
//! async fn additions_count_once(cluster: Cluster) {
//!     let [alpha, beta] = [cluster.node("alpha").await, cluster.node("beta").await];
//!     alpha.spawn("counter", Counter::default()).await.unwrap();
//!     let counter = beta.actor::<Counter>("alpha/counter").await.unwrap();
//!     // Both asks are sent at once, and arrive in an order that the seed draws.
//!     let (first, second) = tokio::join!(counter.add(1), counter.add(1));
//!     assert_eq!(first.unwrap() + second.unwrap(), 1 + 2);
//!     // A fault: no message passes between the two, until a minute of virtual time is over.
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
//! It is a plain `#[test]`, because a run creates its own runtime. [`run`] runs a body with one
//! seed and returns its result; [`Cluster::seeded`] also has settings: a limit of virtual time
//! ([`Simulation::limit`], 10 minutes by default) and the speed of links ([`Simulation::links`]).
//!
//! # How many seeds
//!
//! - In code, use the range given to [`check`]. Some hundred seeds take seconds, and find bugs that
//!   depend on the order of two messages; bugs that need several faults at the right moments take
//!   thousands.
//! - `RINGPOST_TEST_CASES=5000 cargo test` runs each [`check`] with that number of seeds instead:
//!   the first ones of its range, and then the numbers that follow. With 0, each check fails.
//! - `RINGPOST_TEST_SEED=12` runs each check with this seed only.
//!
//! A test with much randomness should also count the states that it is made for, such as an ask
//! that was cut off from its answer, and assert that all seeds together reached each of them.
//!
//! # A seed that fails
//!
//! A run fails when its body panics, for example in an assertion; when it waits for something that
//! never happens; or when it exceeds its limit. The message of the test names the seed, the actors
//! with pending work, the end of the log, and the command that replays the run:
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
//! The replay is the same run, to the byte of the log. So add [`Cluster::log`] where you need to
//! understand the run, and replay it: a line changes nothing else. The log contains changes of
//! links, faults, your own lines, and numbers of bytes sent, but no messages. [`find`] returns the
//! failure instead of panicking.
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
//! /// Knows the coupons that were paid out.
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
//! /// Pays out a coupon only once. The bug: this uses two asks instead of one.
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
//! // A second run: the same failure, with the same log, to the byte.
//! let again = Cluster::seeded(found.seed()).try_run(a_coupon_is_paid_out_once);
//! assert_eq!(again, Err(found));
//! ```
//!
//! # What a test can do
//!
//! - Nodes: [`Cluster::node`], [`nodes`](Cluster::nodes), [`node_with`](Cluster::node_with) for
//!   settings; [`kill`](Cluster::kill), like `kill -9`, and [`restart`](Cluster::restart).
//! - The network: [`cut`](Cluster::cut), [`cut_one_way`](Cluster::cut_one_way),
//!   [`isolate`](Cluster::isolate), [`pause`](Cluster::pause), and [`mend_all`](Cluster::mend_all);
//!   [`set_links`](Cluster::set_links) for latency, jitter and bandwidth; faults drawn by the seed
//!   with [`shake`](Cluster::shake); [`settle`](Cluster::settle) waits until all links are up.
//! - Time: [`sleep`](Cluster::sleep) and tokio's own timers, which take no real time, and
//!   [`sleep_up_to`](Cluster::sleep_up_to), which changes the order of events with each seed.
//! - Actors: a [`Probe`] replaces an actor that takes one type of message, and answers as the test
//!   likes. Give its `recipient()` or `asker()` to the code under test. It also works on ordinary
//!   nodes.
//!
//! # Faults
//!
//! The body causes a fault itself, at a moment of its choice or drawn by
//! [`sleep_up_to`](Cluster::sleep_up_to); or it calls [`shake`](Cluster::shake), which draws kinds
//! and moments for some time. [`Faults`] selects the kinds: with [`mild`](Faults::mild) faults no
//! node is found down, with [`harsh`](Faults::harsh) ones nodes are. Run it beside the work:
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
//!     // A node that dies in between, and starts again without its actors.
//!     cluster.kill("n2").await;
//!     cluster.sleep_up_to(Duration::from_secs(10)).await;
//!     cluster.node("n2").await;
//!     // Assertions after the faults must not depend on when links are up again.
//!     cluster.mend_all();
//!     cluster.settle().await;
//! });
//! ```
//!
//! [`Cluster::world`] has more: delay or loss of single frames, dials, devices, names in DNS.
//!
//! # Limits of the simulation
//!
//! - Simulated: the network between nodes of the cluster, all timers of tokio (`sleep`, `timeout`,
//!   `Instant`), the deadlines of asks, heartbeats, the pauses before restarts and dials. Nodes run
//!   the same code as elsewhere, except for sockets.
//! - Not shown: the cost of sends, throughput, sockets and their buffers, memory, and encryption,
//!   which the simulated network does not have.
//! - A reference sends from the node that created it. A body that takes a reference from `alpha`
//!   and gives it to code that acts for `beta` bypasses the network: look the actor up on `beta`,
//!   or send the reference in a message.
//! - Not simulated: `std::time`, threads, `spawn_blocking`, `block_in_place`, files, sockets of
//!   your own. Code that uses them differs from run to run, and time does not wait for it. All
//!   nodes run on one thread, so no two handlers run at once: use loom for races of threads.
//! - Only a panic of the body fails a run. A handler's panic ends its actor, as always, and a panic
//!   of a spawned task stays in its handle. Assert in the body, on an answer, a [`Probe`], or the
//!   result of [`Probe::expect_down`].
//! - The runtime has no I/O driver: `tokio::net`, `process` and `signal` panic. Write a plain
//!   `#[test]` function, because a run creates its own runtime.
//! - A handler takes no virtual time, however long it computes; only waits do.
//! - To get the same run for a seed each time, a body and its actors draw numbers only from
//!   [`Cluster::random`], do not depend on the iteration order of a `HashMap` or `HashSet`, write
//!   `biased` in `tokio::select!`, and share nothing between runs.
//! - A task that spins until time has passed spins forever, because time stands still while any
//!   task can run. A task that spins on [`Cluster::now`] is detected.
//! - A killed node drops its actors, so their `Drop` runs; tasks that the test has spawned with
//!   `tokio::spawn` belong to no node, and go on.
//!
//! # Invariants
//!
//! - All randomness is drawn from the seed; two runs of one body with one seed have the same log
//!   and the same result.
//! - A body that panics, waits for something that never happens or takes too long fails with its
//!   seed, its log and the waits of actors.
//! - After `kill`, nothing from the node reaches any other node, and none of its actors handles
//!   another message.

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

/// Runs a body once, with this seed: [`Cluster::seeded`] with default settings. If the variable
/// `RINGPOST_TEST_SEED` is set, runs it with that seed instead.
///
/// # Panics
/// Panics if the run fails, like [`Simulation::run`].
#[track_caller]
pub fn run<T, F>(seed: u64, body: impl FnOnce(Cluster) -> F) -> T
where
    F: Future<Output = T>,
{
    Cluster::seeded(seed).run(body)
}

/// Runs a body once per seed, up to the first that fails. If the variable `RINGPOST_TEST_SEED` is
/// set, runs it with that seed only, and prints the whole log. If `RINGPOST_TEST_CASES` is set,
/// runs it with that number of seeds: the first ones, then the numbers that follow.
/// [`Simulation::check`] does the same with its own time limit and links.
///
/// # Panics
/// Panics if a run fails, like [`Simulation::run`], or if a variable is not a number, or asks for 0
/// seeds.
#[track_caller]
pub fn check<F>(seeds: impl IntoIterator<Item = u64>, body: impl Fn(Cluster) -> F)
where
    F: Future<Output = ()>,
{
    Cluster::seeded(0).check(seeds, body);
}

/// Runs a body once per seed, up to the first that fails, and returns the failure. Environment
/// variables do not change the seeds.
pub fn find<F>(seeds: impl IntoIterator<Item = u64>, body: impl Fn(Cluster) -> F) -> Option<Failure>
where
    F: Future<Output = ()>,
{
    Cluster::seeded(0).find(seeds, body)
}
