//! Every bound and time-out of the transport that a peer or an operator can notice, with its
//! reason. Constants that only tune one file are in that file.
//!
//! No time-out decides whether something is correct: each only bounds a wait.

use std::time::Duration;

/// Longest node name, in bytes.
pub const NODE_NAME_BYTES_MAX: usize = 64;
/// Longest name or type name in an OPEN, in bytes.
pub const MAILBOX_NAME_BYTES_MAX: usize = 512;
/// Longest name of a mailbox's kind in an OPEN_REFUSED, in bytes; it fits every frame.
pub const KIND_NAME_BYTES_MAX: usize = 128;
/// Longest text that says why a mailbox closed; it fits every frame.
pub const CLOSE_TEXT_BYTES_MAX: usize = 256;
/// Alignment of every payload: an archive is used where it lies.
pub const PAYLOAD_ALIGN: usize = 16;
/// An archive has fewer levels than this, the root counted, each behind a pointer in the one
/// before, as the nodes of a tree are. Each takes stack of the thread that reads it; JSON parsers
/// stop here, too.
pub const ARCHIVE_DEPTH_MAX: usize = 128;
/// Largest offer of a fabric, in bytes.
pub const OFFER_BYTES_MAX: usize = 256;

/// Secrets that a node accepts besides its own: enough for the last change of the secret and for a
/// change that was broken off. Each is tried on a stranger's first message.
pub const SECRETS_ACCEPTED_MAX: usize = 4;
/// Plain bytes read from a connection before its peer proved that it knows the secret.
pub const UNPROVEN_BYTES_MAX: usize = 4 * 1024;
/// Connections that are still proving themselves; of more the source with the most gives one up.
pub const UNPROVEN_CONNECTIONS_MAX: usize = 64;
/// Default of the links that nodes at one address may have dialled: as many as a node remembers.
pub const LINKS_PER_SOURCE_MAX: u32 = 1024;
/// Period in which the log has a bounded number of lines of each cause: one warning that a
/// connection was refused, and [`PEER_LINES_MAX`] of links and nodes.
pub const LOG_PERIOD: Duration = Duration::from_secs(10);
/// Lines of each kind in the log in [`LOG_PERIOD`] about links and nodes that come and go, or are
/// not reached; one more says how many were left out.
pub const PEER_LINES_MAX: u32 = 50;
/// How long a connection may take to prove itself.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the lower-named node may take to choose a connection: it may have to ask an older one
/// whether it lives, and to drain it.
pub const COMMIT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long two nodes may take to tell each other how much they consumed of their last link: each
/// may have to drain it first.
pub const RESYNC_TIMEOUT: Duration = Duration::from_secs(5);
/// Most refusals in one message about the last link.
pub const RESYNC_REFUSALS_MAX: usize = 500;
/// How long one candidate fabric may take to connect.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long frames of full size may then take to go through, both ways.
pub const CONFIRM_TIMEOUT: Duration = Duration::from_secs(3);
/// Ways of one fabric that are tried in turn. Each may take [`CONNECT_TIMEOUT`] and
/// [`CONFIRM_TIMEOUT`] to be given up, all together half of the silence that finds a node down, and
/// only then comes the next fabric.
pub const WAYS_MAX: usize = 4;
/// Ways to one peer that are remembered as failed, and the most that an offer names.
pub const WAYS_AVOIDED_MAX: usize = 8;
/// How long a way that failed is tried after the others.
pub const WAY_AVOIDED_FOR: Duration = Duration::from_secs(5 * 60);
/// Minimum life of a link without the best fabric before that fabric is tried again: as long as a
/// change of the fabric may take to settle.
pub const BETTER_FABRIC_AFTER: Duration = Duration::from_secs(5);
/// First time after which the best fabric is tried again without a change that is known, where no
/// link had it before; where one had it, [`BETTER_FABRIC_AFTER`]. Each time senders wait while it
/// is tried.
pub const BETTER_FABRIC_PAUSE_MIN: Duration = Duration::from_secs(60);
/// Longest such time.
pub const BETTER_FABRIC_PAUSE_MAX: Duration = Duration::from_secs(60 * 60);
/// How long the peer's part of a step may take: it may have begun later, and takes as long itself.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
/// How long a dial may take to connect.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the look-up of a name may take: shorter than a dial, so that the error names the cause.
pub const RESOLVE_TIMEOUT: Duration = Duration::from_secs(2);
/// Addresses that are tried in one round of dials.
pub const ROUND_ADDRESSES_MAX: usize = 64;
/// Dials at once of addresses that peers have told; more wait.
pub const TOLD_DIALS_MAX: usize = 256;
/// Look-ups of names that a process runs at once, half of them of names that peers have told: each
/// blocks a thread.
pub const RESOLVE_THREADS_MAX: usize = 8;
/// Addresses that are kept of one seed though its name does not lead there now: nodes were met
/// there that are linked or idle.
pub const SEED_ADDRESSES_MAX: usize = 1024;
/// Addresses of one name that are tried in one round of dials.
pub const DIAL_ADDRESSES_MAX: usize = 16;
/// How long an address may be silent before the next one is tried beside it (the pause that RFC
/// 8305 recommends).
pub const DIAL_STAGGER: Duration = Duration::from_millis(250);
/// How long a peer that is disconnected may take to say goodbye.
pub const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept: the process may be out of file descriptors.
pub const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);
/// Longest first pause between two rounds of dials; doubles up to [`REDIAL_BACKOFF_MAX`]. Each
/// pause is drawn evenly from nothing to its longest.
pub const REDIAL_BACKOFF_MIN: Duration = Duration::from_millis(10);
/// Longest pause between two rounds of dials.
pub const REDIAL_BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Longest pause while a sender waits for the link, or while the node has no link at all.
pub const WANTED_BACKOFF_MAX: Duration = Duration::from_secs(2);
/// How long a link has to live before the pauses start over.
pub const LINK_SETTLED: Duration = Duration::from_secs(10);
/// How long a node that was linked and is silent is dialled without being wanted: longer than most
/// partitions last.
pub const RELINK_FOR: Duration = Duration::from_secs(60 * 60);
/// Nodes that are so dialled at the same time.
pub const RELINKS_MAX: usize = 256;
/// Lost nodes that are waited for as long as they asked for, where that is longer than
/// `down_after`: a peer that comes under ever new names cannot leave behind more of them.
pub const PATIENCE_MAX: usize = 256;
/// How often a seed is looked at that has nothing to do.
pub const SEED_LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// How often the name of a seed is looked up all of whose addresses are linked.
pub const SEED_LOOKUP_INTERVAL: Duration = Duration::from_secs(30);
/// Addresses of one node that are known, besides the seeds where it was met.
pub const ADDRESSES_KNOWN_MAX: usize = 16;
/// Default time between two heartbeats on the bootstrap connection, each way.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Shortest time between two heartbeats: three of them are longer than a busy machine takes to run
/// a thread that is ready.
pub const HEARTBEAT_INTERVAL_MIN: Duration = Duration::from_millis(250);
/// Longest time between two heartbeats, of this node and of a peer: a peer that is gone without a
/// word keeps its link for three of them.
pub const HEARTBEAT_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Silent heartbeat intervals after which a link is given up.
pub const HEARTBEATS_MISSED_MAX: u32 = 3;
/// A wait of senders that lasts this long is in the log, once when it is found and once when it is
/// over.
pub const STALL_REPORTED: Duration = Duration::from_secs(10);
/// Most such waits of one link in the log at the same time.
pub const STALLS_REPORTED_MAX: usize = 8;
/// A node that could not run for this long stood still: it says so, and does not count that time as
/// silence of its peers. Shorter delays are normal on a busy machine.
pub const PAUSE_NOTICED: Duration = Duration::from_secs(2);
/// Time between two probes of the runtime of a node's links by the node's own thread.
pub const LIVENESS_INTERVAL: Duration = Duration::from_millis(250);
/// How long an incumbent may take to answer when a newcomer claims its name.
pub const DUPLICATE_PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Default of `down_after`: silence after which a node is reported down.
pub const DOWN_AFTER: Duration = Duration::from_secs(8);
/// Shortest `down_after`: longer than [`PAUSE_NOTICED`], so that a node that stood still itself
/// finds no other node down.
pub const DOWN_AFTER_MIN: Duration = Duration::from_secs(3);
/// Longest `down_after`: a year, so that no clock overflows.
pub const DOWN_AFTER_MAX: Duration = DEADLINE_MAX;
/// Idle nodes that are linked at once to ask them where another node is.
pub const IDLE_ASKED_MAX: usize = 8;
/// How often this is done for senders that still wait when the node is down.
pub const IDLE_ASKED_INTERVAL: Duration = Duration::from_secs(30);
/// Linked nodes that are asked after a round of dials, if no sender waits for it, or only senders
/// that still wait when the node is down: that may go on for long.
pub const LINKED_ASKED_MAX: usize = 8;
/// Time after which a linked node is asked for the same node again, and other idle ones are linked
/// to be asked, while a sender waits that fails when the node is down.
pub const LINKED_ASKED_INTERVAL: Duration = Duration::from_secs(1);
/// Nodes that a linked node is asked for within [`LINKED_ASKED_INTERVAL`].
pub const LINKED_QUESTIONS_MAX: usize = 256;
/// Nodes that one idle node is asked for when it is linked.
pub const QUESTIONS_MAX: usize = 64;
/// Shortest `idle_close`.
pub const IDLE_CLOSE_MIN: Duration = Duration::from_secs(1);
/// Longest `down_after` that a peer can ask for: no peer keeps the senders of this node waiting for
/// longer. Three of the slowest heartbeats fit.
pub const DOWN_AFTER_TOLD_MAX: Duration = Duration::from_secs(10 * 60);
/// How long a closing queue pair may take to give its work requests back.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the drivers of links spin with the profile `latency`: as long as an answer takes on a
/// network of microseconds, and about as long as it costs to sleep and be woken, so that a wait
/// which turns out longer costs twice as much at most.
pub const SPIN: Duration = Duration::from_micros(20);
/// Longest such time: a link that carries a message each millisecond takes a core then.
pub const SPIN_MAX: Duration = Duration::from_millis(1);

