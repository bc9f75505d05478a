//! Streams and channels over TCP, and without async.

use std::hash::Hasher;
use std::io::{BufRead, Read, Write};
use std::thread;
use std::time::Duration;

use ringpost::prelude::*;
use ringpost_streams::channel::{Channel, Listener};
use ringpost_streams::stream::{Stream, StreamListener};
use ringpost_streams::{ConnectError, EndCause, StreamError, blocking};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use crate::{in_time, pair};

/// 64 MiB, or as many as `RINGPOST_GIANT_MIB` says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mebibytes_arrive_as_they_were_sent() {
    let mebibytes = std::env::var("RINGPOST_GIANT_MIB").map_or(64, |mib| mib.parse().unwrap());
    let sent = async move {
        let (alpha, beta) = pair().await;
        let mut listener = StreamListener::bind(&beta, "bytes").await.unwrap();
        let mut near = Stream::connect(&alpha, "beta/bytes").await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        let reading = tokio::spawn(async move {
            let (mut hash, mut count) = (std::hash::DefaultHasher::new(), 0);
            loop {
                let ready = far.fill_buf().await.unwrap();
                if ready.is_empty() {
                    return (count, hash.finish());
                }
                ready.iter().for_each(|byte| hash.write_u8(*byte));
                let len = ready.len();
                count += len;
                far.consume(len);
            }
        });
        let (mut hash, mut random) = (std::hash::DefaultHasher::new(), fastrand::Rng::with_seed(1));
        let (total, mut sent) = (mebibytes << 20, 0);
        while sent < total {
            let mut bytes = vec![0; random.usize(1..400_000).min(total - sent)];
            random.fill(&mut bytes);
            bytes.iter().for_each(|byte| hash.write_u8(*byte));
            near.write_all(&bytes).await.unwrap();
            sent += bytes.len();
        }
        near.close_within(Duration::from_secs(60)).await.unwrap();
        assert_eq!(reading.await.unwrap(), (total, hash.finish()));
    };
    tokio::time::timeout(crate::PATIENCE * (1 + mebibytes as u32 / 64), sent).await.unwrap();
}

/// Bytes of one region arrive in another one, also after a write that was given up while it waited
/// for memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_written_from_region_to_region() {
    in_time(async {
        let (alpha, beta) = pair().await;
        let mut listener = StreamListener::bind(&beta, "bytes").await.unwrap();
        let mut near = Stream::connect(&alpha, "beta/bytes").await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        let mut bytes = vec![0; 9_000_000];
        fastrand::Rng::with_seed(2).fill(&mut bytes);
        let (from, mut into) = (alpha.region_of(&bytes).unwrap(), beta.region(8 << 20).unwrap());

        let given_up = near.write_from(&from, 0..9_000_000);
        let waited = tokio::time::timeout(Duration::from_millis(20), given_up).await;
        assert!(waited.is_err(), "nobody reads yet");
        near.write_all(&bytes[..3]).await.unwrap();
        assert_eq!(far.read_into(&into, 0..100).await.unwrap(), 3);

        let writes = tokio::spawn(async move {
            near.write_from(&from, 3..9_000_000).await.unwrap();
            near.sync().await.unwrap();
            near
        });
        // As much as there is memory for is written to it at once.
        assert_eq!(far.read_into(&into, 8..8 << 20).await.unwrap(), (8 << 20) - 8);
        let elements = into.try_local_mut().expect("it is shared no more");
        assert!(elements[..3] == bytes[..3] && elements[8..] == bytes[3..(8 << 20) - 5]);
        // And the rest is sent to who reads otherwise.
        let mut rest = vec![0; 9_000_000 - ((8 << 20) - 5)];
        far.read_exact(&mut rest).await.unwrap();
        assert!(rest == bytes[(8 << 20) - 5..]);
        let mut near = writes.await.unwrap();
        assert_eq!(near.read_by_peer(), 9_000_000);

        // A read that is given up when the peer may have written ends the stream, for both.
        let from = alpha.region::<u8>(1 << 20).unwrap();
        let mut reads = Box::pin(far.read_into(&into, 0..1 << 20));
        let mut writes = Box::pin(near.write_from(&from, 0..1 << 20));
        let lent = || beta.snapshot().shared.shares == 1;
        while !lent() {
            assert!(futures::poll!(&mut reads).is_pending());
            assert!(futures::poll!(&mut writes).is_pending());
            tokio::task::yield_now().await;
        }
        drop(reads);
        drop(far);
        assert_eq!(writes.await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        let beyond = near.read_into(&from, 1..2 << 20).await.unwrap_err();
        assert_eq!(beyond.kind(), std::io::ErrorKind::InvalidInput);
    })
    .await;
}

