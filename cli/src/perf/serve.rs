//! `ringpost perf serve`: the side that is measured from another machine.

use std::io::{self, Write};

use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;
use crate::note;
use crate::service::{DESK, Desk};
use crate::settings::{self, GOODBYE};

/// Serves `ringpost perf` and `ringpost doctor --peer` of other machines until SIGINT or SIGTERM.
///
/// It prints one line, `serving at ADDR`, when it can be reached. Other machines reach it only with
/// the same RINGPOST_SECRET; they can have 64 actors for each measurement, and read and write one
/// region of 8 MiB, which they share.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Listens at this address of the machine; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7700")]
    #[arg(value_parser = settings::address)]
    listen: String,

    /// Tells other nodes this address, which it needs where it listens at 0.0.0.0 or [::].
    #[arg(long, value_name = "ADDR", value_parser = settings::address)]
    advertise: Vec<String>,

    /// Listens at this TCP port, too, while `doctor --peer` tries a pair of RDMA addresses; 0 takes
    /// a free one, for which firewalls have to be open.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pairs_port: u16,

    /// Runs this many worker threads on this side; without it, as many as there are processors.
    #[arg(long, value_name = "COUNT", value_parser = threads)]
    pub(super) threads: Option<usize>,
}

/// Serves until a signal comes.
///
/// # Errors
/// [`Failure`] when the node does not start.
pub(super) async fn run(options: Options) -> Result<(), Failure> {
    let Options { listen, advertise, pairs_port, .. } = options;
    let node = settings::server(&listen, &advertise)?.start().await?;
    let host = listen.rsplit_once(':').map_or(listen.as_str(), |(host, _)| host);
    let desk = Desk::new(format!("{host}:{pairs_port}"), advertise);
    node.spawn(DESK, desk).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    if ["127.", "[::1]", "localhost"].iter().any(|loopback| listen.starts_with(loopback)) {
        let remedy = "for those give --listen and RINGPOST_SECRET";
        note(format_args!("no other machine reaches {host}: {remedy}"));
    }
    writeln!(io::stdout(), "serving at {}", node.addresses().join(" "))?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    node.shutdown(GOODBYE).await;
    Ok(())
}

/// Reads a number of threads.
///
/// # Errors
/// A sentence that says the range.
pub(super) fn threads(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=1024).contains(count));
    count.ok_or_else(|| "a number of threads is 1 to 1024".into())
}