/// Default ring: receive slots posted for one peer from the start, so that an idle one is cheap.
pub const RING_SLOTS: u32 = 16;
/// Default size that a ring may grow to: 8 MiB are under way at once, without tails of frames.
pub const RING_SLOTS_GROWN: u32 = 1024;
/// Size below which a ring grows whenever its peer is short of slots, without proof that it helps.
pub const RING_BYTES_SMALL: usize = 1024 * 1024;
/// Default of the bytes by which all rings of a node together may grow.
pub const RING_GROWTH_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Default slot: 8 KiB of payload and 256 B for headers.
pub const SLOT_BYTES: u32 = 8 * 1024 + 256;
/// Slot of the profile `small`.
pub const SLOT_BYTES_SMALL: u32 = 4 * 1024 + 256;
/// Smallest slot a peer may offer: an OPEN with the longest names fits.
pub const SLOT_BYTES_MIN: u32 = 2 * 1024;
/// Smallest ring a peer may offer.
pub const RING_SLOTS_MIN: u32 = 8;
/// Largest ring a peer may offer.
pub const RING_SLOTS_MAX: u32 = 4096;
/// Largest slot a peer may offer.
pub const SLOT_BYTES_MAX: u32 = 1024 * 1024;
/// Receive buffers per ring slot: leases never cost the link its credits.
pub const POOL_PER_RING: u32 = 2;
/// Slots that data never takes, so that replies, control and credit always move.
pub const CREDIT_RESERVE: u32 = 4;

