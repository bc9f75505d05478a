//! `ringpost perf`: measures messages between two machines, and regions, as programs use them.

mod figures;
mod latency;
mod measurement;
mod rate;
mod region;
mod report;
mod serve;

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use ringpost::net::Network;

use crate::counters;
use crate::dial::Link;
use crate::failure::Failure;
use crate::note;
use crate::reasons::Reasons;
use crate::service::SINKS_MAX;
use crate::settings;

use figures::Row;
use measurement::{Kind, MEASUREMENTS, Measurement, names};
use report::{Changes, Head, Printer};

/// The largest payload that is measured: the default limit of a message.
const BYTES_MAX: usize = 64 << 20;

/// Measures messages, and regions, between this machine and one on which `ringpost perf serve`
/// runs.
///
/// It measures what programs get: actors, references, archives, windows and the fabric that a link
/// of these two machines uses. The columns are the same as in perftest's tools, but the times of
/// `ask` and `write` are whole round trips, where ib_send_lat and ib_write_lat print half of them,
/// and MB are MiB as there.
///
/// Of messages of 128k or more it prints how many were fetched by the device of the receiver from
/// the memory of the sender, and how many went in parts.
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

    /// Sends payloads of these sizes, such as `32,4k,1m`, in place of each measurement's own sizes;
    /// reads and writes of the region are of up to 8m.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = bytes)]
    sizes: Vec<usize>,

    /// Sends by this many tasks, such as `1,4,16`, each to an actor of its own, or uses the region
    /// by this many, in place of the numbers that each measurement of rates has; at most 64 can be.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = senders)]
    senders: Vec<usize>,

    /// Makes only these measurements; `region` stands for all measurements of the region.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(names()))]
    only: Vec<String>,

    /// Prints one JSON object in place of the tables.
    #[arg(long)]
    json: bool,

    /// Runs this many worker threads on this side; without it, as many as there are processors.
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
        let plan = self.plan();
        check_region(link, &plan).await?;
        let devices = counters::DEVICES.as_ref();
        let before = (counters::read(devices), link.desk.counters().await?);
        let mut printer = Printer::new(self.json, Head::new(&self.address, link, self.seconds))?;
        for (measurement, bytes, senders) in plan {
            let plural = if senders == 1 { "" } else { "s" };
            let by = if measurement.is_of_region() { "task" } else { "sender" };
            let name = measurement.name;
            let time = self.seconds;
            note(format_args!("{name}: {bytes} bytes, {senders} {by}{plural}, {time:?}"));
            let row = self.measure(link, measurement, bytes, senders).await?;
            printer.row(measurement, row)?;
        }
        let after = (counters::read(devices), link.desk.counters().await?);
        Ok(printer.end(Changes::between(before, after))?)
    }

    /// Returns the rows to measure.
    fn plan(&self) -> Vec<Planned> {
        let wanted = MEASUREMENTS.iter().filter(|it| it.is_among(&self.only));
        let rows = wanted.flat_map(|measurement| {
            let rows = measurement.rows(&self.sizes, &self.senders);
            rows.into_iter().map(move |(bytes, senders)| (measurement, bytes, senders))
        });
        rows.collect()
    }

    async fn measure(
        &self,
        link: &Link,
        measurement: &Measurement,
        bytes: usize,
        senders: usize,
    ) -> Result<Row, Failure> {
        let time = self.seconds;
        match measurement.kind {
            Kind::Ask => latency::measure(link, &link.sinks(senders).await?, bytes, time).await,
            Kind::Tell => rate::measure(link, &link.sinks(senders).await?, bytes, time).await,
            Kind::Region(operation) => {
                region::latency(&link.regions().await?, operation, bytes, time).await
            }
            Kind::RegionRate(operation) => {
                region::rate(&link.regions().await?, operation, (bytes, senders), time).await
            }
        }
    }
}

/// A row that is to be measured: its payload in bytes, and its number of senders.
type Planned = (&'static Measurement, usize, usize);

/// Fails if a row needs a region that is missing or too small. Checked at the start, because that
/// row may come minutes later.
async fn check_region(link: &Link, plan: &[Planned]) -> Result<(), Failure> {
    let of_region = plan.iter().filter(|(measurement, ..)| measurement.is_of_region());
    let Some(bytes) = of_region.map(|(_, bytes, _)| *bytes).max() else { return Ok(()) };
    let region = link.regions().await?.bytes.len();
    if bytes > region { Err(Failure::BeyondRegion { bytes, region }) } else { Ok(()) }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let most = Duration::from_secs(24 * 60 * 60);
    let in_range = |time: &Duration| !time.is_zero() && *time <= most;
    seconds.filter(in_range).ok_or_else(|| "seconds are a number above 0, up to a day".into())
}

fn bytes(text: &str) -> Result<usize, String> {
    let text = text.to_ascii_lowercase();
    let units = [('k', 1 << 10), ('m', 1 << 20)];
    let of = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(*name)?, *unit)));
    let (number, unit) = of.unwrap_or((&text, 1));
    let bytes = number.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    let in_range = |bytes: &usize| (1..=BYTES_MAX).contains(bytes);
    bytes.filter(in_range).ok_or_else(|| {
        "a size is a number of bytes from 1 to 64m, where `k` is 1024 and `m` 1024k".into()
    })
}

fn senders(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=SINKS_MAX).contains(count));
    count.ok_or_else(|| format!("a number of senders is 1 to {SINKS_MAX}"))
}
