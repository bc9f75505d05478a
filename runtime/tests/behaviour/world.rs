//! Where the nodes of a case live: on one fabric.

use std::time::Duration;

use ringpost::NodeBuilder;
use ringpost::net::{Encryption, Network, Profile};
use ringpost::prelude::*;
use ringpost::test_kit::Cluster;

use crate::remote::PATIENCE;

/// How often something is looked at that nothing tells of.
const LOOK: Duration = Duration::from_millis(1);

/// Makes nodes that reach each other over one fabric.
pub enum World {
    Sim(Cluster),
    Tcp,
    Tcps,
    #[cfg(feature = "verbs")]
    Verbs,
}

impl World {
    fn fabric(&self) -> &'static str {
        match self {
            World::Sim(_) => "sim",
            World::Tcp => "tcp",
            World::Tcps => "tcps",
            #[cfg(feature = "verbs")]
            World::Verbs => "verbs",
        }
    }

    /// Begins to describe a node that is known by its name and dials these.
    pub fn builder(&self, name: &str, seeds: &[&Node]) -> NodeBuilder {
        let seeds = seeds.iter().flat_map(|node| node.addresses());
        let profile = Profile { down_after: Duration::from_secs(3), ..Profile::default() };
        let builder = match self {
            World::Sim(cluster) => cluster.builder(name),
            _ => Node::builder(name),
        };
        let builder = builder.seeds(seeds).profile(profile);
        match self {
            World::Sim(_) => builder,
            World::Tcp => builder.listen("127.0.0.1:0").network(Network::tcp()),
            World::Tcps => {
                let builder = builder.listen("127.0.0.1:0").network(Network::tcp());
                builder.encryption(Encryption::Required)
            }
            #[cfg(feature = "verbs")]
            World::Verbs => builder.listen("127.0.0.1:0").network(verbs()),
        }
    }

    pub async fn node(&self, name: &str, seeds: &[&Node]) -> Node {
        let node = self.builder(name, seeds).start().await.unwrap();
        self.adopt(&node);
        node
    }

    /// Takes part in the life of a node that was started with its own builder.
    pub fn adopt(&self, node: &Node) {
        if let World::Sim(cluster) = self {
            cluster.adopt(node);
        }
    }

    /// Starts two nodes, `alpha` and `beta`, that are linked by the fabric.
    pub async fn pair(&self) -> [Node; 2] {
        let alpha = self.node("alpha", &[]).await;
        let beta = self.node("beta", &[&alpha]).await;
        for node in [&alpha, &beta] {
            node.ready(1).await.unwrap();
            let links: Vec<_> = node.snapshot().peers.into_iter().flat_map(|p| p.link).collect();
            assert!(links.iter().all(|link| link.fabric == self.fabric()), "{links:?}");
            let encrypted = matches!(self, World::Tcps);
            assert!(links.iter().all(|link| link.encrypted == encrypted), "{links:?}");
        }
        [alpha, beta]
    }
}

/// RDMA and nothing else.
#[cfg(feature = "verbs")]
fn verbs() -> Network {
    use ringpost::net::{Entropy, VerbsConfig, VerbsFabric};
    Network::verbs_only(VerbsFabric::new(VerbsConfig::default(), Entropy::os()).unwrap())
}

/// Shuts two nodes down; their actors handle all messages that they accepted.
pub async fn end(nodes: [Node; 2]) {
    let [first, second] = &nodes;
    let patience = 4 * PATIENCE;
    let (killed, late) = tokio::join!(first.shutdown(patience), second.shutdown(patience));
    assert_eq!((killed, late), (vec![], vec![]));
}

/// Waits until a condition is true. Time passes between two looks, even if it is simulated.
pub async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(LOOK).await;
    }
}
