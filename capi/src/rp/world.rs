//! Worlds of ranks, their messages and collective operations.

#![allow(unsafe_code, reason = "C calls these functions, with pointers (CA-1)")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use ringpost::bytemuck;
use ringpost_ranks::{Max, Min, Number, Plain, Source, Status, Sum, Tag};
use ringpost_ranks::{World, WorldError};

use super::node::{rp_node, running};
use crate::driver::{Closing, wait};
use crate::entry::{bytes, count, entry, fill, put, room, text, time, too_large};
use crate::failure::Failure;
use crate::handles::{Kind, close, find, open};

/// A world of ranks, as one of them sees it. Opaque.
#[expect(non_camel_case_types, reason = "it is a type of C")]
pub struct rp_world {
    _private: (),
}

/// Where a message came from.
#[repr(C)]
pub struct rp_status {
    /// The rank that sent it.
    pub source: c_int,
    /// Its tag.
    pub tag: c_int,
}

/// Any rank, or any tag, for rp_world_recv; any number, for rp_world_join.
pub const RP_ANY: c_int = -1;

/// The numbers of rp_world_all_reduce: int32_t.
pub const RP_INT32: c_int = 1;
/// The numbers of rp_world_all_reduce: int64_t.
pub const RP_INT64: c_int = 2;
/// The numbers of rp_world_all_reduce: float.
pub const RP_FLOAT: c_int = 3;
/// The numbers of rp_world_all_reduce: double.
pub const RP_DOUBLE: c_int = 4;

/// The reduction of rp_world_all_reduce: the sum; whole numbers wrap around.
pub const RP_SUM: c_int = 1;
/// The reduction of rp_world_all_reduce: the least.
pub const RP_MIN: c_int = 2;
/// The reduction of rp_world_all_reduce: the greatest.
pub const RP_MAX: c_int = 3;

/// The thing behind a world's handle.
struct Joined {
    world: World,
    closing: Closing,
}

impl Kind for Joined {
    const NAME: &'static str = "a world";
}

impl Joined {
    fn open(world: World) -> Result<*mut rp_world, Failure> {
        open(Arc::new(Joined { world, closing: Closing::default() }))
    }

    /// Waits for an operation on this thread, until the world is left.
    fn wait<T>(
        &self,
        operation: impl Future<Output = Result<T, WorldError>>,
    ) -> Result<T, Failure> {
        self.closing.wait(None, async { Ok(operation.await?) })
    }

    /// Returns the bytes of a block of each rank.
    fn blocks(&self, len: usize) -> Result<usize, Failure> {
        self.world.size().checked_mul(len).ok_or_else(|| too_large(len))
    }
}

fn joined(world: *mut rp_world) -> Result<Arc<Joined>, Failure> {
    find::<Joined, _>(world)
}

fn rank_of(number: c_int) -> Result<usize, Failure> {
    usize::try_from(number).map_err(|_| Failure::invalid(format!("there is no rank {number}")))
}

fn tag_of(number: c_int) -> Result<u32, Failure> {
    let none = || Failure::invalid(format!("{number} is no tag: those are 0 to 2147483647"));
    u32::try_from(number).map_err(|_| none())
}

/// Joins the world of this name on a node: it begins when `size` nodes have joined that know each
/// other, in any order. `number` is the number of this rank, 0 to size - 1, or RP_ANY: then the
/// order of arrival numbers the ranks. When it returns each rank is linked with each other one.
/// Waits so long at most (below 0: 60 s); then RP_TIMED_OUT says which ranks are missing.
///
/// # Safety
/// CA-1: `name` is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_world_join(
    node: *mut rp_node,
    name: *const c_char,
    size: usize,
    number: c_int,
    timeout_ms: c_int,
) -> *mut rp_world {
    entry(null_mut(), || {
        // SAFETY: The caller gives null or a text that ends with a null (CA-1).
        let name = unsafe { text(name, "the name")? };
        let running = running(node)?;
        let mut builder = World::builder(name).node(&running.node).size(size);
        if number != RP_ANY {
            builder = builder.rank(rank_of(number)?);
        }
        if let Some(time) = time(timeout_ms) {
            builder = builder.timeout(time);
        }
        Joined::open(running.closing.wait(None, async { Ok(builder.join().await?) })?)
    })
}

