//! The functions that `rdma_lib.h` has since its first version.

#![allow(unsafe_code, reason = "C calls these functions, with pointers (CA-1)")]

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use super::context::Context;
use super::peer::Peer;
use crate::entry::{bytes, count, entry, fill, room, text};
use crate::failure::{Failure, last_text};
use crate::handles::{close, find, open};

pub mod later;

/// A context, as C sees it.
#[expect(non_camel_case_types, reason = "it is a type of C")]
pub struct rdma_context {
    _private: (),
}

type Handle = *mut rdma_context;

fn context(ctx: Handle) -> Result<Arc<Context>, Failure> {
    find::<Context, _>(ctx)
}

fn port(number: c_int) -> Result<u16, Failure> {
    let port = u16::try_from(number);
    port.map_err(|_| Failure::invalid(format!("{number} is no port: those are 0 to 65535")))
}

/// Makes a context, and has a server listen.
///
/// # Safety
/// CA-1: `ip` is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_init(
    ip: *const c_char,
    port_number: c_int,
    buf_size: usize,
    is_server: bool,
) -> Handle {
    entry(std::ptr::null_mut(), || {
        // SAFETY: The caller gives null or a text that ends with a null (CA-1).
        let ip = unsafe { text(ip, "the address")? };
        open(Context::open(ip, port(port_number)?, buf_size, is_server)?)
    })
}

/// Ends a context.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_cleanup(ctx: Handle) {
    entry((), || {
        if !ctx.is_null() {
            close::<Context, _>(ctx)?.close();
        }
        Ok(())
    });
}

/// Connects to a server, and returns its index.
///
/// # Safety
/// CA-1: `peer_ip` is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_connect_peer(
    ctx: Handle,
    peer_ip: *const c_char,
    peer_port: c_int,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives null or a text that ends with a null (CA-1).
        let ip = unsafe { text(peer_ip, "the address of the peer")? };
        count(context(ctx)?.connect(ip, port(peer_port)?)?)
    })
}

/// Waits for the next client, and returns its index.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_accept_peer(ctx: Handle) -> c_int {
    entry(-1, || count(context(ctx)?.accept()?))
}

/// Ends the connection to a peer.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_disconnect_peer(ctx: Handle, peer_idx: c_int) -> c_int {
    entry(-1, || {
        context(ctx)?.disconnect(peer_idx)?;
        Ok(0)
    })
}

/// Sends a message to a peer.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_send(
    ctx: Handle,
    peer_idx: c_int,
    data: *const c_void,
    len: usize,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives `len` bytes, which stay until this returns (CA-1).
        let message = unsafe { bytes(data, len)? };
        let context = context(ctx)?;
        send(&context, &*context.peer(peer_idx)?, message)?;
        Ok(0)
    })
}

fn send(context: &Context, peer: &Peer, message: &[u8]) -> Result<(), Failure> {
    context.closing.wait(None, async {
        tokio::select! {
            biased;
            sent = peer.line.send(message.to_vec()) => sent,
            () = peer.closing.closed() => Err(Failure::closed()),
        }
    })
}

/// Receives the next message of a peer, and returns its length.
///
/// # Safety
/// CA-1: `max_len` bytes at `data` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_recv(
    ctx: Handle,
    peer_idx: c_int,
    data: *mut c_void,
    max_len: usize,
) -> c_int {
    entry(-1, || {
        room(data, max_len)?;
        let context = context(ctx)?;
        let message = context.peer(peer_idx)?.line.recv(max_len, None, &context.closing)?;
        // SAFETY: The caller gives `max_len` bytes, which the message does not exceed (CA-1).
        unsafe { fill(data, &message)? };
        count(message.len())
    })
}

/// Sends a message to all peers.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_broadcast(ctx: Handle, data: *const c_void, len: usize) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives `len` bytes, which stay until this returns (CA-1).
        let message = unsafe { bytes(data, len)? };
        let context = context(ctx)?;
        let sent = context.peers().into_iter().map(|(index, peer)| {
            let of_peer = |failure: Failure| {
                Failure::new(failure.code, format!("peer {index}: {}", failure.text))
            };
            send(&context, &peer, message).map_err(of_peer)
        });
        // All are sent to; the first failure is the outcome.
        sent.collect::<Vec<_>>().into_iter().collect::<Result<(), Failure>>()?;
        Ok(0)
    })
}

/// Sends a message to each peer and receives one of each.
///
/// # Safety
/// CA-1: `msg_size` bytes at `send_buf` may be read, and as many for each index of a peer may be
/// written at `recv_buf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_sequential_alltoall(
    ctx: Handle,
    send_buf: *const c_void,
    recv_buf: *mut c_void,
    msg_size: usize,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives `msg_size` bytes, which stay until this returns (CA-1).
        let message = unsafe { bytes(send_buf, msg_size)? };
        let context = context(ctx)?;
        room(recv_buf, msg_size)?;
        let parts = context.all_to_all(message)?;
        for (index, part) in parts {
            // SAFETY: The caller gives room for `msg_size` bytes at each index of a peer (CA-1).
            unsafe { place(recv_buf, index, msg_size, &part)? };
        }
        Ok(0)
    })
}

/// Copies a part to its position in a buffer of parts.
///
/// # Errors
/// It has not the size of a part.
///
/// # Safety
/// CA-1: `(position + 1) * size` bytes at `to` may be written.
unsafe fn place(to: *mut c_void, position: usize, size: usize, part: &[u8]) -> Result<(), Failure> {
    if part.len() != size {
        let what = format!("a part has {} bytes in place of {size}", part.len());
        return Err(Failure::failed(what));
    }
    let to = to.wrapping_byte_add(position.wrapping_mul(size));
    // SAFETY: The caller of this function says that the bytes at this position may be written.
    unsafe { fill(to, part) }
}

/// Returns why the last call of this thread failed.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_get_error() -> *const c_char {
    last_text()
}
