//! The figures of a row, which are both printed and written as JSON.

use std::time::Duration;

use serde::Serialize;

use crate::service::Fetched;

/// The share of its time that a row sends before it counts.
pub(super) const WARM_UP: f64 = 0.25;

/// The time that an answer may take: on a slow path much is on its way before it.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The results of one payload and one number of senders.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) bytes: usize,
    pub(crate) senders: usize,
    /// Operations that were measured.
    pub(crate) iterations: u64,
    /// The time that they took together.
    pub(crate) seconds: f64,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// How they came, where they are large messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fetches: Option<Fetches>,
}

/// How the large messages of a row came: fetched by the receiver's device, or else in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Fetches {
    /// Messages of the row, its answers among them.
    pub(crate) messages: u64,
    /// Messages that the receiver's device read from the sender's memory.
    pub(crate) fetched: u64,
    /// Messages that were offered to the device, but came in parts after all.
    pub(crate) refused: u64,
}

impl Row {
    /// Returns the row of one task, whose operations took `times`, each in nanoseconds.
    pub(super) fn of_times(bytes: usize, times: &mut [u64]) -> Self {
        let seconds = times.iter().sum::<u64>() as f64 / 1e9;
        let iterations = times.len() as u64;
        let figures = Figures::LatencyUs(Latency::of(times));
        Row { bytes, senders: 1, iterations, seconds, figures, fetches: None }
    }

    /// Returns the row of `iterations` operations by `senders` tasks. `peak` is their best rate.
    pub(super) fn of_rate(
        (bytes, senders): (usize, usize),
        iterations: u64,
        seconds: f64,
        peak: f64,
    ) -> Self {
        let messages = iterations as f64 / seconds;
        // A row that is shorter than a look has no other peak.
        let peak_messages = peak.max(messages);
        let rate = Rate {
            messages,
            peak_messages,
            bytes: messages * bytes as f64,
            peak_bytes: peak_messages * bytes as f64,
        };
        let figures = Figures::PerSecond(rate);
        Row { bytes, senders, iterations, seconds, figures, fetches: None }
    }
}

impl Fetches {
    /// Returns how `messages` messages came between two counts, if they were counted.
    pub(super) fn between(
        before: Option<Fetched>,
        after: Option<Fetched>,
        messages: u64,
    ) -> Option<Self> {
        let (before, after) = (before?, after?);
        Some(Fetches {
            messages,
            fetched: after.fetched.saturating_sub(before.fetched),
            refused: after.refused.saturating_sub(before.refused),
        })
    }
}

/// The figures of a row.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figures {
    LatencyUs(Latency),
    PerSecond(Rate),
}

/// A distribution of times, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Latency {
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// The median.
    pub(crate) typical: f64,
    pub(crate) average: f64,
    pub(crate) stdev: f64,
    pub(crate) p99: f64,
    pub(crate) p99_9: f64,
}

impl Latency {
    /// Returns the distribution of times in nanoseconds, of which there is at least one.
    pub(super) fn of(times: &mut [u64]) -> Self {
        times.sort_unstable();
        let micros = |time: &u64| *time as f64 / 1000.0;
        let count = times.len() as f64;
        // The index of the smallest time that at least this share of all times does not exceed.
        let rank = |share: f64| ((share * count).ceil() as usize).clamp(1, times.len()) - 1;
        let at = |share: f64| micros(&times[rank(share)]);
        let average = times.iter().map(micros).sum::<f64>() / count;
        let variance = times.iter().map(|it| (micros(it) - average).powi(2)).sum::<f64>() / count;
        Latency {
            min: at(0.0),
            max: at(1.0),
            typical: at(0.5),
            average,
            stdev: variance.sqrt(),
            p99: at(0.99),
            p99_9: at(0.999),
        }
    }
}

/// Messages that the other side has handled, or operations that are done, in each second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Rate {
    /// From the first one sent to the last one handled or done.
    pub(crate) messages: f64,
    /// In the best part of that time: a tenth of it, but between 50 ms and 1 s.
    pub(crate) peak_messages: f64,
    /// The same of their payloads.
    pub(crate) bytes: f64,
    /// The same of their payloads.
    pub(crate) peak_bytes: f64,
}
