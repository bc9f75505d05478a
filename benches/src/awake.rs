//! Busy loops that keep the cores awake, so that the cost of waking a core does not hide the cost
//! of a message.

use std::hint::spin_loop;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::failure::Failure;

/// A child of this program with one busy loop for each core, in the scheduling class `SCHED_IDLE`:
/// it runs only where nothing else wants to. It is killed when this is dropped; when the parent
/// dies without dropping it, the child finds its standard input closed and ends too.
#[derive(Debug)]
pub struct Burner {
    child: Child,
}

impl Burner {
    /// Starts the loops.
    ///
    /// # Errors
    /// When `chrt` is missing or the child does not start.
    pub fn start() -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let child = Command::new("chrt")
            .args(["--idle", "0"])
            .arg(program)
            .arg("burn")
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| {
                Failure::Failed(format!(
                    "`chrt` cannot be started ({error}); on Debian: apt-get install util-linux"
                ))
            })?;
        Ok(Burner { child })
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        // It may have exited already; either way it is reaped.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs one busy loop for each core until standard input ends.
///
/// # Errors
/// When the number of cores cannot be told or standard input cannot be read.
pub fn burn() -> Result<(), Failure> {
    for _ in 0..thread::available_parallelism()?.get() {
        thread::spawn(|| {
            loop {
                spin_loop();
            }
        });
    }
    let mut rest = Vec::new();
    io::stdin().read_to_end(&mut rest)?;
    Ok(())
}
