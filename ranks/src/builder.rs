//! The description of a world and of this rank, and joining it.

use std::sync::OnceLock;
use std::time::Duration;

use ringpost::NodeBuilder;
use ringpost::prelude::*;
use ringpost::spawn::SpawnError;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::core::{Core, draw_keys};
use crate::error::{JoinError, Missing};
use crate::limits::{JOB_BYTES_MAX, JOIN_TIMEOUT, RANKS_MAX, WINDOW_BYTES};
use crate::lobby::{Entry, Formed, Lobby};
use crate::member::{Begin, Hello, Member, Watch};
use crate::state::Standing;
use crate::world::World;

/// The pause before a rank that could not be asked is asked again.
const GREET_AGAIN: Duration = Duration::from_millis(20);

/// Describes a world and this rank; [`join`](WorldBuilder::join) joins it.
#[must_use = "a world is joined by `join`"]
pub struct WorldBuilder {
    job: String,
    size: Option<usize>,
    rank: Option<usize>,
    hosts: Vec<String>,
    node: Option<Node>,
    describe: Option<NodeBuilder>,
    window: usize,
    timeout: Duration,
}

/// # Joining
impl World {
    /// Joins the world of this name by arrival: it begins when `size` nodes that know each other
    /// have joined, in any order. Numbers follow the order in which one of the nodes learned of the
    /// ranks. All ranks are linked with each other when it returns; it waits for 60 s at
    /// most ([`WorldBuilder::timeout`] changes that).
    ///
    /// The seeds of the node lead to the node of at least one other rank.
    ///
    /// # Errors
    /// [`JoinError`], which after the time-out says how many ranks are missing.
    ///
    /// # Cancel safety
    /// Dropped before it has returned, this rank has not joined.
    pub async fn join(node: &Node, job: &str, size: usize) -> Result<World, JoinError> {
        World::builder(job).node(node).size(size).join().await
    }

    /// Starts to describe a world and this rank of it.
    pub fn builder(job: impl Into<String>) -> WorldBuilder {
        WorldBuilder::new(job.into())
    }
}

/// Ends the actors of a join that did not succeed.
struct Joining {
    member: ActorRef<Member>,
    lobby: ActorRef<Lobby>,
    is_done: bool,
}

impl Drop for Joining {
    fn drop(&mut self) {
        if !self.is_done {
            drop(self.lobby.request_stop());
            drop(self.member.request_stop());
        }
    }
}

impl WorldBuilder {
    pub(crate) fn new(job: String) -> Self {
        WorldBuilder {
            job,
            size: None,
            rank: None,
            hosts: Vec::new(),
            node: None,
            describe: None,
            window: WINDOW_BYTES,
            timeout: JOIN_TIMEOUT,
        }
    }

    /// The number of this rank, 0 to size - 1. Without it the order of arrival numbers the ranks.
    pub fn rank(mut self, rank: usize) -> Self {
        self.rank = Some(rank);
        self
    }

    /// The number of ranks; not needed beside [`hosts`](Self::hosts).
    pub fn size(mut self, size: usize) -> Self {
        self.size = Some(size);
        self
    }

    /// Where the ranks listen, `host:port`, in the order of their numbers. A node is made for this
    /// rank that listens at its own and dials the others. Other settings, such as the secret that
    /// nodes need beyond loopback, come from the environment ([`Node::from_env`]) or from
    /// [`describe`](Self::describe).
    pub fn hosts<S: Into<String>>(mut self, hosts: impl IntoIterator<Item = S>) -> Self {
        self.hosts = hosts.into_iter().map(Into::into).collect();
        self
    }

    /// The node of this rank. Its seeds lead to the node of at least one other rank. Without this
    /// call a node is made from [`hosts`](Self::hosts).
    pub fn node(mut self, node: &Node) -> Self {
        self.node = Some(node.clone());
        self
    }

    /// The settings of the node that is made for this rank, but for its name, address and seeds.
    pub fn describe(mut self, node: NodeBuilder) -> Self {
        self.describe = Some(node);
        self
    }

