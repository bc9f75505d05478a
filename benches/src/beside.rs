//! Tasks beside each other: asks that never stop beside large tells, and the sum of what tasks did.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use tokio::task::JoinSet;

use crate::failure::Failure;

/// Tasks that ask, each with one ask on its way.
pub const ASKERS: usize = 32;

/// Tasks that ask until they are stopped.
#[derive(Debug)]
pub struct Askers {
    tasks: JoinSet<Result<u64, Failure>>,
    answers: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    start: Instant,
}

impl Askers {
    /// Starts [`ASKERS`] tasks, each of which runs the future that `ask` makes again and again.
    pub fn start<F>(ask: impl Fn() -> F + Clone + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), Failure>> + Send,
    {
        let (answers, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::new();
        for _ in 0..ASKERS {
            let (ask, answers, over) = (ask.clone(), answers.clone(), over.clone());
            tasks.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    ask().await?;
                    answers.fetch_add(1, Ordering::Relaxed);
                }
                Ok(0)
            });
        }
        Askers { tasks, answers, over, start: Instant::now() }
    }

    /// Stops the tasks. Returns the answers per second since the start.
    ///
    /// # Errors
    /// When an ask failed.
    pub async fn stop(mut self) -> Result<f64, Failure> {
        let answers = self.answers.load(Ordering::Relaxed);
        let per_second = answers as f64 / self.start.elapsed().as_secs_f64();
        self.over.store(true, Ordering::Relaxed);
        sum(&mut self.tasks).await?;
        Ok(per_second)
    }
}

/// Waits for all tasks and returns the sum of their counts.
pub(crate) async fn sum(tasks: &mut JoinSet<Result<u64, Failure>>) -> Result<u64, Failure> {
    let mut total = 0;
    while let Some(counted) = tasks.join_next().await {
        total += counted.map_err(Failure::of)??;
    }
    Ok(total)
}