/// Default size limit of one message, in bytes of what the user sends.
pub const MESSAGE_BYTES_MAX: u32 = 64 * 1024 * 1024;
/// Largest size limit of one message that a profile may set.
pub const MESSAGE_BYTES_MOST: u32 = 1024 * 1024 * 1024;
/// Returns the most bytes that the archive of a message may have whose user data is limited to
/// `message_bytes_max` bytes: lengths, pointers and padding may add 256 bytes and a thousandth.
pub const fn archive_bytes_max(message_bytes_max: u32) -> u32 {
    message_bytes_max.saturating_add(256 + message_bytes_max / 1024)
}
/// Messages of one peer that may wait in one mailbox.
pub const MAILBOX_WINDOW_MESSAGES: u32 = 2048;
/// Bytes of one peer that may wait in one mailbox: messages of 1 MiB stream.
pub const MAILBOX_WINDOW_BYTES: u32 = 8 * 1024 * 1024;
/// Times that the window of a mailbox is doubled, at most, while the sender waits and the program
/// takes all messages: 32 MiB fill a path of 10 ms at 25 Gbit/s.
pub const WINDOW_DOUBLINGS_MAX: u16 = 2;
/// Bytes of one peer that may wait in all mailboxes together.
pub const LINK_WINDOW_BYTES: u32 = 64 * 1024 * 1024;
/// Messages of one peer that may wait in all mailboxes together.
pub const LINK_WINDOW_MESSAGES: u32 = 64 * 1024;
/// Messages that one mailbox may accept. The layer above keeps to it.
pub const ACCEPTED_MAX: usize = 4096;
/// OPENs that may be unanswered on one link; more wait at their sender.
pub const OPENS_MAX: usize = 1024;
/// Asks that may be pending on one link, each until its answer arrives, whether its asker still
/// waits or not.
pub const PENDING_ASKS_MAX: usize = 64 * 1024;
/// Bytes of answers to one peer that may wait to be sent; with more, no further ask of that peer is
/// begun. Those being made when the bound is reached come on top: one for each handler that runs.
pub const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long dropping the last handle of a node waits until committed messages have left.
pub const LINGER: Duration = Duration::from_secs(1);
/// Longest such time: a program that ends is not to stand still.
pub const LINGER_MAX: Duration = Duration::from_secs(60);
/// Bytes of buffers of large messages that a process keeps for the next ones: of two that are as
/// large as they may be by default, and of others.
pub const SPARE_BYTES_MAX: usize = 160 * 1024 * 1024;
/// How long such a buffer is kept unused.
pub const SPARE_KEPT: Duration = Duration::from_secs(10);
/// Longest time that an asker of another node is believed to wait: a year, so that no clock
/// overflows.
pub const DEADLINE_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Nodes that a node remembers without having, or wanting, a link to them.
pub const PEERS_KNOWN_MAX: usize = 1024;

