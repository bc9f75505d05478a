//! Channels of whole messages, and listeners.

#![allow(unsafe_code, reason = "C calls these functions, with pointers (CA-1)")]

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

use ringpost_streams::channel::{Channel, Listener};
use ringpost_streams::rpc::Bytes;
use ringpost_streams::stream::{Stream, StreamListener};
use tokio::sync::Mutex;

use super::node::{rp_node, running};
use crate::driver::{Closing, wait};
use crate::entry::{bytes, entry, fill, room, text, time};
use crate::failure::Failure;
use crate::handles::{Kind, close, find, open};
use crate::line::{CLOSE_WITHIN, Line};
use crate::ready::Ready;

/// Accepts channels, or streams, under a name of a node. Opaque.
#[expect(non_camel_case_types, reason = "it is a type of C")]
pub struct rp_listener {
    _private: (),
}

/// One end of a channel. Opaque.
#[expect(non_camel_case_types, reason = "it is a type of C")]
pub struct rp_channel {
    _private: (),
}

/// The thing behind a listener's handle.
pub(super) struct Listening {
    pub(super) what: Mutex<Option<What>>,
    pub(super) closing: Closing,
}

pub(super) enum What {
    Channels(Listener<Bytes, Bytes>),
    Streams(StreamListener),
}

impl Kind for Listening {
    const NAME: &'static str = "a listener";
}

impl Listening {
    pub(super) fn open(what: What) -> Result<*mut rp_listener, Failure> {
        open(Arc::new(Listening { what: Mutex::new(Some(what)), closing: Closing::default() }))
    }

    /// Waits for the next stream.
    pub(super) fn stream(&self, time: Option<Duration>) -> Result<Stream, Failure> {
        self.closing.wait(time, async {
            match &mut *self.what.lock().await {
                Some(What::Streams(listener)) => Ok(listener.accept().await?.0),
                Some(What::Channels(_)) => Err(other("channels: call rp_channel_accept")),
                None => Err(Failure::closed()),
            }
        })
    }

    fn channel(&self, time: Option<Duration>) -> Result<Channel<Bytes, Bytes>, Failure> {
        self.closing.wait(time, async {
            match &mut *self.what.lock().await {
                Some(What::Channels(listener)) => Ok(listener.accept().await?.0),
                Some(What::Streams(_)) => Err(other("streams: call rp_stream_accept")),
                None => Err(Failure::closed()),
            }
        })
    }
}

fn other(what: &str) -> Failure {
    Failure::invalid(format!("the listener accepts {what}"))
}

/// The thing behind a channel's handle.
struct Open {
    line: Line,
    ready: Arc<Ready>,
    closing: Closing,
}

impl Kind for Open {
    const NAME: &'static str = "a channel";
}

impl Open {
    fn open(channel: Channel<Bytes, Bytes>) -> Result<*mut rp_channel, Failure> {
        let ready = Ready::new()?;
        let line = wait(async { Ok(Line::new(channel, ready.clone())) })?;
        open(Arc::new(Open { line, ready, closing: Closing::default() }))
    }
}

/// Binds a name of the node for channels: others connect to "node/name".
///
/// # Safety
/// CA-1: `name` is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_channel_listen(
    node: *mut rp_node,
    name: *const c_char,
) -> *mut rp_listener {
    entry(null_mut(), || {
        // SAFETY: The caller gives null or a text that ends with a null (CA-1).
        let name = unsafe { text(name, "the name")? };
        let running = running(node)?;
        let bound = async { Ok(Listener::bind(&running.node, name).await?) };
        Listening::open(What::Channels(running.closing.wait(None, bound)?))
    })
}

/// Waits for the next channel. Below 0 the time is without end; with 0 it does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn rp_channel_accept(
    listener: *mut rp_listener,
    timeout_ms: c_int,
) -> *mut rp_channel {
    entry(null_mut(), || {
        let listening = find::<Listening, _>(listener)?;
        Open::open(listening.channel(time(timeout_ms))?)
    })
}

/// Closes a listener: its name is free again. Accepted channels and streams stay.
#[unsafe(no_mangle)]
pub extern "C" fn rp_listener_close(listener: *mut rp_listener) -> c_int {
    entry(-1, || {
        let listening = close::<Listening, _>(listener)?;
        listening.closing.close();
        wait(async {
            listening.what.lock().await.take();
            Ok(0)
        })
    })
}

/// Connects to the channels at "node/name", or "name" on this node.
///
/// # Safety
/// CA-1: `path` is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_channel_connect(
    node: *mut rp_node,
    path: *const c_char,
) -> *mut rp_channel {
    entry(null_mut(), || {
        // SAFETY: The caller gives null or a text that ends with a null (CA-1).
        let path = unsafe { text(path, "the path")? };
        let running = running(node)?;
        let connected = async { Ok(Channel::connect(&running.node, path).await?) };
        Open::open(running.closing.wait(None, connected)?)
    })
}

/// Sends a message of up to 64 MiB. Waits while the peer has no room.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_channel_send(
    channel: *mut rp_channel,
    data: *const c_void,
    len: usize,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives `len` bytes, which stay until this returns (CA-1).
        let message = unsafe { bytes(data, len)? };
        let open = find::<Open, _>(channel)?;
        open.closing.wait(None, open.line.send(message.to_vec()))?;
        Ok(0)
    })
}

/// Receives the next message and returns its length. A longer one than `len` is a failure
/// (RP_TOO_LARGE) and stays. After the last message the end of the peer is a failure: RP_ENDED if
/// it closed in order. Below 0 the time is without end.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_channel_recv(
    channel: *mut rp_channel,
    data: *mut c_void,
    len: usize,
    timeout_ms: c_int,
) -> isize {
    entry(-1, || {
        room(data, len)?;
        let open = find::<Open, _>(channel)?;
        let message = open.line.recv(len, time(timeout_ms), &open.closing)?;
        // SAFETY: The caller gives `len` bytes (CA-1), which the message does not exceed.
        unsafe { fill(data, &message)? };
        Ok(message.len() as isize)
    })
}

/// Receives the next message if it is there; otherwise it is a failure, RP_WOULD_BLOCK.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_channel_try_recv(
    channel: *mut rp_channel,
    data: *mut c_void,
    len: usize,
) -> isize {
    // SAFETY: The caller gives what `rp_channel_recv` asks for.
    unsafe { rp_channel_recv(channel, data, len, 0) }
}

/// Returns a descriptor for poll and select, which can be read from while rp_channel_recv would not
/// wait. Do not read from it or close it.
#[unsafe(no_mangle)]
pub extern "C" fn rp_channel_fd(channel: *mut rp_channel) -> c_int {
    entry(-1, || Ok(find::<Open, _>(channel)?.ready.fd().as_raw_fd()))
}

/// Closes a channel: the peer receives all messages, and then the end. Calls of other threads on it
/// fail.
#[unsafe(no_mangle)]
pub extern "C" fn rp_channel_close(channel: *mut rp_channel) -> c_int {
    entry(-1, || {
        let open = close::<Open, _>(channel)?;
        open.closing.close();
        wait(async {
            open.line.close(CLOSE_WITHIN).await;
            Ok(0)
        })
    })
}
