//! A peer that knows the secret and speaks by hand: everything from its HELLO to the bytes of its
//! data connection is what a test makes it say.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::bootstrap::{
    Channel, Failure, Handshake, Identity, Message, OfferMade, Resync, Secret, Times, VERSIONS,
    meet,
};
use crate::entropy::Entropy;
use crate::id::{Incarnation, NodeId, NodeName};
use crate::limits;
use crate::proto::credit::FIRST_COUNT;
use crate::proto::frame::{FrameWriter, Head};
use crate::proto::header::{FRAME_HEADER, RecordHeader, RecordKind};
use crate::wire::{Preface, Stream};

/// Longest frame there can be between it and a node of the profile `small`.
pub(in crate::mesh::tests) const FRAME_MAX: usize = limits::SLOT_BYTES_SMALL as usize;
/// Its ring: as it never reports anything consumed, what a node may send it in all.
pub(in crate::mesh::tests) const RING: u32 = limits::RING_SLOTS_MIN;

/// Returns the identity of a hostile peer of this name: the same run each time.
pub(in crate::mesh::tests) fn identity(name: &str) -> Identity {
    Identity {
        node: NodeId { name: NodeName::new(name).unwrap(), incarnation: Incarnation(13) },
        addresses: Vec::new(),
        fabrics: vec!["tcp".into()],
        times: Times::default(),
        features: 0,
        versions: VERSIONS,
        key: Secret::key(Some(&Secret::numbered(3))),
        accepts: Vec::new(),
        entropy: Entropy::os(),
    }
}

/// A peer that has proved itself and has nothing else yet.
pub(in crate::mesh::tests) struct Proven {
    pub(in crate::mesh::tests) channel: Channel,
    pub(in crate::mesh::tests) address: String,
    spoil: Arc<AtomicBool>,
}

/// A peer with a link.
pub(in crate::mesh::tests) struct Linked {
    pub(in crate::mesh::tests) channel: Channel,
    pub(in crate::mesh::tests) data: TcpStream,
    spoil: Arc<AtomicBool>,
}

impl Proven {
    pub(in crate::mesh::tests) async fn meet(
        address: &str,
        identity: &Identity,
    ) -> Result<Self, Failure> {
        let spoil = Arc::new(AtomicBool::new(false));
        let stream = TcpStream::connect(address).await?;
        let stream = Box::new(Spoilt { stream, spoil: spoil.clone() });
        let deadline = Instant::now() + limits::HANDSHAKE_TIMEOUT;
        let handshake = Handshake::dial(identity);
        let (channel, _) = meet(stream, handshake, &[], deadline, std::future::pending()).await?;
        Ok(Proven { channel, address: address.into(), spoil })
    }

