//! The contestant Ringpost: an actor that counts and echoes between two processes; within one,
//! actors with any behavior.

mod faces;
mod near;
mod pressure;

use std::error::Error;
use std::time::Duration;

use ringpost::net::{Encryption, Profile};
use ringpost::prelude::*;
use ringpost_benches::child::Server;
use ringpost_benches::contestant::{SEALED, SPINNING};
use ringpost_benches::figure::{Beside, Face, Measurement, Sharing, Work};
use ringpost_benches::program::{PairEntry, in_a_task};
use ringpost_benches::strangers::Strangers;
use ringpost_benches::{Client, Failure, Pair, Small, pair, stream};

pub(crate) use self::near::Near;
use self::pressure::Giver;

/// Longest time that an answer may take; only a large message on a busy machine takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of actors over which asks can be spread.
const SPREAD: usize = 128;

/// A small message.
#[message]
pub(crate) struct Grain {
    payload: [u8; 32],
}

/// A message of any size.
#[message]
pub(crate) struct Block {
    payload: Vec<u8>,
}

/// A message of any size that is asked back.
#[message]
pub(crate) struct Echo {
    payload: Vec<u8>,
}

/// A message of any size whose length is asked for.
#[message]
pub(crate) struct Load {
    payload: Vec<u8>,
}

/// An actor that counts tells and answers asks.
#[actor]
#[derive(Default)]
pub(crate) struct Scale {
    handled: u64,
}

#[handlers]
impl Scale {
    #[handler]
    fn grain(&mut self, msg: View<Grain>) {
        self.handled += u64::from(!msg.payload.is_empty());
    }

    #[handler]
    fn block(&mut self, msg: View<Block>) {
        self.handled += u64::from(!msg.payload.is_empty());
    }

    #[handler]
    fn echo_small(&self, payload: [u8; 32]) -> [u8; 32] {
        payload
    }

    #[handler]
    fn echo(&self, msg: View<Echo>) -> Vec<u8> {
        msg.payload.to_vec()
    }

    #[handler]
    fn load(&self, msg: View<Load>) -> u64 {
        msg.payload.len() as u64
    }

    #[handler]
    fn handled(&self) -> u64 {
        self.handled
    }
}

/// Ringpost between two processes.
pub(crate) struct Nodes;

/// The same, with every link encrypted.
pub(crate) struct SealedNodes;

/// The same, with links that spin.
pub(crate) struct SpinningNodes;

/// References to the actors of the other process.
#[derive(Clone)]
pub(crate) struct Remote {
    scale: ActorRef<Scale>,
    giver: ActorRef<Giver>,
    /// The node of this process. Its links end when the last reference is gone.
    node: Node,
}

/// Returns the entry of Ringpost between two processes.
pub(crate) fn entry() -> PairEntry {
    PairEntry { measure, ..PairEntry::of::<Nodes>("ringpost") }
}

/// Returns the entry of Ringpost between two processes with every link encrypted.
pub(crate) fn sealed_entry() -> PairEntry {
    PairEntry::of::<SealedNodes>(SEALED)
}

/// Returns the entry of Ringpost between two processes whose links spin.
pub(crate) fn spinning_entry() -> PairEntry {
    PairEntry::of::<SpinningNodes>(SPINNING)
}

fn measure(server: Server, measurement: &Measurement, time: Duration) -> Result<Vec<f64>, Failure> {
    let (measurement, workers) = (measurement.clone(), measurement.workers);
    in_a_task(workers, async move {
        let connect = || Nodes::connect(server.address().into());
        match measurement.work {
            Work::Reply(Sharing::Strangers) => {
                let remote = connect().await?;
                let strangers = Strangers::start(server.address());
                let times = pressure::replies(&remote, Sharing::Strangers, time).await;
                strangers.stop()?;
                times
            }
            Work::Reply(beside) => pressure::replies(&connect().await?, beside, time).await,
            Work::Bulk(Beside::Replies) => pressure::bulk(&connect().await?, time).await,
            Work::Ticking => pressure::ticking(&connect().await?, time).await,
            Work::Stream(_) | Work::StreamPing => {
                stream::measure::<Nodes>(server, &measurement, time).await
            }
            Work::Connections(face) => faces::idle(&connect().await?, face).await,
            _ if measurement.face() != Face::Actor => {
                faces::measure(&connect().await?, server, &measurement, time).await
            }
            _ => pair::measure::<Nodes>(server, &measurement, time).await,
        }
    })
}

