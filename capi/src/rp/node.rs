//! Nodes, and the last error.

#![allow(unsafe_code, reason = "C calls these functions, with pointers (CA-1)")]

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

use ringpost::{Node, NodeBuilder};

use crate::describe::{described, invented, link, start_linked};
use crate::driver::{Closing, wait};
use crate::entry::{entry, fill_text, text, time};
use crate::failure::{Code, Failure, last_code, last_text};
use crate::handles::{Kind, close, find, open};

/// A node: the place of this program among others. Opaque.
#[expect(non_camel_case_types, reason = "it is a type of C")]
pub struct rp_node {
    _private: (),
}

/// A failure: an argument is wrong, such as NULL, a closed handle or one of another kind.
pub const RP_INVALID: c_int = 1;
/// A failure: the bytes do not fit into the buffer, or into the limits.
pub const RP_TOO_LARGE: c_int = 2;
/// A failure: the call would have to wait, and was told not to.
pub const RP_WOULD_BLOCK: c_int = 3;
/// A failure: the time is over.
pub const RP_TIMED_OUT: c_int = 4;
/// A failure: the peer has closed in order, and nothing is missing.
pub const RP_ENDED: c_int = 5;
/// Any other failure: rp_last_error says which.
pub const RP_FAILED: c_int = 6;
/// A failure: a defect of this library.
pub const RP_DEFECT: c_int = 7;
/// A failure: no listener has this name, now. Its program may come up in a moment.
pub const RP_NOT_FOUND: c_int = 8;
/// A failure: a rank of the world has died, or the world was revoked. rp_world_shrink goes on.
pub const RP_RANK_DIED: c_int = 9;
/// A failure: the link between two nodes was lost, and perhaps messages with it. Connect again.
pub const RP_LINK_LOST: c_int = 10;

const _: () = assert!(
    RP_INVALID == Code::Invalid as c_int
        && RP_TOO_LARGE == Code::TooLarge as c_int
        && RP_WOULD_BLOCK == Code::WouldBlock as c_int
        && RP_TIMED_OUT == Code::TimedOut as c_int
        && RP_ENDED == Code::Ended as c_int
        && RP_FAILED == Code::Failed as c_int
        && RP_DEFECT == Code::Defect as c_int
        && RP_NOT_FOUND == Code::NotFound as c_int
        && RP_RANK_DIED == Code::RankDied as c_int
        && RP_LINK_LOST == Code::LinkLost as c_int
);

/// The thing behind a node's handle.
pub(super) struct Running {
    pub(super) node: Node,
    pub(super) closing: Closing,
}

impl Kind for Running {
    const NAME: &'static str = "a node";
}

pub(super) fn running(node: *mut rp_node) -> Result<Arc<Running>, Failure> {
    find::<Running, _>(node)
}

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn rp_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns why the last call of this thread that failed did so; "" if none has. The text is valid
/// until the next failure of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn rp_last_error() -> *const c_char {
    last_text()
}

/// Returns what kind of failure that was: one of the RP_ numbers; 0 if no call has failed.
#[unsafe(no_mangle)]
pub extern "C" fn rp_last_code() -> c_int {
    last_code()
}

/// Starts a node with this name that listens at `host:port`, where port 0 takes a free one. With
/// NULL for the name one is invented. A node that does not listen reaches only itself: for that,
/// give NULL for the address; a client of other nodes is made by rp_node_client.
///
/// The variables RINGPOST_SECRET, RINGPOST_SEEDS and others of the environment count, too.
/// Without a secret the address has to be one of loopback.
///
/// # Safety
/// CA-1: each is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_node_start(
    name: *const c_char,
    address: *const c_char,
) -> *mut rp_node {
    entry(null_mut(), || {
        // SAFETY: The caller gives null or a text that ends with a null (CA-1).
        let mut builder = named(unsafe { optional(name, "the name")? })?;
        // SAFETY: The caller gives null or a text that ends with a null (CA-1).
        if let Some(address) = unsafe { optional(address, "the address")? } {
            builder = builder.listen(address);
        }
        let node = wait(async { Ok(builder.start().await?) })?;
        open(Arc::new(Running { node, closing: Closing::default() }))
    })
}

