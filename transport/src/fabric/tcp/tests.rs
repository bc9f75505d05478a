//! The tcp fabric under the conformance cases, and cases that only a stream has.

mod sealed;
mod tails;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::prefix::Prefix;
use super::{Doors, TcpFabric};
use crate::entropy::Entropy;
use crate::fabric::conformance::{self, Pairs};
use crate::fabric::{
    Completion, Fabric, Notify, QueuePair, QueuePairConfig, SendRequest, Side, Status, Work,
};
use crate::limits::{TCP_FRAME_BYTES_MAX, TCP_TAIL_BYTES_MAX};
use crate::memory::Tail;
use crate::wire::{PREFACE_BYTES, Preface, Stream, TcpWire, Wire};

/// Two fabrics on loopback. The second one's port admits data connections, as a node's does.
struct Loopback {
    fabrics: [Arc<TcpFabric>; 2],
    address: String,
}

impl Loopback {
    async fn new() -> Self {
        Loopback::of(TcpFabric::new).await
    }

    async fn of(fabric: fn(Arc<dyn Wire>, Doors, Entropy) -> TcpFabric) -> Self {
        let mut port = TcpWire.listen("127.0.0.1:0".into()).await.unwrap();
        let address = port.local_address();
        let doors = Doors::default();
        let admitting = doors.clone();
        tokio::spawn(async move {
            while let Ok(stream) = port.accept().await {
                tokio::spawn(admit(stream, admitting.clone()));
            }
        });
        let fabric = |doors| Arc::new(fabric(Arc::new(TcpWire), doors, Entropy::os()));
        Loopback { fabrics: [fabric(Doors::default()), fabric(doors)], address }
    }
}

async fn admit(mut stream: Box<dyn Stream>, doors: Doors) {
    let mut preface = [0; PREFACE_BYTES];
    stream.read_exact(&mut preface).await.unwrap();
    assert_eq!(Preface::decode(&preface), Ok(Preface::Data));
    let token = stream.read_u128_le().await.unwrap();
    doors.admit(token, stream);
}

impl Pairs for Loopback {
    fn ends(&self) -> [(Arc<dyn Fabric>, Side); 2] {
        let [a, b] = self.fabrics.clone();
        [(a, Side::Dialer { address: self.address.clone() }), (b, Side::Acceptor)]
    }
}

macro_rules! conform {
    ($($case:ident)*) => { $(
        #[tokio::test]
        async fn $case() {
            let pairs = Loopback::new().await;
            conformance::bounded(stringify!($case), conformance::$case(&pairs)).await;
        }
    )* };
}

conformance::for_each_case!(conform);

/// A queue pair whose peer is a bare stream.
struct Bare {
    fabric: Arc<TcpFabric>,
    queue_pair: Box<dyn QueuePair>,
    got: Vec<Completion>,
    peer: TcpStream,
}

impl Bare {
    /// With `receives` of 64 bytes posted.
    async fn new(receives: u32) -> Self {
        let Loopback { fabrics: [_, fabric], address } = Loopback::new().await;
        let config = QueuePairConfig {
            send_queue: 256,
            recv_queue: receives,
            inline_bytes: 0,
            rnr_retry: 0,
            side: Side::Acceptor,
            binding: Vec::new(),
            avoid: Vec::new(),
        };
        let mut opening = fabric.open(config).unwrap();
        let mut ring = fabric.alloc(receives as usize * 64).unwrap().into_slots(64);
        ring.truncate(receives as usize);
        opening.post_recv(&mut ring).unwrap();
        let mut peer = TcpStream::connect(address).await.unwrap();
        peer.set_nodelay(true).unwrap();
        let hello = [&Preface::Data.encode()[..], &opening.offer()].concat();
        peer.write_all(&hello).await.unwrap();
        let queue_pair = opening.connect(Default::default(), 0).await.unwrap();
        Bare { fabric, queue_pair, got: Vec::new(), peer }
    }

    /// Posts a signaled frame.
    fn send(&mut self, frame: &[u8]) {
        self.send_with(frame, None);
    }

    /// Posts a signaled frame with a tail.
    fn send_with(&mut self, frame: &[u8], tail: Option<Tail>) {
        let slot_bytes = frame.len().next_multiple_of(16);
        let region = self.fabric.alloc(slot_bytes).unwrap();
        let mut slot = region.into_slots(slot_bytes).swap_remove(0);
        slot[..frame.len()].copy_from_slice(frame);
        let bytes = frame.len() as u32;
        let request =
            SendRequest { slot, bytes, tail, signaled: true, solicited: true, inline: false };
        self.queue_pair.post_send(&mut vec![request]).unwrap();
    }

    /// Drives the queue pair until `count` work requests completed.
    async fn completed(&mut self, count: usize) -> Vec<Status> {
        let done = &mut self.queue_pair;
        poll_fn(|cx| {
            loop {
                done.arm(Notify::Any);
                while done.poll(&mut self.got, 8) > 0 {}
                if self.got.len() >= count {
                    return Poll::Ready(());
                }
                std::task::ready!(done.poll_ready(cx));
            }
        })
        .await;
        self.got.drain(..).map(|completion| completion.status).collect()
    }

