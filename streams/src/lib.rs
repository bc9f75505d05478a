//! Channels, byte streams and calls between nodes of Ringpost, over RDMA or TCP.
//!
//! | for | see |
//! |---|---|
//! | typed messages both ways between two tasks | [`channel`] |
//! | bytes, where a program has a socket | [`stream`] |
//! | requests and answers | [`rpc`] |
//! | all of it without async | [`blocking`] |
//!
//! Each module begins with a program. A connection is made by name: one side binds a name of its
//! node and accepts, the other one connects to `"node/name"`. It ends with an error at both sides
//! when the node of one is down, when its program drops it with something unread, and when a link
//! between the nodes was lost and messages of the connection with it.
//!
//! # The code, in reading order
//!
//! - `frame`: what two ends send each other. `connection`: the actor at an end.
//! - `outgoing`, `incoming`, `care`: what that actor shares with the owner of its end: items to the
//!   peer, items from it, and the words that are no items.
//! - `listener`: how a connection is made. `end`: how it ends, and all errors.
//! - [`channel`], [`stream`], [`rpc`], [`blocking`]: the faces.

pub mod blocking;
mod care;
pub mod channel;
mod connection;
mod end;
mod frame;
mod incoming;
mod listener;
mod outgoing;
pub mod rpc;
pub mod stream;

pub use end::{ConnectError, EndCause, SendCause, SendError, StreamError};
pub use frame::Received;
pub use listener::BACKLOG;
