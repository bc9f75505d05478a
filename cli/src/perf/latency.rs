//! The times of operations that follow each other without a pause.

use std::time::{Duration, Instant};

use ringpost::prelude::*;

use super::figures::{Figures, Latency, PATIENCE, Row, WARM_UP};
use crate::dial::Sinks;
use crate::failure::Failure;
use crate::service::{Mirror, Sink};

/// Asks one sink for some time, one ask after the other.
///
/// # Errors
/// [`Failure`] when an ask is not answered, or wrongly.
pub(super) async fn measure(sinks: &Sinks, bytes: usize, time: Duration) -> Result<Row, Failure> {
    let sink = &sinks.sinks[0];
    let payload = vec![7; bytes];
    let start = Instant::now();
    while start.elapsed() < time.mul_f64(WARM_UP) {
        ask(sink, &payload).await?;
    }
    let mut times = Vec::new();
    let start = Instant::now();
    let mut last = start;
    while times.is_empty() || last - start < time {
        ask(sink, &payload).await?;
        let now = Instant::now();
        times.push(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX));
        last = now;
    }
    Ok(Row {
        bytes,
        senders: 1,
        iterations: times.len() as u64,
        seconds: (last - start).as_secs_f64(),
        figures: Figures::LatencyUs(Latency::of(&mut times)),
    })
}

async fn ask(sink: &ActorRef<Sink>, payload: &[u8]) -> Result<(), Failure> {
    let answer = sink.ask(Mirror { payload: payload.to_vec() }).timeout(PATIENCE).await?;
    let (got, expected) = (answer.len(), payload.len());
    if got == expected { Ok(()) } else { Err(Failure::WrongAnswer { got, expected }) }
}
