//! Random scenarios on the simulated fabric: nodes, mailboxes, senders, faults, all from one seed.
//!
//! Every message carries who sent it and its number among the messages of its sending node to its
//! mailbox, so that the receiving side can judge it without the library's help:
//!
//! - **SC-1 order**: the numbers that reach a mailbox from one node only rise: first in first out,
//!   nothing twice, sizes mixed.
//! - **SC-2 whole**: every byte of a message is the one its number and place demand.
//! - **SC-3 accounted**: of the messages committed, as many were not delivered as were reported
//!   lost; those reported unknown may count either way.
//! - **SC-4 no stall**: when the faults have ended, every sender ends too, in bounded virtual time.
//! - **SC-5 answered**: every ask ends, with an answer or with a cause.
//! - **SC-6 ready**: no frame ever finds the receive queue empty.

mod faults;
mod host;
mod ledger;
mod plan;
mod scenario;
mod traffic;

pub use plan::Plan;
pub use scenario::{Outcome, Reached, run};