#[tokio::test]
async fn a_peer_whose_node_ends_mid_stream_is_told_with_what_it_has_read() {
    in_time(async {
        let (alpha, beta) = pair().await;
        let mut listener = StreamListener::bind(&beta, "bytes").await.unwrap();
        let mut near = Stream::connect(&alpha, "beta/bytes").await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        near.write_all(&[1; 1000]).await.unwrap();
        far.read_exact(&mut [0; 600]).await.unwrap();
        let synced = tokio::time::timeout(Duration::from_millis(50), near.sync()).await;
        assert!(synced.is_err(), "400 bytes are not read");
        far.read_exact(&mut [0; 400]).await.unwrap();
        near.sync().await.unwrap();
        near.write_all(&[2; 500]).await.unwrap();
        far.write_all(b"last").await.unwrap();
        beta.shutdown(Duration::from_secs(1)).await;
        let mut last = Vec::new();
        let error = near.read_to_end(&mut last).await.unwrap_err();
        assert_eq!(last, b"last");
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<StreamError>());
        let inner = inner.unwrap();
        assert_eq!(inner.read_by_peer, 1000, "{inner}");
        assert!(matches!(inner.cause, EndCause::Gone(_)), "{inner}");
        assert!(near.write(b"x").await.is_err());
        far.read_to_end(&mut Vec::new()).await.unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_is_dropped_with_bytes_unread_is_reset() {
    in_time(async {
        let (alpha, beta) = pair().await;
        let mut listener = StreamListener::bind(&beta, "bytes").await.unwrap();
        let mut near = Stream::connect(&alpha, "beta/bytes").await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        near.write_all(b"unread").await.unwrap();
        far.fill_buf().await.unwrap();
        drop(far);
        let error = near.read(&mut [0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);

        let near = Stream::connect(&alpha, "beta/bytes").await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let (mut reader, writer) = near.into_split();
        drop((far, writer));
        assert_eq!(reader.read(&mut [0; 1]).await.unwrap(), 0, "nothing was unread");
    })
    .await;
}

#[tokio::test]
async fn a_close_ends_within_its_time_though_the_peer_does_not_read() {
    in_time(async {
        let (alpha, beta) = pair().await;
        let mut listener = StreamListener::bind(&beta, "bytes").await.unwrap();
        let mut near = Stream::connect(&alpha, "beta/bytes").await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        near.write_all(&[5; 10_000]).await.unwrap();
        let error = near.close_within(Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, [5; 10_000], "it was sent all the same");
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_says_why() {
    in_time(async {
        let (alpha, beta) = pair().await;
        let missing = Stream::connect(&alpha, "beta/none").await.map(drop);
        assert!(matches!(missing, Err(ConnectError::Lookup(_))), "{missing:?}");
        let _listener = Listener::<u64, String>::bind(&beta, "typed").await.unwrap();
        let other = Channel::<u64, u64>::connect(&alpha, "beta/typed").await.map(drop);
        assert!(matches!(other, Err(ConnectError::Mismatch)), "{other:?}");
        let other = Stream::connect(&alpha, "beta/typed").await.map(drop);
        assert!(matches!(other, Err(ConnectError::Mismatch)), "{other:?}");
        let other = Channel::<String, String>::connect(&alpha, "beta/typed").await.map(drop);
        assert!(matches!(other, Err(ConnectError::Mismatch)), "{other:?}");
        let local = Channel::<u64, u64>::connect(&beta, "typed").await.map(drop);
        assert!(matches!(local, Err(ConnectError::Mismatch)), "{local:?}");
        assert!(Channel::<String, u64>::connect(&alpha, "beta/typed").await.is_ok());
    })
    .await;
}

#[test]
fn blocking_twins_need_no_async() -> Result<(), BoxError> {
    let server = blocking::Node::start(Node::builder("server").listen("127.0.0.1:0"))?;
    let builder = Node::builder("client").seeds(server.addresses());
    let (client, peer) = blocking::Node::connect(builder)?;
    assert_eq!(peer.name(), "server");

    let mut streams = blocking::StreamListener::bind(&server, "lines")?;
    let mut channels = blocking::Listener::<u64, String>::bind(&server, "words")?;
    blocking::serve(&server, "sleep", |millis: View<Sleep>| {
        thread::sleep(Duration::from_millis(millis.0.to_native()));
        millis.0.to_native()
    })?;
    let serving = thread::spawn(move || -> Result<(), BoxError> {
        let (mut stream, _) = streams.accept()?;
        let mut line = String::new();
        while stream.read_line(&mut line)? > 0 {
            stream.write_all(line.as_bytes())?;
            line.clear();
        }
        stream.shutdown()?;
        let (channel, _) = channels.accept()?;
        let (mut sender, receiver) = channel.split();
        for word in receiver {
            sender.send(word.len() as u64)?;
        }
        Ok(())
    });

    let mut stream = blocking::Stream::connect(&client, "server/lines")?;
    stream.set_read_timeout(Some(Duration::from_millis(20)));
    let late = stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(late.kind(), std::io::ErrorKind::TimedOut);
    stream.set_read_timeout(Some(Duration::from_secs(30)));
    stream.write_all(b"one\ntwo\n")?;
    stream.sync()?;
    let mut line = String::new();
    stream.read_line(&mut line)?;
    assert_eq!(line, "one\n");
    stream.shutdown()?;
    let mut rest = String::new();
    stream.read_to_string(&mut rest)?;
    assert_eq!(rest, "two\n");

    let mut channel = blocking::Channel::<String, u64>::connect(&client, "server/words")?;
    channel.send("hello".into())?;
    assert_eq!(channel.recv()?, 5);
    let (sender, mut receiver) = channel.split();
    let late = receiver.recv_timeout(Duration::from_millis(5));
    assert_eq!(late, Err(blocking::RecvError::TimedOut));
    sender.close();
    assert_eq!(receiver.recv(), Err(EndCause::Dropped));

    call_from_threads(&blocking::Client::new(&client));
    serving.join().unwrap()?;
    client.shutdown(Duration::from_secs(5));
    server.shutdown(Duration::from_secs(5));
    Ok(())
}

#[message]
struct Sleep(u64);

/// Calls a function from four threads at once.
fn call_from_threads(calls: &blocking::Client<Sleep, u64>) {
    thread::scope(|scope| {
        let call = |millis| scope.spawn(move || calls.call("server/sleep", Sleep(millis)));
        let calls: Vec<_> = (1..5).map(call).collect();
        for (call, millis) in calls.into_iter().zip(1..) {
            assert_eq!(call.join().unwrap().unwrap(), millis);
        }
    });
}
