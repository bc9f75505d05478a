//! The face of `ringpost.h`, which is generated from these functions and their comments.
//!
//! `node`: nodes, and errors. `channel`, `stream`, `region`: connections and memory
//! between nodes. `world`: ranks and collective operations.

pub mod channel;
pub mod node;
pub mod region;
pub mod stream;
pub mod world;
