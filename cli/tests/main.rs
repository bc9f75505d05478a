//! The command `ringpost`, as processes of their own over loopback.

#![allow(clippy::unwrap_used, reason = "tests")]

mod counters;
mod doctor;
mod perf;
mod process;
mod run;
mod usage;