/// Bytes of a frame of emulated one-sided access.
pub const ONE_SIDED_FRAME_BYTES: usize = 16 * 1024;
/// Requests of emulated one-sided access that are not answered: with the answers to as many of the
/// peer's, and as many receives, that is 512 KiB for each queue pair.
pub const ONE_SIDED_WINDOW: usize = 8;

/// Work requests posted at once.
pub const POST_LIST_MAX: usize = 32;
/// One send in this many is signaled (and the last before idle).
pub const SIGNAL_EVERY: u32 = 32;
/// Completions taken per poll.
pub const POLL_BATCH: usize = 32;
/// Inline sends, where the fabric can, up to this many bytes (perftest's default).
pub const INLINE_BYTES: u32 = 236;

/// Times a fabric may be asked to try a frame again that found no receive: 7 is endless in verbs.
pub const RNR_RETRY_MAX: u8 = 6;
/// Bytes taken from a mailbox at which a report is due even if half of the window is more: over a
/// long path a sender can send, in each round trip, the window less the unreported bytes.
pub const WINDOW_BYTES_DUE: u32 = 1024 * 1024;
/// Work requests in one queue of the tcp fabric.
pub const TCP_QUEUE_MAX: u32 = 16 * 1024;
/// Bytes of one frame on the tcp fabric: the largest slot, and headers.
pub const TCP_FRAME_BYTES_MAX: u32 = SLOT_BYTES_MAX + 4 * 1024;
/// Bytes that the tcp fabric sends inline; it saves nothing there, but is refused as elsewhere.
pub const TCP_INLINE_BYTES_MAX: u32 = 1024;
/// Bytes of one region of the tcp fabric.
pub const TCP_REGION_BYTES_MAX: usize = 16 * 1024 * 1024 * 1024;
/// The bytes that one read of a data connection takes beyond the frame it is in.
pub const TCP_READ_AHEAD_BYTES: usize = 64 * 1024;
/// The same after a frame with a tail: the next frame, and little of its tail, which would have to
/// be copied.
pub const TCP_READ_AHEAD_BYTES_TAIL: usize = 256;
/// Bytes of the tail of one frame of the tcp fabric.
pub const TCP_TAIL_BYTES_MAX: u32 = 64 * 1024;
/// Reads in one call of the tcp fabric, so that a peer that never stops cannot hold the task.
pub const TCP_READS_PER_CALL: usize = 8;
/// Buffers in one write of the tcp fabric: a post list of frames of which each has a prefix and
/// a tail, twice.
pub const TCP_WRITE_SLICES: usize = 6 * POST_LIST_MAX;

