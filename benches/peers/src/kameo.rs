//! kameo: its actors within a process, and its remote actors, on libp2p, between two.

use std::convert::Infallible;
use std::sync::Arc;

use futures::StreamExt;
use kameo::actor::{ActorRef, RemoteActorRef, Spawn};
use kameo::message::{Context, Message};
use kameo::remote::{Behaviour, messaging};
use kameo::supervision::RestartPolicy;
use kameo::{Actor, RemoteActor, mailbox, remote_message};
use libp2p::multiaddr::Protocol;
use libp2p::swarm::SwarmEvent;
use libp2p::{Multiaddr, Swarm, SwarmBuilder, noise, tcp, yamux};
use ringpost_benches::system::{Family, Then, or_exit};
use ringpost_benches::{Behavior, Client, Failure, Pair, System};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::find::{PATIENCE, find};

/// Most messages that may wait in a mailbox, as many as in one of Ringpost.
const CAPACITY: usize = 1024;

/// Most streams, one for each message in flight; 100 and, for yamux, 512 unless raised.
const STREAMS: usize = 4096;

/// Longest message, above the largest measured one; 1 MiB unless raised.
const MESSAGE_BYTES: u64 = 1 << 30;

/// Tells after which a barrier is due: tells that are not acknowledged wait nowhere, and above the
/// number of streams they are lost.
const AHEAD: u64 = 1024;

/// The name of the actor.
const NAME: &str = "scale";

/// An actor with a behavior.
pub(crate) struct Behaving<B>(B);

impl<B: Behavior> Actor for Behaving<B> {
    type Args = B;
    type Error = Infallible;

    async fn on_start(behavior: B, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(Behaving(behavior))
    }
}

struct Told<B: Behavior>(B::Tell);
struct Asked<B: Behavior>(B::Question);

impl<B: Behavior> Message<Told<B>> for Behaving<B> {
    type Reply = ();

    async fn handle(&mut self, message: Told<B>, cx: &mut Context<Self, ()>) {
        if or_exit(self.0.told(message.0).await) == Then::End {
            cx.stop();
        }
    }
}

impl<B: Behavior> Message<Asked<B>> for Behaving<B> {
    type Reply = Result<B::Answer, Infallible>;

    async fn handle(
        &mut self,
        message: Asked<B>,
        _: &mut Context<Self, Self::Reply>,
    ) -> Self::Reply {
        Ok(or_exit(self.0.asked(message.0).await))
    }
}

/// An actor whose children are restarted when they fail.
struct Supervisor;

impl Actor for Supervisor {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(supervisor: Self, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(supervisor)
    }
}

/// The contestant within a process.
#[derive(Clone)]
pub(crate) struct Near;

impl System for Near {
    type Ref<B: Behavior> = ActorRef<Behaving<B>>;

    async fn start() -> Result<Self, Failure> {
        Ok(Near)
    }

    async fn spawn<B: Behavior>(&self, behavior: B) -> Result<Self::Ref<B>, Failure> {
        Ok(Behaving::spawn_with_mailbox(behavior, mailbox::bounded(CAPACITY)))
    }

    async fn supervise<B: Behavior>(
        &self,
        count: usize,
        make: impl Fn() -> B + Send + Sync + 'static,
    ) -> Result<Family, Failure> {
        let make = Arc::new(make);
        let supervisor = Supervisor::spawn(Supervisor);
        let mut actors = Vec::with_capacity(count);
        for _ in 0..count {
            let make = make.clone();
            let child = Behaving::supervise_with(&supervisor, move || make())
                .restart_policy(RestartPolicy::Transient);
            actors.push(child.spawn_with_mailbox(mailbox::bounded(CAPACITY)).await);
        }
        Ok(Family::new(move || {
            drop(actors);
            tokio::spawn(async move { supervisor.stop_gracefully().await });
        }))
    }

    async fn tell<B: Behavior>(to: &Self::Ref<B>, message: B::Tell) -> Result<(), Failure> {
        to.tell(Told(message)).await.map_err(Failure::of)
    }

    async fn ask<B: Behavior>(
        to: &Self::Ref<B>,
        question: B::Question,
    ) -> Result<B::Answer, Failure> {
        to.ask(Asked(question)).await.map_err(Failure::of)
    }

    fn stop<B: Behavior>(actor: Self::Ref<B>) {
        drop(actor);
    }
}

