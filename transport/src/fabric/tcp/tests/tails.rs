//! Tails on a stream: PV-12, TC-2.

use rkyv::util::AlignedVec;

use super::super::input::{Event, Input};
use super::super::queues::Queues;
use super::*;
use crate::memory::{Buffer, Owner, TailRoom};

/// TC-2: a stream takes a frame in pieces of any size, cut anywhere. A send completes, and its
/// buffer is let go of, when all of it was taken.
#[tokio::test]
async fn frames_with_tails_are_written_piece_by_piece() {
    const FRAMES: usize = 256;
    const TAIL: usize = 64 * 1024;
    let mut bare = Bare::new(1).await;
    let mut buffer = AlignedVec::new();
    buffer.extend_from_slice(&(0..FRAMES * TAIL).map(|i| (i % 251) as u8).collect::<Vec<_>>());
    let whole: Arc<Buffer> = Arc::new(buffer.into());
    let mut frames = Vec::new();
    for i in 0..FRAMES {
        let part = i * TAIL..(i + 1) * TAIL;
        frames.push([&prefix(5, TAIL as u32), &b"front"[..], &whole[part.clone()]].concat());
        bare.send_with(b"front", Some(Tail::new(whole.clone(), part)));
    }
    let kept = Arc::downgrade(&whole);
    drop(whole);
    bare.while_peer(async |peer| peer.readable().await).await.unwrap();
    assert!(bare.got.len() < FRAMES, "the peer has read nothing");
    assert!(kept.upgrade().is_some(), "its last part is not written");
    for frame in frames {
        let mut seen = vec![0; frame.len()];
        // Pieces that end anywhere.
        for piece in seen.chunks_mut(10_007) {
            let read = async |peer: &mut TcpStream| peer.read_exact(piece).await.map(|_| ());
            bare.while_peer(read).await.unwrap();
        }
        assert!(seen == frame);
    }
    assert_eq!(bare.completed(FRAMES).await, [Status::Success; FRAMES]);
    assert!(kept.upgrade().is_none());
}

proptest! {
    /// Whatever frames a stream brings and in whatever pieces, each lies whole in its own receive,
    /// and its tail in the memory that was given for it.
    #[test]
    fn frames_find_their_places(
        lengths in proptest::collection::vec(
            (0..256_usize, prop_oneof![Just(0_usize), Just(0), 1..3000_usize]), 1..60,
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
        for (i, (bytes, tail)) in lengths.iter().enumerate() {
            stream.extend(prefix(*bytes as u32, *tail as u32));
            stream.extend(frame(i, *bytes));
            stream.extend(frame(i + 100, *tail));
        }
        let mut input = Input::new();
        let (mut rest, mut arrived) = (&stream[..], 0);
        let mut got = Vec::new();
        let mut steps = steps.iter().cycle();
        while !rest.is_empty() {
            let step = *steps.next().unwrap();
            let fed = input.feed(&rest[..rest.len().min(step)], &mut queues);
            rest = &rest[fed..];
            while let Some(event) = input.next(&mut queues) {
                let (bytes, solicited) = match event {
                    Event::Arrived { bytes, solicited } => (bytes, solicited),
                    Event::TailWanted => {
                        let (_, tail) = input.tail_wanted().unwrap();
                        let mut memory = AlignedVec::new();
                        memory.resize(tail + 1, 0);
                        input.put_tail_room(TailRoom::new(memory, 1..tail + 1));
                        continue;
                    }
                    other => panic!("{other:?}"),
                };
                queues.arrived(bytes, solicited);
                queues.poll(&mut got, 1);
                for done in got.drain(..) {
                    let (bytes, tail) = lengths[arrived];
                    let room = input.take_tail().map(TailRoom::into_buffer);
                    let came = room.as_ref().map_or(&[][..], |room| &room[1..]);
                    prop_assert_eq!(came, frame(arrived + 100, tail));
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
