//! Memory that is shared with other nodes.

#![allow(unsafe_code, reason = "C calls these functions, with pointers (CA-1)")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use ringpost::region::{Access, Region, RemoteRegion};
use ringpost::{Node, View};
use ringpost_streams::rpc::{self, Bytes, Client, Server};
use tokio::sync::Mutex;

use super::node::{rp_node, running};
use crate::driver::{Closing, wait};
use crate::entry::{bytes, entry, fill_from, put, text};
use crate::failure::Failure;
use crate::handles::{Kind, close, find, open};

/// Memory of this node that can be shared. Opaque.
#[expect(non_camel_case_types, reason = "it is a type of C")]
pub struct rp_region {
    _private: (),
}

/// Access to a region, perhaps of another node. Opaque.
#[expect(non_camel_case_types, reason = "it is a type of C")]
pub struct rp_remote {
    _private: (),
}

/// Access by rp_remote_read.
pub const RP_READ: c_int = 1;
/// Access by rp_remote_write.
pub const RP_WRITE: c_int = 2;
/// Access by rp_remote_fetch_add and rp_remote_compare_exchange.
pub const RP_ATOMIC: c_int = 4;

/// The thing behind a region's handle.
struct Owned {
    node: Node,
    region: Region<u8>,
    /// Gives access to clients, while the region is shared.
    desk: Mutex<Option<Server<Bytes, RemoteRegion<u8>>>>,
}

impl Kind for Owned {
    const NAME: &'static str = "a region";
}

impl Owned {
    /// Ends all access to it.
    async fn revoke(&self) {
        let mut desk = self.desk.lock().await;
        if let Some(desk) = desk.take() {
            desk.stop().await;
        }
        self.region.revoke_all().await;
    }
}

/// The thing behind the handle of a shared region.
struct Remote {
    bytes: RemoteRegion<u8>,
    closing: Closing,
}

impl Kind for Remote {
    const NAME: &'static str = "a shared region";
}

/// Makes a region of `len` bytes, all zero.
#[unsafe(no_mangle)]
pub extern "C" fn rp_region_new(node: *mut rp_node, len: usize) -> *mut rp_region {
    entry(null_mut(), || {
        let node = running(node)?.node.clone();
        let region = node.region(len)?;
        open(Arc::new(Owned { node, region, desk: Mutex::default() }))
    })
}

/// Shares a region under a name of its node: others open it as "node/name". `access` is a sum of
/// RP_READ, RP_WRITE and RP_ATOMIC. It is shared under one name at a time.
///
/// # Safety
/// CA-1: `name` is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_region_share(
    region: *mut rp_region,
    name: *const c_char,
    access: c_int,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives null or a text that ends with a null (CA-1).
        let name = unsafe { text(name, "the name")? };
        let access = u8::try_from(access).ok().and_then(Access::from_bits);
        let access = access.filter(|access| access.bits() != 0);
        let none = || Failure::invalid("the access is a sum of RP_READ, RP_WRITE and RP_ATOMIC");
        let access = access.ok_or_else(none)?;
        let owned = find::<Owned, _>(region)?;
        wait(async {
            let mut desk = owned.desk.lock().await;
            if desk.is_some() {
                return Err(Failure::invalid("the region is shared already: revoke it first"));
            }
            let shared = owned.region.share(access)?;
            let given = shared.clone();
            let served = rpc::serve(&owned.node, name, move |_: View<Bytes>| {
                let given = given.clone();
                async move { given }
            });
            match served.await {
                Ok(server) => *desk = Some(server),
                Err(error) => {
                    owned.region.revoke(&shared).await;
                    return Err(error.into());
                }
            }
            Ok(0)
        })
    })
}

/// Ends the access of all, also of operations under way; the name is free again. When it returns
/// nothing reaches the region any more but this program.
#[unsafe(no_mangle)]
pub extern "C" fn rp_region_revoke(region: *mut rp_region) -> c_int {
    entry(-1, || {
        let owned = find::<Owned, _>(region)?;
        wait(async {
            owned.revoke().await;
            Ok(0)
        })
    })
}

/// Writes bytes of a region of this program.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_region_set(
    region: *mut rp_region,
    offset: usize,
    data: *const c_void,
    len: usize,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives `len` bytes, which stay until this returns (CA-1).
        let data = unsafe { bytes(data, len)? };
        find::<Owned, _>(region)?.region.write(offset, data)?;
        Ok(0)
    })
}

/// Reads bytes of a region of this program.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_region_get(
    region: *mut rp_region,
    offset: usize,
    data: *mut c_void,
    len: usize,
) -> c_int {
    let read = |range| Ok(find::<Owned, _>(region)?.region.read(range)?);
    // SAFETY: The caller gives `len` bytes (CA-1).
    entry(-1, || unsafe { fill_from(offset, data, len, read) })
}

