//! Connections after the proof, and connections that end before it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::time::Instant;

use super::*;
use crate::bootstrap::codec::Malformed;
use crate::bootstrap::codec::{Kind, record};
use crate::bootstrap::meet;
use crate::bootstrap::message::{Beat, Message, Parting};
use crate::bootstrap::rejection::Rejection;
use crate::limits;
use crate::wire::Stream;

// Promised in docs/SEMANTICS.md.
#[test]
fn a_proven_connection_refuses_replayed_reordered_and_plain_records() {
    let (mut alpha, mut beta) = pair();
    let one = alpha.seal(&Message::Commit { epoch: 7 });
    let two = alpha.seal(&Message::Heartbeat(Beat::Plain));
    beta.handle_bytes(&[&one[..], &one, &two].concat());
    assert_eq!(beta.poll_message(), Ok(Some(Message::Commit { epoch: 7 })));
    assert_eq!(beta.poll_message(), Err(Malformed::Seal));

    let (mut alpha, mut beta) = pair();
    let (_, two) =
        (alpha.seal(&Message::Commit { epoch: 7 }), alpha.seal(&Message::Commit { epoch: 7 }));
    beta.handle_bytes(&two);
    assert_eq!(beta.poll_message(), Err(Malformed::Seal));

    let (_, mut beta) = pair();
    beta.handle_bytes(&record(Kind::Rejection, &[Rejection::Busy.code()]));
    assert_eq!(beta.poll_message(), Err(Malformed::Record(2)));
}

#[test]
fn what_follows_the_hello_at_once_is_not_lost() {
    let (alpha, beta) = (identity("alpha", 1), identity("beta", 2));
    let mut dialler = Handshake::dial(&alpha);
    let mut acceptor = Handshake::accept(&beta);
    acceptor.handle_bytes(&dialler.poll_output().unwrap()).unwrap();
    dialler.handle_bytes(&acceptor.poll_output().unwrap()).unwrap();
    acceptor.handle_bytes(&dialler.poll_output().unwrap()).unwrap();
    dialler.handle_bytes(&acceptor.poll_output().unwrap()).unwrap();
    let mut bytes = dialler.poll_output().unwrap();
    let (mut session, _) = dialler.poll_established().unwrap();
    bytes.extend(session.seal(&Message::Commit { epoch: 7 }));
    acceptor.handle_bytes(&bytes).unwrap();
    let (mut session, _) = acceptor.poll_established().unwrap();
    assert_eq!(session.poll_message(), Ok(Some(Message::Commit { epoch: 7 })));
}

#[tokio::test(start_paused = true)]
async fn a_silent_or_unwanted_connection_is_told_why() {
    let alpha = identity("alpha", 1);
    for (why, give_way) in [(Rejection::TooSlow, false), (Rejection::Busy, true)] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let beta = identity("beta", 2);
        client.write_all(&Handshake::dial(&beta).poll_output().unwrap()).await.unwrap();
        let (way, wayward) = tokio::sync::oneshot::channel::<()>();
        let meeting = async {
            let deadline = tokio::time::Instant::now() + limits::HANDSHAKE_TIMEOUT;
            let wayward = async { drop(wayward.await) };
            meet(Box::new(server), Handshake::accept(&alpha), &[], deadline, wayward).await
        };
        let reading = async {
            let mut opening = [0; 30];
            client.read_exact(&mut opening).await.unwrap();
            if give_way {
                drop(way);
            } else {
                std::mem::forget(way);
            }
            let mut said = Vec::new();
            client.read_to_end(&mut said).await.unwrap();
            said
        };
        let (met, said) = tokio::join!(meeting, reading);
        assert!(matches!(met, Err(Failure::Rejected(reason)) if reason == why));
        assert_eq!(said, record(Kind::Rejection, &[why.code()]));
    }
}

/// One end of a pipe that holds a few bytes.
struct Pipe(DuplexStream);

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Stream for Pipe {
    fn peer_address(&self) -> String {
        "a pipe".into()
    }
}

/// A node stalls halfway through writing a message, or cancels the message: its last bytes must not
/// look like a protocol violation.
#[tokio::test(start_paused = true)]
async fn nothing_follows_a_message_that_was_cut() {
    // The handshake fits in.
    for holds in 1024..1064 {
        // Without a budget of steps: with one, a poll may end without having waited for anything.
        tokio::task::unconstrained(cut_and_close(holds, true)).await;
        tokio::task::unconstrained(cut_and_close(holds, false)).await;
    }
}

/// Sends over a pipe of `holds` bytes until a message is cut, by its time-out or by dropping it.
async fn cut_and_close(holds: usize, times_out: bool) {
    let (one, other) = tokio::io::duplex(holds);
    let (alpha, beta) = (identity("alpha", 1), identity("beta", 2));
    let deadline = Instant::now() + Duration::from_secs(9);
    let over = |handshake, pipe| {
        meet(Box::new(Pipe(pipe)), handshake, &[], deadline, std::future::pending())
    };
    let met =
        tokio::join!(over(Handshake::dial(&alpha), one), over(Handshake::accept(&beta), other));
    let ((mut alpha, _), (mut beta, _)) = (met.0.unwrap(), met.1.unwrap());
    let beat = Message::Heartbeat(Beat::Plain);
    let mut sent = 0;
    loop {
        let is_cut = if times_out {
            alpha.send(&beat).await.is_err()
        } else {
            alpha.send(&beat).now_or_never().is_none()
        };
        if is_cut {
            break;
        }
        sent += 1;
    }
    // The peer reads now, so that there is room again.
    for _ in 0..sent {
        assert_eq!(beta.recv().await.unwrap(), beat);
    }
    assert!(beta.recv().now_or_never().is_none(), "the rest is missing");
    alpha.close(&Message::Bye(Parting::Left));
    let end = beta.recv().await.unwrap_err();
    assert!(matches!(end, Failure::Closed), "{holds}: {end}");
}
