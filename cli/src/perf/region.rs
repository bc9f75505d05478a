//! The times and the rates of operations on a region of the other side.
//!
//! All clients write the same bytes to it, so that a row can check the bytes it reads even if
//! others measure at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::figures::{PATIENCE, Row, WARM_UP};
use super::latency::{Repeated, repeat};
use super::measurement::Operation;
use super::rate::{Peak, alarm};
use crate::failure::Failure;
use crate::service::Regions;

/// The words for each atomic operation: two rows must not change the same one.
const ADDED_TO: usize = 0;
const EXCHANGED: usize = 1;

/// The use that one task makes of the region: one operation, again and again.
struct User {
    regions: Regions,
    operation: Operation,
    /// The bytes that it writes, or has read last.
    bytes: Vec<u8>,
    /// The least that its word can be.
    word: u64,
}

/// Does an operation for some time, one after the other.
///
/// # Errors
/// [`Failure`] when an operation fails, or leaves wrong contents.
pub(super) async fn latency(
    regions: &Regions,
    operation: Operation,
    bytes: usize,
    time: Duration,
) -> Result<Row, Failure> {
    let row = async {
        let mut user = User::new(regions, operation, bytes).await?;
        repeat(&mut user, time.mul_f64(WARM_UP)).await?;
        let mut times = repeat(&mut user, time).await?;
        user.check().await?;
        Ok(Row::of_times(bytes, &mut times))
    };
    in_time(time, row).await
}

/// Does an operation for some time by several tasks.
///
/// # Errors
/// As of [`latency`].
pub(super) async fn rate(
    regions: &Regions,
    operation: Operation,
    (bytes, tasks): (usize, usize),
    time: Duration,
) -> Result<Row, Failure> {
    let row = async {
        let mut users = Vec::with_capacity(tasks);
        for _ in 0..tasks {
            users.push(User::new(regions, operation, bytes).await?);
        }
        let Done { users, .. } = operate(users, time.mul_f64(WARM_UP)).await?;
        let Done { mut users, count, seconds, peak } = operate(users, time).await?;
        for user in &mut users {
            user.check().await?;
        }
        Ok(Row::of_rate((bytes, tasks), count, seconds, peak))
    };
    in_time(time, row).await
}

/// Awaits a row that takes some time and a warm-up, for that and [`PATIENCE`] at most.
async fn in_time(
    time: Duration,
    row: impl Future<Output = Result<Row, Failure>>,
) -> Result<Row, Failure> {
    let limit = time.mul_f64(1.0 + WARM_UP) + PATIENCE;
    let row = tokio::time::timeout(limit, row).await;
    row.unwrap_or(Err(Failure::Stalled { limit }))
}

/// The work that some tasks have done.
struct Done {
    users: Vec<User>,
    /// Their operations.
    count: u64,
    seconds: f64,
    /// The best rate between two looks.
    peak: f64,
}

/// Runs the operations of each user for some time, in a task of its own.
async fn operate(users: Vec<User>, time: Duration) -> Result<Done, Failure> {
    let is_over = alarm(time);
    let count = Arc::new(AtomicU64::new(0));
    let (start, mut peak) = (Instant::now(), Peak::from(0, time));
    let mut tasks = JoinSet::new();
    for mut user in users {
        let (is_over, count) = (is_over.clone(), count.clone());
        tasks.spawn(async move {
            loop {
                user.once().await?;
                count.fetch_add(1, Ordering::Relaxed);
                if is_over.load(Ordering::Relaxed) {
                    return Ok::<_, Failure>((user, Instant::now()));
                }
            }
        });
    }
    let (mut users, mut end) = (Vec::new(), start);
    loop {
        tokio::select! {
            biased;
            done = tasks.join_next() => {
                let Some(done) = done else { break };
                let (user, at) = done.map_err(std::io::Error::other)??;
                users.push(user);
                end = end.max(at);
            }
            () = tokio::time::sleep(peak.look_after) => peak.look(count.load(Ordering::Relaxed)),
        }
    }
    let (count, seconds) = (count.load(Ordering::Relaxed), (end - start).as_secs_f64());
    Ok(Done { users, count, seconds, peak: peak.best() })
}

impl User {
    /// Returns a user; for reads it writes the bytes that are to be read.
    async fn new(regions: &Regions, operation: Operation, bytes: usize) -> Result<Self, Failure> {
        let regions = regions.clone();
        let mut user = User { regions, operation, bytes: written(bytes), word: 0 };
        if operation == Operation::Read {
            user.regions.bytes.write(0, &user.bytes).await?;
            user.bytes.fill(0);
        }
        Ok(user)
    }

    /// Takes the word as it was found, and the least that it is now: words only grow.
    fn found(&mut self, found: u64, now: u64) -> Result<(), Failure> {
        if found < self.word {
            return Err(Failure::WrongWord { found, least: self.word });
        }
        self.word = now;
        Ok(())
    }

    /// Checks the bytes of the last read, or reads and checks the written bytes.
    async fn check(&mut self) -> Result<(), Failure> {
        match self.operation {
            Operation::Read => {}
            Operation::Write => {
                self.bytes.fill(0);
                let region = &self.regions.bytes;
                region.read_into(..self.bytes.len(), &mut self.bytes).await?;
            }
            Operation::FetchAdd | Operation::CompareExchange => return Ok(()),
        }
        let expected = written(self.bytes.len());
        let differs = self.bytes.iter().zip(&expected).position(|(found, it)| found != it);
        differs.map_or(Ok(()), |at| Err(Failure::WrongBytes { at }))
    }
}

impl Repeated for User {
    async fn once(&mut self) -> Result<(), Failure> {
        let Regions { bytes: region, words } = &self.regions;
        match self.operation {
            Operation::Read => Ok(region.read_into(..self.bytes.len(), &mut self.bytes).await?),
            Operation::Write => Ok(region.write(0, &self.bytes).await?),
            Operation::FetchAdd => {
                let found = words.fetch_add(ADDED_TO, 1).await?;
                self.found(found, found.wrapping_add(1))
            }
            Operation::CompareExchange => {
                let (old, new) = (self.word, self.word.wrapping_add(1));
                match words.compare_exchange(EXCHANGED, old, new).await? {
                    Ok(found) => self.found(found, new),
                    // The first one finds what earlier rows left; others may measure as well.
                    Err(found) => self.found(found, found),
                }
            }
        }
    }
}

/// Returns the first bytes of what all write to the region. None is zero, as those are that were
/// never written, and pieces of a power of two are not alike.
fn written(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| 1 + (at % 251) as u8).collect()
}
