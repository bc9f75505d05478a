//! A bounded mailbox: `try_tell` says that it is full, `tell` waits for room.
//!
//! `cargo run --example backpressure` prints:
//!
//! ```text
//! ```
#![deny(warnings)]

fn main() {}
