//! The times of operations that follow each other without a pause.

use std::time::{Duration, Instant};

use ringpost::prelude::*;

use super::figures::{Fetches, PATIENCE, Row, WARM_UP};
use crate::dial::{Link, Sinks};
use crate::failure::Failure;
use crate::service::{Mirror, Sink};

/// Asks one sink for some time, one ask after the other.
///
/// # Errors
/// [`Failure`] when an ask is not answered, or wrongly.
pub(super) async fn measure(
    link: &Link,
    sinks: &Sinks,
    bytes: usize,
    time: Duration,
) -> Result<Row, Failure> {
    let mut asks = Asks { sink: &sinks.sinks[0], payload: vec![7; bytes] };
    repeat(&mut asks, time.mul_f64(WARM_UP)).await?;
    let before = link.fetches(sinks, bytes).await?;
    let mut times = repeat(&mut asks, time).await?;
    let after = link.fetches(sinks, bytes).await?;
    let row = Row::of_times(bytes, &mut times);
    // Each is a message and an answer of the same size.
    Ok(Row { fetches: Fetches::between(before, after, 2 * row.iterations), ..row })
}

/// Asks of one sink.
struct Asks<'a> {
    sink: &'a ActorRef<Sink>,
    payload: Vec<u8>,
}

impl Repeated for Asks<'_> {
    async fn once(&mut self) -> Result<(), Failure> {
        let message = Mirror { payload: self.payload.clone() };
        let answer = self.sink.ask(message).timeout(PATIENCE).await?;
        let (got, expected) = (answer.len(), self.payload.len());
        if got == expected { Ok(()) } else { Err(Failure::WrongAnswer { got, expected }) }
    }
}

/// Something that is done again and again.
pub(super) trait Repeated {
    /// Does it once.
    fn once(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Does one thing for some time, once at least, and returns the time that each took, in
/// nanoseconds. There is no pause between them: their sum is the time of all.
pub(super) async fn repeat(
    repeated: &mut impl Repeated,
    time: Duration,
) -> Result<Vec<u64>, Failure> {
    let mut times = Vec::new();
    let start = Instant::now();
    let mut last = start;
    while times.is_empty() || last - start < time {
        repeated.once().await?;
        let now = Instant::now();
        times.push(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX));
        last = now;
    }
    Ok(times)
}
