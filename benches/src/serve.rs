//! The serving process: it listens until standard input ends, and reports its usage when asked.

use std::io::{self, BufRead, Write};
use std::thread;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::clock::process_cpu;
use crate::failure::Failure;
use crate::pair::Pair;

/// Runs its argument and returns the allocations that the calling thread made meanwhile; a program
/// on an ordinary allocator returns 0.
pub type Meter = fn(&mut dyn FnMut()) -> u64;

/// Returns a runtime with this many workers; with one, everything runs on the thread that blocks on
/// it.
///
/// # Errors
/// When its threads cannot be started.
pub fn runtime(workers: usize) -> Result<Runtime, Failure> {
    let mut builder =
        if workers == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    if workers > 1 {
        builder.worker_threads(workers);
    }
    Ok(builder.enable_all().build()?)
}

/// Serves a contestant until standard input ends. Prints `listening ADDRESS`, and for each line
/// that it reads `used CPU_NS ALLOCATIONS`.
///
/// # Errors
/// When the contestant cannot listen.
pub fn serve<P: Pair>(workers: usize, meter: Meter) -> Result<(), Failure> {
    let runtime = runtime(workers)?;
    let (address, _server) = runtime.block_on(P::serve())?;
    println!("listening {address}");
    let mut commands = commands();
    let mut allocations = 0;
    let mut more = true;
    loop {
        allocations += meter(&mut || more = runtime.block_on(commands.recv()).is_some());
        if !more {
            return Ok(());
        }
        answer(allocations)?;
    }
}

/// Answers the lines of standard input until it ends. For a contestant that serves on threads of
/// its own.
///
/// # Errors
/// When standard output is closed.
pub fn answer_commands() -> Result<(), Failure> {
    let mut commands = commands();
    while commands.blocking_recv().is_some() {
        answer(0)?;
    }
    Ok(())
}

/// Prints the usage of this process. Never called under valgrind, where rustix cannot read the
/// clock and ends the process.
fn answer(allocations: u64) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    writeln!(output, "used {} {allocations}", process_cpu().as_nanos())?;
    Ok(output.flush()?)
}

/// Reads standard input on a thread of its own, one item for each line. The receiver ends with the
/// input.
fn commands() -> mpsc::UnboundedReceiver<()> {
    let (sender, receiver) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if line.is_err() || sender.send(()).is_err() {
                break;
            }
        }
    });
    receiver
}
