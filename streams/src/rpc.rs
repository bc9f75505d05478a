//! Requests and answers: a function that other nodes call by a name. A thin face of actors.
//!
//! ```
//! use ringpost::prelude::*;
//! use ringpost_streams::rpc::{self, Bytes, Client};
//!
//! #[message]
//! pub struct Sum {
//!     pub numbers: Vec<u64>,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let server = Node::builder("server").listen("127.0.0.1:0").start().await?;
//! let node = Node::builder("client").seeds(server.addresses()).start().await?;
//! node.ready(1).await?;
//!
//! rpc::serve(&server, "echo", |request: View<Bytes>| async move {
//!     Bytes(request.to_vec())
//! })
//! .await?;
//! // Any message and any reply, with their types.
//! rpc::serve(&server, "sum", |request: View<Sum>| async move {
//!     request.numbers.iter().map(|number| number.to_native()).sum::<u64>()
//! })
//! .await?;
//!
//! let echo = Client::<Bytes, Bytes>::new(&node);
//! let (one, two) = tokio::join!(
//!     echo.call("server/echo", Bytes(b"one".to_vec())),
//!     echo.call("server/echo", Bytes(b"two".to_vec())),
//! );
//! assert_eq!((&one?[..], &two?[..]), (&b"one"[..], &b"two"[..]));
//! let sum = Client::<Sum, u64>::new(&node);
//! assert_eq!(sum.call("server/sum", Sum { numbers: vec![1, 2, 3] }).await?, 6);
//! # Ok(())
//! # }
//! ```

mod client;
mod server;

use std::fmt;
use std::ops::Deref;

use ringpost::message;

pub use client::{CallError, Client};
pub use server::{IN_FLIGHT, Server, serve, serve_at_most};

/// Bytes: a request or an answer without more of a type. A `View` of it dereferences to the bytes
/// where they arrived.
#[message(name = "ringpost_streams::Bytes")]
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for ArchivedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes(bytes)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.0.escape_ascii())
    }
}
