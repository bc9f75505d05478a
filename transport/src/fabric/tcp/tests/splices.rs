//! Splices on a stream: PV-12, TC-3, TC-6; and long frames that are read into their places.

use rkyv::util::AlignedVec;

use super::super::input::{Event, Input};
use super::super::queues::Queues;
use super::acknowledgements::until_written;
use super::*;
use crate::limits::TCP_SPLICED_BYTES_KEPT;
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

/// A stream takes a frame in pieces of any size, cut anywhere; a frame that is refused is sent
/// again from its beginning, with all that was spliced into it.
#[tokio::test]
async fn spliced_frames_are_written_piece_by_piece_and_again() {
    let mut bare = Bare::new(1, 1).await;
    let whole = buffer(16 * 1024 * 1024);
    let part = whole.len() / 16;
    let frames: Vec<_> =
        (0..16).map(|i| send_spliced(&mut bare, &whole, i * part..(i + 1) * part)).collect();
    let mut seen = vec![0; RECORD_BYTES];
    bare.while_peer(async |peer| peer.read_exact(&mut seen).await.map(|_| ())).await.unwrap();
    bare.peer.write_all(&Record::Refused(Refusal::NotReady).encode()).await.unwrap();
    let mut again = false;
    let mut arrived = 0;
    // The first frame was begun: all of it comes before the stream starts again.
    let mut rest = vec![0; frames[0].len()];
    bare.while_peer(async |peer| peer.read_exact(&mut rest).await.map(|_| ())).await.unwrap();
    assert!(rest == frames[0]);
    while arrived < 16 {
        let mut record = [0; RECORD_BYTES];
        bare.while_peer(async |peer| peer.read_exact(&mut record).await.map(|_| ())).await.unwrap();
        match Record::decode(&record) {
            Some(Record::Again) => again = true,
            Some(Record::Frame { bytes, .. }) => {
                let mut frame = vec![0; bytes as usize];
                let mut at = 0;
                while at < frame.len() {
                    // Pieces that end anywhere.
                    let end = frame.len().min(at + 10_007);
                    let piece = &mut frame[at..end];
                    let read =
                        async |peer: &mut TcpStream| peer.read_exact(piece).await.map(|_| ());
                    bare.while_peer(read).await.unwrap();
                    at = end;
                }
                if again {
                    assert!(frame == frames[arrived], "frame {arrived}");
                    arrived += 1;
                }
            }
            Some(Record::Acknowledge) => {}
            other => panic!("{other:?}"),
        }
    }
    let kept = Arc::downgrade(&whole);
    drop(whole);
    bare.peer.write_all(&Record::Accepted { count: 15 }.encode()).await.unwrap();
    bare.completed(15).await;
    assert!(kept.upgrade().is_some(), "the last part may have to be sent again");
    bare.peer.write_all(&Record::Accepted { count: 1 }.encode()).await.unwrap();
    bare.completed(1).await;
    assert!(kept.upgrade().is_none());
}

/// TC-6: the last part of a buffer that is worth it asks for an acknowledgement.
#[tokio::test]
async fn a_large_buffer_is_not_kept_until_the_peer_happens_to_send() {
    for (bytes, asks) in [(TCP_SPLICED_BYTES_KEPT, false), (TCP_SPLICED_BYTES_KEPT + 1, true)] {
        let mut bare = Bare::new(1, 0).await;
        let whole = buffer(bytes);
        send_spliced(&mut bare, &whole, 0..100);
        let last = send_spliced(&mut bare, &whole, bytes - 100..bytes);
        let (seen, _bare) = until_written(bare, 2 * (RECORD_BYTES + last.len())).await;
        let asked = |at: usize| {
            let record = Record::decode(seen[at..].first_chunk().unwrap());
            let Some(Record::Frame { acknowledge, .. }) = record else { panic!("{record:?}") };
            acknowledge
        };
        assert_eq!([asked(0), asked(RECORD_BYTES + last.len())], [false, asks]);
    }
}

proptest! {
    /// Whatever a stream brings and in whatever pieces, each frame lies whole in its own receive,
    /// and each record between frames is read once.
    #[test]
    fn frames_find_their_places(
        lengths in proptest::collection::vec(
            prop_oneof![Just(200_usize), Just(200), Just(200), 0..256_usize], 1..60,
        ),
        records in proptest::collection::vec(0..8_usize, 60),
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
            if records[i] == 0 {
                stream.extend(Record::Accepted { count: i as u32 + 1 }.encode());
            }
            stream.extend(frame_record(*bytes as u32).encode());
            stream.extend(frame(i, *bytes));
        }
        let mut input = Input::new(32);
        let (mut rest, mut arrived) = (&stream[..], 0);
        let (mut accepted, mut got) = (Vec::new(), Vec::new());
        let mut steps = steps.iter().cycle();
        while !rest.is_empty() {
            let step = *steps.next().unwrap();
            let fed = input.feed(&rest[..rest.len().min(step)], &mut queues, step % 2 == 0);
            rest = &rest[fed..];
            while let Some(event) = input.next(&mut queues) {
                match event {
                    Event::Arrived { bytes, solicited, .. } => queues.arrived(bytes, solicited),
                    Event::Accepted(count) => accepted.push(count as usize - 1),
                    other => panic!("{other:?}"),
                }
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
        let between = (0..lengths.len()).filter(|i| records[*i] == 0);
        prop_assert_eq!(accepted, between.collect::<Vec<_>>());
    }
}