#[derive(Actor, RemoteActor, Default)]
pub(crate) struct FarActor {
    handled: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Tell {
    #[serde(with = "serde_bytes")]
    payload: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Echo {
    #[serde(with = "serde_bytes")]
    payload: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Weigh {
    #[serde(with = "serde_bytes")]
    payload: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Handled;

#[derive(Serialize, Deserialize, kameo::Reply)]
pub(crate) struct Echoed {
    #[serde(with = "serde_bytes")]
    payload: Vec<u8>,
}

#[remote_message]
impl Message<Tell> for FarActor {
    type Reply = ();

    async fn handle(&mut self, message: Tell, _: &mut Context<Self, ()>) {
        self.handled += u64::from(!message.payload.is_empty());
    }
}

#[remote_message]
impl Message<Echo> for FarActor {
    type Reply = Echoed;

    async fn handle(&mut self, message: Echo, _: &mut Context<Self, Echoed>) -> Echoed {
        Echoed { payload: message.payload }
    }
}

#[remote_message]
impl Message<Weigh> for FarActor {
    type Reply = u64;

    async fn handle(&mut self, message: Weigh, _: &mut Context<Self, u64>) -> u64 {
        message.payload.len() as u64
    }
}

#[remote_message]
impl Message<Handled> for FarActor {
    type Reply = u64;

    async fn handle(&mut self, _: Handled, _: &mut Context<Self, u64>) -> u64 {
        self.handled
    }
}

/// The contestant between two processes.
pub(crate) struct Remote;

/// Returns a node on TCP with the encryption that it always has.
fn swarm() -> Result<Swarm<Behaviour>, Failure> {
    let config = messaging::Config::default()
        .with_request_timeout(PATIENCE)
        .with_max_concurrent_streams(STREAMS)
        .with_request_size_maximum(MESSAGE_BYTES)
        .with_response_size_maximum(MESSAGE_BYTES);
    let streams = || {
        let mut config = yamux::Config::default();
        config.set_max_num_streams(2 * STREAMS);
        config
    };
    let swarm = SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, streams)
        .map_err(Failure::of)?
        .with_behaviour(|key| Behaviour::new(key.public().to_peer_id(), config))
        .map_err(Failure::of)?
        .with_swarm_config(|config| config.with_idle_connection_timeout(PATIENCE))
        .build();
    swarm.behaviour().try_init_global().map_err(Failure::of)?;
    Ok(swarm)
}

/// Runs a node in a task. Returns the receiver of the first address that it listens on.
fn run(mut swarm: Swarm<Behaviour>) -> oneshot::Receiver<Multiaddr> {
    let (sender, receiver) = oneshot::channel();
    let mut sender = Some(sender);
    tokio::spawn(async move {
        loop {
            if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await
                && let Some(sender) = sender.take()
            {
                // If the receiver is gone, the measurement has been given up.
                drop(sender.send(address));
            }
        }
    });
    receiver
}

impl Pair for Remote {
    type Client = Caller;
    type Server = ActorRef<FarActor>;

    async fn serve() -> Result<(String, Self::Server), Failure> {
        let mut swarm = swarm()?;
        let loopback = "/ip4/127.0.0.1/tcp/0".parse().map_err(Failure::of)?;
        swarm.listen_on(loopback).map_err(Failure::of)?;
        let id = *swarm.local_peer_id();
        let address = run(swarm).await.map_err(Failure::of)?;
        let mailbox = mailbox::bounded(CAPACITY);
        let actor = FarActor::spawn_with_mailbox(FarActor::default(), mailbox);
        actor.register(NAME).await.map_err(Failure::of)?;
        Ok((format!("{address}/p2p/{id}"), actor))
    }

    async fn connect(address: String) -> Result<Caller, Failure> {
        let mut swarm = swarm()?;
        let address: Multiaddr = address.parse().map_err(Failure::of)?;
        // The peer is added by its address and not only dialled, else no look-up asks it.
        let Some(Protocol::P2p(id)) = address.iter().last() else {
            return Err(Failure::Failed(format!("`{address}` names no peer")));
        };
        swarm.add_peer_address(id, address.clone());
        swarm.dial(address).map_err(Failure::of)?;
        drop(run(swarm));
        // A look-up before there is a connection fails.
        let look = async || RemoteActorRef::<FarActor>::lookup(NAME).await.ok().flatten();
        find(look).await.map(Caller)
    }
}

/// The calling side.
#[derive(Clone)]
pub(crate) struct Caller(RemoteActorRef<FarActor>);

impl Client for Caller {
    const BARRIER_EVERY: Option<u64> = Some(AHEAD);

    async fn echo(&self, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let answer = self.0.ask(&Echo { payload }).reply_timeout(PATIENCE).await;
        Ok(answer.map_err(Failure::of)?.payload)
    }

    async fn weigh(&self, payload: Vec<u8>) -> Result<u64, Failure> {
        self.0.ask(&Weigh { payload }).reply_timeout(PATIENCE).await.map_err(Failure::of)
    }

    async fn tell(&self, payload: Vec<u8>) -> Result<(), Failure> {
        self.0.tell(&Tell { payload }).send().map_err(Failure::of)
    }

    async fn handled(&self) -> Result<u64, Failure> {
        self.0.ask(&Handled).reply_timeout(PATIENCE).await.map_err(Failure::of)
    }
}
