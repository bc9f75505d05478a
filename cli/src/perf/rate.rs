//! The rates at which messages go through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringpost::prelude::*;
use tokio::task::JoinSet;

use super::figures::{Fetches, PATIENCE, Row, WARM_UP};
use crate::dial::{Link, Sinks};
use crate::failure::Failure;
use crate::service::{Load, Sink};

/// The times between two looks at what the other side has handled: the shortest one is so long that
/// the way of the look changes little.
const LOOK_MIN: Duration = Duration::from_millis(50);
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Tells all sinks for some time, by a task for each.
///
/// # Errors
/// [`Failure`] when a message is not sent, or the other side has not handled all.
pub(super) async fn measure(
    link: &Link,
    sinks: &Sinks,
    bytes: usize,
    time: Duration,
) -> Result<Row, Failure> {
    let warm = send(sinks, &vec![0; sinks.sinks.len()], bytes, time.mul_f64(WARM_UP)).await?;
    let before = link.fetches(sinks, bytes).await?;
    let Sent { start, end, counts, peak } = send(sinks, &warm.counts, bytes, time).await?;
    let after = link.fetches(sinks, bytes).await?;
    let iterations = counts.iter().sum::<u64>() - warm.counts.iter().sum::<u64>();
    let of = (bytes, sinks.sinks.len());
    let row = Row::of_rate(of, iterations, (end - start).as_secs_f64(), peak);
    Ok(Row { fetches: Fetches::between(before, after, iterations), ..row })
}

/// The best rate between two looks at a count that grows.
pub(super) struct Peak {
    /// The time between two looks.
    pub(super) look_after: Duration,
    last: (Instant, u64),
    best: f64,
}

impl Peak {
    /// Begins at a count, for something that takes some time.
    pub(super) fn from(count: u64, time: Duration) -> Self {
        let look_after = (time / 10).clamp(LOOK_MIN, LOOK_MAX);
        Peak { look_after, last: (Instant::now(), count), best: 0.0 }
    }

    /// Takes the current count.
    pub(super) fn look(&mut self, count: u64) {
        let now = Instant::now();
        let grown = count.saturating_sub(self.last.1) as f64;
        self.best = self.best.max(grown / (now - self.last.0).as_secs_f64());
        self.last = (now, count);
    }

    /// Returns the best rate; 0 where there was no look.
    pub(super) fn best(&self) -> f64 {
        self.best
    }
}

/// Messages that the tasks of all sinks have sent, and that were all handled.
struct Sent {
    start: Instant,
    end: Instant,
    /// Of each sink, the messages that it was ever sent.
    counts: Vec<u64>,
    /// The best rate between two looks.
    peak: f64,
}

/// Sends for some time; each sink has been sent `earlier` messages before.
async fn send(
    sinks: &Sinks,
    earlier: &[u64],
    bytes: usize,
    time: Duration,
) -> Result<Sent, Failure> {
    let mut counts = earlier.to_vec();
    let is_over = alarm(time);
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for (number, sink) in sinks.sinks.iter().cloned().enumerate() {
        let (earlier, is_over) = (earlier[number], is_over.clone());
        tasks.spawn(async move {
            let sent = earlier + tell_until(&sink, &vec![7; bytes], &is_over).await?;
            // Messages of one node to one actor keep their order: this one is behind all.
            let handled = sink.handled().timeout(PATIENCE).await?;
            if handled != sent {
                return Err(Failure::Miscount { sent, handled });
            }
            Ok((number, sent, Instant::now()))
        });
    }
    let (mut end, mut peak) = (start, Peak::from(earlier.iter().sum(), time));
    loop {
        tokio::select! {
            biased;
            sent = tasks.join_next() => {
                let Some(sent) = sent else { break };
                let (number, sent, at) = sent.map_err(std::io::Error::other)??;
                counts[number] = sent;
                end = end.max(at);
            }
            () = tokio::time::sleep(peak.look_after) => {
                peak.look(sinks.meter.level().timeout(PATIENCE).await?);
            }
        }
    }
    Ok(Sent { start, end, counts, peak: peak.best() })
}

/// Returns how many messages it has sent.
async fn tell_until(
    sink: &ActorRef<Sink>,
    payload: &[u8],
    is_over: &AtomicBool,
) -> Result<u64, Failure> {
    let mut sent = 0;
    while sent == 0 || !is_over.load(Ordering::Relaxed) {
        let told = sink.tell(Load { payload: payload.to_vec() }).await;
        told.map_err(TellError::without_message)?;
        sent += 1;
    }
    Ok(sent)
}

/// Returns a flag that a thread of its own sets after `time`: senders that read a clock for each
/// message are slower, and while they send no timer of the runtime need be on time.
pub(super) fn alarm(time: Duration) -> Arc<AtomicBool> {
    let is_over = Arc::new(AtomicBool::new(false));
    let set = is_over.clone();
    thread::spawn(move || {
        thread::sleep(time);
        set.store(true, Ordering::Relaxed);
    });
    is_over
}