/// Bytes of frames in one chunk of the tcps fabric.
pub const TCPS_CHUNK_BYTES_MAX: usize = 16 * 1024;
/// Chunks of this length that wait for the stream at most, or are read at once.
pub const TCPS_BUFFERED_CHUNKS: usize = 4;
/// Chunks after which a direction of the tcps fabric gets its next key: at most 1 GiB.
pub const TCPS_REKEY_CHUNKS: u32 = 64 * 1024;

/// Bytes of one frame on the verbs fabric: the largest slot, and headers.
#[cfg(feature = "verbs")]
pub const VERBS_FRAME_BYTES_MAX: u32 = SLOT_BYTES_MAX + 4 * 1024;
/// Addresses in one offer of the verbs fabric; more do not fit in [`OFFER_BYTES_MAX`].
#[cfg(feature = "verbs")]
pub const VERBS_ADDRESSES_MAX: usize = 6;
/// Reads and atomic operations of one queue pair that are under way: what adapters commonly have
/// for each. The device works off more one after the other.
#[cfg(feature = "verbs")]
pub const VERBS_READS_MAX: u8 = 16;
/// How long a port may be down before its queue pairs end: the time in which heartbeats notice that
/// a node is silent.
#[cfg(feature = "verbs")]
pub const VERBS_PORT_GRACE: Duration = Duration::from_secs(3);
/// Completion events that are acknowledged together: each time takes a lock in the library.
#[cfg(feature = "verbs")]
pub const VERBS_ACKNOWLEDGE_EVERY: u32 = 16;
/// Pause of a sender whose frame found no receive, in the encoding of verbs: 0.64 ms. (0 would be
/// 655 ms.)
#[cfg(feature = "verbs")]
pub const VERBS_RNR_TIMER: u8 = 12;
/// Routers that a packet may pass.
#[cfg(feature = "verbs")]
pub const VERBS_HOP_LIMIT: u8 = 64;
/// Default wait for an acknowledgement, in the encoding of verbs: 4.096 us * 2^14 = 67 ms.
#[cfg(feature = "verbs")]
pub const VERBS_TIMEOUT: u8 = 14;
/// Default number of times that an unacknowledged packet is sent again. (7 would be endless on
/// SoftRoCE.)
#[cfg(feature = "verbs")]
pub const VERBS_RETRIES: u8 = 6;

const _: () = assert!(
    DOWN_AFTER_TOLD_MAX.as_secs()
        >= HEARTBEATS_MISSED_MAX as u64 * HEARTBEAT_INTERVAL_MAX.as_secs()
);
const _: () = assert!(SLOT_BYTES_MIN as usize >= 2 * MAILBOX_NAME_BYTES_MAX + 256);
const _: () = assert!((SLOT_BYTES as usize).is_multiple_of(PAYLOAD_ALIGN));
const _: () = assert!((SLOT_BYTES_SMALL as usize).is_multiple_of(PAYLOAD_ALIGN));
const _: () = assert!(RING_SLOTS / 4 <= RING_SLOTS - CREDIT_RESERVE && RING_SLOTS / 4 >= 2);

