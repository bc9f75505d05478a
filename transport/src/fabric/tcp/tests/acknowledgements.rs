//! When acceptance is told, and when it is asked for: TC-6.

use std::io;
use std::task::Context;

use super::*;

/// Drives the queue pair as far as it can go, armed for solicited completions as a driver is.
fn turn(bare: &mut Bare) {
    bare.queue_pair.arm(Notify::Solicited);
    while bare.queue_pair.poll(&mut bare.got, 8) > 0 {}
    let _spurious = bare.queue_pair.poll_ready(&mut Context::from_waker(std::task::Waker::noop()));
}

/// Drives the queue pair by `turn` until `count` receives completed.
async fn until_received(bare: &mut Bare, count: usize) {
    while bare.got.iter().filter(|done| done.work != Work::Send).count() < count {
        turn(bare);
        tokio::task::yield_now().await;
    }
}

/// Returns the bytes in the peer's socket now. Over loopback written bytes are there at once.
fn written(bare: Bare) -> (Vec<u8>, Bare) {
    let peer = bare.peer.into_std().unwrap();
    let mut bytes = Vec::new();
    let ended = io::Read::read_to_end(&mut &peer, &mut bytes);
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::WouldBlock, "the stream still stands");
    (bytes, Bare { peer: TcpStream::from_std(peer).unwrap(), ..bare })
}

/// Drives the queue pair by `turn` until this much is written.
pub(super) async fn until_written(mut bare: Bare, count: usize) -> (Vec<u8>, Bare) {
    let mut all = Vec::new();
    loop {
        turn(&mut bare);
        let (bytes, again) = written(bare);
        all.extend(bytes);
        if all.len() >= count {
            return (all, again);
        }
        bare = again;
        tokio::task::yield_now().await;
    }
}

/// Acceptance is told with the next frame, in front of it, and not before.
#[tokio::test]
async fn acceptance_travels_with_the_next_frame() {
    let mut bare = Bare::new(TCP_ACKNOWLEDGE_EVERY, 0).await;
    let frame = [&UNSOLICITED.encode()[..], b"x"].concat();
    let few = TCP_ACKNOWLEDGE_EVERY as usize - 1;
    bare.peer.write_all(&frame.repeat(few)).await.unwrap();
    until_received(&mut bare, few).await;
    turn(&mut bare);
    let (bytes, mut bare) = written(bare);
    assert_eq!(bytes, b"", "nobody asked");
    bare.send(b"y");
    let accepted = Record::Accepted { count: few as u32 }.encode();
    let both = [&accepted[..], &UNSOLICITED.encode(), b"y"].concat();
    let (bytes, mut bare) = until_written(bare, both.len()).await;
    assert_eq!(bytes, both);

    // And once they are many, at once.
    let slots = bare.got.drain(..).map(|done| done.slot);
    bare.queue_pair.post_recv(&mut slots.collect()).unwrap();
    bare.peer.write_all(&frame.repeat(few + 1)).await.unwrap();
    until_received(&mut bare, few + 1).await;
    turn(&mut bare);
    let accepted = Record::Accepted { count: TCP_ACKNOWLEDGE_EVERY }.encode();
    assert_eq!(until_written(bare, RECORD_BYTES).await.0, accepted);
}

/// A peer that asks, with a frame or by a separate record, is told, unless nothing was accepted.
#[tokio::test]
async fn a_peer_that_asks_is_told() {
    let mut bare = Bare::new(4, 0).await;
    let asked = [&ACKNOWLEDGED.encode()[..], b"x"].concat();
    bare.peer.write_all(&asked).await.unwrap();
    until_received(&mut bare, 1).await;
    let (bytes, mut bare) = until_written(bare, RECORD_BYTES).await;
    assert_eq!(bytes, Record::Accepted { count: 1 }.encode());
    let later = [
        &Record::Acknowledge.encode()[..],
        &UNSOLICITED.encode(),
        b"x",
        &UNSOLICITED.encode(),
        b"x",
    ];
    bare.peer.write_all(&later.concat()).await.unwrap();
    until_received(&mut bare, 3).await;
    turn(&mut bare);
    let (bytes, mut bare) = written(bare);
    assert_eq!(bytes, b"");
    bare.peer.write_all(&Record::Acknowledge.encode()).await.unwrap();
    assert_eq!(bare.records(1).await, [Record::Accepted { count: 2 }]);
}

/// The frames that were accepted are told at the close.
#[tokio::test]
async fn a_close_tells_what_was_accepted() {
    let mut bare = Bare::new(4, 0).await;
    bare.peer.write_all(&[&UNSOLICITED.encode()[..], b"x"].concat()).await.unwrap();
    until_received(&mut bare, 1).await;
    bare.queue_pair.close();
    let mut bytes = Vec::new();
    bare.peer.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(bytes, Record::Accepted { count: 1 }.encode());
}

/// A sender asks once for each half of its send queue, however it posts.
#[tokio::test]
async fn half_a_send_queue_asks() {
    let mut bare = Bare::new(1, 0).await;
    for _ in 0..64 {
        bare.send(b"x");
    }
    let frame = |record: Record| [&record.encode()[..], b"x"].concat();
    let half = [frame(UNSOLICITED).repeat(31), frame(ACKNOWLEDGED)].concat();
    let (bytes, mut bare) = until_written(bare, half.len() * 2).await;
    assert_eq!(bytes, half.repeat(2));
    // Accepted in part, which leaves less than half unknown: nothing more is asked for.
    bare.peer.write_all(&Record::Accepted { count: 40 }.encode()).await.unwrap();
    while bare.got.len() < 40 {
        turn(&mut bare);
        tokio::task::yield_now().await;
    }
    assert_eq!(written(bare).0, b"");
}

/// A sender whose owner waits for any completion asks for the signaled ones, once: with a frame
/// that it posts, or by a record when the frames are written.
#[tokio::test]
async fn an_owner_that_waits_asks() {
    let mut bare = Bare::new(1, 0).await;
    bare.send(b"x");
    let frame = |record: Record| [&record.encode()[..], b"x"].concat();
    let (bytes, mut bare) = until_written(bare, frame(UNSOLICITED).len()).await;
    assert_eq!(bytes, frame(UNSOLICITED));
    bare.queue_pair.arm(Notify::Any);
    bare.queue_pair.arm(Notify::Any);
    let (bytes, mut bare) = written(bare);
    assert_eq!(bytes, Record::Acknowledge.encode());
    bare.send(b"x");
    let (bytes, mut bare) = written(bare);
    assert_eq!(bytes, frame(ACKNOWLEDGED));
    bare.peer.write_all(&Record::Accepted { count: 2 }.encode()).await.unwrap();
    assert_eq!(bare.completed(2).await, [Status::Success; 2]);
    assert_eq!(written(bare).0, b"", "all is known");
}

/// A receiver that refuses a frame forgets that it was asked: the sender asks again.
#[tokio::test]
async fn a_refused_question_is_asked_again() {
    let mut bare = Bare::new(1, 1).await;
    bare.send(b"x");
    let frame = |record: Record| [&record.encode()[..], b"x"].concat();
    let (bytes, mut bare) = until_written(bare, frame(UNSOLICITED).len()).await;
    assert_eq!(bytes, frame(UNSOLICITED));
    bare.queue_pair.arm(Notify::Any);
    assert_eq!(bare.records(1).await, [Record::Acknowledge]);
    bare.peer.write_all(&Record::Refused(Refusal::NotReady).encode()).await.unwrap();
    assert_eq!(bare.records(1).await, [Record::Again]);
    assert_eq!(bare.records(1).await, [ACKNOWLEDGED]);
}
