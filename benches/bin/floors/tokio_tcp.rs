//! TCP under tokio: each call is a task that waits on a oneshot channel; one task writes all
//! waiting frames in one go, another reads; the server answers in its read loop. It has nothing of
//! what a runtime for actors adds: no mailboxes, windows, archives or heartbeats.

use std::collections::HashMap;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, BytesMut};
use ringpost_benches::stream::{self, Streams};
use ringpost_benches::{Client, Failure, Pair, Small};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::frame::{HEADER, Header, Kind, LARGE};

/// Most frames that may wait to be written, as many as messages in a mailbox of Ringpost.
const CAPACITY: usize = 1024;

/// Most frames that are written in one go.
const BATCH: usize = 256;

/// Bytes that are read at once, if they are there.
const READ: usize = 64 << 10;

enum Payload {
    Small(Small),
    Bytes(Vec<u8>),
}

impl Payload {
    fn bytes(&self) -> &[u8] {
        match self {
            Payload::Small(bytes) => bytes,
            Payload::Bytes(bytes) => bytes,
        }
    }
}

/// The frames that arrive on a socket.
struct Frames {
    socket: OwnedReadHalf,
    buffer: BytesMut,
    /// Memory for the next large payload.
    spare: Vec<u8>,
}

impl Frames {
    fn new(socket: OwnedReadHalf) -> Self {
        Frames { socket, buffer: BytesMut::new(), spare: Vec::new() }
    }

    /// Waits for a frame. Returns `None` when the socket is closed.
    async fn next(&mut self) -> io::Result<Option<(Header, Payload)>> {
        loop {
            if let Some(header) = Header::read(&self.buffer)? {
                if header.payload >= LARGE {
                    self.buffer.advance(HEADER);
                    let payload = self.large(header.payload).await?;
                    return Ok(Some((header, Payload::Bytes(payload))));
                }
                if self.buffer.len() >= HEADER + header.payload {
                    self.buffer.advance(HEADER);
                    let payload = match self.buffer.get(..header.payload).map(Small::try_from) {
                        Some(Ok(small)) => Payload::Small(small),
                        _ => Payload::Bytes(self.buffer[..header.payload].to_vec()),
                    };
                    self.buffer.advance(header.payload);
                    return Ok(Some((header, payload)));
                }
            }
            self.buffer.reserve(READ);
            if self.socket.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Reads a large payload into the vector that keeps it.
    async fn large(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut payload = mem::take(&mut self.spare);
        payload.clear();
        payload.reserve_exact(length);
        let here = self.buffer.len().min(length);
        payload.extend_from_slice(&self.buffer[..here]);
        self.buffer.advance(here);
        while payload.len() < length {
            let rest = (length - payload.len()) as u64;
            if (&mut self.socket).take(rest).read_buf(&mut payload).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(payload)
    }

    /// Keeps the memory of a payload that was handled for the next large one.
    fn reuse(&mut self, payload: Payload) {
        if let Payload::Bytes(bytes) = payload
            && bytes.capacity() > self.spare.capacity()
        {
            self.spare = bytes;
        }
    }

    /// Returns true if a whole frame is here already.
    fn is_ready(&self) -> bool {
        let header = Header::read(&self.buffer).ok().flatten();
        header.is_some_and(|header| self.buffer.len() >= HEADER + header.payload)
    }
}

/// Frames to be written in one go.
struct Batch {
    socket: OwnedWriteHalf,
    buffer: BytesMut,
}

impl Batch {
    fn new(socket: OwnedWriteHalf) -> Self {
        Batch { socket, buffer: BytesMut::new() }
    }

    /// Adds a frame; a large one is written at once, without a copy.
    async fn push(&mut self, header: Header, payload: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(&header.to_bytes());
        if payload.len() < LARGE {
            self.buffer.extend_from_slice(payload);
            return Ok(());
        }
        self.write().await?;
        self.socket.write_all(payload).await
    }

    /// Writes the collected frames.
    async fn write(&mut self) -> io::Result<()> {
        self.socket.write_all(&self.buffer).await?;
        self.buffer.clear();
        Ok(())
    }
}

/// The contestant.
pub(crate) struct TokioTcp;

impl Pair for TokioTcp {
    type Client = Caller;
    type Server = JoinHandle<()>;

    async fn serve() -> Result<(String, JoinHandle<()>), Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let server = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    if let Err(error) = answer(socket).await {
                        eprintln!("bench: tokio-tcp: the server's connection failed: {error}");
                    }
                });
            }
        });
        Ok((address, server))
    }

    async fn connect(address: String) -> Result<Caller, Failure> {
        let socket = Self::open(address).await?;
        let (reading, writing) = socket.into_split();
        let (sender, receiver) = mpsc::channel(CAPACITY);
        let pending = Arc::new(Pending::default());
        tokio::spawn(write(Batch::new(writing), receiver));
        tokio::spawn(read(Frames::new(reading), pending.clone()));
        Ok(Caller { frames: sender, pending, last: Arc::new(AtomicU32::new(0)) })
    }
}