/// Operations on memory of one peer that are under way at one time, of all tasks together, counted
/// in slots of [`ONE_SIDED_SLOT_BYTES`]: one of 256 KiB counts as eight.
pub const ONE_SIDED_OPERATIONS: u32 = 32;
/// Slots for them: what an operation brought lies in its slot until its task has copied it.
pub const ONE_SIDED_SLOTS: u32 = 2 * ONE_SIDED_OPERATIONS;
/// Bytes of the shortest slot; longer ones are as long as several. With [`ONE_SIDED_SLOTS`] that is
/// 2 MiB for each peer whose memory is used.
pub const ONE_SIDED_SLOT_BYTES: usize = 32 * 1024;
/// Bytes that one operation moves at most: a longer one goes in several, so that what the first
/// ones brought is copied while the next ones are under way. Every device takes as many.
pub const ONE_SIDED_BYTES_MAX: usize = 8 * ONE_SIDED_SLOT_BYTES;
/// Bytes of a write after which the device is told, while the next ones are copied.
pub const ONE_SIDED_DOORBELL_BYTES: usize = ONE_SIDED_BYTES_MAX;
/// Time without an outcome after which a queue pair for one-sided access is given up, though its
/// link lives: its connection is lost without a sign. Longer than any operation waits where both
/// nodes run, and as long as a node is waited for.
pub const ONE_SIDED_PATIENCE: Duration = DOWN_AFTER;
/// The time for which one look at such a queue pair counts at most: looks come once a second, or
/// with each heartbeat where these are rarer.
pub const PATIENCE_LOOK_MAX: Duration = Duration::from_secs(ONE_SIDED_PATIENCE.as_secs() / 4);
/// Heartbeats after which a peer knows at the latest that a driver stands still: at the first the
/// driver has just run, at the second it is asked, the third says that it does not answer, and
/// takes its time on the way.
pub const STALL_KNOWN_BEATS: u32 = 4;
/// Time after which a lent message that the peer does not answer is taken back: the queue pair by
/// which it was to be read is given up. Longer than the peer needs to find out that a read does not
/// complete, and to read all that may be lent at some MB/s.
pub const LOAN_PATIENCE: Duration = Duration::from_secs(4 * ONE_SIDED_PATIENCE.as_secs());
/// Time after which a queue pair for one-sided access is given up if its peer has not let go of the
/// shares it was asked to. 1 MiB may be under way on them, over a path of some 40 KB/s.
pub const DRAINING_PATIENCE: Duration = LOAN_PATIENCE;
/// Least bytes that a device sends in one full packet: the smallest path MTU that there is.
pub const PACKET_BYTES_MIN: usize = 256;
/// Time after which a queue pair for one-sided access is given up if the device of this side or of
/// the peer has not made or connected it. Longer than a slow device takes that works.
pub const OPENING_PATIENCE: Duration = Duration::from_secs(4 * ONE_SIDED_PATIENCE.as_secs());
/// Time after which no queue pair for one-sided access is made because the previous one has not
/// gone. Less than [`OPENING_PATIENCE`], so that the reason is known.
pub const PLACE_PATIENCE: Duration = Duration::from_secs(OPENING_PATIENCE.as_secs() / 2);
/// Unanswered questions about shared memory of one node to another; more wait. So few answers
/// always have room on the connection, whatever else it carries: neither side waits for the other
/// to read.
pub const SHARING_UNANSWERED_MAX: usize = 256;
/// Shares that one peer was asked to let go of and has not, beyond which it is granted no others.
pub const ENDS_UNHEARD_MAX: usize = 64 * SHARING_UNANSWERED_MAX;
/// How long a node waits for a peer to say that it has no operation under way on a share that has
/// ended. An operation that the peer begins later ends the peer's own queue pair.
pub const REVOKE_PATIENCE: Duration = Duration::from_secs(2);

