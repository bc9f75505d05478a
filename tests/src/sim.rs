//! Random scenarios on the simulated fabric: nodes, mailboxes, senders, faults, all from one seed.
//!
//! Every message carries its sender and a mark, by which its number among the messages of its
//! sending node to its mailbox is found. So each node can log its sends, their fates and the
//! messages it gets, without the library's help:
//!
//! - **SC-1 history**: what the nodes wrote down breaks none of the rules of `ringpost_history`:
//!   at most once, in order, whole, all accounted for, every ask ended. Here a message counts as
//!   handled when it is in its mailbox, so that none is lost there.
//! - **SC-2 nothing else**: nothing comes that nobody sent, and an answer is the echo of its ask.
//! - **SC-3 no stall**: when the faults have ended, every sender ends too, in bounded virtual time.
//! - **SC-4 ready**: no frame ever finds the receive queue empty.
//! - **SC-5 no loss without a fault**: in a run without faults no link is lost.
//! - **SC-6 honest**: no node ever finds that another broke the protocol: they all keep it.
//! - **SC-7 given up**: an ask is never begun if its asker was told that it was not, or if its
//!   asker on the same node gave it up before; nor, in a run without faults, if an asker on another
//!   node gave it up a second of virtual time before.
//! - **SC-8 bounded**: the waiting messages of one run of a node, over all its links, are at most
//!   the mailbox's window and one message in a mailbox, and the link's window and one each in all.
//! - **SC-9 goodbye**: in a run without faults, nodes that leave say goodbye in bounded virtual
//!   time and lose nothing that was committed, however much of it waits then.
//! - **SC-10 woken**: no wake-up of a driver is lost. In some runs drivers are woken for nothing
//!   whenever nothing else can run, and then send nothing. Half of the runs without faults have no
//!   heartbeats, which would make up for a lost wake-up: SC-3 holds there too, and committed
//!   messages are sent in bounded time.
//! - **SC-11 down**: a send to a node that is down and not linked since fails when it is first
//!   polled, unless it asked to wait: then it never fails because the node is down.
//!
//! Dialogues (`dialogue.rs`) are about asks between actors, and of these demand SC-3 and SC-7 only:
//! there "begun" is when the handler runs.
//!
//! Monitors (`monitors.rs`) are about actors that watch each other, and demand SC-3, and what the
//! judge of `monitors/judge.rs` says: of each end each watcher is told once, truly, and last.
//!
//! Dial storms (`storm.rs`) are about connections, and demand in place of SC-1 and SC-2:
//!
//! - **ST-1 one at a time**: no node sees two links to a name, or a second run of a node before the
//!   first is reported down.
//! - **ST-2 one link per pair**: when the faults have ended, each two nodes get one link and one
//!   connection, and keep them; where a name is taken twice, one of the two gets it.
//! - **ST-3 the named error**: a node with a link is heard on it; a node that has none because its
//!   name is taken is told so.
//!
//! Clusters (`cluster.rs`) are about nodes that find each other by a name or by asking:
//!
//! - **CL-1 whole**: once nothing is amiss, all links that need no sender stand within a bound:
//!   links to seeds, and links between nodes that were linked and lost each other.
//! - **CL-2 wanted**: so does each link that a sender wants; the first time at the first try.
//! - **CL-3 no storm**: two nodes whose links fail at once make ever fewer.
//! - **CL-4 healthy**: no node is reported down that lives and was not cut off.
//! - **CL-5 refused**: no node starts with a silence that no clock can add up.
//! - **CL-6 at rest**: where unused links close, all of them close in the end, except links to
//!   seeds that lead to other nodes only, and stay closed until a sender wants one; asks that are
//!   sent as links close are answered.
//!
//! And `isolation.rs` is about windows:
//!
//! - **ST-4 isolation**: a mailbox that nobody takes from costs the others at most a tenth of their
//!   throughput.

mod asks;
mod campaign;
mod cluster;
mod dialogue;
mod diary;
mod faults;
mod host;
mod inbox;
mod isolation;
mod life;
mod message;
mod monitors;
mod node;
mod plan;
mod reached;
mod scenario;
mod shared;
mod storm;
mod traffic;

pub use campaign::{Scenario, Sum, attempt, first_failure, run_all};
pub use cluster::cluster;
pub use dialogue::dialogue;
pub use isolation::{isolation, throughput_beside_a_stuck_mailbox};
pub use monitors::monitors;
pub use plan::Plan;
pub use reached::Reached;
pub use scenario::{Outcome, run};
pub use storm::storm;

/// The secret that all nodes share.
const SECRET: &[u8] = b"a secret of the tests, of 43 characters and more";
