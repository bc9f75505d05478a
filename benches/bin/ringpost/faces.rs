//! Ringpost's channels, streams and calls: what a node serves of them, and the sides that are
//! measured.

use std::sync::Arc;
use std::time::Duration;

use ringpost::prelude::*;
use ringpost::wire::Wire;
use ringpost_benches::child::Server;
use ringpost_benches::figure::{Face, Measurement};
use ringpost_benches::memory::settled;
use ringpost_benches::pair::{self, SMALL};
use ringpost_benches::stream::{self, ECHO, Streams};
use ringpost_benches::{Client, Failure, Pair, Small};
use ringpost_streams::channel::{Channel, Listener};
use ringpost_streams::rpc::{self, Bytes};
use ringpost_streams::stream::{Stream, StreamListener};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;

use super::{Grain, Nodes, PATIENCE, Remote};

/// Connections whose memory is measured.
const CONNECTIONS: usize = 10_000;

/// Serves channels, streams and calls under names of the node. Each gives back the same bytes.
pub(super) async fn serve(node: &Node) -> Result<(), Failure> {
    serve_channels::<Small>(node, "small-channels").await?;
    serve_channels::<Vec<u8>>(node, "channels").await?;
    let small = |request: View<Grain>| async move { request.payload };
    rpc::serve(node, "small-calls", small).await.map_err(Failure::of)?;
    let large = |request: View<Bytes>| async move { Bytes(request.to_vec()) };
    rpc::serve(node, "calls", large).await.map_err(Failure::of)?;
    let mut streams = StreamListener::bind(node, "streams").await.map_err(Failure::of)?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = streams.accept().await {
            tokio::spawn(async move {
                if let Err(error) = stream::serve(stream).await {
                    eprintln!("bench: ringpost: the server's stream failed: {error}");
                }
            });
        }
    });
    Ok(())
}

async fn serve_channels<T: Wire>(node: &Node, name: &str) -> Result<(), Failure> {
    let mut listener = Listener::<T, T>::bind(node, name).await.map_err(Failure::of)?;
    tokio::spawn(async move {
        while let Ok((mut channel, _)) = listener.accept().await {
            tokio::spawn(async move {
                // Until the client has ended.
                while let Ok(message) = channel.recv().await
                    && channel.send(message).await.is_ok()
                {}
            });
        }
    });
    Ok(())
}

/// Measures messages that are answered in another way than by an actor.
pub(super) async fn measure(
    remote: &Remote,
    mut server: Server,
    measurement: &Measurement,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    if measurement.face() == Face::Rpc {
        let calls = Calls::to(&remote.node);
        return pair::measure_client(&calls, &mut server, measurement, time).await;
    }
    let channels = Channels::connect(&remote.node).await?;
    pair::measure_client(&channels, &mut server, measurement, time).await
}

impl Streams for Nodes {
    type Stream = Stream;

    async fn open(address: String) -> Result<Stream, Failure> {
        open_stream(&Nodes::connect(address).await?.node).await
    }
}

async fn open_stream(node: &Node) -> Result<Stream, Failure> {
    Stream::connect(node, "server/streams").await.map_err(Failure::of)
}

/// Two channels to the server, for small and for large messages.
#[derive(Clone)]
struct Channels {
    small: Arc<Mutex<Channel<Small, Small>>>,
    large: Arc<Mutex<Channel<Vec<u8>, Vec<u8>>>>,
}

impl Channels {
    async fn connect(node: &Node) -> Result<Self, Failure> {
        let small = Channel::connect(node, "server/small-channels").await.map_err(Failure::of)?;
        let large = Channel::connect(node, "server/channels").await.map_err(Failure::of)?;
        Ok(Channels { small: Arc::new(Mutex::new(small)), large: Arc::new(Mutex::new(large)) })
    }
}

impl Client for Channels {
    async fn echo_small(&self, payload: Small) -> Result<Small, Failure> {
        exchange(&mut *self.small.lock().await, payload).await
    }

    async fn echo(&self, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        exchange(&mut *self.large.lock().await, payload).await
    }
}

async fn exchange<T: Wire>(channel: &mut Channel<T, T>, message: T) -> Result<T, Failure> {
    channel.send(message).await.map_err(Failure::of)?;
    channel.recv().await.map_err(Failure::of)
}

/// Calls of the server.
#[derive(Clone)]
struct Calls {
    small: Arc<rpc::Client<Grain, Small>>,
    large: Arc<rpc::Client<Bytes, Bytes>>,
}

impl Calls {
    fn to(node: &Node) -> Self {
        Calls {
            small: Arc::new(rpc::Client::with_timeout(node, PATIENCE)),
            large: Arc::new(rpc::Client::with_timeout(node, PATIENCE)),
        }
    }
}

impl Client for Calls {
    async fn echo_small(&self, payload: Small) -> Result<Small, Failure> {
        self.small.call("server/small-calls", Grain { payload }).await.map_err(Failure::of)
    }

    async fn echo(&self, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        Ok(self.large.call("server/calls", Bytes(payload)).await.map_err(Failure::of)?.0)
    }
}

/// Returns the bytes of memory that a connection takes in this process when it has carried bytes
/// both ways and waits.
pub(super) async fn idle(remote: &Remote, face: Face) -> Result<Vec<f64>, Failure> {
    match face {
        Face::Channel => each(&remote.node, used_channel).await,
        _ => each(&remote.node, used_stream).await,
    }
}

async fn used_channel(node: Node) -> Result<Channel<Small, Small>, Failure> {
    let channel = Channel::connect(&node, "server/small-channels").await;
    let mut channel = channel.map_err(Failure::of)?;
    exchange(&mut channel, SMALL).await?;
    Ok(channel)
}

async fn used_stream(node: Node) -> Result<Stream, Failure> {
    let mut stream = open_stream(&node).await?;
    stream.write_all(&[ECHO, 7]).await?;
    stream.read_u8().await?;
    Ok(stream)
}

/// Returns the bytes of memory that one more of many connections takes.
async fn each<T, F>(node: &Node, open: impl Fn(Node) -> F) -> Result<Vec<f64>, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let _first = open(node.clone()).await?;
    let before = settled().await?;
    let mut connections = Vec::with_capacity(CONNECTIONS);
    while connections.len() < CONNECTIONS {
        connections.push(open(node.clone()).await?);
    }
    Ok(vec![(settled().await? - before) / CONNECTIONS as f64])
}
