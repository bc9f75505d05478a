//! Measurements of Ringpost alone: replies beside bulk on one link, and a tell that waits.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringpost::prelude::*;
use ringpost_benches::Failure;
use ringpost_benches::beside::Askers;
use ringpost_benches::clock::{WARM_UP, percentile_us, process_cpu};
use ringpost_benches::figure::Sharing;
use ringpost_benches::serve::runtime;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{Block, PATIENCE, Remote, of};

/// More than a slot, so it is cut into fragments as bulk is.
const REPLY_BYTES: u64 = 9 << 10;
/// Time from one ask to the next, unless the answer takes longer. Asks without a pause would be
/// mostly of the moments at which they are fast.
const ASKED_EVERY: Duration = Duration::from_millis(5);
/// A tell beside which replies are measured.
const LARGE_BYTES: u64 = 60 << 20;
/// A tell that is measured beside replies, and such a reply.
const BULK_BYTES: u64 = 1 << 20;
const BULK_REPLY_BYTES: u64 = 100 << 10;
/// A tell for which a mailbox has no room while anything waits in it.
const WAITING_BYTES: usize = 64 << 20;
const TICK: Duration = Duration::from_millis(1);

/// An actor of the server that gives bytes back, tells them, or stands still.
#[actor]
#[derive(Default)]
pub(crate) struct Giver;

#[handlers]
impl Giver {
    /// Answers with `bytes` bytes.
    #[handler]
    fn give(&self, bytes: u64) -> Vec<u8> {
        vec![7; bytes as usize]
    }

    /// Begins to tell blocks of `bytes` bytes, one after the other, until a tell fails: by a task
    /// of this runtime or, if `apart`, on a thread and a runtime of their own.
    #[handler]
    fn pour(&self, bytes: u64, apart: bool, to: ActorRef<Sink>) {
        let pouring = async move {
            while to.tell(Block { payload: vec![7; bytes as usize] }).await.is_ok() {}
        };
        if apart {
            thread::spawn(move || runtime(1).map(|runtime| runtime.block_on(pouring)));
        } else {
            tokio::spawn(pouring);
        }
    }

    /// Never ends.
    #[handler]
    async fn stand(&mut self) {
        std::future::pending().await
    }

    #[handler]
    fn block(&self, msg: View<Block>) {
        debug_assert!(!msg.payload.is_empty());
    }
}

/// An actor of the measuring process that counts blocks.
#[actor]
pub(crate) struct Sink(Arc<AtomicU64>);

#[handlers]
impl Sink {
    #[handler]
    fn block(&mut self, msg: View<Block>) {
        self.0.fetch_add(u64::from(!msg.payload.is_empty()), Ordering::Relaxed);
    }
}

/// Asks the server to tell blocks of `bytes` bytes to this process. Returns, after the first block,
/// the counter of handled blocks, which keeps growing.
async fn pour(remote: &Remote, bytes: u64, apart: bool) -> Result<Arc<AtomicU64>, Failure> {
    let handled = Arc::new(AtomicU64::new(0));
    let sink = remote.node.spawn("sink", Sink(handled.clone())).await.map_err(Failure::of)?;
    remote
        .giver
        .tell(Pour { bytes, apart, to: sink })
        .await
        .map_err(|e| of(e.without_message()))?;
    let first = async {
        while handled.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(TICK).await;
        }
    };
    timeout(PATIENCE, first).await.map_err(|_| Failure::Failed("no block came".into()))?;
    Ok(handled)
}

async fn give(giver: &ActorRef<Giver>, bytes: u64) -> Result<(), Failure> {
    let given = giver.give(bytes).timeout(PATIENCE).await.map_err(of)?;
    let right = given.len() as u64 == bytes;
    right.then_some(()).ok_or_else(|| Failure::Failed("an answer is wrong".into()))
}

/// Asks for replies, one each [`ASKED_EVERY`], beside a stream of large tells or not. Returns the
/// 99th percentile of their times, in microseconds.
pub(super) async fn replies(
    remote: &Remote,
    beside: Sharing,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let handled = match beside {
        Sharing::Nothing | Sharing::Strangers => None,
        Sharing::Link => Some(pour(remote, LARGE_BYTES, true).await?),
        Sharing::Workers => Some(pour(remote, LARGE_BYTES, false).await?),
    };
    let beside = handled.is_some();
    let blocks = || handled.as_ref().map_or(0, |handled| handled.load(Ordering::Relaxed));
    let start = Instant::now();
    while start.elapsed() < time.mul_f64(WARM_UP) {
        give(&remote.giver, REPLY_BYTES).await?;
    }
    let (before, start) = (blocks(), Instant::now());
    let (mut due, mut times) = (start, Vec::new());
    // Most times say nothing where no large tell was under way.
    while start.elapsed() < time || (beside && blocks() == before && start.elapsed() < PATIENCE) {
        tokio::time::sleep_until(due.into()).await;
        let asked = Instant::now();
        give(&remote.giver, REPLY_BYTES).await?;
        times.push(asked.elapsed());
        due = asked + ASKED_EVERY;
    }
    if beside && blocks() == before {
        return Err(Failure::Failed("no large tell came beside the replies".into()));
    }
    Ok(vec![percentile_us(&mut times, 99)])
}

/// Returns the tells per second that come from the server beside replies that come from it, and
/// those replies per second.
pub(super) async fn bulk(remote: &Remote, time: Duration) -> Result<Vec<f64>, Failure> {
    let giver = remote.giver.clone();
    let askers = Askers::start(move || {
        let giver = giver.clone();
        async move { give(&giver, BULK_REPLY_BYTES).await }
    });
    let handled = pour(remote, BULK_BYTES, false).await?;
    tokio::time::sleep(time.mul_f64(WARM_UP)).await;
    let (before, start) = (handled.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(time).await;
    let tells = handled.load(Ordering::Relaxed) - before;
    let per_second = tells as f64 / start.elapsed().as_secs_f64();
    Ok(vec![per_second, askers.stop().await?])
}

/// Returns the processor time of this process in percent of a core, while a tell waits in a
/// `select!` that ticks; and while nothing waits in one.
pub(super) async fn ticking(remote: &Remote, time: Duration) -> Result<Vec<f64>, Failure> {
    let quiet = percent(std::future::pending::<()>(), time).await?;
    remote.giver.tell(Stand {}).await.map_err(|e| of(e.without_message()))?;
    let small = remote.giver.tell(Block { payload: vec![7] }).await;
    small.map_err(|error| of(error.without_message()))?;
    let told = remote.giver.tell(Block { payload: vec![7; WAITING_BYTES] });
    let waiting = percent(told.into_future(), time).await?;
    Ok(vec![waiting, quiet])
}

/// Polls a future at each tick for some time. Returns the processor time that this process used, in
/// percent of a core.
async fn percent<T>(never: impl Future<Output = T>, time: Duration) -> Result<f64, Failure> {
    let mut never = pin!(never);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut used, mut counted) = (process_cpu(), Instant::now());
    // A tell that waits is archived in the warm-up.
    for time in [time.mul_f64(WARM_UP), time] {
        (used, counted) = (process_cpu(), Instant::now());
        while counted.elapsed() < time {
            tokio::select! {
                _ = &mut never => return Err(Failure::Failed("the tell did not wait".into())),
                _ = ticks.tick() => {}
            }
        }
    }
    let used = (process_cpu() - used).as_secs_f64();
    Ok(100.0 * used / counted.elapsed().as_secs_f64())
}
