//! The floors, the least that messages could cost: bare channels within a process, bare sockets
//! between two.

pub(crate) mod blocking;
pub(crate) mod frame;
pub(crate) mod task;
pub(crate) mod tokio_tcp;
