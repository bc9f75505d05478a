//! Splices on a stream: PV-12, TC-2; and long frames that are read into their places.

use rkyv::util::AlignedVec;

use super::super::input::{Event, Input};
use super::super::queues::Queues;
use super::*;
use crate::memory::{Buffer, Owner, Splice};

fn buffer(bytes: usize) -> Arc<Buffer> {
    let mut buffer = AlignedVec::new();
    buffer.extend_from_slice(&(0..bytes).map(|i| (i % 251) as u8).collect::<Vec<_>>());
    Arc::new(buffer.into())
}

/// Posts a frame of eight bytes around a part of a buffer; returns the frame.
fn send_spliced(bare: &mut Bare, buffer: &Arc<Buffer>, part: std::ops::Range<usize>) -> Vec<u8> {
    let mut slot = bare.fabric.alloc(16).unwrap().into_slots(16).swap_remove(0);
    slot[..8].copy_from_slice(b"frontend");
    let splice = Some(Splice::new(buffer.clone(), part.clone(), 5));
    let (signaled, solicited, inline) = (true, false, false);
    let request = SendRequest { slot, bytes: 8, splice, signaled, solicited, inline };
    bare.queue_pair.post_send(&mut vec![request]).unwrap();
    [b"front", &buffer[part], b"end"].concat()
}

/// TC-2: a stream takes a frame in pieces of any size, cut anywhere. A send completes, and its
/// buffer is let go of, when all of it was taken.
#[tokio::test]
async fn spliced_frames_are_written_piece_by_piece() {
    let mut bare = Bare::new(1).await;
    let whole = buffer(16 * 1024 * 1024);
    let part = whole.len() / 16;
    let frames: Vec<_> =
        (0..16).map(|i| send_spliced(&mut bare, &whole, i * part..(i + 1) * part)).collect();
    let kept = Arc::downgrade(&whole);
    drop(whole);
    bare.while_peer(async |peer| peer.readable().await).await.unwrap();
    let taken = bare.got.len();
    assert!(taken < 16, "the peer has read nothing");
    assert!(kept.upgrade().is_some(), "its last part is not written");
    for frame in frames {
        let mut seen = vec![0; PREFIX_BYTES + frame.len()];
        // Pieces that end anywhere.
        for piece in seen.chunks_mut(10_007) {
            let read = async |peer: &mut TcpStream| peer.read_exact(piece).await.map(|_| ());
            bare.while_peer(read).await.unwrap();
        }
        let prefix = Prefix { bytes: frame.len() as u32, solicited: false };
        assert!(seen == [&prefix.encode()[..], &frame].concat());
    }
    assert_eq!(bare.completed(16).await, [Status::Success; 16]);
    assert!(kept.upgrade().is_none());
}

proptest! {
    /// Whatever frames a stream brings and in whatever pieces, each lies whole in its own receive.
    #[test]
    fn frames_find_their_places(
        lengths in proptest::collection::vec(
            prop_oneof![Just(200_usize), Just(200), Just(200), 0..256_usize], 1..60,
        ),
        steps in proptest::collection::vec(1..3000_usize, 1..20),
        receives in 1..12_u32,
    ) {
        let owner = Owner::new();
        let config = QueuePairConfig {
            send_queue: 1,
            recv_queue: receives,
            inline_bytes: 0,
            rnr_retry: 0,
            side: Side::Acceptor,
            binding: Vec::new(),
            avoid: Vec::new(),
        };
        let mut queues = Queues::new(&config, owner);
        let mut slots = owner.heap(receives as usize * 256).into_slots(256);
        slots.truncate(receives as usize);
        queues.post_recv(&mut slots).unwrap();
        let mut stream = Vec::new();
        let frame = |i: usize, bytes: usize| vec![i as u8 + 1; bytes];
        for (i, bytes) in lengths.iter().enumerate() {
            stream.extend(on_stream(&frame(i, *bytes)));
        }
        let mut input = Input::new(32);
        let (mut rest, mut arrived) = (&stream[..], 0);
        let mut got = Vec::new();
        let mut steps = steps.iter().cycle();
        while !rest.is_empty() {
            let step = *steps.next().unwrap();
            let fed = input.feed(&rest[..rest.len().min(step)], &mut queues);
            rest = &rest[fed..];
            while let Some(event) = input.next(&mut queues) {
                let Event::Arrived { bytes, solicited } = event else { panic!("{event:?}") };
                queues.arrived(bytes, solicited);
                queues.poll(&mut got, 1);
                for done in got.drain(..) {
                    let bytes = lengths[arrived];
                    prop_assert_eq!(done.work, Work::Recv { bytes: bytes as u32 });
                    prop_assert_eq!(&done.slot[..bytes], frame(arrived, bytes));
                    arrived += 1;
                    queues.post_recv(&mut vec![done.slot]).unwrap();
                }
            }
        }
        prop_assert_eq!(arrived, lengths.len());
    }
}
