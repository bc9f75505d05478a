//! ractor: ractor itself within a process, ractor_cluster between two.

use std::net::{Ipv4Addr, TcpListener};

use ractor::rpc::CallResult;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, pg};
use ractor_cluster::{
    NodeServer, NodeServerMessage, RactorClusterMessage, RactorMessage, client_connect,
};
use ringpost_benches::{Client, Failure, Local, Pair};

use crate::find::{PATIENCE, find};

/// Longest frame, above the largest message that is measured; 16 MiB unless raised.
const FRAME_BYTES: u64 = 1 << 30;

/// Tells after which a barrier is due: mailboxes have no bound.
const AHEAD: u64 = 1024;

/// The group in which the actor is found.
const GROUP: &str = "scales";

/// The secret that both nodes know.
const COOKIE: &str = "bench";

#[derive(RactorMessage)]
pub(crate) enum Near {
    Count(u64),
    Same(u64, RpcReplyPort<u64>),
    Counted(RpcReplyPort<u64>),
}

pub(crate) struct NearActor;

impl Actor for NearActor {
    type Msg = Near;
    type State = u64;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Near>, (): ()) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _: ActorRef<Near>,
        message: Near,
        handled: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        // An asker that is gone needs no answer.
        match message {
            Near::Count(number) => *handled += u64::from(number < u64::MAX),
            Near::Same(number, asker) => drop(asker.send(number)),
            Near::Counted(asker) => drop(asker.send(*handled)),
        }
        Ok(())
    }
}

/// The sending end, within a process.
#[derive(Clone)]
pub(crate) struct Counter(ActorRef<Near>);

impl Local for Counter {
    const BARRIER_EVERY: Option<u64> = Some(AHEAD);

    async fn start() -> Result<Self, Failure> {
        let (actor, _) = Actor::spawn(None, NearActor, ()).await.map_err(Failure::of)?;
        Ok(Counter(actor))
    }

    async fn ask(&self, number: u64) -> Result<u64, Failure> {
        answer(self.0.call(|asker| Near::Same(number, asker), None).await)
    }

    async fn tell(&self, number: u64) -> Result<(), Failure> {
        self.0.cast(Near::Count(number)).map_err(Failure::of)
    }

    async fn handled(&self) -> Result<u64, Failure> {
        answer(self.0.call(Near::Counted, None).await)
    }
}

fn answer<T, M>(called: Result<CallResult<T>, ractor::MessagingErr<M>>) -> Result<T, Failure> {
    match called {
        Ok(CallResult::Success(answer)) => Ok(answer),
        Ok(CallResult::Timeout) => Err(Failure::Failed("no answer came in time".into())),
        Ok(CallResult::SenderError) => Err(Failure::Failed("the actor gave no answer".into())),
        Err(error) => Err(Failure::of(error)),
    }
}

#[derive(RactorClusterMessage)]
pub(crate) enum Far {
    Tell(Vec<u8>),
    #[rpc]
    Echo(Vec<u8>, RpcReplyPort<Vec<u8>>),
    #[rpc]
    Weigh(Vec<u8>, RpcReplyPort<u64>),
    #[rpc]
    Handled(RpcReplyPort<u64>),
}

pub(crate) struct FarActor;

impl Actor for FarActor {
    type Msg = Far;
    type State = u64;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Far>, (): ()) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _: ActorRef<Far>,
        message: Far,
        handled: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        // An asker that is gone needs no answer.
        match message {
            Far::Tell(payload) => *handled += u64::from(!payload.is_empty()),
            Far::Echo(payload, asker) => drop(asker.send(payload)),
            Far::Weigh(payload, asker) => drop(asker.send(payload.len() as u64)),
            Far::Handled(asker) => drop(asker.send(*handled)),
        }
        Ok(())
    }
}

/// The contestant between two processes.
pub(crate) struct Cluster;

/// Starts a node on a free port.
async fn node(name: &str) -> Result<(u16, ActorRef<NodeServerMessage>), Failure> {
    // A node does not tell the port that it has taken, so it is given a free one.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let host = Ipv4Addr::LOCALHOST.to_string();
    let server = NodeServer::new(free, COOKIE.into(), name.into(), host, None, None)
        .with_listen_addr(Ipv4Addr::LOCALHOST.into())
        .with_max_inbound_frame_size(FRAME_BYTES);
    let (actor, _) = Actor::spawn(None, server, ()).await.map_err(Failure::of)?;
    Ok((free, actor))
}

impl Pair for Cluster {
    type Client = Caller;
    type Server = ActorRef<NodeServerMessage>;

    async fn serve() -> Result<(String, Self::Server), Failure> {
        let (port, node) = node("server").await?;
        let (actor, _) = Actor::spawn(None, FarActor, ()).await.map_err(Failure::of)?;
        pg::join(GROUP.into(), vec![actor.get_cell()]);
        Ok((format!("{}:{port}", Ipv4Addr::LOCALHOST), node))
    }

    async fn connect(address: String) -> Result<Caller, Failure> {
        let (_, node) = node("client").await?;
        client_connect(&node, address).await.map_err(Failure::of)?;
        let actor = find(async || pg::get_members(&GROUP.into()).pop()).await?;
        Ok(Caller(actor.into()))
    }
}

/// The calling side.
#[derive(Clone)]
pub(crate) struct Caller(ActorRef<Far>);

impl Client for Caller {
    const BARRIER_EVERY: Option<u64> = Some(AHEAD);

    async fn echo(&self, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        answer(self.0.call(|asker| Far::Echo(payload, asker), Some(PATIENCE)).await)
    }

    async fn weigh(&self, payload: Vec<u8>) -> Result<u64, Failure> {
        answer(self.0.call(|asker| Far::Weigh(payload, asker), Some(PATIENCE)).await)
    }

    async fn tell(&self, payload: Vec<u8>) -> Result<(), Failure> {
        self.0.cast(Far::Tell(payload)).map_err(Failure::of)
    }

    async fn handled(&self) -> Result<u64, Failure> {
        answer(self.0.call(Far::Handled, Some(PATIENCE)).await)
    }
}
