//! Sending: the path of a message from a reference to a mailbox, or to the link to another node,
//! and the path of its answer back.

pub(crate) mod ask;
pub(crate) mod ask_set;
pub(crate) mod asker_gone;
pub(crate) mod asking;
pub(crate) mod destination;
pub(crate) mod entry;
pub(crate) mod permit;
pub(crate) mod port;
pub(crate) mod remote_send;
pub(crate) mod reply;
pub(crate) mod sending;
pub(crate) mod tell;
pub(crate) mod time_limit;
pub(crate) mod wait;
