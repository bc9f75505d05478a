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
//! node and accepts, the other side connects to `"node/name"`. A connection ends with an error when
//! the node of its peer is down, and when messages of it were lost with a link between the nodes.
//! Nothing is sent twice.
//!
//! # The code, in reading order
//!
//! - `frame`: the messages of two ends. `connection`: the actor at an end. `links`: the actor that
//!   follows lost links for all ends of a node.
//! - `outgoing`, `incoming`, `notices`: the state that this actor shares with the owner of its end:
//!   items to the peer, items from it, and messages that are no items.
//! - `listener`: how a connection is made. `end`: how it ends, and all errors.
//! - [`channel`], [`stream`], [`rpc`], [`blocking`]: the faces.

pub mod blocking;

pub mod channel;
mod connection;
mod end;
mod frame;
mod incoming;
mod links;
mod listener;
mod notices;
mod outgoing;
pub mod rpc;
pub mod stream;

pub use end::{ConnectError, EndCause, SendCause, SendError, StreamError};
pub use frame::Received;
pub use listener::BACKLOG;
