//! The functions of `rdma_lib.h` that its first version announced: memory, requests, collectives.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::{Handle, context, place};
use crate::entry::{bytes, count, entry, fill, fill_from, put, room, time, too_large};
use crate::failure::{Code, Failure, note};
use crate::handles::{close, find, open};
use crate::rdma::context::Context;
use crate::rdma::group::Part;
use crate::rdma::packet::{Collective, Operation};
use crate::rdma::request::{Done, Request};

/// A request, as C sees it.
#[expect(non_camel_case_types, reason = "it is a type of C")]
pub struct rdma_request {
    _private: (),
}

type RequestHandle = *mut rdma_request;

/// The value that `rdma_wait` returns when the time is over.
const TIMED_OUT: c_int = -2;

/// Returns the descriptor to wait on.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_fd(ctx: Handle) -> c_int {
    entry(-1, || Ok(context(ctx)?.ready.fd().as_raw_fd()))
}

/// Returns the port on which a server listens.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_port(ctx: Handle) -> c_int {
    entry(-1, || Ok(c_int::from(context(ctx)?.port())))
}

/// Returns one more than the highest index of a peer.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_peer_count(ctx: Handle) -> c_int {
    entry(-1, || count(context(ctx)?.width()))
}

/// Writes to the memory of a peer.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_write(
    ctx: Handle,
    peer_idx: c_int,
    offset: usize,
    data: *const c_void,
    len: usize,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives `len` bytes, which stay until this returns (CA-1).
        let data = unsafe { bytes(data, len)? };
        let context = context(ctx)?;
        let peer = context.peer(peer_idx)?;
        context.closing.wait(None, async { Ok(peer.memory.write(offset, data).await?) })?;
        Ok(0)
    })
}

/// Reads from the memory of a peer.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_read(
    ctx: Handle,
    peer_idx: c_int,
    offset: usize,
    data: *mut c_void,
    len: usize,
) -> c_int {
    let read = |range| {
        let context = context(ctx)?;
        let peer = context.peer(peer_idx)?;
        context.closing.wait(None, async { Ok(peer.memory.read(range).await?) })
    };
    // SAFETY: The caller gives `len` bytes (CA-1).
    entry(-1, || unsafe { fill_from(offset, data, len, read) })
}

/// Writes to the memory of this context.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_memory_set(
    ctx: Handle,
    offset: usize,
    data: *const c_void,
    len: usize,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives `len` bytes, which stay until this returns (CA-1).
        let data = unsafe { bytes(data, len)? };
        context(ctx)?.own_memory()?.write(offset, data)?;
        Ok(0)
    })
}

/// Reads from the memory of this context.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_memory_get(
    ctx: Handle,
    offset: usize,
    data: *mut c_void,
    len: usize,
) -> c_int {
    let read = |range| Ok(context(ctx)?.own_memory()?.read(range)?);
    // SAFETY: The caller gives `len` bytes (CA-1).
    entry(-1, || unsafe { fill_from(offset, data, len, read) })
}

/// Begins to send a message.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_isend(
    ctx: Handle,
    peer_idx: c_int,
    data: *const c_void,
    len: usize,
) -> RequestHandle {
    entry(std::ptr::null_mut(), || {
        // SAFETY: The caller gives `len` bytes, which stay until this returns (CA-1).
        let message = unsafe { bytes(data, len)? };
        open(Arc::new(Request::send(&*context(ctx)?, peer_idx, message)?))
    })
}

/// Begins to receive a message.
///
/// # Safety
/// `max_len` bytes at `data` may be written until the request is over: by the call of `rdma_test`
/// or `rdma_wait` that ends it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_irecv(
    ctx: Handle,
    peer_idx: c_int,
    data: *mut c_void,
    max_len: usize,
) -> RequestHandle {
    entry(std::ptr::null_mut(), || {
        room(data, max_len)?;
        let context = context(ctx)?;
        open(Arc::new(Request::receive(&context, peer_idx, data.cast(), max_len)?))
    })
}

