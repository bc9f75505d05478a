//! Streams under the crates that take tokio's traits: hyper, and codecs of tokio-util.

use std::convert::Infallible;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use ringpost_streams::stream::{Stream, StreamListener};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio_util::codec::{Framed, LengthDelimitedCodec, LinesCodec};

use crate::{in_time, pair};

#[tokio::test]
async fn hyper_serves_http_over_a_stream() {
    in_time(async {
        let (alpha, beta) = pair().await;
        let mut listener = StreamListener::bind(&beta, "http").await.unwrap();
        let served = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let echo = service_fn(|request: Request<hyper::body::Incoming>| async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let body = [path.as_bytes(), &body].concat();
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body))))
            });
            let connection = hyper::server::conn::http1::Builder::new();
            connection.serve_connection(TokioIo::new(stream), echo).await
        });
        let stream = Stream::connect(&alpha, "beta/http").await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        for size in [0, 10, 3_000_000] {
            let body = Bytes::from(vec![b'x'; size]);
            let request = Request::post("/echo").header("host", "beta").body(Full::new(body));
            let answer = sender.send_request(request.unwrap()).await.unwrap();
            assert!(answer.status().is_success());
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body.len(), 5 + size);
            assert!(body.starts_with(b"/echo") && body[5..].iter().all(|byte| *byte == b'x'));
        }
        drop(sender);
        connection.await.unwrap().unwrap();
        served.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn codecs_frame_a_stream() {
    in_time(async {
        let (alpha, beta) = pair().await;
        let mut listener = StreamListener::bind(&beta, "frames").await.unwrap();
        let near = Stream::connect(&alpha, "beta/frames").await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let mut near = Framed::new(near, LengthDelimitedCodec::new());
        let mut far = Framed::new(far, LengthDelimitedCodec::new());
        for size in [0, 1, 5_000, 400_000] {
            near.send(Bytes::from(vec![3; size])).await.unwrap();
            assert_eq!(far.next().await.unwrap().unwrap(), vec![3; size]);
        }
        SinkExt::<Bytes>::close(&mut near).await.unwrap();
        assert!(far.next().await.is_none());
        // The other direction is open still.
        let mut far = far.map_codec(|_| LinesCodec::new());
        far.send("so long").await.unwrap();
        let mut near = near.map_codec(|_| LinesCodec::new());
        assert_eq!(near.next().await.unwrap().unwrap(), "so long");
    })
    .await;
}

/// A relay between two streams passes on both directions, and the end of each.
#[tokio::test]
async fn a_relay_copies_both_ways() {
    in_time(async {
        let (alpha, beta) = pair().await;
        let mut inner = StreamListener::bind(&alpha, "inner").await.unwrap();
        let mut outer = StreamListener::bind(&beta, "outer").await.unwrap();
        let relay = tokio::spawn(async move {
            let (mut front, _) = outer.accept().await.unwrap();
            let mut back = Stream::connect(&beta, "alpha/inner").await.unwrap();
            copy_bidirectional(&mut front, &mut back).await.unwrap()
        });
        let echo = tokio::spawn(async move {
            let (stream, _) = inner.accept().await.unwrap();
            let (mut reader, mut writer) = stream.into_split();
            let count =
                tokio::io::copy_buf(&mut tokio::io::BufReader::new(&mut reader), &mut writer)
                    .await
                    .unwrap();
            writer.write_all(b"!").await.unwrap();
            count
        });
        let stream = Stream::connect(&alpha, "beta/outer").await.unwrap();
        let (mut reader, mut writer) = stream.into_split();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(31) >> 7) as u8).collect();
        let writing = async {
            writer.write_all(&sent).await.unwrap();
            writer.shutdown().await.unwrap();
        };
        let mut received = Vec::new();
        let (read, ()) = tokio::join!(reader.read_to_end(&mut received), writing);
        assert_eq!(read.unwrap(), sent.len() + 1);
        assert!(received[..sent.len()] == sent && received.ends_with(b"!"));
        assert_eq!(echo.await.unwrap(), sent.len() as u64);
        assert_eq!(relay.await.unwrap(), (sent.len() as u64, sent.len() as u64 + 1));
    })
    .await;
}
