//! The contestants that need no crate beside Ringpost's own dependencies.

use ringpost_benches::program::{LocalEntry, PairEntry, Program};
use ringpost_benches::serve::Meter;

use crate::floors::blocking;
use crate::floors::task::Tasks;
use crate::floors::tokio_tcp::TokioTcp;
use crate::ringpost::{self, Near};

/// Returns the program of all these contestants, whose allocations `meter` counts.
pub(crate) fn program(meter: Meter) -> Program {
    Program {
        pairs: vec![
            PairEntry::with_streams::<TokioTcp>("tokio-tcp"),
            blocking::tcp(),
            blocking::unix(),
            ringpost::entry(),
            ringpost::sealed_entry(),
            ringpost::spinning_entry(),
        ],
        locals: vec![LocalEntry::of::<Tasks>("tokio-mpsc"), LocalEntry::of::<Near>("ringpost")],
        groups: Vec::new(),
        meter,
    }
}