/// Looks whether a request is over.
///
/// # Safety
/// `result` is null, or an `int` may be written there. The memory of a receive is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_test(request: RequestHandle, result: *mut c_int) -> c_int {
    entry(-1, || {
        if !find::<Request, _>(request)?.is_over() {
            return Ok(0);
        }
        // Of several threads one ends it.
        let Some(outcome) = close::<Request, _>(request)?.take() else { return Ok(0) };
        // SAFETY: The caller of `rdma_irecv` keeps the memory until here, since no other thread
        // has ended the request.
        let done = outcome.and_then(|done| unsafe { finish(done) });
        // SAFETY: The caller gives null or an `int` (CA-1).
        unsafe { put(result, *done.as_ref().unwrap_or(&-1)) };
        if let Err(failure) = done {
            note(failure);
        }
        Ok(1)
    })
}

/// Waits until a request is over, and returns its number of bytes.
///
/// # Safety
/// The memory of a receive is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_wait(request: RequestHandle, timeout_ms: c_int) -> c_int {
    let waited = || -> Result<c_int, Failure> {
        let found = find::<Request, _>(request)?;
        let waited = found.wait(time(timeout_ms));
        if !found.is_over() {
            return Err(waited.err().unwrap_or_else(Failure::closed));
        }
        // Of several threads one ends it.
        let outcome = close::<Request, _>(request)?.take();
        // SAFETY: The caller of `rdma_irecv` keeps the memory until here, since no other thread
        // has ended the request.
        unsafe { finish(outcome.ok_or_else(Failure::closed)??) }
    };
    entry(-1, || match waited() {
        Err(late) if matches!(late.code, Code::TimedOut | Code::WouldBlock) => {
            note(late);
            Ok(TIMED_OUT)
        }
        waited => waited,
    })
}

/// Copies a received message to the memory of the program, and returns its length.
///
/// # Safety
/// The memory that the receive was given is there, with as much room as it was told.
unsafe fn finish(done: Done) -> Result<c_int, Failure> {
    match done {
        Done::Sent(len) => count(len),
        Done::Received(message, to) => {
            // SAFETY: The caller of this function says so, and no message is larger than the room.
            unsafe { fill(to.cast(), &message)? };
            count(message.len())
        }
    }
}

/// Gives a request up.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_cancel(request: RequestHandle) -> c_int {
    entry(-1, || {
        close::<Request, _>(request)?.cancel();
        Ok(0)
    })
}

/// Waits until the server and all its clients have called it.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_barrier(ctx: Handle) -> c_int {
    entry(-1, || {
        let operation = Operation::new(Collective::Barrier, 0);
        context(ctx)?.together(operation, &[], Box::new(|parts| vec![Vec::new(); parts.len()]))?;
        Ok(0)
    })
}

/// Gathers a part of each at the server.
///
/// # Safety
/// CA-1: `msg_size` bytes at `send_buf` may be read; at a server `recv_buf` has room for the parts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_gather(
    ctx: Handle,
    send_buf: *const c_void,
    recv_buf: *mut c_void,
    msg_size: usize,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives `msg_size` bytes, which stay until this returns (CA-1).
        let part = unsafe { bytes(send_buf, msg_size)? };
        let context = context(ctx)?;
        if context.is_server() {
            room(recv_buf, msg_size)?;
        }
        let operation = Operation::new(Collective::Gather, msg_size);
        let mut gathered: Vec<Part> = Vec::new();
        let combine = |parts: &[Part]| {
            gathered = parts.to_vec();
            vec![Vec::new(); parts.len()]
        };
        context.together(operation, part, Box::new(combine))?;
        for (position, part) in gathered {
            // SAFETY: The caller gives a server room for `msg_size` bytes at each position (CA-1).
            unsafe { place(recv_buf, position, msg_size, &part)? };
        }
        Ok(0)
    })
}