/// Starts a node that does not listen, with an invented name, and links it to the node at
/// `host:port`, whose name is written to `peer` with its final null, unless that is NULL. A name
/// has up to 64 bytes. Tries for 5 s, or for 60 s if the host gives no answer.
///
/// No node can dial it. So when its process is killed, other nodes find it down after 8 s, and not
/// at once; give the other nodes a smaller RINGPOST_DOWN_AFTER, or call rp_node_start with an
/// address and rp_node_connect where that is too long.
///
/// # Safety
/// CA-1: `address` is null or a text, and `peer_len` bytes at `peer` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_node_client(
    address: *const c_char,
    peer: *mut c_char,
    peer_len: usize,
) -> *mut rp_node {
    entry(null_mut(), || {
        // SAFETY: The caller gives null or a text that ends with a null (CA-1).
        let address = unsafe { text(address, "the address")? };
        let builder = named(None)?;
        let (node, server) = wait(async { start_linked(builder, address).await })?;
        // SAFETY: The caller gives `peer_len` bytes, or null (CA-1).
        unsafe { fill_name(peer, peer_len, server.name())? };
        open(Arc::new(Running { node, closing: Closing::default() }))
    })
}

/// Links a node to the one at `host:port`, whose name is written to `peer`; as rp_node_client. This
/// fails for a node without a network, which rp_node_start makes without an address.
///
/// # Safety
/// CA-1: `address` is null or a text, and `peer_len` bytes at `peer` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_node_connect(
    node: *mut rp_node,
    address: *const c_char,
    peer: *mut c_char,
    peer_len: usize,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives null or a text that ends with a null (CA-1).
        let address = unsafe { text(address, "the address")? };
        let running = running(node)?;
        let server = running.closing.wait(None, link(&running.node, address))?;
        // SAFETY: The caller gives `peer_len` bytes, or null (CA-1).
        unsafe { fill_name(peer, peer_len, server.name())? };
        Ok(0)
    })
}

/// Waits until `count` other nodes are linked. Below 0 the time is without end.
#[unsafe(no_mangle)]
pub extern "C" fn rp_node_ready(node: *mut rp_node, count: usize, timeout_ms: c_int) -> c_int {
    entry(-1, || {
        let running = running(node)?;
        let ready = async { Ok(running.node.ready(count).await?) };
        running.closing.wait(time(timeout_ms), ready)?;
        Ok(0)
    })
}

/// Writes the name of a node and a final null to a buffer of `len` bytes. Returns its length.
///
/// # Safety
/// CA-1: `len` bytes at `name` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_node_name(node: *mut rp_node, name: *mut c_char, len: usize) -> c_int {
    // SAFETY: The caller gives `len` bytes (CA-1).
    entry(-1, || unsafe { fill_text(name, len, running(node)?.node.name()) })
}

/// Writes the address at which others reach a node, `host:port`, as rp_node_name does its name.
///
/// # Safety
/// CA-1: `len` bytes at `address` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_node_address(
    node: *mut rp_node,
    address: *mut c_char,
    len: usize,
) -> c_int {
    entry(-1, || {
        let all = running(node)?.node.addresses();
        let first = all.first().ok_or_else(|| Failure::failed("the node does not listen"))?;
        // SAFETY: The caller gives `len` bytes (CA-1).
        unsafe { fill_text(address, len, first) }
    })
}

/// Ends a node in order, within this time (below 0: 5 s) and 4 s more. Messages that were sent are
/// handed over before. The handle is closed; handles of channels, streams and regions of the node
/// stay, and their calls fail.
#[unsafe(no_mangle)]
pub extern "C" fn rp_node_shutdown(node: *mut rp_node, timeout_ms: c_int) -> c_int {
    entry(-1, || {
        let running = close::<Running, _>(node)?;
        running.closing.close();
        let deadline = time(timeout_ms).unwrap_or(Duration::from_secs(5));
        wait(async {
            running.node.shutdown(deadline).await;
            Ok(0)
        })
    })
}

/// Describes a node by the environment and its name.
fn named(name: Option<&str>) -> Result<NodeBuilder, Failure> {
    match name {
        Some(name) => Ok(described()?.name(name)),
        None => invented("node"),
    }
}

/// # Safety
/// CA-1: `value` is null, or a text.
unsafe fn optional<'a>(value: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if value.is_null() {
        return Ok(None);
    }
    // SAFETY: The caller of this function says that it ends with a null.
    unsafe { text(value, what) }.map(Some)
}

/// # Safety
/// CA-1: `to` is null, or `len` bytes may be written there.
unsafe fn fill_name(to: *mut c_char, len: usize, name: &str) -> Result<(), Failure> {
    if !to.is_null() {
        // SAFETY: The caller of this function says so.
        unsafe { fill_text(to, len, name)? };
    }
    Ok(())
}
