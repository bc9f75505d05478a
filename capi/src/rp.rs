//! The face of `ringpost.h`, which is generated from these functions and their comments.
//!
//! `node`: nodes, and errors. `channel`, `stream`, `region`: connections and memory
//! between nodes.

pub mod channel;
pub mod node;
pub mod region;
pub mod stream;
