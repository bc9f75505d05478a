//! Random scenarios on the simulated fabric: nodes, mailboxes, senders, faults, all from one seed.
//!
//! Every message carries its sender and a mark, by which its number among the messages of its
//! sending node to its mailbox is found. So each node can log its sends, their fates and the
//! messages it gets, without the library's help.
//!
//! When the faults have ended, every sender ends too, in bounded virtual time. A fault that a
//! scenario reports begins with one of these labels:
//!
//! - SC-1: the logs of the nodes break a rule of `ringpost_history`: at most once, in order, whole,
//!   all accounted for, every ask ended. Here a message counts as handled when it is in its
//!   mailbox, so that none is lost there.
//! - SC-2: a message arrives that no node sent, or an answer is not the echo of its ask.
//! - SC-4: a frame finds the receive queue empty.
//! - SC-5: in a run without faults a link is lost.
//! - SC-6: a node finds that another broke the protocol.
//! - SC-7: an ask is begun although its asker was told that it was not, or its asker on the same
//!   node gave it up before; or, in a run without faults, although an asker on another node gave it
//!   up a second of virtual time before.
//! - SC-8: the waiting messages of one run of a node, over all its links, are more than the
//!   mailbox's window, doubled as often as may be, and one message in a mailbox, or the link's
//!   window and one each in all.
//! - SC-9: in a run without faults, a node that leaves does not say goodbye in bounded virtual
//!   time, or loses a committed message, however many wait then.
//! - SC-10: a wake-up of a driver is lost. In some runs drivers are woken for nothing whenever
//!   nothing else can run, and then send nothing. Half of the runs without faults have no
//!   heartbeats, which would make up for a lost wake-up: there, too, every sender ends, and
//!   committed messages are sent in bounded time.
//! - SC-11: a send to a node that is down and not linked since does not fail when it is first
//!   polled, or a send that asked to wait fails because the node is down.
//!
//! Dialogues (`dialogue.rs`) are about asks between actors. They report SC-2 and SC-7 only: there
//! "begun" is when the handler runs.
//!
//! Monitors (`monitors.rs`) are about actors that watch each other. By `monitors/judge.rs` each
//! watcher is told of each end once, truly, and last.
//!
//! Dial storms (`storm.rs`) are about connections, and report in place of SC-1 and SC-2:
//!
//! - ST-1: a node sees two links to a name, or a second run of a node before the first is reported
//!   down.
//! - ST-2: when the faults have ended, two nodes do not get one link and one connection, or do not
//!   keep them. Where a name is taken twice, one of the two gets it.
//! - ST-3: a node with a link is not heard on it, or a node that has none because its name is taken
//!   is not told so.
//!
//! Clusters (`cluster.rs`) are about nodes that find each other by a name or by asking:
//!
//! - CL-1: once nothing is amiss, a link that needs no sender does not stand within a bound: a link
//!   to a seed, or between nodes that were linked and lost each other.
//! - CL-2: a link that a sender wants does not stand within a bound, or a first one not at the
//!   first try.
//! - CL-3: two nodes whose links fail at once make no fewer.
//! - CL-4: a node is reported down that lives and was not cut off.
//! - CL-5: a node starts with a silence that no clock can add up.
//! - CL-6: where unused links close, some do not close in the end, except links to seeds that lead
//!   to other nodes only, or do not stay closed until a sender wants them; or an ask that is sent
//!   as links close is not answered.
//!
//! And `isolation.rs` is about windows:
//!
//! - ST-4: a mailbox that nobody takes from costs the others more than a tenth of their throughput.

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
