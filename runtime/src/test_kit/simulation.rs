//! Runs a body once in a simulated world, and reports its failure.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ringpost_transport::fabric::sim::{self, LinkModel};
use ringpost_transport::shield;

use super::cluster::Cluster;
use super::failure::{CASES_VARIABLE, Failure, FailureCause, SEED_VARIABLE};
use crate::deadlines;

/// Default limit of virtual time for a body.
const LIMIT: Duration = Duration::from_secs(600);

/// The settings of one run of a body. Created by [`Cluster::seeded`].
#[derive(Debug, Clone)]
#[must_use = "nothing runs before `run`"]
pub struct Simulation {
    seed: u64,
    limit: Duration,
    links: LinkModel,
}

impl Cluster {
    /// Returns the settings of a run in which all randomness is drawn from this seed.
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

/// Returns the links of an ordinary data centre, over which messages of two nodes often overtake
/// each other.
fn usual_links() -> LinkModel {
    LinkModel {
        latency: Duration::from_micros(100),
        jitter: Duration::from_micros(100),
        bytes_per_second: 1_250_000_000,
        ..LinkModel::default()
    }
}

impl Simulation {
    /// Sets the limit of virtual time for the body, less than a year: 10 minutes by default. A body
    /// that waits for something that never happens fails at this limit, because nodes exchange
    /// heartbeats forever.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the speed of links; by default as in an ordinary data centre, 100 to 200 us and 10
    /// Gb/s.
    pub fn links(mut self, links: LinkModel) -> Self {
        self.links = links;
        self
    }

    /// Runs the body. If the variable `RINGPOST_TEST_SEED` is set, uses its seed instead, and
    /// prints the whole log.
    ///
    /// # Panics
    /// Panics if the body panics, deadlocks or exceeds its limit. The message contains the seed,
    /// the end of the log, and the command to replay it ([`Failure`]).
    #[track_caller]
    pub fn run<T, F>(mut self, body: impl FnOnce(Cluster) -> F) -> T
    where
        F: Future<Output = T>,
    {
        let replayed = number_of(SEED_VARIABLE);
        self.seed = replayed.unwrap_or(self.seed);
        let (ran, log) = self.attempt(body);
        if replayed.is_some() {
            shield::run(|| eprintln!("the log of seed {}:\n{log}", self.seed));
        }
        match ran {
            Ok(value) => value,
            // (Not a closure, because the panic would have its location instead of the caller's.)
            Err(failure) => panic!("{failure}"),
        }
    }

    /// Runs the body, and returns its failure, if any.
    ///
    /// # Errors
    /// [`Failure`] if the body panics, deadlocks or exceeds its limit.
    pub fn try_run<T, F>(&self, body: impl FnOnce(Cluster) -> F) -> Result<T, Failure>
    where
        F: Future<Output = T>,
    {
        self.attempt(body).0
    }

    /// Runs the body once per seed in `seeds`, up to the first that fails: [`check`](super::check)
    /// with a limit and links of its own.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use ringpost::test_kit::Cluster;
    ///
    /// let minute = Duration::from_secs(60);
    /// Cluster::seeded(0).limit(minute).check(0..10, |cluster| async move {
    ///     cluster.nodes(2).await;
    /// });
    /// ```
    ///
    /// # Panics
    /// Panics if a run fails, like [`run`](Self::run), or if a variable is not a number, or asks
    /// for 0 seeds.
    #[track_caller]
    pub fn check<F>(&self, seeds: impl IntoIterator<Item = u64>, body: impl Fn(Cluster) -> F)
    where
        F: Future<Output = ()>,
    {
        if number_of(SEED_VARIABLE).is_some() {
            return self.clone().run(&body);
        }
        let seeds = counted(seeds.into_iter(), count_of(CASES_VARIABLE));
        if let Some(failure) = self.find(seeds, body) {
            panic!("{failure}");
        }
    }

