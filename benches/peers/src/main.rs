//! `peers`: other crates that send messages, measured as Ringpost is. `benches/run` builds it and
//! starts it.
#![deny(warnings)]

mod actix;
mod kameo;
mod ractor;
mod tarpc;
mod tonic;
mod xtra;

use std::process::ExitCode;

use clap::Parser;
use ringpost_benches::program::{LocalEntry, PairEntry, Program, Task};

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

fn main() -> ExitCode {
    let program = Program {
        pairs: vec![
            PairEntry::of::<ractor::Cluster>("ractor"),
            PairEntry::of::<kameo::Remote>("kameo"),
            PairEntry::of::<tarpc::Tarpc>("tarpc"),
            PairEntry::of::<tonic::Tonic>("tonic"),
        ],
        locals: vec![
            LocalEntry::of::<ractor::Counter>("ractor"),
            LocalEntry::of::<kameo::Counter>("kameo"),
            actix::entry(),
            LocalEntry::of::<xtra::Counter>("xtra"),
        ],
        meter: |run| {
            run();
            0
        },
    };
    match program.run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("peers: {failure}");
            ExitCode::FAILURE
        }
    }
}