/// Leases that were revoked before their time and that a node still knows as revoked. It says of
/// earlier ones that their time is over.
pub const LEASES_REVOKED_KEPT: usize = 1024;

/// How long an executor keeps the atomic operations of a memory at least, even if another executor
/// is asked for: two that count on it in turn do not take it from each other all the time.
pub const EXECUTOR_KEPT: Duration = Duration::from_millis(500);
/// The same, as a multiple of the time that a device took to register the memory for the executor:
/// so it works most of the time, and waits little.
pub const EXECUTOR_KEPT_TIMES: u32 = 8;
/// How long the atomic operations of a memory are reserved for an executor that was refused them,
/// once the last executor has let go; also how long after its last refusal it keeps its place in
/// the queue. Its peer is told to try again within half a second, in which others of the same
/// executor may join its turn ([`EXECUTOR_KEPT`]); the rest is more than enough for the way.
pub const EXECUTOR_RESERVED: Duration = Duration::from_secs(2);

/// Bytes from which a message stays with its sender until its receiver has fetched it, on fabrics
/// that lend. Shorter ones are sooner there in parts: a loan takes three ways instead of one.
///
/// Measured on SoftRoCE in a guest with two emulated processors, on two cores of an AMD EPYC that
/// builds filled: `pace lent ADDRESS BYTES FROM`, lent and `never` in turns, three rounds in one
/// boot, medians in MiB/s, lent / in parts. 32 KiB: 7.9 / 21.2; 64 KiB: 14.6 / 21.1; 128 KiB:
/// 18.0 / 16.9; 256 KiB: 28.7 / 27.3; 512 KiB: 29.0 / 27.6. Adapters were not measured.
pub const LEND_FROM: u32 = 128 * 1024;
/// The least that [`LEND_FROM`] can be set to.
pub const LEND_FROM_MIN: u32 = 4096;
/// Messages and answers of one side that are lent at one time. Some are read while the answers to
/// those before them and the LENDs of the next are on their way: a device may serve all reads that
/// it has before its peer hears of one (SoftRoCE does).
pub const LOANS_MAX: usize = 16;
/// Bytes of messages and answers of one side that are lent at one time. A longer message goes in
/// parts: its peer would need that much memory for it at once.
pub const LENT_BYTES_MAX: usize = 72 * 1024 * 1024;
/// Bytes in which the messages land that a node fetches from one peer, until they are handled, and
/// that are kept for the next ones. Where they do not suffice messages come in parts.
pub const LANDING_BYTES_MAX: usize = 96 * 1024 * 1024;
/// Bytes of them that tasks view of one peer's memory: as many are left to messages.
pub const VIEWED_BYTES_MAX: usize = LANDING_BYTES_MAX / 2;
/// Bytes of messages that a node lends at one time by default, over all links.
pub const LENT_BY_NODE_MAX: u64 = 256 * 1024 * 1024;
/// Bytes of memory in which messages land on a node by default, over all links.
pub const LANDING_OF_NODE_MAX: u64 = 256 * 1024 * 1024;
/// Size up to which a message is registered by the thread that wants to send it: the archive of 1
/// MiB. That takes less time than to wake another thread. Longer messages are registered by a
/// thread that may block.
pub const REGISTERED_AT_ONCE_MAX: usize = archive_bytes_max(1024 * 1024) as usize;
/// Reads of fetches that are under way from one peer. They have room of their own, so that no
/// message waits for a task that uses memory of the peer.
pub const FETCH_OPERATIONS: u32 = LOANS_MAX as u32;
/// Bytes of a part of a share from which it is worth to fetch it: a fetch takes a task of its own.
pub const FETCH_FROM: usize = 64 * 1024;
/// Bytes that one read of a part of a share moves: half of the bytes under way at one time.
pub const FETCH_SHARED_BYTES: usize = ONE_SIDED_OPERATIONS as usize * ONE_SIDED_SLOT_BYTES / 2;
/// Bytes that one read of a fetch moves: the archive of 1 MiB goes as a whole. Every device that
/// has reads takes as many.
pub const FETCH_BYTES: usize = archive_bytes_max(1024 * 1024) as usize;
