//! Fabrics: reliable-connected queue pairs over memory they can reach.
//!
//! The trait keeps the shape and the words of verbs, so that one link state machine and one
//! conformance suite serve them all, and so that an emulation cannot be kinder than hardware.
//! It is object safe; calls carry batches.
//!
//! # The contract
//!
//! The promises of every fabric:
//!
//! - **PV-1 memory**: a fabric hands out its own memory ([`Fabric::alloc`]) and accepts only slots
//!   of it. A queue pair keeps the regions of its outstanding slots alive.
//! - **PV-2 tokens**: a slot given to a work request comes back exactly once, in a completion, or
//!   is dropped with the queue pair. Nothing else reads or writes it in between.
//! - **PV-3 order**: frames arrive whole, once, in the order they were posted, each in the oldest
//!   posted receive. Completions of one queue (send or receive) come in posting order.
//! - **PV-4 signals**: an unsignaled send that succeeded gives its slot back, as a success, just
//!   before the next completion of the send queue that is signaled or an error, and not earlier. An
//!   unsignaled send that fails completes like any other. In the error state all slots come back;
//!   sends whose outcome neither side can tell are `Flushed`.
//! - **PV-5 receiver not ready**: a frame that finds no posted receive is an error of the sender
//!   ([`Status::RnrRetryExceeded`]) after `rnr_retry` more tries; with 0 at once. It is never
//!   dropped silently and never waits. The receiver sees nothing of it. Where frames are not
//!   acknowledged ([`Limits::acknowledges`]) it ends the receiver's queue pair, as in PV-6.
//! - **PV-6 length**: a frame longer than the receive it meets ends both queue pairs: the receive
//!   completes with [`Status::LocalLength`], the send with [`Status::RemoteInvalidRequest`]. Where
//!   frames are not acknowledged the send succeeds, and the sender finds its peer gone.
//! - **PV-7 errors**: the first error moves the queue pair to the error state. Every outstanding
//!   work request of both queues then completes with an error, [`Status::Flushed`] unless it is the
//!   cause. If no work request is (the queue pair was closed, or the peer is gone and nothing was
//!   being sent), all are `Flushed`. Posting in that state is accepted, up to PV-9, and flushed. An
//!   error completion carries slot and status; nothing else in it is meaningful.
//! - **PV-8 arming**: [`QueuePair::arm`] asks for one notification of a completion that is
//!   added *after* it. Arm, poll *until nothing comes*, then wait: a completion from before the
//!   arming notifies no task, and only a poll that returns 0 says that none is there. An error
//!   completion counts as solicited. Arming again before the notification never weakens: once
//!   [`Notify::Any`] was asked for, any completion notifies. The waker of the last
//!   [`QueuePair::poll_ready`] is woken whatever causes the notification: a post by another task
//!   wakes it, too, when the post adds a completion that was armed for, or when it leaves work that
//!   only another `poll_ready` can carry on (a stream that did not take the whole frame).
//! - **PV-9 bounds**: each queue holds as many work requests as [`Fabric::open`] was asked for; a
//!   full send or receive queue refuses a post ([`PostError::Full`]) and keeps none of the refused
//!   requests. A work request counts against its queue until its completion was polled, so the
//!   completion queue, which holds the sum of both, never overruns.
//! - **PV-10 close**: [`QueuePair::close`] moves to the error state, from any state, and may
//!   be called twice. The peer finds out by an error, perhaps late, perhaps only when it sends.
//!   Dropping the [`QueuePair`] closes, too.
//! - **PV-11 before connect**: receives may be posted from [`Opening::post_recv`] on, so that the
//!   whole ring is there before the first frame can arrive.
//! - **PV-12 tails**: where [`Limits::tail_bytes_max`] says so, a send may carry a tail from
//!   outside its slot ([`SendRequest::tail`]), whose buffer is released when the slot comes back,
//!   or before. It does not lie in the receive: the receiver's owner gives the memory for it
//!   ([`QueuePair::put_tail_room`]), and until then nothing after the frame arrives. A tail that
//!   waits for memory notifies, solicited or not: after a poll that returns 0 the owner looks for
//!   one before it waits. The frame completes when all of that memory is written.
//!
//! PV-1 and PV-2 hold by ownership: posting takes the slot by value, a slot is the only way to its
//! bytes, and its holder keeps the region alive. Programs that break them do not compile: see
//! `transport/src/fabric/ownership.rs`.
//!
//! Not promised by any fabric, nor to be assumed by any caller:
//!
//! - A successful send completion means that the slot may be reused; where frames are acknowledged,
//!   that the peer's queue pair accepted the frame, too. Nothing about the peer's software.
//! - No order between completions of the send queue and of the receive queue: the answer to a
//!   frame may arrive before that frame's completion.
//! - A failed or flushed send may have arrived.
//! - A notification may be spurious, and a poll may return fewer completions than there are (but
//!   none only when there are none).
//! - An idle queue pair does not notice that its peer is gone.
//! - That [`Opening::connect`] returned says nothing about the peer; the first frame does.
//! - Progress outside of calls: a fabric may move only inside [`QueuePair::poll`] and
//!   [`QueuePair::poll_ready`], so one of them is called until the queue pair is dropped.

