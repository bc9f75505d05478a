//! Output of `perf`: tables with the columns of perftest, or one JSON object.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::figures::{Fetches, Figures, Latency, Row};
use super::measurement::Measurement;
use crate::counters::{Counts, deltas};
use crate::dial::Link;

/// The facts that are known before the first measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Head {
    ringpost: &'static str,
    address: String,
    peer: String,
    fabric: &'static str,
    encrypted: bool,
    /// Better fabrics that were tried before and failed, each with its reason.
    passed_over: Vec<String>,
    seconds_each: f64,
}

/// By how much the hardware counters have changed of this machine and of the other one; `None`
/// where there is no RDMA device.
#[derive(Debug, Serialize)]
pub(crate) struct Changes {
    here: Option<BTreeMap<String, i64>>,
    there: Option<BTreeMap<String, i64>>,
}

/// A row with the name of its measurement.
#[derive(Debug, Serialize)]
struct Named {
    measurement: &'static str,
    #[serde(flatten)]
    row: Row,
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    head: &'a Head,
    measurements: &'a [Named],
    counters: Changes,
}

/// Prints rows as they come, or keeps them for the JSON object.
pub(crate) struct Printer {
    json: bool,
    head: Head,
    rows: Vec<Named>,
}

impl Head {
    pub(super) fn new(address: &str, link: &Link, seconds: Duration) -> Self {
        Head {
            ringpost: env!("CARGO_PKG_VERSION"),
            address: address.into(),
            peer: link.peer.clone(),
            fabric: link.fabric,
            encrypted: link.encrypted,
            passed_over: link.passed_over.clone(),
            seconds_each: seconds.as_secs_f64(),
        }
    }
}

impl Changes {
    /// Compares the counters of both machines, this one's first.
    pub(super) fn between(
        before: (Option<Counts>, Option<Counts>),
        after: (Option<Counts>, Option<Counts>),
    ) -> Self {
        let change =
            |before: Option<Counts>, after: Option<Counts>| Some(deltas(&before?, &after?));
        Changes { here: change(before.0, after.0), there: change(before.1, after.1) }
    }
}

impl Printer {
    /// Prints `head`, before the first measurement.
    pub(super) fn new(json: bool, head: Head) -> io::Result<Self> {
        if !json {
            let Head { address, peer, fabric, encrypted, passed_over, seconds_each, .. } = &head;
            let encrypted = if *encrypted { "encrypted" } else { "not encrypted" };
            let mut out = io::stdout().lock();
            writeln!(out, "link to {address} ({peer}): {fabric}, {encrypted}")?;
            passed_over.iter().try_for_each(|why| writeln!(out, "tried before: {why}"))?;
            writeln!(out, "each row is measured for {seconds_each} s")?;
            if cfg!(debug_assertions) {
                writeln!(out, "figures of a debug build say nothing; use --release")?;
            }
        }
        Ok(Printer { json, head, rows: Vec::new() })
    }

    pub(super) fn row(&mut self, measurement: &Measurement, row: Row) -> io::Result<()> {
        if !self.json {
            let is_first = self.rows.last().is_none_or(|last| last.measurement != measurement.name);
            let mut out = io::stdout().lock();
            if is_first {
                writeln!(out, "\n{}: {}\n{}", measurement.name, measurement.about, titles(&row))?;
            }
            writeln!(out, "{}", line(&row))?;
            if let Some(fetches) = &row.fetches {
                writeln!(out, "{:>8} {}", "", told(fetches, self.head.fabric))?;
            }
        }
        self.rows.push(Named { measurement: measurement.name, row });
        Ok(())
    }

    pub(super) fn end(self, counters: Changes) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.json {
            let document = Document { head: &self.head, measurements: &self.rows, counters };
            let text = serde_json::to_string_pretty(&document)?;
            return writeln!(out, "{text}");
        }
        for (side, changes) in [("this machine", counters.here), ("the other one", counters.there)]
        {
            let Some(changes) = changes else { continue };
            writeln!(out, "\nhardware counters of {side} that have changed")?;
            if changes.is_empty() {
                writeln!(out, "  none")?;
            }
            changes.iter().try_for_each(|(name, delta)| writeln!(out, "  {name} {delta:+}"))?;
        }
        Ok(())
    }
}

/// Returns the titles of the columns of a row like this.
fn titles(row: &Row) -> String {
    match row.figures {
        Figures::LatencyUs(_) => format!(
            "{:>8} {:>11} {:>12} {:>12} {:>15} {:>12} {:>13} {:>21} {:>23}",
            "#bytes",
            "#iterations",
            "t_min[usec]",
            "t_max[usec]",
            "t_typical[usec]",
            "t_avg[usec]",
            "t_stdev[usec]",
            "99% percentile[usec]",
            "99.9% percentile[usec]"
        ),
        Figures::PerSecond(_) => format!(
            "{:>8} {:>8} {:>11} {:>16} {:>19} {:>13}",
            "#bytes",
            "#senders",
            "#iterations",
            "BW peak[MiB/sec]",
            "BW average[MiB/sec]",
            "MsgRate[Mpps]"
        ),
    }
}

/// Says how large messages came.
fn told(fetches: &Fetches, fabric: &str) -> String {
    let Fetches { messages, fetched, refused } = fetches;
    let refused = match refused {
        0 => String::new(),
        count => format!("; {count} were lent and went in parts after all"),
    };
    match (fetched, fabric) {
        (0, "verbs") => format!(
            "fetched 0 of {messages} messages by the device, all went in parts{refused}: \
             RUST_LOG=info may tell why"
        ),
        (0, _) => format!("all {messages} messages went in parts: {fabric} has no device for them"),
        _ => format!("fetched {fetched} of {messages} messages by the device{refused}"),
    }
}

fn line(row: &Row) -> String {
    let Row { bytes, senders, iterations, .. } = row;
    match &row.figures {
        Figures::LatencyUs(Latency { min, max, typical, average, stdev, p99, p99_9 }) => format!(
            "{bytes:>8} {iterations:>11} {min:>12.2} {max:>12.2} {typical:>15.2} {average:>12.2} \
             {stdev:>13.2} {p99:>21.2} {p99_9:>23.2}"
        ),
        Figures::PerSecond(rate) => {
            let mib = f64::from(1 << 20);
            let (peak, average) = (rate.peak_bytes / mib, rate.bytes / mib);
            let millions = rate.messages / 1e6;
            format!(
                "{bytes:>8} {senders:>8} {iterations:>11} {peak:>16.2} {average:>19.2} \
                 {millions:>13.6}"
            )
        }
    }
}
