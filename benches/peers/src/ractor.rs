//! ractor: ractor itself within a process, ractor_cluster between two.

use std::marker::PhantomData;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use ractor::rpc::CallResult;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent, pg};
use ractor_cluster::{
    NodeServer, NodeServerMessage, RactorClusterMessage, client_connect,
};
use ringpost_benches::system::{Family, Then, or_exit};
use ringpost_benches::{Behavior, Client, Failure, Pair, System};

use crate::find::{PATIENCE, find};

/// Longest frame, above the largest message that is measured; 16 MiB unless raised.
const FRAME_BYTES: u64 = 1 << 30;

/// Tells after which a barrier is due: mailboxes have no bound.
const AHEAD: u64 = 1024;

/// The group in which the actor is found.
const GROUP: &str = "scales";

/// The secret that both nodes know.
const COOKIE: &str = "bench";

/// A message with its asker, if it has one.
pub(crate) enum Sent<B: Behavior> {
    Tell(B::Tell),
    Ask(B::Question, RpcReplyPort<B::Answer>),
}

impl<B: Behavior> ractor::Message for Sent<B> {}

/// An actor with a behavior, which is its state.
struct Behaving<B>(PhantomData<fn() -> B>);

impl<B: Behavior> Actor for Behaving<B> {
    type Msg = Sent<B>;
    type State = B;
    type Arguments = B;

    async fn pre_start(&self, _: ActorRef<Sent<B>>, behavior: B) -> Result<B, ActorProcessingErr> {
        Ok(behavior)
    }

    async fn handle(
        &self,
        me: ActorRef<Sent<B>>,
        message: Sent<B>,
        behavior: &mut B,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Sent::Tell(message) => {
                if or_exit(behavior.told(message).await) == Then::End {
                    me.stop(None);
                }
            }
            // An asker that is gone needs no answer.
            Sent::Ask(question, asker) => {
                drop(asker.send(or_exit(behavior.asked(question).await)));
            }
        }
        Ok(())
    }
}

/// An actor that spawns a new child when one has failed.
struct Supervisor<F>(F);

impl<B: Behavior, F: Fn() -> B + Send + Sync + 'static> Actor for Supervisor<F> {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<()>,
        event: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(..) = event {
            Actor::spawn_linked(None, Behaving(PhantomData), (self.0)(), me.get_cell()).await?;
        }
        Ok(())
    }
}

/// The contestant within a process.
#[derive(Clone)]
pub(crate) struct Near;

impl System for Near {
    const BARRIER_EVERY: Option<u64> = Some(AHEAD);
    type Ref<B: Behavior> = ActorRef<Sent<B>>;

    async fn start() -> Result<Self, Failure> {
        Ok(Near)
    }

    async fn spawn<B: Behavior>(&self, behavior: B) -> Result<Self::Ref<B>, Failure> {
        let spawned = Actor::spawn(None, Behaving(PhantomData), behavior).await;
        Ok(spawned.map_err(Failure::of)?.0)
    }

    async fn supervise<B: Behavior>(
        &self,
        count: usize,
        make: impl Fn() -> B + Send + Sync + 'static,
    ) -> Result<Family, Failure> {
        let make = Arc::new(make);
        let again = make.clone();
        let supervisor = Supervisor(move || again());
        let (supervisor, _) = Actor::spawn(None, supervisor, ()).await.map_err(Failure::of)?;
        let mut actors = Vec::with_capacity(count);
        for _ in 0..count {
            let (behavior, parent) = (make(), supervisor.get_cell());
            let spawned = Actor::spawn_linked(None, Behaving(PhantomData), behavior, parent).await;
            actors.push(spawned.map_err(Failure::of)?.0);
        }
        Ok(Family::new(move || {
            drop(actors);
            supervisor.stop(None);
        }))
    }

    async fn tell<B: Behavior>(to: &Self::Ref<B>, message: B::Tell) -> Result<(), Failure> {
        to.cast(Sent::Tell(message)).map_err(Failure::of)
    }

    async fn ask<B: Behavior>(
        to: &Self::Ref<B>,
        question: B::Question,
    ) -> Result<B::Answer, Failure> {
        answer(to.call(|asker| Sent::Ask(question, asker), None).await)
    }

    fn stop<B: Behavior>(actor: Self::Ref<B>) {
        actor.stop(None);
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
