//! Connections after the proof, and those that end before it.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::bootstrap::codec::Malformed;
use crate::bootstrap::meet;
use crate::bootstrap::message::{Beat, Message};
use crate::bootstrap::record::{Kind, record};
use crate::bootstrap::rejection::Rejection;
use crate::limits;

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
            let mut opening = [0; 14];
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