/// Joins the world that the environment describes, as `ringpost run -n 4 PROGRAM` sets it, on a
/// node that is made for it: RINGPOST_RANK, RINGPOST_SIZE, RINGPOST_HOSTS and RINGPOST_JOB. Waits
/// for 60 s at most.
#[unsafe(no_mangle)]
pub extern "C" fn rp_world_from_env() -> *mut rp_world {
    entry(null_mut(), || Joined::open(wait(async { Ok(World::from_env().await?) })?))
}

/// Returns the number of this rank, 0 to size - 1.
#[unsafe(no_mangle)]
pub extern "C" fn rp_world_rank(world: *mut rp_world) -> c_int {
    entry(-1, || count(joined(world)?.world.rank()))
}

/// Returns the number of ranks, including ranks that have died or left.
#[unsafe(no_mangle)]
pub extern "C" fn rp_world_size(world: *mut rp_world) -> c_int {
    entry(-1, || count(joined(world)?.world.size()))
}

/// Sends a message of up to 1 GiB to a rank, which may be this one. Returns when it is on its way,
/// or waits there: up to 80 MiB of this rank's messages do, and then it waits until that rank
/// receives. `tag` is 0 or more. Ranks in Rust receive it as `u8`, and send such messages.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_world_send(
    world: *mut rp_world,
    to: c_int,
    tag: c_int,
    data: *const c_void,
    len: usize,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives `len` bytes, which stay until this returns (CA-1).
        let data = unsafe { bytes(data, len)? };
        let (joined, to, tag) = (joined(world)?, rank_of(to)?, tag_of(tag)?);
        joined.wait(joined.world.send(to, tag, data))?;
        Ok(0)
    })
}

/// Receives the first message of this rank and tag, each of which may be RP_ANY, and returns its
/// length. Messages of one rank come in the order in which they were sent. A longer one than `len`
/// is a failure (RP_TOO_LARGE) and stays. `status` says where it came from, unless that is NULL.
/// Below 0 the time is without end; with 0 it does not wait (RP_WOULD_BLOCK).
///
/// # Safety
/// CA-1: `len` bytes at `data` may be written; `status` is null, or there is room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_world_recv(
    world: *mut rp_world,
    source: c_int,
    tag: c_int,
    data: *mut c_void,
    len: usize,
    timeout_ms: c_int,
    status: *mut rp_status,
) -> isize {
    entry(-1, || {
        room(data, len)?;
        let joined = joined(world)?;
        let source = if source == RP_ANY { Source::Any } else { Source::Rank(rank_of(source)?) };
        let tag = if tag == RP_ANY { Tag::Any } else { Tag::Is(tag_of(tag)?) };
        let received = receive(&joined.world, source, tag, len);
        let (message, from) = joined.closing.wait(time(timeout_ms), received)?;
        // SAFETY: The caller gives `len` bytes (CA-1), which the message does not exceed.
        unsafe { fill(data, &message)? };
        let (source, tag) = (count(from.source)?, from.tag as c_int);
        // SAFETY: The caller gives null or room for a status (CA-1).
        unsafe { put(status, rp_status { source, tag }) };
        Ok(message.len() as isize)
    })
}

/// Receives a message of up to `room` bytes; a longer one stays.
async fn receive(
    world: &World,
    source: Source,
    tag: Tag,
    room: usize,
) -> Result<(Vec<u8>, Status), Failure> {
    loop {
        let next = world.probe(source, tag).await?;
        let mut message = vec![0; next.bytes.min(room)];
        match world.recv_into(source, tag, &mut message).await {
            // Another thread has taken the message that was there: look at the next one.
            Err(WorldError::Truncated { elements, .. }) if elements <= room => {}
            Err(error) => return Err(error.into()),
            Ok(status) => {
                message.truncate(status.bytes);
                return Ok((message, status));
            }
        }
    }
}

/// Waits until all ranks have called it.
///
/// All ranks call the same collective operations of a world in the same order, each with the same
/// root, length, type and reduction. Otherwise it fails on all of them.
#[unsafe(no_mangle)]
pub extern "C" fn rp_world_barrier(world: *mut rp_world) -> c_int {
    entry(-1, || {
        let joined = joined(world)?;
        joined.wait(joined.world.barrier())?;
        Ok(0)
    })
}

