//! Random scenarios on the simulated fabric: nodes, mailboxes, senders, faults, all from one seed.
//!
//! Every message carries who sent it and its number among the messages of its sending node to its
//! mailbox, so that each node can write down what it sent, was told and got, without the library's
//! help:
//!
//! - **SC-1 history**: what the nodes wrote down breaks none of the rules of `ringpost_history`:
//!   at most once, in order, whole, all accounted for, every ask ended. Here a message counts as
//!   handled when it is in its mailbox, so that none is lost there.
//! - **SC-2 nothing else**: nothing comes that nobody sent, and an answer is the echo of its ask.
//! - **SC-3 no stall**: when the faults have ended, every sender ends too, in bounded virtual time.
//! - **SC-4 ready**: no frame ever finds the receive queue empty.
//!
//! Dial storms (`storm.rs`) are about connections, and demand in place of SC-1 and SC-2:
//!
//! - **ST-1 one at a time**: no node sees two links to a name, or a second run of a node before the
//!   first is reported down.
//! - **ST-2 one link per pair**: when the faults have ended, each two nodes get one link and one
//!   connection, and keep them; where a name is taken twice, one of the two gets it.
//! - **ST-3 the named error**: who has a link is heard on it; who has none because its name is
//!   taken is told so.
//!
//! And `isolation.rs` is about windows:
//!
//! - **ST-4 isolation**: a mailbox that nobody takes from costs the others at most a tenth of their
//!   throughput.

mod campaign;
mod diary;
mod faults;
mod host;
mod isolation;
mod life;
mod message;
mod node;
mod plan;
mod reached;
mod scenario;
mod storm;
mod traffic;

pub use campaign::{Scenario, Sum, attempt, first_failure, run_all};
pub use isolation::{isolation, throughput_beside_a_stuck_mailbox};
pub use plan::Plan;
pub use reached::Reached;
pub use scenario::{Outcome, run};
pub use storm::storm;
