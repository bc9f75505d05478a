//! The settings that a node is started with.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use ringpost_transport::id::{Incarnation, InvalidNodeName, NodeId, NodeName};
use tokio::runtime::Handle;
use tokio::sync::broadcast;

use super::stalls::Lookout;
use super::variables::{InvalidEnvironment, Variables};
use super::{Core, Node};
use crate::dead_letter::DeadLetters;
use crate::deadlines::Deadlines;
use crate::limits;
use crate::remote::{
    Config, ConnectError, Encryption, Entropy, InvalidSecret, IpNetwork, LocalShares, Network,
    Observers, Profile, Remote, Secret,
};
use crate::residents::Residents;
use crate::shared::Totals;

/// A node that could not start.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The text cannot be a node's name.
    #[error(transparent)]
    InvalidName(#[from] InvalidNodeName),
    /// A secret is too easy to guess.
    #[error(transparent)]
    InvalidSecret(#[from] InvalidSecret),
    /// A variable of the environment cannot be used beside the others, or beside what the program
    /// says.
    #[error(transparent)]
    Environment(#[from] InvalidEnvironment),
    /// Other nodes are told of an address, but the node listens nowhere.
    #[error(
        "{address} is advertised, but the node does not listen, so that no other node could reach \
        it there: give it an address with `listen` (RINGPOST_LISTEN), or advertise none"
    )]
    NotListening {
        /// The first address that is advertised.
        address: String,
    },
    /// The network could not be started.
    #[error(transparent)]
    Network(#[from] crate::remote::StartError),
    /// The node was to be [connected](NodeBuilder::connect), and is not.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

ringpost_transport::debug_by_display!(StartError);

/// Describes a node; [`start`](NodeBuilder::start) starts it.
#[derive(Debug)]
#[must_use = "a node runs only after `start`"]
pub struct NodeBuilder {
    /// `None`: one is invented when the node starts.
    pub(super) name: Option<String>,
    pub(super) listen: Option<String>,
    pub(super) advertise: Vec<String>,
    pub(super) seeds: Vec<String>,
    secret: Option<Result<Secret, InvalidSecret>>,
    also_accept: Vec<Result<Secret, InvalidSecret>>,
    refused_addresses: Vec<IpNetwork>,
    encryption: Encryption,
    pub(super) profile: Profile,
    pub(super) variables: Variables,
    metrics_by_peer: bool,
    mailbox_capacity: usize,
    times: Times,
    network: Option<Network>,
    entropy: Entropy,
}

/// Time-outs of a node.
#[derive(Debug, Clone, Copy)]
struct Times {
    ask_timeout: Duration,
    connect_timeout: Duration,
    reported_after: Duration,
    linger: Duration,
}

impl NodeBuilder {
    pub(super) fn new(name: Option<String>) -> Self {
        NodeBuilder {
            name,
            listen: None,
            advertise: Vec::new(),
            seeds: Vec::new(),
            secret: None,
            also_accept: Vec::new(),
            refused_addresses: Vec::new(),
            encryption: Encryption::default(),
            profile: Profile::default(),
            variables: Variables::default(),
            metrics_by_peer: false,
            mailbox_capacity: limits::MAILBOX_CAPACITY,
            times: Times {
                ask_timeout: limits::ASK_TIMEOUT,
                connect_timeout: limits::CONNECT_TIMEOUT,
                reported_after: limits::HANDLER_REPORTED,
                linger: limits::LINGER,
            },
            network: None,
            entropy: Entropy::os(),
        }
    }

    /// Gives the node this name, in place of the one that it was described with.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Listens for other nodes at `host:port`; port 0 takes any free one. Without a
    /// [`secret`](NodeBuilder::secret) the address is a loopback one.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = Some(address.into());
        self
    }

    /// Addresses, `host:port`, at which other nodes reach this one, where they differ from the one
    /// it listens on. A node that does not [`listen`](Self::listen) has none.
    pub fn advertise<S: Into<String>>(mut self, addresses: impl IntoIterator<Item = S>) -> Self {
        self.advertise = addresses.into_iter().map(Into::into).collect();
        self
    }

    /// Addresses, `host:port`, of nodes to link to from the start; the node's own is skipped. The
    /// host is a name, an IPv4 address or an IPv6 address in brackets. A name is looked up at each
    /// round of dials, and every 30 s when all is well; each address to which it leads is dialled
    /// (up to 16): one name may stand for all nodes, this one included. (While this node has no
    /// link, its own address behind a name is dialled again at each look-up, too: behind a load
    /// balancer another node may answer there.) With the cargo feature
    /// `srv`, `_service._tcp.name` is a service, of which SRV records say where and at which ports
    /// it is: `_ringpost._tcp.cluster.example`, looked up as often, at the name servers of
    /// `/etc/resolv.conf`.
    ///
    /// A seed is dialled again whenever the node that was last met there has no link, with pauses
    /// that grow to 30 s, or to 2 s while this node has no link at all: also after it has left, or
    /// when there is another node at its address. Only a link that ended because it was idle
    /// ([`Profile::idle_close`]) is made again by the next message, and not by the seed. These
    /// seeds take the place of earlier ones.
    pub fn seeds<S: Into<String>>(mut self, addresses: impl IntoIterator<Item = S>) -> Self {
        self.seeds = addresses.into_iter().map(Into::into).collect();
        self
    }

    /// The secret that all nodes of the cluster know: 32 random bytes, as bytes or as text of at
    /// least 64 hex digits or 43 other characters; `openssl rand -hex 32` prints one. The node
    /// dials with it, and links to nodes that dial with it. All bytes count, a line break at the
    /// end of a file, too.
    pub fn secret(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.secret = Some(Secret::new(secret.as_ref()));
        self
    }

    /// A further secret that other nodes may dial this one with; may be called up to 4 times,
    /// beside [`secret`](NodeBuilder::secret).
    ///
    /// So the secret of a cluster is changed without an interruption, in three rounds; in each,
    /// restart the nodes one after the other, and begin the next when all have done this one:
    ///
    /// 1. all accept the new one: `.secret(old).also_accept(new)`
    /// 2. all use it: `.secret(new).also_accept(old)`
    /// 3. all drop the old one: `.secret(new)`
    ///
    /// A secret matters where two nodes meet. A link that stands is not asked for it again: it
    /// lasts until it is lost or one of its nodes is restarted.
    pub fn also_accept(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.also_accept.push(Secret::new(secret.as_ref()));
        self
    }

    /// Ranges of addresses, as `"10.0.0.0/8".parse()` gives them, that this node does not dial
    /// because another node says that a node is there. Never dialled so are those at which no node
    /// can be, and those on loopback or on a link that a node from farther off names. Seeds are
    /// dialled wherever they are.
    pub fn refuse_addresses(mut self, networks: impl IntoIterator<Item = IpNetwork>) -> Self {
        self.refused_addresses.extend(networks);
        self
    }

    /// Which links to other nodes are encrypted: when not set, all that would run over TCP to
    /// another machine. A node names to a peer only what it would use, so a stranger between two
    /// nodes cannot talk them out of it; a node with [`Off`](Encryption::Off) encrypts where its
    /// peer insists.
    ///
    /// ```
    /// use ringpost::{Encryption, Node};
    ///
    /// // Not even on loopback, and not over RDMA, is a message sent in plain.
    /// let builder = Node::builder("alpha").encryption(Encryption::Required);
    /// # let _ = builder;
    /// ```
    pub fn encryption(mut self, encryption: Encryption) -> Self {
        self.encryption = encryption;
        self
    }

    /// Gives the metrics of links the label `peer`. Not set by default: in a cluster of 1,000 nodes
    /// each of these metrics is a million series then.
    pub fn metrics_by_peer(mut self, by_peer: bool) -> Self {
        self.metrics_by_peer = by_peer;
        self
    }

    /// Sizes, windows and times of the node's links. A setting left at its default does not replace
    /// the one that came from the environment before ([`from_env`](Self::from_env)).
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = self.variables.fill(profile);
        self
    }

    /// Messages of this node that may wait in each mailbox, unless the spawner says otherwise:
    /// 1,024 when not set, and 0 counts as 1. Messages of another node have a window of their own,
    /// [`Profile::mailbox_window_messages`].
    pub fn mailbox_capacity(mut self, messages: usize) -> Self {
        self.mailbox_capacity = messages;
        self
    }

    /// How long the asks that this node sends wait, unless they say otherwise: 5 seconds when not
    /// set, and a year at most.
    pub fn ask_timeout(mut self, timeout: Duration) -> Self {
        self.times.ask_timeout = timeout;
        self
    }

    /// How long [`connect`](Node::connect) tries to reach a node that does not answer: 5 seconds
    /// when not set, and a year at most.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.times.connect_timeout = timeout.min(limits::ASK_TIMEOUT_MAX);
        self
    }

    /// How long the last handle of the node, when it is dropped without a
    /// [shutdown](Node::shutdown), blocks its thread until what was sent to other nodes has
    /// arrived: 1 second when not set, a minute at most, and with zero not at all. It works where
    /// other threads drive the links: not on a runtime of one thread.
    pub fn linger(mut self, time: Duration) -> Self {
        self.times.linger = time;
        self
    }

    /// How long a handler or hook runs, or waits, until the log names it, once, and what it waits
    /// for: 10 seconds when not set. Also how long the tasks of an actor may hold up its end before
    /// the log says so.
    pub fn report_handlers_after(mut self, time: Duration) -> Self {
        self.times.reported_after =
            time.clamp(limits::HANDLER_REPORTED_MIN, limits::ASK_TIMEOUT_MAX);
        self
    }

    /// The network that the node talks over, in place of the best there is: a simulated one, or
    /// devices and settings that the program chooses.
    pub fn network(mut self, network: Network) -> Self {
        self.network = Some(network);
        self
    }

    /// Where the node's random numbers come from, in place of the system's generator: for
    /// simulation.
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Starts the node; returns when it listens. Without `listen` and `seeds` it has no network and
    /// reaches no other node.
    ///
    /// # Errors
    /// [`StartError`] when the description is wrong or the address cannot be listened on.
    ///
    /// # Cancel safety
    /// Dropping the future stops what was started.
    ///
    /// # Panics
    /// Outside a tokio runtime, or in one without timers, or, with a network, without I/O: enable
    /// them with `enable_all`.
    pub fn start(self) -> impl Future<Output = Result<Node, StartError>> + Send {
        self.starting()
    }

    /// Boxes the start. Large futures that programs await are boxed, so that they are compiled in
    /// this crate and not again in each program.
    fn starting(self) -> BoxFuture<'static, Result<Node, StartError>> {
        Box::pin(self.begin())
    }

    async fn begin(self) -> Result<Node, StartError> {
        let invented = || format!("client-{:016x}", self.entropy.u128() as u64);
        let name = self.name.clone().unwrap_or_else(invented);
        self.variables.check(&name, &self.profile)?;
        let name = NodeName::new(&name)?;
        if let (None, Some(address)) = (&self.listen, self.advertise.first()) {
            return Err(StartError::NotListening { address: address.clone() });
        }
        self.variables.log_unknown();
        let runtime = Handle::current();
        // Panics here, not at the first ask, where the runtime has no timers.
        drop(tokio::time::sleep(Duration::ZERO));
        let residents = Arc::new(Residents::new());
        let observers = Observers {
            dead_letters: Arc::new(DeadLetters::new()),
            events: broadcast::Sender::new(limits::OBSERVED_MAX),
        };
        let mailbox_capacity = self.mailbox_capacity.max(1);
        let Times { ask_timeout, connect_timeout, reported_after, .. } = self.times;
        let has_seeds = !self.seeds.is_empty();
        let entropy = self.entropy.clone();
        let config = self.config(name)?;
        Remote::check(&config)?;
        let (remote, id) = if config.listen.is_some() || !config.seeds.is_empty() {
            let remote = Remote::start(config, residents.clone(), observers.clone()).await?;
            let id = remote.id().clone();
            (Some(remote), id)
        } else {
            let incarnation = Incarnation(config.entropy.u128());
            (None, NodeId { name: config.name, incarnation })
        };
        residents.start(id.incarnation);
        let lookout = Lookout::start(&runtime, &residents, reported_after);
        let deadlines = Deadlines::start(&runtime, ask_timeout);
        Ok(Node {
            core: Arc::new(Core {
                name: id.name.as_str().into(),
                id,
                residents,
                remote,
                shares: LocalShares::new(entropy.clone()),
                shared: Totals::default(),
                offered_memory: Mutex::default(),
                observers,
                mailbox_capacity,
                runtime,
                deadlines,
                reported_after,
                connect_timeout,
                has_seeds,
                entropy,
                _lookout: lookout,
            }),
        })
    }

    fn config(self, name: NodeName) -> Result<Config, StartError> {
        // A node that reaches no other opens no device.
        let is_networked = self.listen.is_some() || !self.seeds.is_empty();
        let network = if is_networked { Network::best } else { Network::tcp };
        Ok(Config {
            name,
            listen: self.listen,
            advertise: self.advertise,
            seeds: self.seeds,
            secret: self.secret.transpose()?,
            refused_addresses: self.refused_addresses,
            also_accept: self.also_accept.into_iter().collect::<Result<_, _>>()?,
            encryption: self.encryption,
            profile: self.profile,
            linger: self.times.linger,
            metrics_by_peer: self.metrics_by_peer,
            entropy: self.entropy,
            network: self.network.unwrap_or_else(network),
        })
    }
}
