//! Memory that a fabric may read and write: regions, the slots they are cut into, a link's pool
//! of receive slots, the archives found in them, and the buffers of large messages.
//!
//! - **ME-1 ownership**: a byte of a region belongs to exactly one [`Slot`]; the holder of the slot
//!   may read and write it, and no other code touches it.
//! - **ME-2 lifetime**: a region lives as long as any of its slots, leased ones too.
//! - **ME-3 leases**: a leased slot is only read; it returns to its pool when the last lease is
//!   dropped, on any thread.
//! - **ME-4 checked once**: a [`Checked`] archive was validated where it lies, and nothing writes
//!   there while it lives (ME-3). rkyv's check of maps and sets has gaps (docs/SAFETY.md): those
//!   that a peer wrote are read back into values, and no other method of theirs is called.
//! - **ME-5 shared pointers**: a deserialiser's pool is handed a pointer that it may drop with the
//!   function beside it; the [`Unarchiver`] passes both on as rkyv gave them.
//! - **ME-9 room for a root**: the root of an archive is written over zeros of its own size,
//!   aligned for it in a buffer that is aligned to 16 bytes.
//! - **ME-10 shared words**: memory that a peer may write has no reference to its bytes; it is read
//!   and written by copies of whole words, each of them atomic.
//! - **ME-12 still buffers**: the bytes of a shared [`Buffer`] neither change nor move until its
//!   last owner is gone: a device may read them meanwhile.

mod archiver;
mod budget;
pub mod buffer;
mod checked;
mod landing;
mod pool;
mod region;
mod tail;
mod unarchiver;
mod words;

pub use archiver::write_root;
pub(crate) use budget::{Account, Budget, BudgetShare};
pub use buffer::Buffer;
pub use checked::{Checked, Inspect, Inspected, InvalidArchive, Payload, TooDeep};
pub(crate) use landing::{Landing, Room, Runway, size_of as landing_size_of};
pub(crate) use pool::Gauge;
pub use pool::{Lease, Pool};
#[cfg(feature = "verbs")]
pub(crate) use region::Backing;
pub(crate) use region::Owner;
pub use region::{Region, Slot};
pub use tail::{Tail, TailRoom};
pub use unarchiver::Unarchiver;
pub use words::{OutOfRange, Words};