impl Streams for TokioTcp {
    type Stream = TcpStream;

    async fn open(address: String) -> Result<TcpStream, Failure> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(socket)
    }
}

/// Answers each frame, or serves a stream if the first byte is the mark of a stream.
async fn answer(socket: TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut first = [0];
    socket.peek(&mut first).await?;
    if matches!(first[0], stream::ECHO | stream::LOTS) {
        return stream::serve(socket).await;
    }
    let (reading, writing) = socket.into_split();
    let (mut frames, mut batch) = (Frames::new(reading), Batch::new(writing));
    let mut handled = 0_u64;
    while let Some((header, payload)) = frames.next().await? {
        let number = header.number(handled);
        let said = number.as_ref().map_or(payload.bytes(), |number| number);
        if header.kind == Kind::Tell {
            handled += 1;
        } else {
            let header = Header { kind: Kind::Answer, id: header.id, payload: said.len() };
            batch.push(header, said).await?;
        }
        frames.reuse(payload);
        if !frames.is_ready() {
            batch.write().await?;
        }
    }
    Ok(())
}

/// The calls that wait for an answer.
#[derive(Default)]
struct Pending(Mutex<HashMap<u32, oneshot::Sender<Payload>>>);

impl Pending {
    fn insert(&self, id: u32, caller: oneshot::Sender<Payload>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, caller);
    }

    fn remove(&self, id: u32) -> Option<oneshot::Sender<Payload>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }

    /// Fails all calls that wait.
    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

async fn write(mut batch: Batch, mut frames: mpsc::Receiver<(Header, Payload)>) {
    let mut waiting = Vec::with_capacity(BATCH);
    while frames.recv_many(&mut waiting, BATCH).await > 0 {
        for (header, payload) in waiting.drain(..) {
            if batch.push(header, payload.bytes()).await.is_err() {
                return;
            }
        }
        // The reader meets the same error of the socket, and fails the calls.
        if batch.write().await.is_err() {
            return;
        }
    }
}

async fn read(mut frames: Frames, pending: Arc<Pending>) {
    while let Ok(Some((header, payload))) = frames.next().await {
        if let Some(caller) = pending.remove(header.id) {
            // A caller that is gone needs no answer.
            drop(caller.send(payload));
        }
    }
    pending.clear();
}

/// The calling side.
#[derive(Clone)]
pub(crate) struct Caller {
    frames: mpsc::Sender<(Header, Payload)>,
    pending: Arc<Pending>,
    last: Arc<AtomicU32>,
}

impl Caller {
    async fn send(&self, kind: Kind, id: u32, payload: Payload) -> Result<(), Failure> {
        let header = Header { kind, id, payload: payload.bytes().len() };
        self.frames.send((header, payload)).await.map_err(|_| closed())
    }

    async fn call(&self, kind: Kind, payload: Payload) -> Result<Payload, Failure> {
        let id = self.last.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.pending.insert(id, sender);
        self.send(kind, id, payload).await?;
        receiver.await.map_err(|_| closed())
    }

    async fn number(&self, kind: Kind, payload: Payload) -> Result<u64, Failure> {
        let answer = self.call(kind, payload).await?;
        let number = answer.bytes().try_into().map_err(Failure::of)?;
        Ok(u64::from_le_bytes(number))
    }
}

impl Client for Caller {
    async fn echo_small(&self, payload: Small) -> Result<Small, Failure> {
        let answer = self.call(Kind::Echo, Payload::Small(payload)).await?;
        answer.bytes().try_into().map_err(Failure::of)
    }

    async fn echo(&self, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        match self.call(Kind::Echo, Payload::Bytes(payload)).await? {
            Payload::Small(bytes) => Ok(bytes.to_vec()),
            Payload::Bytes(bytes) => Ok(bytes),
        }
    }

    async fn weigh(&self, payload: Vec<u8>) -> Result<u64, Failure> {
        self.number(Kind::Weigh, Payload::Bytes(payload)).await
    }

    async fn tell_small(&self, payload: Small) -> Result<(), Failure> {
        self.send(Kind::Tell, 0, Payload::Small(payload)).await
    }

    async fn tell(&self, payload: Vec<u8>) -> Result<(), Failure> {
        self.send(Kind::Tell, 0, Payload::Bytes(payload)).await
    }

    async fn handled(&self) -> Result<u64, Failure> {
        self.number(Kind::Handled, Payload::Bytes(Vec::new())).await
    }
}

fn closed() -> Failure {
    Failure::Failed("the connection was closed".into())
}