/// Gives each its part of what the server has.
///
/// # Safety
/// CA-1: `msg_size` bytes at `recv_buf` may be written; at a server `send_buf` has the parts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_scatter(
    ctx: Handle,
    send_buf: *const c_void,
    recv_buf: *mut c_void,
    msg_size: usize,
) -> c_int {
    entry(-1, || {
        room(recv_buf, msg_size)?;
        let context = context(ctx)?;
        let width = if context.is_server() { context.width() + 1 } else { 0 };
        let len = width.checked_mul(msg_size).ok_or_else(|| too_large(msg_size))?;
        // SAFETY: The caller gives a server `msg_size` bytes for each position (CA-1).
        let all = unsafe { bytes(send_buf, len)? };
        let combine = |parts: &[Part]| {
            let of = |position: usize| all.get(position * msg_size..(position + 1) * msg_size);
            parts.iter().map(|(position, _)| of(*position).unwrap_or_default().to_vec()).collect()
        };
        let operation = Operation::new(Collective::Scatter, msg_size);
        let part = context.together(operation, &[], Box::new(combine))?;
        // SAFETY: The caller gives `msg_size` bytes (CA-1), and `place` checks the part's length.
        unsafe { place(recv_buf, 0, msg_size, &part)? };
        Ok(0)
    })
}

/// Gives all the parts of all, and returns for how many positions.
///
/// # Safety
/// CA-1: `msg_size` bytes at `send_buf` may be read, and `recv_size` at `recv_buf` written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_all_gather(
    ctx: Handle,
    send_buf: *const c_void,
    recv_buf: *mut c_void,
    msg_size: usize,
    recv_size: usize,
) -> c_int {
    entry(-1, || {
        room(recv_buf, recv_size)?;
        // SAFETY: The caller gives `msg_size` bytes, which stay until this returns (CA-1).
        let part = unsafe { bytes(send_buf, msg_size)? };
        let combine = |parts: &[Part]| {
            let positions = parts.last().map_or(0, |(position, _)| position + 1);
            let mut all = vec![0; positions * msg_size + 8];
            for (position, part) in parts {
                let at = position * msg_size;
                if let Some(to) = all.get_mut(at..at + part.len()) {
                    to.copy_from_slice(part);
                }
            }
            let at = positions * msg_size;
            all[at..].copy_from_slice(&(positions as u64).to_le_bytes());
            vec![all; parts.len()]
        };
        let operation = Operation::new(Collective::AllGather, msg_size);
        let all = context(ctx)?.together(operation, part, Box::new(combine))?;
        let Some((parts, positions)) = all.split_last_chunk::<8>() else {
            return Err(Failure::failed("the server sent what no server of this version sends"));
        };
        if parts.len() > recv_size {
            let what = format!("all parts have {} bytes, and the room {recv_size}", parts.len());
            return Err(Failure::new(Code::TooLarge, what));
        }
        // SAFETY: The caller gives `recv_size` bytes (CA-1), and there are not more.
        unsafe { fill(recv_buf, parts)? };
        count(u64::from_le_bytes(*positions) as usize)
    })
}

/// A number that is reduced.
trait Number: Copy {
    /// Its number in a packet.
    const ELEMENT: u8;
    fn read(bytes: [u8; 8]) -> Self;
    fn write(self) -> [u8; 8];
    fn reduce(self, other: Self, reduction: u8) -> Self;
}

impl Number for f64 {
    const ELEMENT: u8 = 1;

    fn read(bytes: [u8; 8]) -> Self {
        f64::from_le_bytes(bytes)
    }

    fn write(self) -> [u8; 8] {
        self.to_le_bytes()
    }

    fn reduce(self, other: Self, reduction: u8) -> Self {
        match reduction {
            1 => self + other,
            2 => self.min(other),
            _ => self.max(other),
        }
    }
}

impl Number for i64 {
    const ELEMENT: u8 = 2;

