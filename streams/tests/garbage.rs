//! Peers that do not keep to the protocol: the connection ends with an error, and nothing else.

use std::io;

use ringpost::prelude::*;
use ringpost::region::{Access, RemoteRegion};
use ringpost_streams::stream::{CHUNK_MAX, ITEM_COST, Stream, StreamListener, WINDOW};
use ringpost_streams::{EndCause, StreamError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{in_time, pair};

/// The messages of the crate, by their names and layouts.
#[message(name = "ringpost_streams::Frame")]
#[derive(Debug, Clone, PartialEq)]
enum Frame<T> {
    Item { number: u64, item: T },
    Fin { number: u64, is_closed: bool },
    NotReading,
    Reset { why: Why },
    Read { bytes: u64, items: u64 },
    Check { sent: u64, report_at: u64 },
    Answer { number: u64, memory: Option<RemoteRegion<u8>> },
}

#[message(name = "ringpost_streams::Why")]
#[derive(Debug, Clone, PartialEq)]
enum Why {
    Dropped,
    Lost,
    Violation,
}

#[message(name = "ringpost_streams::Connect")]
struct Connect<Tx: ringpost::wire::Wire> {
    to: Recipient<Frame<Tx>>,
}

#[message(name = "ringpost_streams::Chunk")]
#[derive(Debug, Clone, PartialEq)]
enum Chunk {
    Bytes(Vec<u8>),
    Offer(u64),
    Placed(u64),
}

fn item(number: u64, len: usize) -> Frame<Chunk> {
    Frame::Item { number, item: Chunk::Bytes(vec![7; len]) }
}

/// Returns the cause inside of an error of a stream.
fn cause_of(error: &io::Error) -> EndCause {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<StreamError>());
    inner.unwrap_or_else(|| panic!("no error of a stream: {error:?}")).cause.clone()
}

/// Sends frames to a stream as its peer. Returns how many bytes it reads, how it ends, and which
/// reset the peer is sent.
async fn tried(
    node: &Node,
    listener: &mut StreamListener,
    frames: Vec<Frame<Chunk>>,
) -> (u64, EndCause, Why) {
    let desk: Recipient<Connect<Chunk>, Option<Recipient<Frame<Chunk>>>> =
        node.recipient("beta/bytes").await.unwrap();
    let mut inbox = node.inbox::<Frame<Chunk>>(64).await.unwrap();
    let end = desk.ask(Connect { to: inbox.recipient() }).await.unwrap().unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    // Some of it is found as it comes, and the rest when it is read.
    let is_found_late =
        frames.iter().any(|frame| matches!(frame, Frame::Item { item: Chunk::Placed(_), .. }));
    for frame in frames {
        end.tell(frame).await.unwrap();
    }
    let reset = async {
        loop {
            match inbox.receive().await.unwrap() {
                Frame::Reset { why } => break why,
                Frame::Read { .. } | Frame::Answer { memory: None, .. } => {}
                frame => panic!("{frame:?} before the reset"),
            }
        }
    };
    let read = async {
        let (mut count, mut bytes) = (0, [0; 65_536]);
        loop {
            match stream.read(&mut bytes).await {
                Ok(0) => panic!("the end of a stream whose peer lies"),
                Ok(read) => count += read as u64,
                Err(error) => break (count, error),
            }
        }
    };
    let ((count, error), why) = match is_found_late {
        true => tokio::join!(read, reset),
        false => {
            let why = reset.await;
            (read.await, why)
        }
    };
    let written = stream.write(b"x").await.unwrap_err();
    assert_eq!(cause_of(&written), cause_of(&error));
    (count, cause_of(&error), why)
}

#[tokio::test]
async fn a_peer_that_breaks_the_protocol_ends_its_connection_only() {
    in_time(async {
        let (alpha, beta) = pair().await;
        let mut listener = StreamListener::bind(&beta, "bytes").await.unwrap();
        let mut good = Stream::connect(&alpha, "beta/bytes").await.unwrap();
        let (mut served, _) = listener.accept().await.unwrap();

        let fits = WINDOW / (CHUNK_MAX as u64 + ITEM_COST);
        let flood: Vec<_> = (0..fits + 1).map(|number| item(number, CHUNK_MAX)).collect();
        let fin = |number| Frame::Fin { number, is_closed: true };
        let part = |number, item| Frame::Item { number, item };
        let own = alpha.region::<u8>(8).unwrap().share(Access::WRITE).unwrap();
        let others = beta.region::<u8>(8).unwrap().share(Access::WRITE).unwrap();
        // The frames that are sent, and the number of bytes that are read before the error.
        let cases: Vec<(&str, Vec<Frame<Chunk>>, u64)> = vec![
            ("a number is left out", vec![item(0, 10), item(2, 10)], 10),
            ("the end counts more", vec![item(0, 10), fin(2)], 10),
            ("a check counts more", vec![Frame::Check { sent: 1, report_at: 0 }], 0),
            ("a number comes twice", vec![item(0, 10), item(0, 10)], 10),
            ("nothing in it", vec![item(0, 10), item(1, 0)], 10),
            ("too long", vec![item(0, CHUNK_MAX + 1)], 0),
            ("more than the window", flood, fits * CHUNK_MAX as u64),
            ("read more than sent", vec![Frame::Read { bytes: 1, items: 0 }], 0),
            ("an offer of nothing", vec![part(0, Chunk::Offer(0))], 0),
            ("placed without an offer", vec![part(0, Chunk::Placed(1))], 0),
            (
                "placed after a refusal",
                vec![part(0, Chunk::Offer(u64::MAX)), part(1, Chunk::Placed(u64::MAX))],
                0,
            ),
            ("memory of another node", vec![Frame::Answer { number: 0, memory: Some(others) }], 0),
            (
                "memory that nobody wanted, and a number left out",
                vec![Frame::Answer { number: 0, memory: Some(own) }, item(1, 1)],
                0,
            ),
        ];
        for (name, frames, read) in cases {
            let (count, cause, why) = tried(&alpha, &mut listener, frames).await;
            assert_eq!(count, read, "{name}");
            match why {
                Why::Lost => assert_eq!(cause, EndCause::Lost, "{name}"),
                Why::Violation => assert!(matches!(cause, EndCause::Violation(_)), "{name}"),
                Why::Dropped => panic!("{name}: {cause}"),
            }
        }

        good.write_all(b"still there").await.unwrap();
        let mut bytes = [0; 11];
        served.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"still there");
    })
    .await;
}

/// After the end nothing may follow: the reader has its end, and the writer fails.
#[tokio::test]
async fn an_item_after_the_end_breaks_the_other_direction() {
    in_time(async {
        let (alpha, beta) = pair().await;
        let mut listener = StreamListener::bind(&beta, "bytes").await.unwrap();
        let desk: Recipient<Connect<Chunk>, Option<Recipient<Frame<Chunk>>>> =
            alpha.recipient("beta/bytes").await.unwrap();
        let mut inbox = alpha.inbox::<Frame<Chunk>>(64).await.unwrap();
        let end = desk.ask(Connect { to: inbox.recipient() }).await.unwrap().unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        end.tell(item(0, 3)).await.unwrap();
        end.tell(Frame::Fin { number: 1, is_closed: true }).await.unwrap();
        end.tell(item(1, 3)).await.unwrap();
        assert_eq!(inbox.receive().await, Some(Frame::Reset { why: Why::Violation }));
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, [7; 3]);
        let error = stream.write(b"x").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    })
    .await;
}
