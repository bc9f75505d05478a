//! How two nodes that meet prove themselves to each other, and the encrypted connection they keep.
//!
//! Everything but [`Channel`] is sans-I/O: bytes in, bytes out. In the order things happen:
//! [`Handshake`] (prefaces, Noise, HELLO), then [`Session`](session::Session) seals and opens
//! [`Message`]s, carried by a [`Channel`]. The purpose of the messages is decided in `mesh`. Every
//! byte is described in `docs/WIRE.md`.
//!
//! - **BS-1 proof first**: nothing a peer says is used before it has proved that it knows the
//!   secret, except a plain [`Rejection`], which can only end the connection.
//! - Before the proof at most `UNPROVEN_BYTES_MAX` bytes are taken in; a record is never longer
//!   than that afterwards either.
//! - Each message has one encoding. A length that is off by one, a byte too many or a number out of
//!   range is [`Malformed`], and ends the connection.
//! - Both prefaces, version ranges included, are in Noise's prologue. Two sides that saw different
//!   prefaces do not understand each other, so a third party cannot make them use an older version.
//! - An acceptor with several secrets tries each on the dialler's first message, its own first.
//!   Nothing on the wire says which secret was meant, and when none fits the refusal is the same as
//!   with one. A try costs some hashes, and no agreement on a key.
//! - An acceptor sends 16 random bytes with its opening. They are in Noise's prologue, and the
//!   dialler's first message names them: a message that was recorded on another connection is
//!   refused before anything is computed for it.

mod channel;
mod codec;
mod failure;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod handshake;
mod message;
mod rejection;
mod secret;
mod session;
mod sharing;
#[cfg(feature = "steps")]
mod steps;
#[cfg(test)]
mod tests;
mod version;

pub(crate) use channel::{Channel, meet};
pub(crate) use codec::{ADDRESS_BYTES_MAX, ADDRESSES_MAX};
pub(crate) use failure::Failure;
pub(crate) use handshake::{Handshake, Identity};
pub(crate) use message::{Beat, Hello, Message, OfferMade, Parting, Resync, Times, feature};
pub(crate) use rejection::Rejection;
pub use secret::{InvalidSecret, Secret};
pub(crate) use sharing::{Denial, Question, Sharing};
pub(crate) use version::VERSIONS;