    fn read(bytes: [u8; 8]) -> Self {
        i64::from_le_bytes(bytes)
    }

    fn write(self) -> [u8; 8] {
        self.to_le_bytes()
    }

    fn reduce(self, other: Self, reduction: u8) -> Self {
        match reduction {
            1 => self.wrapping_add(other),
            2 => self.min(other),
            _ => self.max(other),
        }
    }
}

/// Reduces numbers of all, by position, and gives them to all.
///
/// # Safety
/// CA-1: `count` numbers at `send_buf` may be read, and as many written at `recv_buf`, which may be
/// the same.
unsafe fn all_reduce<T: Number>(
    ctx: Handle,
    reduction: c_int,
    send_buf: *const T,
    recv_buf: *mut T,
    count: usize,
) -> Result<c_int, Failure> {
    let reduction = u8::try_from(reduction).ok().filter(|reduction| (1..=3).contains(reduction));
    let reduction = reduction.ok_or_else(|| {
        Failure::invalid("there is no such operation: give RDMA_SUM, RDMA_MIN or RDMA_MAX")
    })?;
    let len = count.checked_mul(8).ok_or_else(|| too_large(count))?;
    room(recv_buf.cast(), len)?;
    // SAFETY: The caller gives `count` numbers of 8 bytes, which stay until this returns (CA-1).
    let own = unsafe { bytes(send_buf.cast(), len)? };
    let own: Vec<u8> = numbers::<T>(own).flat_map(T::write).collect();
    let operation =
        Operation { reduction, element: T::ELEMENT, ..Operation::new(Collective::AllReduce, len) };
    let combine = |parts: &[Part]| {
        let mut sums: Vec<T> =
            parts.first().map(|(_, own)| numbers(own).collect()).unwrap_or_default();
        for (_, part) in parts.iter().skip(1) {
            for (sum, number) in sums.iter_mut().zip(numbers::<T>(part)) {
                *sum = sum.reduce(number, reduction);
            }
        }
        let bytes: Vec<u8> = sums.into_iter().flat_map(T::write).collect();
        vec![bytes; parts.len()]
    };
    let all = context(ctx)?.together(operation, &own, Box::new(combine))?;
    // SAFETY: The caller gives room for `count` numbers (CA-1), and `place` checks the length.
    unsafe { place(recv_buf.cast(), 0, len, &all)? };
    Ok(0)
}

fn numbers<T: Number>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.as_chunks::<8>().0.iter().map(|chunk| T::read(*chunk))
}

/// Reduces doubles.
///
/// # Safety
/// CA-1: `count` numbers at `send_buf` may be read, and as many written at `recv_buf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_all_reduce_double(
    ctx: Handle,
    reduction: c_int,
    send_buf: *const f64,
    recv_buf: *mut f64,
    count: usize,
) -> c_int {
    // SAFETY: The caller gives what `all_reduce` asks for.
    entry(-1, || unsafe { all_reduce(ctx, reduction, send_buf, recv_buf, count) })
}

/// Reduces whole numbers.
///
/// # Safety
/// CA-1: `count` numbers at `send_buf` may be read, and as many written at `recv_buf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_all_reduce_int64(
    ctx: Handle,
    reduction: c_int,
    send_buf: *const i64,
    recv_buf: *mut i64,
    count: usize,
) -> c_int {
    // SAFETY: The caller gives what `all_reduce` asks for.
    entry(-1, || unsafe { all_reduce(ctx, reduction, send_buf, recv_buf, count) })
}

impl Context {
    /// Returns the memory of this context.
    ///
    /// # Errors
    /// It is a client that has not connected yet.
    fn own_memory(&self) -> Result<Arc<ringpost::region::Region<u8>>, Failure> {
        let memory = self.memory.lock().as_ref().map(|memory| memory.region.clone());
        memory.ok_or_else(|| {
            Failure::invalid("a client has its memory from its first rdma_connect_peer on")
        })
    }
}