mod error;
pub mod one_sided;
#[cfg(doctest)]
mod ownership;
pub mod tcp;

#[cfg(test)]
pub(crate) mod conformance;

#[cfg(feature = "sim")]
pub mod sim;

#[cfg(feature = "verbs")]
pub mod verbs;

use std::fmt;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use zeroize::Zeroizing;

pub use self::error::{FabricError, PostError};
use self::one_sided::OneSidedConfig;
use crate::memory::{Region, Slot, Tail, TailRoom};

/// A way to carry frames between two nodes. See the [module](self) for the contract.
pub trait Fabric: Send + Sync + fmt::Debug + 'static {
    /// Returns the name both sides know it by: `tcp`, `tcps`, `sim`, `verbs`.
    fn name(&self) -> &'static str;

    /// Returns how frames are protected from a third party between the nodes. By default anyone on
    /// the way is assumed to be able to read and change them.
    fn protection(&self) -> Protection {
        Protection::None
    }

    /// Returns the limits of its queue pairs.
    fn limits(&self) -> Limits;

    /// Returns a number that changes when the fabric may have gained or lost a way to a peer: a
    /// port went up or down, or has another address.
    fn changes(&self) -> u64 {
        0
    }

    /// Returns true if opening a queue pair, or connecting one for one-sided access, may block.
    fn blocks(&self) -> bool {
        false
    }

    /// Returns how an owner may wait for completions without sleeping; by default it may not.
    fn spins(&self) -> Spins {
        Spins::Never
    }

    /// Allocates memory for work requests.
    ///
    /// # Errors
    /// [`FabricError`] when there is not enough memory, naming the limit that was met.
    fn alloc(&self, bytes: usize) -> Result<Region, FabricError>;

    /// Returns a new queue pair that is not yet connected.
    ///
    /// # Errors
    /// [`FabricError`] when `config` asks for more than [`limits`](Self::limits) or the device
    /// refuses.
    fn open(&self, config: QueuePairConfig) -> Result<Box<dyn Opening>, FabricError>;

    /// Returns a new queue pair for [one-sided access](one_sided) that is not yet connected. The
    /// fabrics of both sides implement it in the same way.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    fn open_one_sided(
        &self,
        config: OneSidedConfig,
    ) -> Result<Box<dyn one_sided::Opening>, FabricError> {
        one_sided::emulated::open(self, config)
    }
}

/// The protection of frames from a third party between the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Nothing: links to other machines use the fabric only where encryption is off.
    None,
    /// The network, which the operator has to guard: frames are sent in plain, as usual with RDMA.
    Network,
    /// Encryption and authentication: no third party between the nodes can read or change a frame.
    Encrypted,
}

/// How the owner of a queue pair may wait for a short while without sleeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spins {
    /// Not at all: completions come only while all tasks of the process sleep (a simulated clock).
    Never,
    /// By yielding to its runtime: only the runtime notices that data has arrived.
    ByTurns,
    /// In place: [`QueuePair::poll`] finds a completion as soon as it is there.
    InPlace,
}

/// The limits of a fabric's queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Work requests in one send queue.
    pub send_queue_max: u32,
    /// Work requests in one receive queue.
    pub recv_queue_max: u32,
    /// Bytes of one frame.
    pub frame_bytes_max: u32,
    /// Bytes that can be sent inline.
    pub inline_bytes_max: u32,
    /// Bytes of the tail of one frame (PV-12); 0 if it may have none.
    pub tail_bytes_max: u32,
    /// True if a send succeeds only when the peer's queue pair has accepted its frame (PV-5); else
    /// it succeeds when the frame was passed on.
    pub acknowledges: bool,
    /// True if reads of [one-sided access](one_sided) are faster than frames for large messages.
    pub lends: bool,
}