    /// Runs the body once per seed in `seeds`, up to the first that fails, and returns the failure.
    pub fn find<F>(
        &self,
        seeds: impl IntoIterator<Item = u64>,
        body: impl Fn(Cluster) -> F,
    ) -> Option<Failure>
    where
        F: Future<Output = ()>,
    {
        let with = |seed| Simulation { seed, ..self.clone() };
        seeds.into_iter().find_map(|seed| with(seed).try_run(&body).err())
    }

    /// Runs the body. Returns the whole log, too.
    fn attempt<T, F>(&self, body: impl FnOnce(Cluster) -> F) -> (Result<T, Failure>, String)
    where
        F: Future<Output = T>,
    {
        deadlines::keep_no_entries();
        let cluster = Cluster::new(self.seed, self.links);
        let seen = Arc::new(Mutex::new((String::new(), Vec::new())));
        let observed = async {
            let mut body = pin!(body(cluster.clone()));
            // Dropped before the body, wherever that ends, so pending waits still exist.
            let _witness = RunRecorder { cluster: cluster.clone(), seen: seen.clone() };
            body.as_mut().await
        };
        let run = || sim::try_run(cluster.world(), self.limit, observed);
        let cause = match shield::catch(run) {
            Ok(Ok(value)) => return (Ok(value), std::mem::take(&mut seen.lock().0)),
            Ok(Err(sim::Stall::OverLimit(limit))) => FailureCause::OverLimit(limit),
            Ok(Err(_)) => FailureCause::Deadlock,
            Err(panic) => FailureCause::Panicked(panic.to_string()),
        };
        let (log, waits) = std::mem::take(&mut *seen.lock());
        (Err(Failure::new(self.seed, cause, log.clone(), waits)), log)
    }
}

/// Records the log and the waits of actors when a body ends, and drops the nodes. After that, the
/// remaining tasks end in any order, which the log does not contain.
struct RunRecorder {
    cluster: Cluster,
    seen: Arc<Mutex<(String, Vec<String>)>>,
}

impl Drop for RunRecorder {
    fn drop(&mut self) {
        *self.seen.lock() = (self.cluster.log_text(), self.cluster.waits());
        self.cluster.forget();
    }
}

/// Returns the number in an environment variable, or `None` if it is not set.
///
/// # Panics
/// Panics if it contains something else.
fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    match text.trim().parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{variable} is `{text}`, which is no number: set it to one, or unset it"),
    }
}

/// Returns the count in an environment variable, or `None` if it is not set.
///
/// # Panics
/// Panics if it contains something else, or 0, with which each check would pass without a run.
fn count_of(variable: &str) -> Option<u64> {
    let count = number_of(variable);
    let is_none = count == Some(0);
    assert!(!is_none, "{variable} is 0, so nothing would be run: set it to 1 or more, or unset it");
    count
}

/// Returns these seeds; with a count, that number of seeds: the first ones, and then the numbers
/// after the greatest of them.
fn counted(seeds: impl Iterator<Item = u64>, count: Option<u64>) -> impl Iterator<Item = u64> {
    let (mut seeds, mut next, mut left) = (seeds.fuse(), 0, count);
    std::iter::from_fn(move || {
        left = match left {
            Some(0) => return None,
            left => left.map(|left| left - 1),
        };
        let seed = seeds.next().or(left.map(|_| next))?;
        next = next.max(seed.saturating_add(1));
        Some(seed)
    })
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn a_count_has_fewer_seeds_run_or_more() {
        let seeds = |count| counted([5, 3].into_iter(), count).collect::<Vec<_>>();
        assert_eq!(seeds(None), [5, 3]);
        assert!(seeds(Some(0)).is_empty());
        assert_eq!(seeds(Some(1)), [5]);
        assert_eq!(seeds(Some(4)), [5, 3, 6, 7]);
        assert_eq!(counted(0..u64::MAX, Some(3)).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
