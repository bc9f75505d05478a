//! Runs a body once in a simulated world, and says how it failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ringpost_transport::fabric::sim::{self, LinkModel};

use super::cluster::Cluster;
use super::failure::{Failure, FailureCause, SEED_VARIABLE};
use crate::actor::message_of;

/// Virtual time that a body may take, unless the simulation says otherwise.
const LIMIT: Duration = Duration::from_secs(600);

/// One run of a body, described. Made by [`Cluster::seeded`].
#[derive(Debug, Clone)]
#[must_use = "nothing runs before `run`"]
pub struct Simulation {
    seed: u64,
    limit: Duration,
    links: LinkModel,
}

impl Cluster {
    /// Describes a run in which all chance is drawn from this seed.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use ringpost::test_kit::Cluster;
    ///
    /// let passed = Cluster::seeded(7).run(|cluster| async move {
    ///     let [alpha, beta] = [cluster.node("alpha").await, cluster.node("beta").await];
    ///     assert_eq!(alpha.linked(), [beta.id().clone()]);
    ///     cluster.sleep(Duration::from_secs(60)).await;
    ///     cluster.now()
    /// });
    /// assert!(passed >= Duration::from_secs(60));
    /// ```
    pub fn seeded(seed: u64) -> Simulation {
        Simulation { seed, limit: LIMIT, links: usual_links() }
    }
}

/// The links of an ordinary data centre, over which words of two nodes often change places.
fn usual_links() -> LinkModel {
    LinkModel {
        latency: Duration::from_micros(100),
        jitter: Duration::from_micros(100),
        bytes_per_second: 1_250_000_000,
        ..LinkModel::default()
    }
}

impl Simulation {
    /// Bounds the virtual time that the body may take, to less than a year: 10 minutes when not
    /// set. A body that waits for what never comes fails so, since nodes exchange heartbeats for
    /// ever.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets how fast links are: when not set, those of an ordinary data centre, 100 to 200 us and
    /// 10 Gb/s.
    pub fn links(mut self, links: LinkModel) -> Self {
        self.links = links;
        self
    }

    /// Runs the body. Of the variable `RINGPOST_SEED` the seed is taken instead, if it is set, and
    /// then the whole log is printed.
    ///
    /// # Panics
    /// When the body panics, is deadlocked or takes longer than its limit: with the seed, the end
    /// of the log, and how to replay it ([`Failure`]).
    #[track_caller]
    pub fn run<T, F>(mut self, body: impl FnOnce(Cluster) -> F) -> T
    where
        F: Future<Output = T>,
    {
        let replayed = replayed_seed();
        self.seed = replayed.unwrap_or(self.seed);
        let (ran, log) = self.attempt(body);
        if replayed.is_some() {
            eprintln!("the log of seed {}:\n{log}", self.seed);
        }
        ran.unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Runs the body, and returns how it failed.
    ///
    /// # Errors
    /// [`Failure`] when the body panics, is deadlocked or takes longer than its limit.
    pub fn try_run<T, F>(&self, body: impl FnOnce(Cluster) -> F) -> Result<T, Failure>
    where
        F: Future<Output = T>,
    {
        self.attempt(body).0
    }

    /// Runs the body. Returns the whole log, too.
    fn attempt<T, F>(&self, body: impl FnOnce(Cluster) -> F) -> (Result<T, Failure>, String)
    where
        F: Future<Output = T>,
    {
        let cluster = Cluster::new(self.seed, self.links);
        let seen = Arc::new(Mutex::new((String::new(), Vec::new())));
        let observed = async {
            let mut body = pin!(body(cluster.clone()));
            // Dropped before the body, wherever that ends: what waits is still there.
            let _witness = Witness { cluster: cluster.clone(), seen: seen.clone() };
            body.as_mut().await
        };
        let run = || sim::try_run(cluster.world(), self.limit, observed);
        let cause = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(value)) => return (Ok(value), std::mem::take(&mut seen.lock().0)),
            Ok(Err(sim::Stall::OverLimit(limit))) => FailureCause::OverLimit(limit),
            Ok(Err(_)) => FailureCause::Deadlock,
            Err(panic) => FailureCause::Panicked(message_of(&*panic).to_string()),
        };
        let (log, waits) = std::mem::take(&mut *seen.lock());
        (Err(Failure::new(self.seed, cause, log.clone(), waits)), log)
    }
}

/// Notes the log and what actors wait for when a body ends, and gives the nodes up. The tasks that
/// are left end after that in any order, which is no part of the log.
struct Witness {
    cluster: Cluster,
    seen: Arc<Mutex<(String, Vec<String>)>>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        *self.seen.lock() = (self.cluster.log_text(), self.cluster.waits());
        self.cluster.forget();
    }
}

/// Returns the seed that the environment names.
///
/// # Panics
/// When it names none, but something else.
pub(super) fn replayed_seed() -> Option<u64> {
    let text = std::env::var(SEED_VARIABLE).ok()?;
    match text.trim().parse() {
        Ok(seed) => Some(seed),
        Err(_) => panic!("{SEED_VARIABLE} is `{text}`, which is no seed: set it to a number"),
    }
}
