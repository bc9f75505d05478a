//! The workers of a pool, and their jobs.

use std::time::Duration;

use ringpost::prelude::*;
use ringpost::test_kit::Cluster;

use super::book::Book;

#[message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) key: u64,
    pub(super) then: Then,
}

#[message]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Takes so many milliseconds.
    Rest(u64),
    Panic,
}

/// Writes down the jobs that it begins.
#[actor(name = "models::Worker")]
pub(super) struct Worker {
    pub(super) book: Book,
    pub(super) cluster: Cluster,
}

#[handlers]
impl Worker {
    /// Returns the number of the job.
    #[handler]
    async fn job(&mut self, msg: Job, cx: &mut Context<Self>) -> u64 {
        self.book.begin(msg.number, cx.actor().address());
        let (worker, Job { number, then, .. }) = (cx.actor().address(), &msg);
        self.cluster.log(&format!("{worker} begins {number}: {then:?}"));
        match msg.then {
            Then::Rest(0) => {}
            Then::Rest(time) => tokio::time::sleep(Duration::from_millis(time)).await,
            // Without what a panic writes to the terminal.
            Then::Panic => std::panic::resume_unwind(Box::new("as it was told")),
        }
        msg.number
    }

    #[handler]
    pub(super) fn there(&self) -> bool {
        true
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.book.is_gone();
    }
}
