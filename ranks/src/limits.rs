//! Every bound of this crate, with its reason. No time-out decides whether something is correct:
//! each only bounds a wait.

use std::time::Duration;

/// Most ranks of a world: each is linked with each other one.
pub const RANKS_MAX: usize = 4096;
/// Most ranks that a rank hears of before its world begins: arrivals beyond its size are refused
/// later, and still more of them are ignored.
pub const CANDIDATES_MAX: usize = 2 * RANKS_MAX;
/// Longest name of a job, in bytes: it is part of the names of actors and nodes.
pub const JOB_BYTES_MAX: usize = 40;
/// Bytes of messages from one rank that may wait at another until they are received, unless the
/// world's builder says otherwise: so large that two ranks may send each other 64 MiB first, in
/// messages of 256 bytes or more ([`MESSAGE_OVERHEAD_BYTES`]).
pub const WINDOW_BYTES: usize = 80 << 20;
/// Added to the bytes of each waiting message, for the memory around it.
pub const MESSAGE_OVERHEAD_BYTES: usize = 64;
/// Longest message, in bytes: 1 GiB.
pub const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// Longer messages are sent in packets of this many bytes: one is archived while another is on its
/// way, and each fits well below the `message_bytes_max` of every profile.
pub const PACKET_BYTES: usize = 512 << 10;
/// How long a join waits for the other ranks, unless the builder says otherwise.
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause before a rank proposes a world again when other ranks were promised to another one.
pub const PROPOSE_AGAIN: Duration = Duration::from_millis(50);
/// How often a send that waits for room looks for a circle of ranks that wait for each other.
pub const CIRCLE_LOOK: Duration = Duration::from_secs(1);
/// Looks that have to find the same circle before a send fails: in the seconds between, no rank of
/// it has received anything.
pub const CIRCLE_LOOKS: u64 = 4;
/// Bytes of collective operations from one rank that may wait at a rank that has not called them
/// yet. A rank that sends more breaks the protocol, and is taken for dead.
pub const AHEAD_BYTES_MAX: usize = 1 << 30;
/// Agreements whose outcome a rank keeps for ranks that ask late.
pub const AGREEMENTS_KEPT: usize = 64;