/// Copies the `len` bytes of the rank `root` to all ranks.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be read at the root, and written elsewhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_world_broadcast(
    world: *mut rp_world,
    root: c_int,
    data: *mut c_void,
    len: usize,
) -> c_int {
    entry(-1, || {
        let (joined, root) = (joined(world)?, rank_of(root)?);
        room(data, len)?;
        let mut copy = Vec::new();
        if joined.world.rank() == root {
            // SAFETY: The caller gives `len` bytes, which stay until this returns (CA-1).
            copy.extend_from_slice(unsafe { bytes(data, len)? });
        }
        copy.resize(len, 0);
        joined.wait(joined.world.broadcast(root, &mut copy))?;
        // SAFETY: The caller gives `len` bytes (CA-1), and there are as many.
        unsafe { fill(data, &copy)? };
        Ok(0)
    })
}

/// Copies the `len` bytes at `all + rank * len` of the rank `root` to `mine` of each rank. The
/// others give NULL for `all`.
///
/// # Safety
/// CA-1: `len` bytes at `mine` may be written; at the root as many for each rank at `all` be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_world_scatter(
    world: *mut rp_world,
    root: c_int,
    all: *const c_void,
    mine: *mut c_void,
    len: usize,
) -> c_int {
    entry(-1, || {
        let (joined, root) = (joined(world)?, rank_of(root)?);
        room(mine, len)?;
        let all = match joined.world.rank() == root {
            // SAFETY: The caller gives the root a block for each rank, until this returns (CA-1).
            true => Some(unsafe { bytes(all, joined.blocks(len)?)? }),
            false => None,
        };
        let mut part = vec![0; len];
        joined.wait(joined.world.scatter(root, all, &mut part))?;
        // SAFETY: The caller gives `len` bytes (CA-1), and there are as many.
        unsafe { fill(mine, &part)? };
        Ok(0)
    })
}

/// Copies the `len` bytes of each rank to `all + rank * len` of the rank `root`. The others give
/// NULL for `all`.
///
/// # Safety
/// CA-1: `len` bytes at `mine` may be read; at the root as many for each rank at `all` be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_world_gather(
    world: *mut rp_world,
    root: c_int,
    mine: *const c_void,
    all: *mut c_void,
    len: usize,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives `len` bytes, which stay until this returns (CA-1).
        let mine = unsafe { bytes(mine, len)? };
        let (joined, root) = (joined(world)?, rank_of(root)?);
        if joined.world.rank() == root {
            room(all, joined.blocks(len)?)?;
        }
        let gathered = joined.wait(joined.world.gather(root, mine))?;
        // SAFETY: The caller gives the root a block for each rank (CA-1); the others get none.
        unsafe { fill(all, &gathered.unwrap_or_default())? };
        Ok(0)
    })
}

/// Copies the `len` bytes of each rank to `all + rank * len` of all ranks.
///
/// # Safety
/// CA-1: `len` bytes at `mine` may be read, and as many for each rank at `all` be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_world_all_gather(
    world: *mut rp_world,
    mine: *const c_void,
    all: *mut c_void,
    len: usize,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives `len` bytes, which stay until this returns (CA-1).
        let mine = unsafe { bytes(mine, len)? };
        let joined = joined(world)?;
        // SAFETY: The caller gives `len` bytes for each rank (CA-1).
        unsafe { fill_blocks(&joined, all, len, || joined.world.all_gather(mine)) }
    })
}

/// Copies the `len` bytes at `mine + i * len` to `all + rank * len` of the rank `i`, for each `i`.
///
/// # Safety
/// CA-1: `len` bytes for each rank at `mine` may be read, and as many at `all` be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_world_all_to_all(
    world: *mut rp_world,
    mine: *const c_void,
    all: *mut c_void,
    len: usize,
) -> c_int {
    entry(-1, || {
        let joined = joined(world)?;
        // SAFETY: The caller gives `len` bytes for each rank, which stay until this returns (CA-1).
        let mine = unsafe { bytes(mine, joined.blocks(len)?)? };
        // SAFETY: The caller gives `len` bytes for each rank (CA-1).
        unsafe { fill_blocks(&joined, all, len, || joined.world.all_to_all(mine)) }
    })
}

