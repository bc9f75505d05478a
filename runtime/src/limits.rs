//! All limits and time-outs of the runtime, each with its reason.
//!
//! No time-out decides on correctness: each only bounds a wait.

use std::time::Duration;

pub use ringpost_transport::limits::{LEASES_REVOKED_KEPT, LEND_FROM, LINGER, REVOKE_PATIENCE};

/// Number of messages that may wait in a mailbox, unless the node or the spawner sets another one.
pub const MAILBOX_CAPACITY: usize = 1024;
/// Maximum bytes, as they arrived, of messages from other nodes that an actor has stashed. One more
/// message, which may be larger, is allowed.
pub const STASH_BYTES_MAX: usize = 64 << 20;
/// Maximum number of messages that an actor takes at once from each of the two queues of its
/// mailbox: messages of this node, and messages of other nodes.
pub const BATCH_MESSAGES_MAX: usize = 32;
/// Maximum number of messages that an actor handles in a row before other tasks get a turn: the
/// number after which tokio's own channels yield, too.
pub const TURN_MESSAGES_MAX: u16 = 128;
/// Maximum nesting of actors that run on the threads of their askers: A asks B, B asks C, ...
pub const IN_PLACE_DEPTH_MAX: u8 = 4;
/// The longest turn that an actor may take on the thread of an asker or link. One turn of eight for
/// an asker and every turn for a link is measured. After a longer turn, the next [`IN_PLACE_RESTS`]
/// asks of that thread wake their actors instead. 50 us, or 1 ms in builds with debug assertions,
/// whose handlers are that much slower.
pub const IN_PLACE_TURN_MAX: Duration = Duration::from_micros(DEBUG_FACTOR * 50);
const DEBUG_FACTOR: u64 = if cfg!(debug_assertions) { 20 } else { 1 };
/// Number of asks of a thread that wake their actors after a turn longer than
/// [`IN_PLACE_TURN_MAX`].
pub const IN_PLACE_RESTS: u8 = 64;
/// Maximum number of messages for which an idle actor keeps memory, in each of two queues.
pub const QUEUE_KEPT_MESSAGES: usize = 64;
/// Maximum archive size of a message for which room was reserved in a mailbox of another node: it
/// fits into one frame of the default profile.
pub const PERMIT_BYTES: u32 = 8 * 1024;
/// Longest name of an actor, in bytes of UTF-8.
pub const ACTOR_NAME_BYTES_MAX: usize = 256;
/// Maximum number of actors in the chain of an ask. If more actors wait for its answer, the chain
/// contains the nearest ones.
pub const CHAIN_MAX: usize = 16;
/// Maximum bytes of a chain that travels with an ask: the names of its actors are cut to fit.
pub const CHAIN_BYTES_MAX: usize = 1024;
/// Maximum number of recorded waits of one handler. The log and snapshots do not show further ones,
/// and their asks are not checked for cycles.
pub const WAITS_MAX: usize = 64;
/// The longest pause between two look-ups of a name on another node for which a program waits.
pub const LOOK_UP_AGAIN: Duration = Duration::from_millis(500);
/// Time-out of asks that set none.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Time-out of [`Node::connect`](crate::Node::connect), unless the node sets another one.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time-out of an ask or a tell; longer ones are shortened to it, so that no clock
/// overflows.
pub const ASK_TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Maximum memory that a thread keeps between two replies to archive the next one.
pub const SCRATCH_BYTES_MAX: usize = 1024 * 1024;
/// Delay of a task that a node's runtime should have run at once, after which the log reports the
/// runtime as blocked: heartbeats go on, but asks of other nodes soon time out.
pub const BLOCKED_AFTER: Duration = Duration::from_secs(2);
/// Number of dead letters and events kept for a slow observer, which misses the oldest beyond that.
pub const OBSERVED_MAX: usize = 1024;
/// Time for which senders of this node wait for room in a mailbox before the log reports them.
pub const STALL_REPORTED: Duration = Duration::from_secs(10);
/// Maximum interval at which a node looks for senders that wait for room in a mailbox.
pub const STALL_LOOK: Duration = Duration::from_secs(5);
/// Maximum number of mailboxes that the log reports as stalled at the same time.
pub const STALLS_REPORTED_MAX: usize = 8;
/// Time for which a handler runs or waits before the log names it, unless its node sets another
/// one.
pub const HANDLER_REPORTED: Duration = Duration::from_secs(10);
/// The minimum of the time after which the log names a handler, because looking for such handlers
/// takes a moment per actor.
pub const HANDLER_REPORTED_MIN: Duration = Duration::from_millis(10);
/// Maximum number of handlers that the log names at once; further ones are only counted.
pub const HANDLERS_REPORTED_MAX: usize = 8;
/// Time that a child has to stop when its parent ends, unless the child sets another one.
pub const STOP_WITHIN: Duration = Duration::from_secs(5);
/// Number of restarts of an actor within [`RESTARTS_WITHIN`], unless the actor sets another one.
pub const RESTARTS_MAX: u32 = 5;
/// The period in which restarts are counted, unless the actor sets another one.
pub const RESTARTS_WITHIN: Duration = Duration::from_secs(60);
/// The pause before the first restart, unless the actor sets another one.
pub const BACKOFF_MIN: Duration = Duration::from_millis(10);
/// The longest pause before a restart, unless the actor sets another one.
pub const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Maximum bytes of the text of an actor's failure that is due to a linked actor.
pub const LINKED_TEXT_BYTES_MAX: usize = 512;
/// Maximum number of links of an actor at which another node may still add one.
pub const LINKS_MAX: usize = 65_536;
/// Maximum bytes of an ask by which another node links an actor: two addresses.
pub const TETHER_BYTES_MAX: usize = 4096;
/// Number of members of a group, unless the group sets another one.
pub const GROUP_MEMBERS_MAX: usize = 65_536;
/// Maximum number of messages of a group that wait for one member without room.
pub const GROUP_WAITING_MAX: usize = 64;
/// Number of messages that may wait in the mailbox of a pool's worker, unless the pool sets another
/// one. It is low so that a worker takes one message at a time, and senders that look for the least
/// loaded worker see the waiting messages.
pub const POOL_MAILBOX_CAPACITY: usize = 32;
/// Maximum number of workers in a pool: a sender that finds no room waits at all of them.
pub const POOL_WORKERS_MAX: usize = 4096;
/// Maximum number of actors of one type that live on a node because other nodes spawned them,
/// unless the type sets another one ([`Offered::LIVING_MAX`](crate::spawn::Offered::LIVING_MAX)).
pub const OFFERED_LIVING_MAX: usize = 65_536;
/// Maximum mailbox capacity of an actor that another node has spawned.
pub const OFFERED_MAILBOX_CAPACITY_MAX: usize = 65_536;
/// Maximum number of ranges that one call reads from or writes to a region.
pub const REGION_RANGES_MAX: usize = 1024;
/// Maximum number of leases that one message renews, so that no message occupies its node for long.
pub const LEASES_RENEWED_MAX: usize = 1024;
/// Maximum bytes of the text why an actor was not spawned for another node.
pub const REFUSAL_TEXT_BYTES_MAX: usize = 512;
/// Time for which a shutdown waits for killed actors to leave their running handlers.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(1);
/// Minimum time that the links of a node that shuts down have for their goodbye, even if its actors
/// were late: a round trip with a wide margin.
pub const GOODBYE_TIMEOUT_MIN: Duration = Duration::from_millis(500);
/// Maximum time that a shutdown takes beyond its deadline: for killed actors, for telling other
/// nodes how actors ended, for the goodbye, and for links that do not end on their own.
pub const SHUTDOWN_OVERTIME: Duration = Duration::from_secs(4);

const _: () = assert!(ACTOR_NAME_BYTES_MAX <= ringpost_transport::limits::MAILBOX_NAME_BYTES_MAX);
const _: () = assert!(BATCH_MESSAGES_MAX <= MAILBOX_CAPACITY);

const _: () = assert!(
    SHUTDOWN_OVERTIME.as_millis()
        == KILL_TIMEOUT.as_millis()
            + 2 * GOODBYE_TIMEOUT_MIN.as_millis()
            + 2 * ringpost_transport::limits::DRAIN_TIMEOUT.as_millis()
);
