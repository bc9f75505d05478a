//! `allocations`: the contestants of `bench` on an allocator that counts. `bench` starts it.
#![deny(warnings)]

mod contestants;
mod floors;
mod ringpost;

use std::process::ExitCode;

use clap::Parser;
use ringpost_benches::program::Task;

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let program = contestants::program(|run| allocation_counter::measure(run).count_total);
    match program.run(arguments.task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("allocations: {failure}");
            ExitCode::FAILURE
        }
    }
}
