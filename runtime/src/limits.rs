//! Every bound and every time-out of the runtime, in one place, with its reason.
//!
//! No time-out decides whether something is correct: each only bounds a wait.

use std::time::Duration;

pub use ringpost_transport::limits::{LEND_FROM, LINGER, REVOKE_PATIENCE};

/// Messages that may wait in a mailbox, unless the node or the spawner says otherwise.
pub const MAILBOX_CAPACITY: usize = 1024;
/// Most bytes, as they arrived, of the messages of other nodes that an actor has put aside, but for
/// one, which may be larger.
pub const STASH_BYTES_MAX: usize = 64 << 20;
/// Most messages an actor takes from each intake of its mailbox at once.
pub const BATCH_MESSAGES_MAX: usize = 32;
/// Most messages that an actor handles, one after the other, before other tasks have a turn: as
/// many as tokio's own channels hand out.
pub const TURN_MESSAGES_MAX: u16 = 128;
/// Most actors that take their turns within each other on one thread, each by the ask of the one
/// before.
pub const IN_PLACE_DEPTH_MAX: u8 = 4;
/// The longest turn that an actor takes on the thread of an asker or link without consequences.
/// Each eighth turn for an asker is measured, and each turn for a link. After a longer turn, the
/// next [`IN_PLACE_RESTS`] asks of that thread wake their actors instead.
pub const IN_PLACE_TURN_MAX: Duration = Duration::from_micros(50);
/// See [`IN_PLACE_TURN_MAX`].
pub const IN_PLACE_RESTS: u8 = 64;
/// Most messages for which an actor that waits keeps memory, in each of two queues.
pub const QUEUE_KEPT_MESSAGES: usize = 64;
/// How large the archive of a message may be for which room was reserved in a mailbox of another
/// node: as much as fits into one frame of the default profile.
pub const PERMIT_BYTES: u32 = 8 * 1024;
/// Longest name of an actor, in bytes of UTF-8.
pub const ACTOR_NAME_BYTES_MAX: usize = 256;
/// Most actors in the chain of an ask: of more that wait for its answer the nearest.
pub const CHAIN_MAX: usize = 16;
/// Most bytes of a chain that travels with an ask: the names of its actors are cut to fit.
pub const CHAIN_BYTES_MAX: usize = 1024;
/// Sends of one handler that wait at once of which the log and snapshots know, and whose asks have
/// a chain.
pub const WAITS_MAX: usize = 64;
/// The longest pause between two looks for a name of another node, for which a program waits.
pub const LOOK_UP_AGAIN: Duration = Duration::from_millis(500);
/// How long an ask waits, unless it says otherwise.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long [`Node::connect`](crate::Node::connect) tries, unless the node was told otherwise.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time-out of an ask or a tell; longer ones are shortened to it: no clock overflows.
pub const ASK_TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Memory that a thread keeps between two replies for the archive of the next.
pub const SCRATCH_BYTES_MAX: usize = 1024 * 1024;
/// How late a task is that a node's runtime should have run at once, when the log says that the
/// runtime is blocked: heartbeats go on, but asks of others soon time out.
pub const BLOCKED_AFTER: Duration = Duration::from_secs(2);
/// Dead letters and events kept for a slow observer; it misses the oldest beyond that.
pub const OBSERVED_MAX: usize = 1024;
/// How long senders of this node wait for room in a mailbox until the log says so.
pub const STALL_REPORTED: Duration = Duration::from_secs(10);
/// How often a node looks for them.
pub const STALL_LOOK: Duration = Duration::from_secs(5);
/// Most mailboxes of which the log says so at the same time.
pub const STALLS_REPORTED_MAX: usize = 8;
/// How long a handler runs or waits until the log names it, unless its node says otherwise.
pub const HANDLER_REPORTED: Duration = Duration::from_secs(10);
/// The least such time: a look takes a moment for each actor.
pub const HANDLER_REPORTED_MIN: Duration = Duration::from_millis(10);
/// Most handlers that the log names at one look; more are counted.
pub const HANDLERS_REPORTED_MAX: usize = 8;
/// How long a child has to stop when its parent ends, unless it says otherwise.
pub const STOP_WITHIN: Duration = Duration::from_secs(5);
/// Restarts of an actor within [`RESTARTS_WITHIN`], unless it says otherwise.
pub const RESTARTS_MAX: u32 = 5;
/// The time in which restarts are counted, unless the actor says otherwise.
pub const RESTARTS_WITHIN: Duration = Duration::from_secs(60);
/// The pause before the first restart, unless the actor says otherwise.
pub const BACKOFF_MIN: Duration = Duration::from_millis(10);
/// The longest pause before a restart, unless the actor says otherwise.
pub const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Longest text, in bytes, of why an actor failed with another one that it is linked to.
pub const LINKED_TEXT_BYTES_MAX: usize = 512;
/// Most links that one actor has when another node asks for one more.
pub const LINKS_MAX: usize = 65_536;
/// Longest ask, in bytes, by which another node has an actor linked: two addresses.
pub const TETHER_BYTES_MAX: usize = 4096;
/// Members of a group, unless it says otherwise.
pub const GROUP_MEMBERS_MAX: usize = 65_536;
/// Messages of a group that wait for one member which has no room.
pub const GROUP_WAITING_MAX: usize = 64;
/// Messages that may wait in the mailbox of a worker of a pool, unless the pool says otherwise: so
/// few that the worker takes one at a time, and what waits is seen by those that look for the least
/// loaded one.
pub const POOL_MAILBOX_CAPACITY: usize = 32;
/// Most workers of a pool: each sender that finds no room waits at all of them.
pub const POOL_WORKERS_MAX: usize = 4096;
/// Most actors of one type that live on a node because other nodes had it spawn them, unless the
/// type says otherwise ([`Offered::LIVING_MAX`](crate::Offered::LIVING_MAX)).
pub const OFFERED_LIVING_MAX: usize = 65_536;
/// Most messages that another node can have wait in the mailbox of an actor that it has spawned.
pub const OFFERED_MAILBOX_CAPACITY_MAX: usize = 65_536;
/// Longest text, in bytes, of why an actor was not spawned for another node.
pub const REFUSAL_TEXT_BYTES_MAX: usize = 512;
/// How long a shutdown waits for killed actors to leave their running handlers.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(1);
/// The least time that the links of a node that shuts down have for their goodbye, however late its
/// actors were: a round trip, with a wide margin.
pub const GOODBYE_TIMEOUT_MIN: Duration = Duration::from_millis(500);
/// How much longer than its deadline a shutdown takes at most: for killed actors, for what tells
/// other nodes how actors ended, for the goodbye, and for links that do not end by themselves.
pub const SHUTDOWN_OVERTIME: Duration = Duration::from_secs(4);

const _: () = assert!(ACTOR_NAME_BYTES_MAX <= ringpost_transport::limits::MAILBOX_NAME_BYTES_MAX);
const _: () = assert!(BATCH_MESSAGES_MAX <= MAILBOX_CAPACITY);

const _: () = assert!(
    SHUTDOWN_OVERTIME.as_millis()
        == KILL_TIMEOUT.as_millis()
            + 2 * GOODBYE_TIMEOUT_MIN.as_millis()
            + 2 * ringpost_transport::limits::DRAIN_TIMEOUT.as_millis()
);
