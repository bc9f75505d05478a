//! All of this crate for programs without async: each call blocks its thread.
//!
//! ```
//! use std::io::{BufRead, BufReader, Read, Write};
//! use std::thread;
//! use std::time::Duration;
//!
//! use ringpost_streams::blocking::{Node, Stream, StreamListener};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let server = Node::start(ringpost::Node::builder("server").listen("127.0.0.1:0"))?;
//! let client = Node::start(ringpost::Node::builder("client").seeds(server.addresses()))?;
//! client.ready(1)?;
//!
//! let mut listener = StreamListener::bind(&server, "upper")?;
//! let serving = thread::spawn(move || {
//!     let (mut stream, _peer) = listener.accept()?;
//!     let mut line = String::new();
//!     stream.read_line(&mut line)?;
//!     stream.write_all(line.to_uppercase().as_bytes())
//! });
//!
//! let mut stream = Stream::connect(&client, "server/upper")?;
//! stream.set_read_timeout(Some(Duration::from_secs(5)));
//! writeln!(stream, "hello")?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! assert_eq!(answer, "HELLO\n");
//! serving.join().unwrap()?;
//! client.shutdown(Duration::from_secs(5));
//! server.shutdown(Duration::from_secs(5));
//! # Ok(())
//! # }
//! ```
//!
//! The values of this module run on one runtime of their own, which the first one starts and the
//! last one ends. None of them may be used in an async task, whose thread it would block: that
//! panics, as [`tokio::runtime::Runtime::block_on`] does.

mod channel;
mod node;
mod rpc;
mod stream;

pub use channel::{Channel, Listener, Receiver, RecvError, Sender};
pub use node::Node;
pub use rpc::{Client, serve};
pub use stream::{ReadHalf, Stream, StreamListener, WriteHalf};