/// The demands on a new queue pair. Its completion queue holds the sum of both queues.
#[derive(Debug, Clone)]
pub struct QueuePairConfig {
    /// Work requests the send queue holds.
    pub send_queue: u32,
    /// Work requests the receive queue holds.
    pub recv_queue: u32,
    /// Longest inline send, in bytes.
    pub inline_bytes: u32,
    /// How often a frame that found no receive is tried again, 0 to 6 times (PV-5). (7, endless in
    /// verbs, is refused.) Links use 0. It has no meaning where frames are not acknowledged.
    pub rnr_retry: u8,
    /// Which side of the bootstrap connection this is.
    pub side: Side,
    /// The bytes that both sides know of that connection and of the link, and no other pair of
    /// queue pairs has: an encrypted fabric accepts no peer that does not share them.
    pub binding: Vec<u8>,
    /// The numbers of ways to this peer that failed a short while ago: they are tried last.
    pub avoid: Vec<u32>,
}

/// Which side of the bootstrap connection a queue pair belongs to: the dialler can dial again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// This node dialled the peer at this address.
    Dialer {
        /// Where the bootstrap connection was made to.
        address: String,
    },
    /// The peer dialled this node.
    Acceptor,
}

/// A queue pair before it is connected.
pub trait Opening: Send {
    /// Returns what the peer needs to connect to this queue pair: at most
    /// [`OFFER_BYTES_MAX`](crate::limits::OFFER_BYTES_MAX) bytes, meaningful to the same fabric.
    /// They may hold a part of a key, and are wiped from memory when they are dropped.
    fn offer(&self) -> Zeroizing<Vec<u8>>;

    /// Posts receives before the connection is made (PV-11). Removes the accepted slots from the
    /// front of `slots`.
    ///
    /// # Errors
    /// [`PostError::Full`] leaves the rest in `slots`.
    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError>;

    /// Returns the ways that lead to the queue pair that made the offer `peer`, best first: pairs
    /// of addresses, say. Each has a number that names it on both sides, on this link and on later
    /// ones. Both sides have the same order; there are none where the offer cannot be used.
    fn ways(&self, _peer: &[u8]) -> Vec<u32> {
        vec![0]
    }

    /// Connects to the queue pair that made the offer `peer`, by the way at this place among the
    /// [`ways`](Self::ways); 0 is the best. Both sides must call it, for the same one.
    ///
    /// # Errors
    /// [`FabricError`] when the offer cannot be used or the connection cannot be made.
    ///
    /// # Cancel safety
    /// Dropping the future drops the queue pair and its slots, if not at once then when the device
    /// has answered.
    fn connect(
        self: Box<Self>,
        peer: Zeroizing<Vec<u8>>,
        way: usize,
    ) -> BoxFuture<'static, Result<Box<dyn QueuePair>, FabricError>>;
}

/// One send.
#[derive(Debug)]
pub struct SendRequest {
    /// Its first `bytes` bytes are the frame without its tail.
    pub slot: Slot,
    /// Bytes of the frame that lie in the slot.
    pub bytes: u32,
    /// The end of the frame, where it lies outside of the slot (PV-12).
    pub tail: Option<Tail>,
    /// Completes visibly (PV-4).
    pub signaled: bool,
    /// Wakes a peer that armed for solicited completions only.
    pub solicited: bool,
    /// Copied at posting; at most the queue pair's `inline_bytes`.
    pub inline: bool,
}

impl SendRequest {
    /// Returns the bytes of the frame that lie in the slot.
    ///
    /// # Panics
    /// When they do not.
    pub fn bytes(&self) -> &[u8] {
        &self.slot[..self.bytes as usize]
    }

    /// Returns the length of the frame, with its tail.
    pub fn frame_bytes(&self) -> usize {
        self.bytes as usize + self.tail().len()
    }

    /// Returns the tail of the frame, which may be empty.
    pub fn tail(&self) -> &[u8] {
        self.tail.as_deref().unwrap_or_default()
    }
}