    /// Bytes of messages of each other rank that may wait here until they are received, 64 KiB to
    /// 1 GiB: 80 MiB when not set. All ranks have to say the same.
    pub fn window(mut self, bytes: usize) -> Self {
        self.window = bytes.clamp(64 << 10, 1 << 30);
        self
    }

    /// How long to wait for the other ranks: 60 s when not set.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(ringpost::limits::ASK_TIMEOUT_MAX);
        self
    }

    /// Joins the world. Returns when all ranks have joined and each is linked with each other one,
    /// whichever was started first.
    ///
    /// # Errors
    /// [`JoinError`]. After the time-out it names the ranks that are missing; at once it says that
    /// the description is wrong, that the number of this rank is taken, or that the world has all
    /// its ranks.
    ///
    /// # Cancel safety
    /// Dropped before it has returned, this rank has not joined.
    pub async fn join(mut self) -> Result<World, JoinError> {
        let size = self.check()?;
        let until = Instant::now() + self.timeout;
        let (node, owns_node) = match self.node.take() {
            Some(node) => (node, false),
            None => (self.start().await?, true),
        };
        let joined = self.enter(&node, size, until, owns_node).await;
        if joined.is_err() && owns_node {
            node.shutdown(Duration::ZERO).await;
        }
        joined
    }

    /// Checks the description, and returns the number of ranks.
    fn check(&self) -> Result<usize, JoinError> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if self.job.is_empty() || self.job.len() > JOB_BYTES_MAX || !self.job.bytes().all(is_valid)
        {
            let job = self.job.chars().take(JOB_BYTES_MAX).collect();
            return Err(JoinError::InvalidJob { job });
        }
        let hosts = Some(self.hosts.len()).filter(|count| *count > 0);
        let Some(size) = self.size.or(hosts) else {
            return Err(JoinError::Incomplete { what: "give its number of ranks with `size`" });
        };
        if size == 0 || size > RANKS_MAX {
            return Err(JoinError::InvalidSize { size });
        }
        if hosts.is_some_and(|hosts| hosts != size) {
            return Err(JoinError::Incomplete {
                what: "`hosts` and `size` differ: give one host for each rank",
            });
        }
        match self.rank {
            Some(rank) if rank >= size => return Err(JoinError::InvalidRank { rank, size }),
            None if self.node.is_none() => {
                return Err(JoinError::Incomplete {
                    what: "give the number of this rank with `rank`, or a node with `node`",
                });
            }
            _ => {}
        }
        if self.node.is_none() && self.hosts.is_empty() {
            return Err(JoinError::Incomplete {
                what: "give the addresses of all ranks with `hosts`, or a node with `node`",
            });
        }
        Ok(size)
    }

    /// Starts the node of this rank.
    async fn start(&mut self) -> Result<Node, JoinError> {
        let rank = self.rank.unwrap_or_default();
        let description = match self.describe.take() {
            Some(description) => description,
            None => Node::from_env().map_err(ringpost::StartError::from)?,
        };
        let others = self.hosts.iter().enumerate().filter(|(number, _)| *number != rank);
        let seeds: Vec<String> = others.map(|(_, host)| host.clone()).collect();
        let description = description.name(format!("{}-{rank}", self.job)).seeds(seeds);
        Ok(description.listen(&self.hosts[rank]).start().await?)
    }

    /// Joins with a node.
    async fn enter(
        &self,
        node: &Node,
        size: usize,
        until: Instant,
        owns_node: bool,
    ) -> Result<World, JoinError> {
        let core = Core::new(node, draw_keys(size), self.window);
        let member = node.spawn_anonymous(Member::new(core.clone())).await?;
        let entry = Entry {
            member: member.clone(),
            size: size as u32,
            number: self.rank.map(|rank| rank as u32),
            window: self.window as u64,
        };
        let (tell, told) = oneshot::channel();
        let lobby = match Lobby::spawn(node, &self.job, entry, tell).await {
            Ok(lobby) => lobby,
            Err(error) => {
                drop(member.request_stop());
                return Err(match error {
                    SpawnError::NameTaken(_) => JoinError::AlreadyHere { job: self.job.clone() },
                    error => error.into(),
                });
            }
        };
        let mut joining = Joining { member: member.clone(), lobby: lobby.clone(), is_done: false };
        let joined = async {
            let formed = match timeout_at(until, told).await {
                Ok(formed) => formed.map_err(|_| self.died(self.rank.unwrap_or(0)))??,
                Err(_) => {
                    let missing = lobby.missing().await.unwrap_or_default();
                    return Err(self.late(size, self.missing(size, &missing)));
                }
            };
            self.link(&core, &member, formed, until).await
        };
        if let Err(error) = joined.await {
            // The name of the world is free from then on.
            drop(lobby.stop().await);
            lobby.wait_stopped().await;
            return Err(error);
        }
        joining.is_done = true;
        Ok(World::new(core, member, Some(lobby), owns_node))
    }

    fn died(&self, rank: usize) -> JoinError {
        JoinError::Died { job: self.job.clone(), rank }
    }

    /// Begins with the other ranks, and waits until each of them has begun.
    async fn link(
        &self,
        core: &Core,
        member: &ActorRef<Member>,
        formed: Formed,
        until: Instant,
    ) -> Result<(), JoinError> {
        let size = formed.members.len();
        let label = format!("{}.{:x}", self.job, formed.nonce);
        core.begin(label, formed.rank, &formed.members, std::iter::repeat_with(OnceLock::new));
        member.tell(Begin {}).await.map_err(|_| self.died(formed.rank))?;
        let mut missing = Vec::new();
        let greetings = formed
            .members
            .iter()
            .enumerate()
            .map(|(rank, other)| greet(core, member, other, rank, until));
        for (rank, greeting) in futures::future::join_all(greetings).await.into_iter().enumerate() {
            match greeting {
                Greeting::Answered => {}
                Greeting::Late => missing.push(rank),
                Greeting::Ended => return Err(self.died(rank)),
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(self.late(size, Missing::Ranks(missing))) }
    }

    fn missing(&self, size: usize, numbers: &[Option<u32>]) -> Missing {
        let here = |rank: &usize| numbers.contains(&Some(*rank as u32));
        let absent: Vec<usize> = (0..size).filter(|rank| !here(rank)).collect();
        if numbers.iter().all(Option::is_some) && !numbers.is_empty() {
            Missing::Ranks(absent)
        } else {
            Missing::Count(size.saturating_sub(numbers.len()))
        }
    }

    fn late(&self, size: usize, missing: Missing) -> JoinError {
        JoinError::TimedOut { job: self.job.clone(), size, waited: self.timeout, missing }
    }
}

/// The outcome of greeting a rank.
enum Greeting {
    Answered,
    Late,
    Ended,
}

/// Waits until a rank has begun and has told the key for it, and watches it.
async fn greet(
    core: &Core,
    me: &ActorRef<Member>,
    member: &ActorRef<Member>,
    rank: usize,
    until: Instant,
) -> Greeting {
    let mesh = core.mesh();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let hello = Hello { rank: mesh.rank as u32, proof: core.keys[rank] };
        match member.ask(hello).timeout(left).await.map_err(|error| error.cause) {
            Ok(Some(key)) => {
                mesh.routes[rank].key.set(key).ok();
                let watched = me.tell(Watch { rank }).await;
                return watched.map_or(Greeting::Ended, |()| Greeting::Answered);
            }
            Err(AskCause::NotSent(Cause::Stopped | Cause::NoSuchActor | Cause::Shutdown)) => {
                return Greeting::Ended;
            }
            _ if core.state.lock().standing(rank) != Standing::Living => return Greeting::Ended,
            _ if Instant::now() >= until => return Greeting::Late,
            // There is no link at present.
            _ => tokio::time::sleep(GREET_AGAIN).await,
        }
    }
}
