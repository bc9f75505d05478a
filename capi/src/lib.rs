//! Ringpost for programs in C and C++.
//!
//! | header | for |
//! |---|---|
//! | `ringpost.h` | nodes, channels, byte streams, shared memory, ranks and collectives |
//! | `rdma_lib.h` | programs written for the C library of that name |
//! | `rdmacomm.hpp` | programs written for the C++ class `RdmaCommunicator` |
//!
//! `README.md` beside this crate says how to build and link, and has the rules of threads and
//! errors.
//!
//! # The code, in reading order
//!
//! - `failure`, `entry`: how a call fails, and what each does first. `handles`: what C has in place
//!   of pointers.
//! - `describe`: nodes of this library. `driver`: the runtime, and how a thread waits. `ready`:
//!   descriptors to wait on.
//! - `inbox`, `line`: channels of messages, for several threads.
//! - `rdma`, `rp`: the faces.

mod describe;
mod driver;
mod entry;
mod failure;
mod handles;
mod inbox;
mod line;
pub mod rdma;
mod ready;
pub mod rp;
