//! The runtime's integration tests: one binary, one module for each subject.

#![allow(missing_docs, unreachable_pub, reason = "tests")]

mod actors;
mod asking;
mod backpressure;
mod cost;
mod ending;
mod names;
mod references;
