//! The tcp fabric under the conformance cases, and cases that only a stream has.

mod acknowledgements;
mod sealed;
mod splices;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::record::{RECORD_BYTES, Record, Refusal};
use super::{Doors, TcpFabric};
use crate::entropy::Entropy;
use crate::fabric::conformance::{self, Pairs};
use crate::fabric::{
    Completion, Fabric, Notify, QueuePair, QueuePairConfig, SendRequest, Side, Status, Work,
};
use crate::limits::{TCP_ACKNOWLEDGE_EVERY, TCP_FRAME_BYTES_MAX, TCP_QUEUE_MAX};
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
    async fn new(receives: u32, rnr_retry: u8) -> Self {
        let Loopback { fabrics: [_, fabric], address } = Loopback::new().await;
        let config = QueuePairConfig {
            send_queue: 64,
            recv_queue: receives,
            inline_bytes: 0,
            rnr_retry,
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
        let slot_bytes = frame.len().next_multiple_of(16);
        let region = self.fabric.alloc(slot_bytes).unwrap();
        let mut slot = region.into_slots(slot_bytes).swap_remove(0);
        slot[..frame.len()].copy_from_slice(frame);
        let bytes = frame.len() as u32;
        let request = SendRequest {
            slot,
            bytes,
            splice: None,
            signaled: true,
            solicited: false,
            inline: false,
        };
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

    /// Returns the next `count` records that the peer sees, all but frames.
    async fn records(&mut self, count: usize) -> Vec<Record> {
        let mut bytes = vec![0; count * RECORD_BYTES];
        self.while_peer(async |peer| peer.read_exact(&mut bytes).await.map(|_| ())).await.unwrap();
        bytes
            .chunks_exact(RECORD_BYTES)
            .map(|record| Record::decode(record.try_into().unwrap()).unwrap())
            .collect()
    }
}

const UNSOLICITED: Record = Record::Frame { bytes: 1, solicited: false, acknowledge: false };
const ACKNOWLEDGED: Record = Record::Frame { bytes: 1, solicited: false, acknowledge: true };

/// Returns the record of a solicited frame that asks for acknowledgement.
fn frame_record(bytes: u32) -> Record {
    Record::Frame { bytes, solicited: true, acknowledge: true }
}

/// TC-4.
#[tokio::test]
async fn bytes_that_are_no_records_end_the_queue_pair() {
    let accepted = |count| Record::Accepted { count }.encode();
    let garbage = [
        [0; 8],
        *b"GET / HT",
        [1, 4, 0, 0, 1, 0, 0, 0],
        [5, 1, 0, 0, 0, 0, 0, 0],
        [1, 0, 1, 0, 1, 0, 0, 0],
        [2, 0, 0, 0, 0, 0, 0, 0],
        [3, 3, 0, 0, 0, 0, 0, 0],
        frame_record(TCP_FRAME_BYTES_MAX + 1).encode(),
        frame_record(u32::MAX).encode(),
        accepted(3),
        accepted(u32::MAX),
        Record::Again.encode(),
    ];
    for bytes in garbage {
        let mut bare = Bare::new(2, 0).await;
        bare.send(b"x");
        bare.send(b"y");
        bare.peer.write_all(&bytes).await.unwrap();
        let statuses = bare.completed(4).await;
        use Status::{Corrupt, Flushed};
        assert_eq!(statuses, [Corrupt, Flushed, Flushed, Flushed], "{bytes:?}");
    }
}

/// TC-4: answers to frames that were never sent.
#[tokio::test]
async fn answers_that_nobody_asked_for_end_the_queue_pair() {
    for record in [
        Record::Accepted { count: 1 },
        Record::Refused(Refusal::NotReady),
        Record::Refused(Refusal::TooLong),
    ] {
        let mut bare = Bare::new(2, 6).await;
        bare.peer.write_all(&record.encode()).await.unwrap();
        assert_eq!(bare.completed(2).await, [Status::Corrupt, Status::Flushed], "{record:?}");
    }
}

/// TC-2, PV-3: a stream may be cut anywhere.
#[tokio::test]
async fn frames_that_come_byte_by_byte_arrive_whole() {
    let mut bare = Bare::new(2, 0).await;
    for frame in [&b"abc"[..], b""] {
        let record = frame_record(frame.len() as u32).encode();
        for byte in [&record, frame].concat() {
            bare.while_peer(async |peer| peer.write_all(&[byte]).await).await.unwrap();
            bare.while_peer(async |_| tokio::task::yield_now().await).await;
        }
    }
    bare.while_peer(async |peer| {
        let mut accepted = 0;
        while accepted < 2 {
            let mut record = [0; RECORD_BYTES];
            peer.read_exact(&mut record).await.unwrap();
            let Some(Record::Accepted { count }) = Record::decode(&record) else { panic!() };
            accepted += count;
        }
    })
    .await;
    let works = bare.got.iter().map(|c| c.work).collect::<Vec<_>>();
    assert_eq!(works, [Work::Recv { bytes: 3 }, Work::Recv { bytes: 0 }]);
    assert_eq!(&bare.got[0].slot[..3], b"abc");
}

/// TC-3, PV-5: the bytes on the stream when a frame finds no receive, at the sender.
#[tokio::test]
async fn a_refused_frame_is_sent_again_with_all_after_it() {
    let mut bare = Bare::new(1, 1).await;
    bare.queue_pair.arm(Notify::Any);
    for frame in [b"a", b"b"] {
        bare.send(frame);
    }
    let frame = ACKNOWLEDGED.encode();
    let both = [&frame[..], b"a", &frame, b"b"].concat();
    let mut seen = vec![0; both.len()];
    bare.while_peer(async |peer| peer.read_exact(&mut seen).await.map(|_| ())).await.unwrap();
    assert_eq!(seen, both);
    bare.peer.write_all(&Record::Refused(Refusal::NotReady).encode()).await.unwrap();
    assert_eq!(bare.records(1).await, [Record::Again]);
    bare.while_peer(async |peer| peer.read_exact(&mut seen).await.map(|_| ())).await.unwrap();
    assert_eq!(seen, both);
    bare.peer.write_all(&Record::Accepted { count: 2 }.encode()).await.unwrap();
    assert_eq!(bare.completed(2).await, [Status::Success; 2]);
}

/// TC-3, PV-5: the same at the receiver. It accepts the frames that fit, refuses once, skips, and
/// accepts all frames after the peer has started again.
#[tokio::test]
async fn frames_after_a_refused_one_are_skipped() {
    let mut bare = Bare::new(1, 0).await;
    let frame = UNSOLICITED.encode();
    let burst = [&frame[..], b"a", &frame, b"b", &frame, b"c"].concat();
    bare.peer.write_all(&burst).await.unwrap();
    let answers = [Record::Accepted { count: 1 }, Record::Refused(Refusal::NotReady)];
    assert_eq!(bare.records(2).await, answers);
    let first = bare.got.pop().unwrap();
    assert_eq!(first.slot[0], b'a');
    bare.queue_pair.post_recv(&mut vec![first.slot]).unwrap();
    let last = ACKNOWLEDGED.encode();
    let again = [&frame[..], b"c", &Record::Again.encode(), &last, b"b"].concat();
    bare.peer.write_all(&again).await.unwrap();
    assert_eq!(bare.records(1).await, [Record::Accepted { count: 1 }]);
    assert_eq!(bare.got.pop().unwrap().slot[0], b'b');
}

/// PV-6: the refusal waits for the end of a frame that was begun, whose slot is given back at once.
#[tokio::test]
async fn a_refusal_does_not_cut_a_frame() {
    let mut bare = Bare::new(1, 0).await;
    let long = vec![5; TCP_FRAME_BYTES_MAX as usize];
    for _ in 0..32 {
        bare.send(&long);
    }
    let record = frame_record(65).encode();
    bare.peer.write_all(&record).await.unwrap();
    let statuses = bare.completed(33).await;
    assert_eq!(statuses[0], Status::LocalLength);
    assert_eq!(statuses[1..], [Status::Flushed; 32]);
    let frames = bare
        .while_peer(async |peer| {
            let mut record = [0; RECORD_BYTES];
            for frames in 0.. {
                peer.read_exact(&mut record).await.unwrap();
                let Some(Record::Frame { bytes, .. }) = Record::decode(&record) else {
                    assert_eq!(Record::decode(&record), Some(Record::Refused(Refusal::TooLong)));
                    return frames;
                };
                let mut frame = vec![0; bytes as usize];
                peer.read_exact(&mut frame).await.unwrap();
                assert!(frame == long);
            }
            unreachable!()
        })
        .await;
    assert!((1..32).contains(&frames), "the stream was full in the middle: {frames}");
    let end = bare.while_peer(async |peer| peer.read(&mut [0; 1]).await).await;
    assert_eq!(end.unwrap(), 0, "and nothing after it");
}

/// PV-8, as far as this fabric goes beyond it: unsolicited frames do not wake the owner, and are
/// still acknowledged, in few records.
#[tokio::test]
async fn unsolicited_frames_are_acknowledged_without_a_notification() {
    let mut bare = Bare::new(40, 0).await;
    let mut burst = [&UNSOLICITED.encode()[..], b"x"].concat().repeat(39);
    burst.extend([&ACKNOWLEDGED.encode()[..], b"x"].concat());
    bare.peer.write_all(&burst).await.unwrap();
    bare.queue_pair.arm(Notify::Solicited);
    let (done, peer) = (&mut bare.queue_pair, &mut bare.peer);
    let acknowledged = async {
        let (mut frames, mut records) = (0, 0);
        while frames < 40 {
            let mut record = [0; RECORD_BYTES];
            peer.read_exact(&mut record).await.unwrap();
            let Some(Record::Accepted { count }) = Record::decode(&record) else { panic!() };
            frames += count;
            records += 1;
        }
        records
    };
    tokio::select! {
        biased;
        () = poll_fn(|cx| done.poll_ready(cx)) => panic!("notified by an unsolicited frame"),
        records = acknowledged => assert!(records <= 40 / TCP_ACKNOWLEDGE_EVERY + 2),
    }
    assert_eq!(bare.completed(40).await, [Status::Success; 40]);
}

/// TC-4: a peer that sends and never reads is cut off; no memory grows with the bytes that it
/// sends.
#[tokio::test]
async fn a_peer_that_never_reads_is_bounded() {
    let frame = [&UNSOLICITED.encode()[..], b"x"].concat();
    let refused = [&frame[..], &Record::Again.encode()].concat();
    // Enough receives for all frames of one read.
    for (receives, flood) in [(TCP_QUEUE_MAX, frame), (0, refused)] {
        let mut bare = Bare::new(receives, 0).await;
        for _ in 0..32 {
            bare.send(&vec![5; TCP_FRAME_BYTES_MAX as usize]);
        }
        let Bare { queue_pair, got, peer, .. } = &mut bare;
        let mut flooding = pin!(async {
            let flood = flood.repeat(1000);
            while peer.write_all(&flood).await.is_ok() {}
        });
        let mut frames = 0;
        let cut_off = poll_fn(|cx| {
            let _ = flooding.as_mut().poll(cx);
            queue_pair.arm(Notify::Any);
            while queue_pair.poll(got, 8) > 0 {
                for done in got.drain(..) {
                    if done.status != Status::Success {
                        return Poll::Ready(done);
                    }
                    frames += 1;
                    queue_pair.post_recv(&mut vec![done.slot]).unwrap();
                }
            }
            if queue_pair.poll_ready(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        });
        let ended = tokio::time::timeout(Duration::from_secs(10), cut_off).await.unwrap();
        assert_eq!(ended.status, Status::Corrupt);
        // Those of an acknowledgement that waits for the stream, and a whole send queue.
        assert!(frames <= 2 * TCP_QUEUE_MAX, "{frames}");
    }
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
        records in proptest::collection::vec((0..7u8, 0..5u8, 0..80u32), 0..40),
        tail in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(conformance::bounded("any bytes", async {
            let mut bare = Bare::new(4, 1).await;
            for i in 0..3 {
                bare.send(&[i]);
            }
            for (kind, flag, value) in records {
                let [a, b, c, d] = value.to_le_bytes();
                let mut bytes = vec![kind, flag, 0, 0, a, b, c, d];
                if kind == 1 {
                    bytes.resize(8 + value as usize, 1);
                }
                // The queue pair may have ended already.
                let _ = bare.peer.write_all(&bytes).await;
            }
            let _ = bare.peer.write_all(&tail).await;
            let _ = bare.peer.shutdown().await;
            assert_eq!(bare.completed(7).await.len(), 7);
        }));
    }
}
