//! The link protocol, sans I/O: no sockets, no clock, no tasks. `handle_*` takes frames and events
//! in, `poll_*` gives out frames to send; the driver owns the memory.
//!
//! In reading order: [`header`] is the bytes, [`frame`] reads and writes them, [`credit`] says when
//! a frame may be sent and [`trip`] when more slots would help, [`window`] when a message may be
//! committed, [`remote_mailbox`] and [`inlet`] are the two ends of an opened mailbox, [`asks`]
//! counts asks and [`age`] their deadlines, [`fragment`] is about messages larger than a slot,
//! [`loans`] and [`fetches`] about messages that the receiver fetches, [`lanes`] about the order of
//! service, [`fate`] about the fates of sent messages; [`error`] is what can go wrong;
//! [`send_queue`] and [`link`] put them together.

pub(crate) mod age;
pub(crate) mod asks;
pub(crate) mod credit;
pub(crate) mod error;
pub(crate) mod fate;
pub(crate) mod fetches;
pub(crate) mod fragment;
pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod inlet;
pub(crate) mod lanes;
pub(crate) mod link;
pub(crate) mod loans;
pub(crate) mod remote_mailbox;
pub(crate) mod send_queue;
#[cfg(feature = "steps")]
mod steps;
pub(crate) mod trip;
pub(crate) mod window;

#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
#[cfg(any(test, feature = "fuzz"))]
#[cfg_attr(not(test), allow(dead_code, reason = "a fuzz target needs only a part of it"))]
mod pair;
#[cfg(test)]
mod tests;
