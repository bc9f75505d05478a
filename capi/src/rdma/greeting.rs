//! How two contexts meet: the client makes two channels, one for messages and one for all else.
//!
//! The client says hello on the second one, with a random number, and the server answers with its
//! memory. Then the client makes the first one, and its first message is that number.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use ringpost::region::RemoteRegion;
use ringpost_streams::channel::{Channel, Listener};
use ringpost_streams::rpc::Bytes;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::packet::Packet;
use super::peer::{Arrival, PEERS_MAX, Peer, Service};
use crate::describe::{PATIENCE, random};
use crate::driver::Closing;
use crate::failure::{Code, Failure};
use crate::line::Line;

/// The names under which a server listens.
const MESSAGES: &str = "rdma.messages";
const PACKETS: &str = "rdma.packets";
/// The beginning of the names of servers.
pub(super) const SERVER: &str = "rdma-server";
/// The pause before a client looks for them again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

type Packets = Channel<Packet, Packet>;
type Messages = Channel<Bytes, Bytes>;
/// The connections that wait for their channel of messages.
type Expected = Mutex<HashMap<u64, oneshot::Sender<Messages>>>;

/// Listens on the node, and serves clients in the background until the context is closed.
///
/// # Errors
/// The names are taken: never on a node of this library.
pub(super) async fn serve(
    service: Service,
    arrived: UnboundedSender<Arrival>,
    closing: Arc<Closing>,
) -> Result<(), Failure> {
    let packets = Listener::bind(&service.node, PACKETS).await?;
    let messages = Listener::bind(&service.node, MESSAGES).await?;
    tokio::spawn(async move {
        tokio::select! {
            () = closing.closed() => {}
            () = greet_all(service, packets, messages, arrived) => {}
        }
    });
    Ok(())
}

async fn greet_all(
    service: Service,
    mut packets: Listener<Packet, Packet>,
    mut messages: Listener<Bytes, Bytes>,
    arrived: UnboundedSender<Arrival>,
) {
    let expected = Expected::default();
    let (mut greetings, mut claims) = (FuturesUnordered::new(), FuturesUnordered::new());
    loop {
        tokio::select! {
            channel = packets.accept(), if greetings.len() < 2 * PEERS_MAX => match channel {
                Ok((channel, _)) => greetings.push(greet(&service, channel, &expected)),
                Err(_) => return,
            },
            channel = messages.accept(), if claims.len() < 2 * PEERS_MAX => match channel {
                Ok((channel, _)) => claims.push(claim(channel, &expected)),
                Err(_) => return,
            },
            Some(()) = claims.next() => {}
            Some(peer) = greetings.next() => {
                let Some(peer) = peer else { continue };
                let _token = service.ready.token();
                // It fails where the context is being closed.
                arrived.send(Arrival { peer, _token }).ok();
            }
        }
    }
}

/// Answers a client; gives none where that is refused, or does not introduce itself.
async fn greet(service: &Service, mut packets: Packets, expected: &Expected) -> Option<Peer> {
    let introduced = timeout(PATIENCE, packets.recv()).await.ok()?;
    let Ok(Packet::Hello { session, memory }) = introduced else { return None };
    let Ok(place) = service.places.clone().try_acquire_owned() else {
        let why = format!("the server has {PEERS_MAX} peers already");
        packets.send(Packet::Refused { why }).await.ok();
        packets.close();
        return None;
    };
    let (claimed, messages) = oneshot::channel();
    expected.lock().insert(session, claimed);
    let expectation = Expectation { session, expected };
    packets.send(Packet::Hello { session, memory: service.shared.clone() }).await.ok()?;
    let messages = timeout(PATIENCE, messages).await.ok()?.ok()?;
    drop(expectation);
    Some(peer(service, packets, messages, memory, place))
}

/// Removes the expectation of a session when its channel has come or its greeting has ended.
struct Expectation<'a> {
    session: u64,
    expected: &'a Expected,
}

impl Drop for Expectation<'_> {
    fn drop(&mut self) {
        self.expected.lock().remove(&self.session);
    }
}

/// Hands a channel of messages to the greeting that expects it.
async fn claim(mut messages: Messages, expected: &Expected) {
    let Ok(Ok(Bytes(number))) = timeout(PATIENCE, messages.recv()).await else { return };
    let Ok(number) = number.try_into() else { return };
    let claimed = expected.lock().remove(&u64::from_le_bytes(number));
    // Where nobody expects it, it is dropped, and the client hears the end.
    claimed.map(|claimed| claimed.send(messages).ok());
}

/// Connects to the context that serves on a node.
///
/// # Errors
/// There is none, or it refuses.
pub(super) async fn connect(
    service: &Service,
    server: &str,
    place: OwnedSemaphorePermit,
) -> Result<Peer, Failure> {
    if !server.starts_with(SERVER) {
        let what = format!("the node `{server}` at this address is no server of rdma_lib");
        return Err(Failure::failed(what));
    }
    let (packets, session, memory) = again(async || introduce(service, server).await).await?;
    let path = format!("{server}/{MESSAGES}");
    let messages = again(async || Ok(Messages::connect(&service.node, &path).await?));
    let mut messages = messages.await?;
    let claim = Bytes(session.to_le_bytes().to_vec());
    messages.send(claim).await.map_err(|error| Failure::from(error.cause))?;
    Ok(peer(service, packets, messages, memory, place))
}

/// Says hello to a server. Returns the channel, the number of the connection, and the memory of the
/// server.
async fn introduce(
    service: &Service,
    server: &str,
) -> Result<(Packets, u64, RemoteRegion<u8>), Failure> {
    let mut packets = Packets::connect(&service.node, &format!("{server}/{PACKETS}")).await?;
    let session = random()?;
    let hello = Packet::Hello { session, memory: service.shared.clone() };
    packets.send(hello).await.map_err(|error| Failure::from(error.cause))?;
    match packets.recv().await? {
        Packet::Hello { memory, .. } => Ok((packets, session, memory)),
        Packet::Refused { why } => Err(Failure::failed(why)),
        _ => Err(Failure::failed("the server gives no answer of this version")),
    }
}

/// Tries again while a server that has just started does not listen yet, and after a link was lost.
async fn again<T>(attempt: impl AsyncFn() -> Result<T, Failure>) -> Result<T, Failure> {
    let until = Instant::now() + PATIENCE;
    let may_pass = |code| matches!(code, Code::NotFound | Code::LinkLost);
    loop {
        match attempt().await {
            Err(failure) if may_pass(failure.code) && Instant::now() < until => {
                sleep(LOOK_AGAIN).await;
            }
            done => return done,
        }
    }
}

fn peer(
    service: &Service,
    packets: Packets,
    messages: Messages,
    memory: RemoteRegion<u8>,
    place: OwnedSemaphorePermit,
) -> Peer {
    let (sender, receiver) = packets.split();
    Peer {
        line: Line::new(messages, service.ready.clone()),
        sender: tokio::sync::Mutex::new(Some(sender)),
        receiver: tokio::sync::Mutex::new(receiver),
        memory,
        closing: Closing::default(),
        _place: place,
    }
}
