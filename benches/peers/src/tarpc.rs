//! tarpc, between two processes: bincode on TCP. It has no message without an answer.

use std::time::Instant;

use futures::StreamExt;
use ringpost_benches::{Client, Failure, Pair, Small};
use serde_bytes::ByteBuf;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::tokio_util::codec::LengthDelimitedCodec;
use tarpc::{client, context, serde_transport, server};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::find::PATIENCE;

/// Asks that may be in flight, more than any measurement has; 1,000 unless raised.
const IN_FLIGHT: usize = 4096;

/// Longest frame, above the largest message that is measured; 8 MiB unless raised.
const FRAME_BYTES: usize = 1 << 30;

#[tarpc::service]
trait Scale {
    async fn echo_small(payload: Small) -> Small;
    async fn echo(payload: ByteBuf) -> ByteBuf;
    async fn weigh(payload: ByteBuf) -> u64;
}

#[derive(Clone)]
struct Echo;

impl Scale for Echo {
    async fn echo_small(self, _: context::Context, payload: Small) -> Small {
        payload
    }

    async fn echo(self, _: context::Context, payload: ByteBuf) -> ByteBuf {
        payload
    }

    async fn weigh(self, _: context::Context, payload: ByteBuf) -> u64 {
        payload.len() as u64
    }
}

/// The contestant.
pub(crate) struct Tarpc;

impl Pair for Tarpc {
    type Client = Caller;
    type Server = JoinHandle<()>;

    async fn serve() -> Result<(String, JoinHandle<()>), Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let server = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                if let Err(error) = socket.set_nodelay(true) {
                    eprintln!("peers: tarpc: {error}");
                }
                let framed = codec().new_framed(socket);
                let transport = serde_transport::new(framed, Bincode::default());
                let config = server::Config { pending_response_buffer: IN_FLIGHT };
                let channel = BaseChannel::new(config, transport);
                tokio::spawn(channel.execute(Echo.serve()).for_each(async |answer| {
                    tokio::spawn(answer);
                }));
            }
        });
        Ok((address, server))
    }

    async fn connect(address: String) -> Result<Caller, Failure> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let transport = serde_transport::new(codec().new_framed(socket), Bincode::default());
        let mut config = client::Config::default();
        config.max_in_flight_requests = IN_FLIGHT;
        config.pending_request_buffer = IN_FLIGHT;
        Ok(Caller(ScaleClient::new(config, transport).spawn()))
    }
}

fn codec() -> tarpc::tokio_util::codec::length_delimited::Builder {
    let mut builder = LengthDelimitedCodec::builder();
    builder.max_frame_length(FRAME_BYTES);
    builder
}

/// The calling side.
#[derive(Clone)]
pub(crate) struct Caller(ScaleClient);

fn deadline() -> context::Context {
    let mut context = context::current();
    // tarpc's own is 10 s.
    context.deadline = Instant::now() + PATIENCE;
    context
}

impl Client for Caller {
    async fn echo_small(&self, payload: Small) -> Result<Small, Failure> {
        self.0.echo_small(deadline(), payload).await.map_err(Failure::of)
    }

    async fn echo(&self, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let payload = ByteBuf::from(payload);
        let answer = self.0.echo(deadline(), payload).await.map_err(Failure::of)?;
        Ok(answer.into_vec())
    }

    async fn weigh(&self, payload: Vec<u8>) -> Result<u64, Failure> {
        self.0.weigh(deadline(), ByteBuf::from(payload)).await.map_err(Failure::of)
    }
}