/// Writes what an operation returns to `all`: a block of each rank. The operation begins after the
/// arguments were checked, since the others wait for it from then on.
///
/// # Safety
/// CA-1: `len` bytes for each rank at `all` may be written.
unsafe fn fill_blocks<F: Future<Output = Result<Vec<u8>, WorldError>>>(
    joined: &Joined,
    all: *mut c_void,
    len: usize,
    begin: impl FnOnce() -> F,
) -> Result<c_int, Failure> {
    room(all, joined.blocks(len)?)?;
    let blocks = joined.wait(begin())?;
    // SAFETY: The caller of this function says so, and there are as many bytes.
    unsafe { fill(all, &blocks)? };
    Ok(0)
}

/// Reduces `length` numbers at `data` of all ranks, each with those at its place, and writes the
/// outcome over them on all ranks. `kind` is their type, such as RP_DOUBLE, and `reduction` is
/// RP_SUM, RP_MIN or RP_MAX.
///
/// # Safety
/// CA-1: `length` numbers at `data` may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_world_all_reduce(
    world: *mut rp_world,
    data: *mut c_void,
    length: usize,
    kind: c_int,
    reduction: c_int,
) -> c_int {
    entry(-1, || {
        let joined = joined(world)?;
        let reduce: unsafe fn(&Joined, *mut c_void, usize, c_int) -> Result<c_int, Failure> =
            match kind {
                RP_INT32 => reduce_as::<i32>,
                RP_INT64 => reduce_as::<i64>,
                RP_FLOAT => reduce_as::<f32>,
                RP_DOUBLE => reduce_as::<f64>,
                _ => {
                    let what = format!("{kind} is no type: give RP_DOUBLE, or others");
                    return Err(Failure::invalid(what));
                }
            };
        // SAFETY: The caller gives `length` numbers (CA-1), as each of these functions asks.
        unsafe { reduce(&joined, data, length, reduction) }
    })
}

/// # Safety
/// CA-1: `length` numbers at `data` may be read and written.
unsafe fn reduce_as<T: Plain + Number>(
    joined: &Joined,
    data: *mut c_void,
    length: usize,
    reduction: c_int,
) -> Result<c_int, Failure> {
    let len = length.checked_mul(size_of::<T>()).ok_or_else(|| too_large(length))?;
    // SAFETY: The caller of this function says that they may be read.
    let mut numbers = bytemuck::pod_collect_to_vec::<u8, T>(unsafe { bytes(data, len)? });
    match reduction {
        RP_SUM => joined.wait(joined.world.all_reduce(&mut numbers, Sum))?,
        RP_MIN => joined.wait(joined.world.all_reduce(&mut numbers, Min))?,
        RP_MAX => joined.wait(joined.world.all_reduce(&mut numbers, Max))?,
        _ => {
            let what = format!("{reduction} is no reduction: give RP_SUM, RP_MIN or RP_MAX");
            return Err(Failure::invalid(what));
        }
    }
    // SAFETY: The caller of this function says that they may be written, and there are as many.
    unsafe { fill(data, bytemuck::cast_slice(&numbers))? };
    Ok(0)
}

/// Makes a world of the living ranks, in their order, after one has died (RP_RANK_DIED). All living
/// ranks call it; calls on the old world that wait on any of them end. The old handle stays until
/// rp_world_leave closes it.
#[unsafe(no_mangle)]
pub extern "C" fn rp_world_shrink(world: *mut rp_world) -> *mut rp_world {
    entry(null_mut(), || {
        let joined = joined(world)?;
        joined.world.revoke();
        Joined::open(joined.wait(joined.world.shrink())?)
    })
}

/// Leaves a world: sent messages go out, and waits of other ranks for this one fail (RP_ENDED). The
/// handle is closed; calls of other threads on it fail. It ends a node that rp_world_from_env made.
#[unsafe(no_mangle)]
pub extern "C" fn rp_world_leave(world: *mut rp_world) -> c_int {
    entry(-1, || {
        let joined = close::<Joined, _>(world)?;
        joined.closing.close();
        wait(async {
            joined.world.clone().leave().await;
            Ok(0)
        })
    })
}
