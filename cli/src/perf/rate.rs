//! The rates at which messages go through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringpost::prelude::*;
use tokio::task::JoinSet;

use super::figures::{Figures, PATIENCE, Rate, Row, WARM_UP};
use crate::dial::Sinks;
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
pub(super) async fn measure(sinks: &Sinks, bytes: usize, time: Duration) -> Result<Row, Failure> {
    let warm = send(sinks, &vec![0; sinks.sinks.len()], bytes, time.mul_f64(WARM_UP)).await?;
    let Sent { start, end, counts, peak } = send(sinks, &warm.counts, bytes, time).await?;
    let iterations = counts.iter().sum::<u64>() - warm.counts.iter().sum::<u64>();
    let seconds = (end - start).as_secs_f64();
    let messages = iterations as f64 / seconds;
    // A row that is shorter than a look has no other peak.
    let peak_messages = peak.max(messages);
    let rate = Rate {
        messages,
        peak_messages,
        bytes: messages * bytes as f64,
        peak_bytes: peak_messages * bytes as f64,
    };
    let senders = sinks.sinks.len();
    Ok(Row { bytes, senders, iterations, seconds, figures: Figures::PerSecond(rate) })
}

/// What the tasks of all sinks have sent, all of which was handled.
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
    let look_after = (time / 10).clamp(LOOK_MIN, LOOK_MAX);
    let (mut end, mut peak) = (start, 0.0_f64);
    let mut last = (start, earlier.iter().sum::<u64>());
    loop {
        tokio::select! {
            biased;
            sent = tasks.join_next() => {
                let Some(sent) = sent else { break };
                let (number, sent, at) = sent.map_err(std::io::Error::other)??;
                counts[number] = sent;
                end = end.max(at);
            }
            () = tokio::time::sleep(look_after) => {
                let now = (sinks.meter.level().timeout(PATIENCE).await?, Instant::now());
                let rate = (now.0 - last.1) as f64 / (now.1 - last.0).as_secs_f64();
                peak = peak.max(rate);
                last = (now.1, now.0);
            }
        }
    }
    Ok(Sent { start, end, counts, peak })
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
fn alarm(time: Duration) -> Arc<AtomicBool> {
    let is_over = Arc::new(AtomicBool::new(false));
    let set = is_over.clone();
    thread::spawn(move || {
        thread::sleep(time);
        set.store(true, Ordering::Relaxed);
    });
    is_over
}
