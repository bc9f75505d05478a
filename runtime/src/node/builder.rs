//! The settings with which a node starts.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use ringpost_transport::id::{Incarnation, InvalidNodeName, NodeId, NodeName};
use tokio::runtime::Handle;
use tokio::sync::broadcast;

use super::stalls::StallReporter;
use super::variables::{EnvSettings, InvalidEnvironment};
use super::{Core, Node};
use crate::dead_letter::DeadLetters;
use crate::deadlines::Deadlines;
use crate::limits;
use crate::remote::{
    Config, ConnectError, Encryption, Entropy, InvalidSecret, IpNetwork, LocalShares, Network,
    NodeEndpoint, Observers, Profile, Secret,
};
use crate::residents::LocalActors;
use crate::shared::ShareCounter;

/// The reason why a node could not start.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The text cannot be a node's name.
    #[error(transparent)]
    InvalidName(#[from] InvalidNodeName),
    /// A secret is too easy to guess.
    #[error(transparent)]
    InvalidSecret(#[from] InvalidSecret),
    /// An environment variable conflicts with another one, or with settings of the program.
    #[error(transparent)]
    Environment(#[from] InvalidEnvironment),
    /// An address is advertised to other nodes, but the node does not listen.
    #[error(
        "{address} is advertised, but the node does not listen, so that no other node could reach \
        it there: give it an address with `listen` (RINGPOST_LISTEN), or advertise none"
    )]
    NotListening {
        /// The first advertised address.
        address: String,
    },
    /// The network could not be started.
    #[error(transparent)]
    Network(#[from] crate::remote::StartError),
    /// The node could not be [connected](NodeBuilder::connect) to one of its seeds.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

ringpost_transport::debug_by_display!(StartError);

/// The settings of a node, which [`start`](NodeBuilder::start) starts.
#[derive(Debug)]
#[must_use = "a node runs only after `start`"]
pub struct NodeBuilder {
    /// `None`: the node invents a name when it starts.
    pub(super) name: Option<String>,
    pub(super) listen: Option<String>,
    pub(super) advertise: Vec<String>,
    pub(super) seeds: Vec<String>,
    secret: Option<Result<Secret, InvalidSecret>>,
    also_accept: Vec<Result<Secret, InvalidSecret>>,
    refused_addresses: Vec<IpNetwork>,
    encryption: Encryption,
    pub(super) profile: Profile,
    pub(super) variables: EnvSettings,
    metrics_by_peer: bool,
    mailbox_capacity: usize,
    times: NodeTimeouts,
    network: Option<Network>,
    entropy: Entropy,
}

/// Time-outs of a node.
#[derive(Debug, Clone, Copy)]
struct NodeTimeouts {
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
            variables: EnvSettings::default(),
            metrics_by_peer: false,
            mailbox_capacity: limits::MAILBOX_CAPACITY,
            times: NodeTimeouts {
                ask_timeout: limits::ASK_TIMEOUT,
                connect_timeout: limits::CONNECT_TIMEOUT,
                reported_after: limits::HANDLER_REPORTED,
                linger: limits::LINGER,
            },
            network: None,
            entropy: Entropy::os(),
        }
    }

    /// Sets the name of the node, and replaces an earlier one.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Listens for other nodes at `host:port`; port 0 takes any free port. Without a
    /// [`secret`](NodeBuilder::secret), this must be a loopback address.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = Some(address.into());
        self
    }

    /// Sets the addresses, `host:port`, at which other nodes reach this one, if they differ from
    /// the address it listens on. A node that does not [`listen`](Self::listen) has none.
    pub fn advertise<S: Into<String>>(mut self, addresses: impl IntoIterator<Item = S>) -> Self {
        self.advertise = addresses.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the addresses, `host:port`, of nodes to link to from the start; the node's own address
    /// is skipped. The host is a name, an IPv4 address or an IPv6 address in brackets. A name is
    /// looked up for each round of dials, and every 30 s when all is well; up to 16 of its
    /// addresses, chosen at random if it has more, are dialled, so one name may stand for all
    /// nodes, including this one. (While this node has no link, its own address behind a name is
    /// dialled again after each look-up, too, because behind a load balancer another node may
    /// answer there.) With the cargo feature `srv`, `_service._tcp.name` is a service whose SRV
    /// records give hosts and ports, as in `_ringpost._tcp.cluster.example`; it is looked up
    /// equally often, at the name servers of `/etc/resolv.conf`. Of more than 16 addresses, the 16
    /// of the lowest priority are dialled, and among equals the addresses of the largest weight.
    ///
    /// A seed is dialled again whenever the node that last answered there has no link, even after
    /// that node has left or another node has its address. The pauses grow to 30 s, or to 2 s while
    /// this node has no link at all. Only a link that was closed because it was idle
    /// ([`Profile::idle_close`]) is not renewed by the seed, but by the next message. These seeds
    /// replace earlier ones.
    pub fn seeds<S: Into<String>>(mut self, addresses: impl IntoIterator<Item = S>) -> Self {
        self.seeds = addresses.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the secret that all nodes of the cluster know: 32 random bytes, as bytes or as text of
    /// at least 64 hex digits or 43 other characters; `openssl rand -hex 32` prints one. The node
    /// dials with it, and accepts nodes that dial with it. All bytes count, including a line break
    /// at the end of a file.
    pub fn secret(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.secret = Some(Secret::new(secret.as_ref()));
        self
    }

    /// Adds another secret with which other nodes may dial this one; may be called up to 4 times,
    /// in addition to [`secret`](NodeBuilder::secret).
    ///
    /// This allows a change of the cluster's secret without an interruption, in three rounds. In
    /// each round, restart the nodes one after the other, and begin the next round when all are
    /// done:
    ///
    /// 1. all accept the new secret: `.secret(old).also_accept(new)`
    /// 2. all use it: `.secret(new).also_accept(old)`
    /// 3. all drop the old secret: `.secret(new)`
    ///
    /// Secrets are checked when two nodes link. An existing link is not checked again: it lasts
    /// until it is lost or one of its nodes is restarted.
    pub fn also_accept(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.also_accept.push(Secret::new(secret.as_ref()));
        self
    }

    /// Adds ranges of addresses, such as `"10.0.0.0/8".parse()`, that this node does not dial when
    /// another node names them. It never dials named addresses at which no node can be, or loopback
    /// and link-local addresses that a more distant node names. Seeds are dialled in any case.
    pub fn refuse_addresses(mut self, networks: impl IntoIterator<Item = IpNetwork>) -> Self {
        self.refused_addresses.extend(networks);
        self
    }

    /// Sets which links to other nodes are encrypted; by default all that would run over TCP to
    /// another machine. A node offers a peer only modes that it accepts, so an attacker between two
    /// nodes cannot downgrade them. A node with [`Off`](Encryption::Off) encrypts if its peer
    /// insists.
    ///
    /// ```
    /// use ringpost::Node;
    /// use ringpost::net::Encryption;
    ///
    /// // Sends no message in plain text, not even on loopback or over RDMA.
    /// let builder = Node::builder("alpha").encryption(Encryption::Required);
    /// # let _ = builder;
    /// ```
    pub fn encryption(mut self, encryption: Encryption) -> Self {
        self.encryption = encryption;
        self
    }

    /// Gives the metrics of links the label `peer`. Not set by default, because in a cluster of
    /// 1,000 nodes each of these metrics then has a million series.
    pub fn metrics_by_peer(mut self, by_peer: bool) -> Self {
        self.metrics_by_peer = by_peer;
        self
    }

    /// Sets sizes, windows and times of the node's links. A setting left at its default does not
    /// replace a setting from the environment ([`from_env`](Self::from_env)).
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = self.variables.fill(profile);
        self
    }

    /// Sets the number of messages of this node that may wait in each mailbox, unless the spawner
    /// sets another one: 1,024 by default, and 0 counts as 1. Messages of other nodes have a
    /// separate window, [`Profile::mailbox_window_messages`].
    pub fn mailbox_capacity(mut self, messages: usize) -> Self {
        self.mailbox_capacity = messages;
        self
    }

    /// Sets the time-out of asks that this node sends, unless an ask sets another one: 5 seconds by
    /// default, a year at most.
    pub fn ask_timeout(mut self, timeout: Duration) -> Self {
        self.times.ask_timeout = timeout;
        self
    }

    /// Sets how long [`connect`](Node::connect) tries to reach a node that does not answer: 5
    /// seconds by default, a year at most.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.times.connect_timeout = timeout.min(limits::ASK_TIMEOUT_MAX);
        self
    }

    /// Sets how long the drop of the node's last handle without a [shutdown](Node::shutdown) blocks
    /// its thread until messages to other nodes have arrived: 1 second by default, a minute at
    /// most; with zero it does not block. It needs other threads that drive the links, so it does
    /// not work on a single-threaded runtime.
    pub fn linger(mut self, time: Duration) -> Self {
        self.times.linger = time;
        self
    }

    /// Sets how long a handler or hook runs or waits before the log names it, once, and the actors
    /// that it waits for: 10 seconds by default, 10 milliseconds at least. Also sets how long the
    /// tasks of an actor may delay its end before the log reports it.
    pub fn report_handlers_after(mut self, time: Duration) -> Self {
        self.times.reported_after =
            time.clamp(limits::HANDLER_REPORTED_MIN, limits::ASK_TIMEOUT_MAX);
        self
    }

    /// Sets the network of the node, instead of the best available one: a simulated one, or devices
    /// and settings that the program chooses.
    pub fn network(mut self, network: Network) -> Self {
        self.network = Some(network);
        self
    }

    /// Sets the source of the node's random numbers, instead of the system's generator, for
    /// simulation.
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Starts the node; returns when it listens. Without `listen` and `seeds` it has no network and
    /// reaches no other node.
    ///
    /// # Errors
    /// Returns a [`StartError`] if a setting is wrong or the node cannot listen on its address.
    ///
    /// # Cancel safety
    /// Dropping the future stops everything that was started.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime, on a runtime without timers, and, with a network, on one
    /// without I/O: enable them with `enable_all`.
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
        // If the runtime has no timers, this panics here instead of at the first ask.
        drop(tokio::time::sleep(Duration::ZERO));
        let residents = Arc::new(LocalActors::new());
        let observers = Observers {
            dead_letters: Arc::new(DeadLetters::new()),
            events: broadcast::Sender::new(limits::OBSERVED_MAX),
        };
        let mailbox_capacity = self.mailbox_capacity.max(1);
        let NodeTimeouts { ask_timeout, connect_timeout, reported_after, .. } = self.times;
        let has_seeds = !self.seeds.is_empty();
        let entropy = self.entropy.clone();
        let config = self.config(name)?;
        NodeEndpoint::check(&config)?;
        let (remote, id) = if config.listen.is_some() || !config.seeds.is_empty() {
            let remote = NodeEndpoint::start(config, residents.clone(), observers.clone()).await?;
            let id = remote.id().clone();
            (Some(remote), id)
        } else {
            let incarnation = Incarnation(config.entropy.u128());
            (None, NodeId { name: config.name, incarnation })
        };
        let shares = match &remote {
            Some(remote) => remote.shares(),
            None => LocalShares::new(entropy.clone()),
        };
        residents.start(id.incarnation);
        let lookout = StallReporter::start(&runtime, &residents, reported_after);
        let deadlines = Deadlines::start(&runtime, ask_timeout);
        Ok(Node {
            core: Arc::new(Core {
                name: id.name.as_str().into(),
                id,
                residents,
                remote,
                shares,
                shared: ShareCounter::default(),
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
        // A node without other nodes opens no device.
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
