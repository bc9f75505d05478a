//! The face of `rdma_lib.h`: contexts that send messages to up to 64 peers by their index.
//!
//! - `context`: a context, its peers and its memory. `greeting`: how two contexts meet.
//! - `packet`: packets between contexts, beside messages. `group`: the collectives.
//! - `request`: sends and receives in the background. `entries`, `entries/later`: the C functions.

mod context;
pub mod entries;
mod greeting;
mod group;
mod packet;
mod peer;
mod request;
