//! Byte streams.

#![allow(unsafe_code, reason = "C calls these functions, with pointers (CA-1)")]

use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

use ringpost_streams::stream::{ReadHalf, Stream, StreamListener, WriteHalf};
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;

use super::channel::{Listening, What, rp_listener};
use super::node::{rp_node, running};
use crate::driver::{Closing, wait};
use crate::entry::{bytes, entry, fill, room, text, time};
use crate::failure::{Code, Failure};
use crate::handles::{Kind, close, find, open};

/// Bytes that one read returns at most.
const READ_MAX: usize = 1 << 20;

/// One end of a byte stream. Opaque.
#[expect(non_camel_case_types, reason = "it is a type of C")]
pub struct rp_stream {
    _private: (),
}

/// The thing behind a stream's handle. A half is `None` when the stream is closed.
struct Open {
    reader: Mutex<Option<ReadHalf>>,
    writer: Mutex<Option<WriteHalf>>,
    closing: Closing,
}

impl Kind for Open {
    const NAME: &'static str = "a stream";
}

impl Open {
    fn open(stream: Stream) -> Result<*mut rp_stream, Failure> {
        let (reader, writer) = stream.into_split();
        let (reader, writer) = (Mutex::new(Some(reader)), Mutex::new(Some(writer)));
        open(Arc::new(Open { reader, writer, closing: Closing::default() }))
    }

    /// Waits with the half that writes.
    fn with_writer<T>(
        &self,
        time: Option<Duration>,
        work: impl AsyncFnOnce(&mut WriteHalf) -> io::Result<T>,
    ) -> Result<T, Failure> {
        self.closing.wait(time, async {
            let mut writer = self.writer.lock().await;
            Ok(work(writer.as_mut().ok_or_else(Failure::closed)?).await?)
        })
    }
}

/// Binds a name of the node for streams: others connect to "node/name".
///
/// # Safety
/// CA-1: `name` is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_stream_listen(
    node: *mut rp_node,
    name: *const c_char,
) -> *mut rp_listener {
    entry(null_mut(), || {
        // SAFETY: The caller gives null or a text that ends with a null (CA-1).
        let name = unsafe { text(name, "the name")? };
        let running = running(node)?;
        let bound = async { Ok(StreamListener::bind(&running.node, name).await?) };
        Listening::open(What::Streams(running.closing.wait(None, bound)?))
    })
}

/// Waits for the next stream. Below 0 the time is without end; with 0 it does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn rp_stream_accept(
    listener: *mut rp_listener,
    timeout_ms: c_int,
) -> *mut rp_stream {
    entry(null_mut(), || {
        let listening = find::<Listening, _>(listener)?;
        Open::open(listening.stream(time(timeout_ms))?)
    })
}

/// Connects to the streams at "node/name", or "name" on this node.
///
/// # Safety
/// CA-1: `path` is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_stream_connect(
    node: *mut rp_node,
    path: *const c_char,
) -> *mut rp_stream {
    entry(null_mut(), || {
        // SAFETY: The caller gives null or a text that ends with a null (CA-1).
        let path = unsafe { text(path, "the path")? };
        let running = running(node)?;
        let connected = async { Ok(Stream::connect(&running.node, path).await?) };
        Open::open(running.closing.wait(None, connected)?)
    })
}

/// Reads up to `len` bytes, as soon as there is one, and returns how many; 0 at the end of what the
/// peer has written. Below 0 the time is without end; with 0 it does not wait (RP_WOULD_BLOCK).
///
/// # Safety
/// CA-1: `len` bytes at `data` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_stream_read(
    stream: *mut rp_stream,
    data: *mut c_void,
    len: usize,
    timeout_ms: c_int,
) -> isize {
    entry(-1, || {
        room(data, len)?;
        let open = find::<Open, _>(stream)?;
        let mut read = Vec::new();
        open.closing.wait(time(timeout_ms), async {
            let mut reader = open.reader.lock().await;
            let reader = reader.as_mut().ok_or_else(Failure::closed)?;
            if len > 0 {
                // The bytes of one write, or the rest of them.
                let limit = len.min(READ_MAX) as u64;
                read = take(reader, limit as usize).await?;
            }
            Ok(())
        })?;
        // SAFETY: The caller gives `len` bytes (CA-1), and not more were read.
        unsafe { fill(data, &read)? };
        Ok(read.len() as isize)
    })
}

/// Reads the bytes of the next write, or the rest of them, up to `limit`.
async fn take(reader: &mut ReadHalf, limit: usize) -> io::Result<Vec<u8>> {
    use tokio::io::AsyncBufReadExt;
    let there = reader.fill_buf().await?;
    let taken = there[..there.len().min(limit)].to_vec();
    reader.consume(taken.len());
    Ok(taken)
}

/// Writes all `len` bytes, and returns 0 when they are on their way. Waits while the peer has no
/// room. After a failure some of them may have been written: the text says how many bytes of the
/// stream the peer's program has certainly read.
///
/// # Safety
/// CA-1: `len` bytes at `data` may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rp_stream_write(
    stream: *mut rp_stream,
    data: *const c_void,
    len: usize,
) -> c_int {
    entry(-1, || {
        // SAFETY: The caller gives `len` bytes, which stay until this returns (CA-1).
        let data = unsafe { bytes(data, len)? };
        let open = find::<Open, _>(stream)?;
        open.with_writer(None, async |writer| writer.write_all(data).await)?;
        Ok(0)
    })
}

/// Waits until the peer's program has read all that was written. Below 0 the time is without end.
#[unsafe(no_mangle)]
pub extern "C" fn rp_stream_sync(stream: *mut rp_stream, timeout_ms: c_int) -> c_int {
    entry(-1, || {
        let open = find::<Open, _>(stream)?;
        open.with_writer(time(timeout_ms), async |writer| writer.sync().await)?;
        Ok(0)
    })
}

/// Ends the direction that writes: the peer reads the end after the last byte, and may write on.
#[unsafe(no_mangle)]
pub extern "C" fn rp_stream_shutdown(stream: *mut rp_stream) -> c_int {
    entry(-1, || {
        let open = find::<Open, _>(stream)?;
        open.with_writer(None, async |writer| writer.shutdown().await)?;
        Ok(0)
    })
}

/// Closes a stream, and waits until the peer's program has read all, for so long at most; below 0,
/// for 5 s. The handle is closed even after a failure, and written bytes are on their
/// way.
/// Bytes that were not read here are an error for the peer. Calls of other threads on it fail.
#[unsafe(no_mangle)]
pub extern "C" fn rp_stream_close(stream: *mut rp_stream, timeout_ms: c_int) -> c_int {
    entry(-1, || {
        let open = close::<Open, _>(stream)?;
        open.closing.close();
        let within = time(timeout_ms).unwrap_or(ringpost_streams::stream::CLOSE_WITHIN);
        wait(async {
            let reader = open.reader.lock().await.take();
            let writer = open.writer.lock().await.take();
            let Some(mut writer) = writer else { return Err(Failure::closed()) };
            writer.shutdown().await?;
            let synced = tokio::time::timeout(within, writer.sync()).await;
            drop(reader);
            match synced {
                Ok(synced) => synced?,
                Err(_) => {
                    let what = format!("the peer has not read all within {within:?}");
                    return Err(Failure::new(Code::TimedOut, what));
                }
            }
            Ok(0)
        })
    })
}
