//! `peers`: other crates that send messages, measured by the same code as Ringpost. `benches/run`
//! builds and starts it.
#![deny(warnings)]

mod actix;
mod find;
mod flume;
mod kameo;
mod ractor;
mod tarpc;
mod tonic;
mod xtra;

use std::process::ExitCode;

use ringpost_benches::program::{LocalEntry, PairEntry, Program};

fn main() -> ExitCode {
    let program = Program {
        pairs: vec![
            PairEntry::of::<ractor::Cluster>("ractor"),
            PairEntry::of::<kameo::Remote>("kameo"),
            PairEntry::of::<tarpc::Tarpc>("tarpc"),
            PairEntry::of::<tonic::Tonic>("tonic"),
        ],
        locals: vec![
            LocalEntry::of::<ractor::Near>("ractor"),
            LocalEntry::of::<kameo::Near>("kameo"),
            actix::entry(),
            LocalEntry::of::<xtra::Xtra>("xtra"),
            LocalEntry::of::<flume::Tasks>("flume"),
        ],
        groups: Vec::new(),
        meter: |run| {
            run();
            0
        },
    };
    program.main("peers")
}
