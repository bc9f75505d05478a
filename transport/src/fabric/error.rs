//! The errors of fabrics.

use std::io;

/// Why a post was refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// The queue holds no more (PV-9).
    #[error("the queue is full")]
    Full,
    /// The frame is longer than its slot or than the fabric sends.
    #[error("the frame is too long")]
    TooLong,
    /// The frame is too long to be sent inline.
    #[error("the frame is too long to be sent inline")]
    InlineTooLong,
    /// An atomic operation acts on one aligned word of 8 bytes (PV-16).
    #[error("an atomic operation acts on one aligned word of 8 bytes")]
    Unaligned,
    /// The fabric sends no tails (PV-12).
    #[error("the fabric sends only what lies in a slot")]
    Tail,
    /// The slot is not of this fabric's memory (PV-1).
    #[error("the slot is not of this fabric's memory")]
    Foreign,
    /// The device refused, with the system's error number.
    #[error("the device refused: {}", std::io::Error::from_raw_os_error(*.0))]
    Device(i32),
}

/// Why a fabric could not do something.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// More was asked for than the fabric can.
    #[error("{what} of {asked} is more than this fabric's limit of {limit}")]
    Limit {
        /// The quantity that was asked for.
        what: &'static str,
        /// How much.
        asked: u64,
        /// How much there can be.
        limit: u64,
    },
    /// Memory could not be locked for the device.
    #[error(
        "cannot lock {need} bytes for the device: this process may lock {limit} bytes in all \
         (RLIMIT_MEMLOCK); raise it with `ulimit -l` (in systemd: LimitMEMLOCK), or take the \
         profile `small`"
    )]
    Locked {
        /// Bytes that were to be locked.
        need: u64,
        /// The limit, as the system words it.
        limit: String,
    },
    /// The device refused.
    #[error("{call} failed on {device}: {source}")]
    Device {
        /// The call that it refused.
        call: &'static str,
        /// The device, by name.
        device: String,
        /// Why it refused.
        source: io::Error,
    },
    /// The granted memory does not begin at a word.
    #[error("no word begins at byte {at} of the memory to be granted; give a multiple of 8")]
    Unaligned {
        /// The first byte.
        at: u64,
    },
    /// The peer's offer cannot be used.
    #[error("the peer's offer cannot be used: {0}")]
    Offer(&'static str),
    /// The connection could not be made.
    #[error("cannot connect the queue pair: {0}")]
    Connect(#[source] io::Error),
}
crate::debug_by_display!(PostError, FabricError);
