//! Worlds of ranks: on a simulated network by seeds, and over loopback.

#![allow(clippy::unwrap_used, reason = "tests")]

mod loopback;
mod simulated;
