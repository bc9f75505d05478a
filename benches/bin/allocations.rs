//! `allocations`: the contestants of `bench` on an allocator that counts. `bench` starts it.
#![deny(warnings)]

mod contestants;
mod floors;
mod ringpost;

use std::process::ExitCode;

fn main() -> ExitCode {
    contestants::program(|run| allocation_counter::measure(run).count_total).main("allocations")
}
