//! Measurements whose contestants start several processes themselves.

mod outside;
mod peers;
mod ranks;

use std::time::Duration;

use ringpost_benches::Failure;
use ringpost_benches::contestant::OURS;
use ringpost_benches::figure::{Measurement, Work};
use ringpost_benches::program::LocalEntry;

pub(crate) use self::outside::missing;
pub(crate) use self::peers::be as be_peers;
pub(crate) use self::ranks::be as be_rank;

/// Returns the entries of these contestants.
pub(crate) fn entries() -> Vec<LocalEntry> {
    [LocalEntry { name: OURS, measure: ours }].into_iter().chain(outside::mpi()).collect()
}

fn ours(measurement: &Measurement, time: Duration) -> Result<Vec<f64>, Failure> {
    match measurement.work {
        Work::Peers(count) => peers::measure(measurement.workers, count),
        Work::CAllToAll => outside::c_library(measurement, time),
        _ => ranks::measure(measurement, time),
    }
}
