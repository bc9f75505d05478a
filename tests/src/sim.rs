//! Random scenarios on the simulated fabric: nodes, mailboxes, senders, faults, all from one seed.
//!
//! Every message carries who sent it and its number among the messages of its sending node to its
//! mailbox, so that each node can write down what it sent, was told and got, without the library's
//! help:
//!
//! - **SC-1 history**: what the nodes wrote down breaks none of the rules of `ringpost_history`:
//!   at most once, in order, whole, all accounted for, every ask ended. Here a message counts as
//!   handled when it is in its mailbox.
//! - **SC-2 nothing else**: nothing comes that nobody sent, and an answer is the echo of its ask.
//! - **SC-3 no stall**: when the faults have ended, every sender ends too, in bounded virtual time.
//! - **SC-4 ready**: no frame ever finds the receive queue empty.

mod diary;
mod faults;
mod host;
mod life;
mod message;
mod plan;
mod scenario;
mod traffic;

pub use plan::Plan;
pub use scenario::{Outcome, Reached, run};
