//! tonic, between two processes: gRPC on HTTP/2. Tells are messages of one stream from the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ringpost_benches::{Client, Failure, Pair, Small};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

use generated::scale_client::ScaleClient;
use generated::scale_server::{Scale, ScaleServer};

#[allow(unreachable_pub, clippy::allow_attributes_without_reason, reason = "tonic generates it")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/bench.Scale.rs"));
}

/// Tells that may wait for the stream, as many as in a mailbox of Ringpost.
const CAPACITY: usize = 1024;

/// Asks that may be in flight, more than any measurement has; 200 unless raised.
const IN_FLIGHT: u32 = 4096;

/// Longest message, above the largest measured one; 4 MiB unless raised.
const MESSAGE_BYTES: usize = 1 << 30;

/// Window of a stream and of a connection; 64 KiB unless raised.
const WINDOW: u32 = 4 << 20;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Block {
    #[prost(bytes = "bytes", tag = "1")]
    payload: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Number {
    #[prost(uint64, tag = "1")]
    number: u64,
}

#[derive(Default)]
struct Service {
    handled: Arc<AtomicU64>,
}

#[tonic::async_trait]
impl Scale for Service {
    async fn echo(&self, request: Request<Block>) -> Result<Response<Block>, Status> {
        Ok(Response::new(request.into_inner()))
    }

    async fn weigh(&self, request: Request<Block>) -> Result<Response<Number>, Status> {
        Ok(Response::new(Number { number: request.get_ref().payload.len() as u64 }))
    }

    async fn handled(&self, _: Request<Number>) -> Result<Response<Number>, Status> {
        Ok(Response::new(Number { number: self.handled.load(Ordering::Relaxed) }))
    }

    async fn tell(&self, request: Request<Streaming<Block>>) -> Result<Response<Number>, Status> {
        let mut blocks = request.into_inner();
        while let Some(block) = blocks.message().await? {
            self.handled.fetch_add(u64::from(!block.payload.is_empty()), Ordering::Relaxed);
        }
        Ok(Response::new(Number { number: self.handled.load(Ordering::Relaxed) }))
    }
}

/// The contestant.
pub(crate) struct Tonic;

impl Pair for Tonic {
    type Client = Caller;
    type Server = JoinHandle<()>;

    async fn serve() -> Result<(String, JoinHandle<()>), Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let service = ScaleServer::new(Service::default())
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES);
        let router = Server::builder()
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_concurrent_streams(IN_FLIGHT)
            .add_service(service);
        let server = tokio::spawn(async move {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            if let Err(error) = router.serve_with_incoming(incoming).await {
                eprintln!("peers: tonic: {error}");
            }
        });
        Ok((address, server))
    }

    async fn connect(address: String) -> Result<Caller, Failure> {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(Failure::of)?;
        let channel = endpoint
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .tcp_nodelay(true)
            .connect()
            .await
            .map_err(Failure::of)?;
        let client = ScaleClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES);
        let (sender, receiver) = mpsc::channel(CAPACITY);
        let mut telling = client.clone();
        tokio::spawn(async move {
            // When the call fails its receiver is dropped, and every further tell fails with it.
            drop(telling.tell(ReceiverStream::new(receiver)).await);
        });
        Ok(Caller { client, tells: sender })
    }
}

/// The calling side.
#[derive(Clone)]
pub(crate) struct Caller {
    client: ScaleClient<Channel>,
    tells: mpsc::Sender<Block>,
}

impl Client for Caller {
    async fn echo_small(&self, payload: Small) -> Result<Small, Failure> {
        let block = Block { payload: Bytes::copy_from_slice(&payload) };
        let answer = self.client.clone().echo(block).await.map_err(Failure::of)?;
        answer.into_inner().payload[..].try_into().map_err(Failure::of)
    }

    async fn echo(&self, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let block = Block { payload: payload.into() };
        let answer = self.client.clone().echo(block).await.map_err(Failure::of)?;
        Ok(answer.into_inner().payload.into())
    }

    async fn weigh(&self, payload: Vec<u8>) -> Result<u64, Failure> {
        let block = Block { payload: payload.into() };
        let answer = self.client.clone().weigh(block).await.map_err(Failure::of)?;
        Ok(answer.into_inner().number)
    }

    async fn tell_small(&self, payload: Small) -> Result<(), Failure> {
        let block = Block { payload: Bytes::copy_from_slice(&payload) };
        self.tells.send(block).await.map_err(Failure::of)
    }

    async fn tell(&self, payload: Vec<u8>) -> Result<(), Failure> {
        self.tells.send(Block { payload: payload.into() }).await.map_err(Failure::of)
    }

    async fn handled(&self) -> Result<u64, Failure> {
        let nothing = Number { number: 0 };
        let answer = self.client.clone().handled(nothing).await.map_err(Failure::of)?;
        Ok(answer.into_inner().number)
    }
}