    /// Meets a node with the lower name until it chooses this connection, and takes its report on
    /// the last link.
    pub(in crate::mesh::tests) async fn committed(address: &str, identity: &Identity) -> Self {
        loop {
            let mut proven = Proven::meet(address, identity).await.unwrap();
            match proven.channel.recv().await {
                Ok(Message::Commit { .. }) => {
                    proven.hear().await;
                    return proven;
                }
                // The node is not done with the connection before.
                Err(failure) if failure.is_dial_race() => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The node's report on the last link, to its last part.
    async fn hear(&mut self) {
        loop {
            match self.channel.recv().await.unwrap() {
                Message::Resync(part) if part.more => {}
                Message::Resync(_) => return,
                other => panic!("{other:?}"),
            }
        }
    }

    pub(in crate::mesh::tests) async fn say(&mut self, message: &Message) {
        // The node may have had enough already.
        let _ = self.channel.send(message).await;
    }

    /// Exchanges honest OFFERs; gives the token of the data connection.
    pub(in crate::mesh::tests) async fn offered(&mut self) -> Vec<u8> {
        self.say(&offer()).await;
        match self.channel.recv().await.unwrap() {
            Message::Offer(theirs) => theirs.queue_pair.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Makes the data connection.
    pub(in crate::mesh::tests) async fn connect(&self, token: &[u8]) -> TcpStream {
        let mut data = TcpStream::connect(&self.address).await.unwrap();
        data.write_all(&[&Preface::Data.encode()[..], token].concat()).await.unwrap();
        data
    }

    /// Makes an honest data connection; the node's own frame is on its way then.
    pub(in crate::mesh::tests) async fn connected(&mut self) -> TcpStream {
        let token = self.offered().await;
        let data = self.connect(&token).await;
        let connected = || Message::Connected { fabric: "tcp".into() };
        self.say(&connected()).await;
        assert_eq!(self.channel.recv().await.unwrap(), connected());
        data
    }

    /// Everything an honest peer does from there to READY, with this report on the last link.
    pub(in crate::mesh::tests) async fn link(mut self, report: &Message) -> Linked {
        self.say(report).await;
        let mut data = self.connected().await;
        data.write_all(&framed(&confirm(FRAME_MAX))).await.unwrap();
        let theirs = next_frame(&mut data).await;
        assert_eq!(theirs.len(), FRAME_MAX);
        self.say(&ready_to_go()).await;
        let ready = self.channel.recv().await.unwrap();
        assert_eq!(ready, ready_to_go());
        Linked { channel: self.channel, data, spoil: self.spoil }
    }
}

impl Linked {
    /// Writes a frame, whatever it is.
    pub(in crate::mesh::tests) async fn frame(&mut self, frame: &[u8]) {
        self.bytes(&framed(frame)).await;
    }

    /// Writes bytes to the data connection.
    pub(in crate::mesh::tests) async fn bytes(&mut self, bytes: &[u8]) {
        // The node may have had enough already.
        let _ = self.data.write_all(bytes).await;
    }

    /// Waits for a frame that begins with OPEN.
    pub(in crate::mesh::tests) async fn asked(&mut self) {
        let open = Some(RecordKind::Open as u8);
        while next_frame(&mut self.data).await.get(FRAME_HEADER).copied() != open {}
    }

    /// Writes a well-formed frame of these records.
    pub(in crate::mesh::tests) async fn records(&mut self, records: &[(RecordHeader, &[u8])]) {
        self.frame(&frame_of(records, FIRST_COUNT)).await;
    }

    /// Writes a well-formed frame of one record without a payload.
    pub(in crate::mesh::tests) async fn record(&mut self, header: RecordHeader) {
        self.records(&[(header, &[])]).await;
    }

    /// Changes the bytes that it seals from now on, on their way.
    pub(in crate::mesh::tests) fn spoil(&self) {
        self.spoil.store(true, Ordering::SeqCst);
    }
}

/// The report of a peer that knows of no last link.
pub(in crate::mesh::tests) fn silence() -> Message {
    Message::Resync(Resync { epoch: 0, consumed: 0, refusals: Vec::new(), more: false })
}

/// The offer of a dialler.
pub(in crate::mesh::tests) fn offer() -> Message {
    Message::Offer(OfferMade {
        fabric: "tcp".into(),
        ring_slots: RING,
        slot_bytes: FRAME_MAX as u32,
        message_bytes_max: 1 << 20,
        link_window_bytes: 1 << 20,
        queue_pair: Default::default(),
    })
}

pub(in crate::mesh::tests) fn ready_to_go() -> Message {
    Message::Ready { fabric: "tcp".into() }
}

/// A CONFIRM of this length.
pub(in crate::mesh::tests) fn confirm(bytes: usize) -> Vec<u8> {
    let payload = vec![0; bytes - frame_of(&[(head(RecordKind::Confirm), &[])], 0).len()];
    frame_of(&[(head(RecordKind::Confirm), &payload)], FIRST_COUNT)
}

pub(in crate::mesh::tests) fn head(kind: RecordKind) -> RecordHeader {
    RecordHeader::new(kind)
}

/// A well-formed frame of these records.
pub(in crate::mesh::tests) fn frame_of(
    records: &[(RecordHeader, &[u8])],
    consumed: u32,
) -> Vec<u8> {
    let mut slot = vec![0; FRAME_MAX];
    let mut writer = FrameWriter::new(&mut slot);
    for (header, payload) in records {
        assert!(writer.fits(header, payload.len()));
        writer.push(*header, payload);
    }
    let bytes = writer.finish(Head { consumed, ..Head::default() });
    slot.truncate(bytes);
    slot
}

/// The bytes of a frame on a data connection.
pub(in crate::mesh::tests) fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_le_bytes()[..], frame].concat()
}

/// The next frame on a data connection.
pub(in crate::mesh::tests) async fn next_frame(data: &mut TcpStream) -> Vec<u8> {
    read_frame(data).await.unwrap()
}

/// The next frame on a data connection, without its tail, until it ends.
pub(super) async fn read_frame(data: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    // The highest bits say that it is solicited, and that it has a tail.
    let first = data.read_u32_le().await?;
    let tail = if first & 1 << 30 != 0 { data.read_u32_le().await? } else { 0 };
    let bytes = first & !(3 << 30);
    let mut frame = vec![0; (bytes + tail) as usize];
    data.read_exact(&mut frame).await?;
    frame.truncate(bytes as usize);
    Ok(frame)
}

/// A stream on which somebody changes bytes once he is told to.
struct Spoilt {
    stream: TcpStream,
    spoil: Arc<AtomicBool>,
}

impl AsyncRead for Spoilt {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Spoilt {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut bytes = bytes.to_vec();
        if self.spoil.load(Ordering::SeqCst)
            && let Some(last) = bytes.last_mut()
        {
            *last ^= 1;
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &bytes))?;
        assert_eq!(written, bytes.len(), "a short message fits the socket's buffer");
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Stream for Spoilt {
    fn peer_address(&self) -> String {
        "127.0.0.1:1".into()
    }
}
