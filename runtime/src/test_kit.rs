//! Nodes on a simulated network with virtual time, faults drawn from a seed, and probes: for tests
//! of programs that use this crate. Behind the cargo feature `test-kit`:
//!
//! ```toml
//! [dev-dependencies]
//! # From the same source as under `[dependencies]`.
//! ringpost = { path = "../ringpost/runtime", features = ["test-kit"] }
//! ```
//!
//! A test is a body that gets a [`Cluster`]. [`check`] runs it once for each seed: messages take
//! other times and come in other orders with each. A seed that fails, by a panic or since the body
//! does not end, is named in the message of the test, with the end of the log of what happened and
//! the command that replays it:
//!
//! ```text
//! seed 12: the body panicked: assertion `left == right` failed: a coupon was paid out twice ...
//! The end of the log, in nanoseconds of virtual time:
//!   151337 alpha: linked to beta
//!   ...
//! To replay it with the whole log:
//!   RINGPOST_SEED=12 cargo test coupons::one_is_paid_out_once -- --exact --nocapture
//! ```
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
//! # What is simulated, and what is not
//!
//! - Simulated: the network between nodes of the cluster, all timers of tokio (`sleep`, `timeout`,
//!   `Instant`), the deadlines of asks, heartbeats, the pauses before restarts and dials. Nodes run
//!   the same code as elsewhere, but for the sockets.
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
/// `RINGPOST_SEED` it runs with that seed instead.
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

/// Runs a body once for each seed, up to the first that fails. With the variable `RINGPOST_SEED` it
/// runs with that seed only, and prints the whole log.
///
/// # Panics
/// When one fails, as [`Simulation::run`] does.
#[track_caller]
pub fn check<F>(seeds: impl IntoIterator<Item = u64>, body: impl Fn(Cluster) -> F)
where
    F: Future<Output = ()>,
{
    if simulation::replayed_seed().is_some() {
        return run(0, &body);
    }
    if let Some(failure) = find(seeds, body) {
        panic!("{failure}");
    }
}

/// Runs a body once for each seed, up to the first that fails, and returns how.
pub fn find<F>(seeds: impl IntoIterator<Item = u64>, body: impl Fn(Cluster) -> F) -> Option<Failure>
where
    F: Future<Output = ()>,
{
    seeds.into_iter().find_map(|seed| Cluster::seeded(seed).try_run(&body).err())
}