/// A connected queue pair: a send queue, a receive queue, and one completion queue for both. Made
/// by [`Opening::connect`].
///
/// It has one owner and no lock of its own. An owner that posts from several tasks keeps it under a
/// lock; one task then calls `poll`, `arm` and `poll_ready`, any task may call `post_send` and
/// `post_recv` (PV-8 says which task wakes). The waker is called inside these calls, so under the
/// owner's lock: it must only schedule its task, as every waker of tokio does.
pub trait QueuePair: Send {
    /// Posts sends with one doorbell. Removes the accepted requests from the front of `batch`.
    ///
    /// # Errors
    /// [`PostError`] about the first request that is left in `batch`.
    fn post_send(&mut self, batch: &mut Vec<SendRequest>) -> Result<(), PostError>;

    /// Posts receives. Removes the accepted slots from the front of `slots`.
    ///
    /// # Errors
    /// [`PostError`] about the first slot that is left in `slots`.
    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError>;

    /// Prepares the memory of a slot, so that posting it cannot fail for lack of resources. A
    /// device that has little memory to lock may refuse the first slot of a region.
    ///
    /// # Errors
    /// [`PostError::Foreign`] or [`PostError::Device`].
    fn prepare(&mut self, slot: &Slot) -> Result<(), PostError> {
        let _ = slot;
        Ok(())
    }

    /// Appends up to `max` completions that are there now to `out` and returns their number: 0 only
    /// when there are none (PV-8) or `max` is 0.
    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> usize;

    /// Returns the bytes of a frame that has arrived but for its tail, and the length of the tail,
    /// while it waits for memory (PV-12). To be asked when a poll returned 0: so the frames before
    /// it were taken.
    fn tail_wanted(&self) -> Option<(&[u8], usize)> {
        None
    }

    /// Gives the memory for the tail that is [wanted](Self::tail_wanted).
    ///
    /// # Panics
    /// When none is wanted, or one of another length.
    fn put_tail_room(&mut self, room: TailRoom) {
        unreachable!("no tail is wanted: {room:?}");
    }

    /// Takes the memory back, with the tail in it: with the completion of its frame, which is the
    /// first of a receive after the memory was given.
    fn take_tail(&mut self) -> Option<TailRoom> {
        None
    }

    /// Returns the bytes of posted frames that were not passed on yet, where a send completes when
    /// its frame is.
    fn unsent_bytes(&self) -> usize {
        0
    }

    /// Asks for one notification (PV-8).
    fn arm(&mut self, on: Notify);

    /// Returns ready when the notification that was armed for has come (perhaps spuriously). Keeps
    /// the waker of the last call.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Moves the queue pair to the error state (PV-10).
    fn close(&mut self);
}

/// Which completions notify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notify {
    /// Any.
    Any,
    /// Solicited receives and errors.
    Solicited,
}

/// A work request that ended. Its slot is the caller's again.
#[derive(Debug)]
pub struct Completion {
    /// The kind of work request.
    pub work: Work,
    /// The slot that was posted.
    pub slot: Slot,
    /// The outcome. Any status but [`Status::Success`] is terminal for the queue pair.
    pub status: Status,
}

/// The kind of a completed work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A send.
    Send,
    /// A receive.
    Recv {
        /// Bytes that arrived; meaningless after an error.
        bytes: u32,
    },
}

/// How a work request ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Status {
    /// The work request succeeded.
    #[error("success")]
    Success,
    /// The queue pair entered the error state before the work request had its turn.
    #[error("flushed")]
    Flushed,
    /// The peer had no receive posted (PV-5).
    #[error("the peer had no receive posted")]
    RnrRetryExceeded,
    /// The peer or the path to it is gone.
    #[error("the peer does not answer")]
    RetryExceeded,
    /// The peer has not granted the access that an operation needs (PV-18).
    #[error("the peer has not granted access to that memory")]
    RemoteAccess,
    /// A frame had no receive that it fits (PV-6).
    #[error("a frame has no receive slot that it fits")]
    LocalLength,
    /// The peer refused the frame (PV-6).
    #[error("the peer refused the frame")]
    RemoteInvalidRequest,
    /// Bytes came that no queue pair of the peer has written: they were changed on their way.
    #[error("the connection brought bytes that the peer did not send")]
    Corrupt,
    /// The device failed.
    #[error("fatal error of the device")]
    Fatal,
    /// The port or its cable went down.
    #[error("the port went down")]
    PortDown,
    /// A work request was refused when it was posted.
    #[error("a work request was refused: {0}")]
    Refused(PostError),
    /// Another status, by the device's number.
    #[error("device status {0}")]
    Other(u32),
}
crate::debug_by_display!(Status);