impl Pair for Nodes {
    type Client = Remote;
    type Server = Node;

    async fn serve() -> Result<(String, Node), Failure> {
        serve(Encryption::default(), Profile::default()).await
    }

    async fn connect(address: String) -> Result<Remote, Failure> {
        connect(address, Encryption::default(), Profile::default()).await
    }
}

impl Pair for SealedNodes {
    type Client = Remote;
    type Server = Node;

    async fn serve() -> Result<(String, Node), Failure> {
        serve(Encryption::Required, Profile::default()).await
    }

    async fn connect(address: String) -> Result<Remote, Failure> {
        connect(address, Encryption::Required, Profile::default()).await
    }
}

impl Pair for SpinningNodes {
    type Client = Remote;
    type Server = Node;

    async fn serve() -> Result<(String, Node), Failure> {
        serve(Encryption::default(), Profile::latency()).await
    }

    async fn connect(address: String) -> Result<Remote, Failure> {
        connect(address, Encryption::default(), Profile::latency()).await
    }
}

async fn serve(encryption: Encryption, profile: Profile) -> Result<(String, Node), Failure> {
    let builder = Node::builder("server").listen("127.0.0.1:0").encryption(encryption);
    let node = builder.profile(profile).start().await.map_err(Failure::of)?;
    node.spawn("scale", Scale::default()).await.map_err(Failure::of)?;
    node.spawn("giver", Giver).await.map_err(Failure::of)?;
    for number in 0..SPREAD {
        let name = format!("scale-{number}");
        node.spawn(name, Scale::default()).await.map_err(Failure::of)?;
    }
    faces::serve(&node).await?;
    Ok((address_of(&node)?, node))
}

/// Returns the address that a node listens on.
pub(crate) fn address_of(node: &Node) -> Result<String, Failure> {
    let address = node.addresses().first().cloned();
    address.ok_or_else(|| Failure::Failed("the node has no address".into()))
}

async fn connect(
    address: String,
    encryption: Encryption,
    profile: Profile,
) -> Result<Remote, Failure> {
    // It does not listen: all that is sent goes by way of that address.
    let builder = Node::builder("client").seeds([address]).encryption(encryption);
    let (node, _) = builder.profile(profile).connect().await.map_err(Failure::of)?;
    let scale = node.actor("server/scale").await.map_err(Failure::of)?;
    let giver = node.actor("server/giver").await.map_err(Failure::of)?;
    Ok(Remote { scale, giver, node })
}

impl Client for Remote {
    async fn echo_small(&self, payload: Small) -> Result<Small, Failure> {
        self.scale.echo_small(payload).timeout(PATIENCE).await.map_err(of)
    }

    async fn echo(&self, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.scale.ask(Echo { payload }).timeout(PATIENCE).await.map_err(of)
    }

    async fn weigh(&self, payload: Vec<u8>) -> Result<u64, Failure> {
        self.scale.ask(Load { payload }).timeout(PATIENCE).await.map_err(of)
    }

    async fn tell_small(&self, payload: Small) -> Result<(), Failure> {
        let told = self.scale.tell(Grain { payload }).await;
        told.map_err(|error| of(error.without_message()))
    }

    async fn tell(&self, payload: Vec<u8>) -> Result<(), Failure> {
        let told = self.scale.tell(Block { payload }).await;
        told.map_err(|error| of(error.without_message()))
    }

    async fn apart(&self, number: usize) -> Result<Self, Failure> {
        let scale = self.node.actor(&format!("server/scale-{number}")).await;
        Ok(Remote { scale: scale.map_err(Failure::of)?, ..self.clone() })
    }

    async fn handled(&self) -> Result<u64, Failure> {
        self.scale.handled().timeout(PATIENCE).await.map_err(of)
    }
}

/// Makes a failure of an error: a message that is too large for Ringpost is refused, any other
/// error is a failure.
fn of(error: impl Error) -> Failure {
    let cause = error.source().and_then(|source| source.downcast_ref::<Cause>());
    match cause {
        Some(cause @ Cause::TooLarge { .. }) => Failure::Refused(cause.to_string()),
        _ => Failure::of(error),
    }
}