/// Closes a region of this program, and revokes it.
#[unsafe(no_mangle)]
pub extern "C" fn rp_region_close(region: *mut rp_region) -> c_int {
    entry(-1, || {
        let owned = close::<Owned, _>(region)?;
        wait(async {
            owned.revoke().await;
            Ok(0)
        })
    })
}

/// Opens the region that is shared as "node/name", or "name" on this node.
///
/// # Safety
/// CA-1: `path` is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_remote_open(node: *mut rp_node, path: *const c_char) -> *mut rp_remote {
    entry(null_mut(), || {
        // SAFETY: The caller gives null or a text that ends with a null (CA-1).
        let path = unsafe { text(path, "the path")? };
        let running = running(node)?;
        let client = Client::<Bytes, RemoteRegion<u8>>::new(&running.node);
        let asked = async { Ok(client.call(path, Bytes(Vec::new())).await?) };
        let bytes = running.closing.wait(None, asked)?;
        open(Arc::new(Remote { bytes, closing: Closing::default() }))
    })
}

/// Returns the number of bytes of a shared region.
#[unsafe(no_mangle)]
pub extern "C" fn rp_remote_len(remote: *mut rp_remote) -> isize {
    entry(-1, || Ok(find::<Remote, _>(remote)?.bytes.len() as isize))
}

/// Reads bytes of a shared region.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_remote_read(
    remote: *mut rp_remote,
    offset: usize,
    data: *mut c_void,
    len: usize,
) -> c_int {
    let read = |range| {
        let remote = find::<Remote, _>(remote)?;
        remote.closing.wait(None, async { Ok(remote.bytes.read(range).await?) })
    };
    // SAFETY: The caller gives `len` bytes (CA-1).
    entry(-1, || unsafe { fill_from(offset, data, len, read) })
}

/// Writes bytes of a shared region. After 0 they are there: a message that is sent next finds
/// them.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_remote_write(
    remote: *mut rp_remote,
    offset: usize,
    data: *const c_void,
    len: usize,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives `len` bytes, which stay until this returns (CA-1).
        let data = unsafe { bytes(data, len)? };
        let remote = find::<Remote, _>(remote)?;
        remote.closing.wait(None, async { Ok(remote.bytes.write(offset, data).await?) })?;
        Ok(0)
    })
}

/// Adds to the word of 8 bytes at `offset`, a multiple of 8, in one step for all that do so, and
/// writes its value before to `before`, unless that is NULL.
///
/// # Safety
/// CA-1: `before` is null, or a word may be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_remote_fetch_add(
    remote: *mut rp_remote,
    offset: usize,
    number: u64,
    before: *mut u64,
) -> c_int {
    entry(-1, || {
        let remote = find::<Remote, _>(remote)?;
        let (words, at) = (remote.bytes.cast::<u64>()?, word(offset)?);
        let added = async { Ok(words.fetch_add(at, number).await?) };
        let found = remote.closing.wait(None, added)?;
        // SAFETY: The caller gives null or room for a word (CA-1).
        unsafe { put(before, found) };
        Ok(0)
    })
}

/// Makes the word of 8 bytes at `offset`, a multiple of 8, `wanted` if it is `expected`, in one
/// step for all that do so. Returns 1 if it did and 0 if not, and writes its value before to
/// `before`, unless that is NULL.
///
/// # Safety
/// CA-1: `before` is null, or a word may be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_remote_compare_exchange(
    remote: *mut rp_remote,
    offset: usize,
    expected: u64,
    wanted: u64,
    before: *mut u64,
) -> c_int {
    entry(-1, || {
        let remote = find::<Remote, _>(remote)?;
        let (words, at) = (remote.bytes.cast::<u64>()?, word(offset)?);
        let exchanged = async { Ok(words.compare_exchange(at, expected, wanted).await?) };
        let exchanged = remote.closing.wait(None, exchanged)?;
        let (Ok(found) | Err(found)) = exchanged;
        // SAFETY: The caller gives null or room for a word (CA-1).
        unsafe { put(before, found) };
        Ok(c_int::from(exchanged.is_ok()))
    })
}

/// Closes a shared region: this program's access, and no one else's.
#[unsafe(no_mangle)]
pub extern "C" fn rp_remote_close(remote: *mut rp_remote) -> c_int {
    entry(-1, || {
        close::<Remote, _>(remote)?.closing.close();
        Ok(0)
    })
}

fn word(offset: usize) -> Result<usize, Failure> {
    if !offset.is_multiple_of(8) {
        return Err(Failure::invalid(format!("the offset {offset} is no multiple of 8")));
    }
    Ok(offset / 8)
}