    /// Drives the queue pair while the peer does something.
    async fn while_peer<T>(&mut self, peer: impl AsyncFnOnce(&mut TcpStream) -> T) -> T {
        let done = &mut self.queue_pair;
        let mut peer = pin!(peer(&mut self.peer));
        poll_fn(|cx| {
            done.arm(Notify::Any);
            while done.poll(&mut self.got, 8) > 0 {}
            if done.poll_ready(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
            peer.as_mut().poll(cx)
        })
        .await
    }
}

/// Returns the bytes of a frame on the stream.
fn on_stream(frame: &[u8]) -> Vec<u8> {
    [prefix(frame.len() as u32, 0), frame.to_vec()].concat()
}

/// Returns the bytes of a prefix.
fn prefix(bytes: u32, tail: u32) -> Vec<u8> {
    Prefix { bytes, tail, solicited: true }.encode().to_vec()
}

/// TC-3, TC-4: the oldest receive says why, and everything else is flushed.
#[tokio::test]
async fn a_frame_without_a_fitting_receive_ends_the_queue_pair() {
    let two = [on_stream(b"a"), on_stream(b"b")].concat();
    let none = [two.clone(), on_stream(b"c")].concat();
    for (bytes, arrived, last) in [
        (prefix(65, 0), 0, Some(Status::LocalLength)),
        ([on_stream(b"a"), prefix(TCP_FRAME_BYTES_MAX, 0)].concat(), 1, Some(Status::LocalLength)),
        (prefix(TCP_FRAME_BYTES_MAX + 1, 0), 0, Some(Status::Corrupt)),
        (prefix(1, TCP_TAIL_BYTES_MAX + 1), 0, Some(Status::Corrupt)),
        (b"GET / HTTP/1.1".to_vec(), 0, Some(Status::Corrupt)),
        (none, 2, None),
    ] {
        let mut bare = Bare::new(2).await;
        bare.peer.write_all(&bytes).await.unwrap();
        let mut expected = vec![Status::Success; arrived];
        expected.extend(last);
        expected.resize(2, Status::Flushed);
        assert_eq!(bare.completed(2).await, expected, "{bytes:?}");
        let end = bare.while_peer(async |peer| peer.read(&mut [0; 1]).await).await;
        assert!(!matches!(end, Ok(1..)), "the peer finds the stream ended: {end:?}");
        bare.send(b"late");
        assert_eq!(bare.completed(1).await, [Status::Flushed]);
    }
}

/// PV-3: a stream may be cut anywhere.
#[tokio::test]
async fn frames_that_come_byte_by_byte_arrive_whole() {
    let mut bare = Bare::new(2).await;
    for byte in [on_stream(b"abc"), on_stream(b"")].concat() {
        bare.while_peer(async |peer| peer.write_all(&[byte]).await).await.unwrap();
        bare.while_peer(async |_| tokio::task::yield_now().await).await;
    }
    while bare.got.len() < 2 {
        bare.while_peer(async |_| tokio::task::yield_now().await).await;
    }
    let works = bare.got.iter().map(|c| c.work).collect::<Vec<_>>();
    assert_eq!(works, [Work::Recv { bytes: 3 }, Work::Recv { bytes: 0 }]);
    assert_eq!(&bare.got[0].slot[..3], b"abc");
}

/// A token opens one door once, and none after its queue pair was given up.
#[tokio::test]
async fn doors_open_to_their_token_only() {
    let Loopback { fabrics: [_, fabric], address } = Loopback::new().await;
    let config = QueuePairConfig {
        send_queue: 1,
        recv_queue: 1,
        inline_bytes: 0,
        rnr_retry: 0,
        side: Side::Acceptor,
        binding: Vec::new(),
        avoid: Vec::new(),
    };
    let knock = async |token: &[u8]| {
        let mut peer = TcpStream::connect(&address).await.unwrap();
        peer.write_all(&[&Preface::Data.encode()[..], token].concat()).await.unwrap();
        peer
    };
    let opening = fabric.open(config.clone()).unwrap();
    let token = opening.offer();
    assert_eq!(knock(&[7; 16]).await.read(&mut [0; 1]).await.unwrap(), 0, "unknown");
    let mut first = knock(&token).await;
    let queue_pair = opening.connect(Default::default(), 0).await.unwrap();
    assert_eq!(knock(&token).await.read(&mut [0; 1]).await.unwrap(), 0, "used");
    drop(queue_pair);
    assert_eq!(first.read(&mut [0; 1]).await.unwrap(), 0);

    let opening = fabric.open(config).unwrap();
    let token = opening.offer();
    drop(opening);
    assert_eq!(knock(&token).await.read(&mut [0; 1]).await.unwrap(), 0, "given up");
    assert_eq!(format!("{:?}", fabric.doors), "Doors(0 waiting)");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// TC-4, PV-2: whatever a peer writes, nothing panics, and when it hangs up each slot has come
    /// back exactly once.
    #[test]
    fn any_bytes_give_every_slot_back(
        frames in proptest::collection::vec(0..80_usize, 0..8),
        tail in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(conformance::bounded("any bytes", async {
            let mut bare = Bare::new(4).await;
            for i in 0..3 {
                bare.send(&[i]);
            }
            for bytes in frames {
                // The queue pair may have ended already.
                let _ = bare.peer.write_all(&on_stream(&vec![1; bytes])).await;
            }
            let _ = bare.peer.write_all(&tail).await;
            let _ = bare.peer.shutdown().await;
            assert_eq!(bare.completed(7).await.len(), 7);
        }));
    }
}
