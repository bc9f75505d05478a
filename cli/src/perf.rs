//! `ringpost perf`: measures messages between two machines, as programs send them.

mod figures;
mod latency;
mod measurement;
mod rate;
mod report;
mod serve;

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use ringpost::Network;

use crate::counters;
use crate::dial::Link;
use crate::failure::Failure;
use crate::reasons::Reasons;
use crate::service::SINKS_MAX;
use crate::settings;

use figures::Row;
use measurement::{Kind, MEASUREMENTS, Measurement};
use report::{Changes, Head, Printer};

/// Messages are measured up to this size, which is that of the largest one by default.
const BYTES_MAX: usize = 64 << 20;

/// Measures messages between this machine and one on which `ringpost perf serve` runs.
///
/// It measures what programs get: actors, references, archives, windows and the fabric that a link
/// of these two machines uses. The columns are those of perftest's tools, but that the times of
/// `ask` are whole round trips, where ib_send_lat prints half of them, and MB are MiB as there.
///
/// On Linux it also prints by how much the hardware counters of RDMA devices have changed
/// meanwhile, on both machines.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    serve: Option<Command>,

    #[command(flatten)]
    client: Option<Client>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Serve(serve::Options),
}

#[derive(Debug, clap::Args)]
struct Client {
    /// Dials this address, at which `ringpost perf serve` listens.
    #[arg(value_name = "ADDR", value_parser = settings::address)]
    address: String,

    /// Measures each row for so long, after a warm-up of a quarter of it.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    seconds: Duration,

    /// Sends payloads of these sizes, such as `32,4k,1m`, in place of those that each measurement
    /// has.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = bytes)]
    sizes: Vec<usize>,

    /// Sends by so many tasks, such as `1,4,16`, each to an actor of its own, in place of the
    /// numbers that each measurement of rates has; at most 64 can be.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = senders)]
    senders: Vec<usize>,

    /// Makes only these measurements.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(MEASUREMENTS.map(|it| it.name)))]
    only: Vec<String>,

    /// Prints one JSON object in place of the tables.
    #[arg(long)]
    json: bool,

    /// Runs so many worker threads on this side; without it, as many as there are processors.
    #[arg(long, value_name = "COUNT", value_parser = serve::threads)]
    threads: Option<usize>,
}

impl Options {
    /// Returns how many worker threads are asked for.
    pub(crate) fn threads(&self) -> Option<usize> {
        match (&self.serve, &self.client) {
            (Some(Command::Serve(options)), _) => options.threads,
            (None, client) => client.as_ref()?.threads,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// [`Failure`] when there is no link, and when it is lost.
pub(crate) async fn run(options: Options, reasons: &Reasons) -> Result<bool, Failure> {
    match (options.serve, options.client) {
        (Some(Command::Serve(options)), _) => serve::run(options).await?,
        (None, Some(client)) => client.run(reasons).await?,
        (None, None) => {}
    }
    Ok(true)
}

impl Client {
    async fn run(self, reasons: &Reasons) -> Result<(), Failure> {
        let link = Link::dial(&self.address, Network::best(), reasons).await?;
        link.while_up(self.over(&link)).await?;
        link.end().await;
        Ok(())
    }

    async fn over(&self, link: &Link) -> Result<(), Failure> {
        let devices = counters::DEVICES.as_ref();
        let before = (counters::read(devices), link.desk.counters().await?);
        let mut printer = Printer::new(self.json, Head::new(&self.address, link, self.seconds))?;
        for (measurement, bytes, senders) in self.plan() {
            let plural = if senders == 1 { "" } else { "s" };
            let name = measurement.name;
            eprintln!("{name}: {bytes} bytes, {senders} sender{plural}, {:?}", self.seconds);
            let row = self.measure(link, measurement, bytes, senders).await?;
            printer.row(measurement, row)?;
        }
        let after = (counters::read(devices), link.desk.counters().await?);
        Ok(printer.end(Changes::between(before, after))?)
    }

    /// Returns what is measured, with its payload and its number of senders.
    fn plan(&self) -> Vec<(&'static Measurement, usize, usize)> {
        let is_wanted = |it: &&Measurement| {
            self.only.is_empty() || self.only.iter().any(|name| name == it.name)
        };
        let mut plan = Vec::new();
        for measurement in MEASUREMENTS.iter().filter(is_wanted) {
            let given = |list: &[usize], own: &[usize]| {
                if list.is_empty() { own.to_vec() } else { list.to_vec() }
            };
            let senders = match measurement.kind {
                Kind::Latency => measurement.senders.to_vec(),
                Kind::Rate => given(&self.senders, measurement.senders),
            };
            for bytes in given(&self.sizes, measurement.sizes) {
                plan.extend(senders.iter().map(|senders| (measurement, bytes, *senders)));
            }
        }
        plan
    }

    async fn measure(
        &self,
        link: &Link,
        measurement: &Measurement,
        bytes: usize,
        senders: usize,
    ) -> Result<Row, Failure> {
        let sinks = link.sinks(senders).await?;
        match measurement.kind {
            Kind::Latency => latency::measure(&sinks, bytes, self.seconds).await,
            Kind::Rate => rate::measure(&sinks, bytes, self.seconds).await,
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let most = Duration::from_secs(24 * 60 * 60);
    let in_range = |time: &Duration| !time.is_zero() && *time <= most;
    seconds.filter(in_range).ok_or_else(|| "seconds are a number above 0, up to a day".into())
}

fn bytes(text: &str) -> Result<usize, String> {
    let (number, unit) = match text.to_ascii_lowercase() {
        text if text.ends_with('k') => (text.trim_end_matches('k').parse::<usize>(), 1 << 10),
        text if text.ends_with('m') => (text.trim_end_matches('m').parse(), 1 << 20),
        text => (text.parse(), 1),
    };
    let bytes = number.ok().and_then(|number| number.checked_mul(unit));
    let in_range = |bytes: &usize| (1..=BYTES_MAX).contains(bytes);
    bytes.filter(in_range).ok_or_else(|| {
        "a size is a number of bytes from 1 to 64m, where `k` is 1024 and `m` 1024k".into()
    })
}

fn senders(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=SINKS_MAX).contains(count));
    count.ok_or_else(|| format!("a number of senders is 1 to {SINKS_MAX}"))
}
