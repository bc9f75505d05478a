//! What the log says of a peer that cannot be linked: each cause once, however often it is dialled.

use tracing::Level;

use super::simulated::sim_config;
use super::*;
use crate::fabric::sim;
use crate::fabric::{Fabric, FabricError, Limits, Opening, QueuePairConfig};
use crate::memory::Region;
use crate::recorder::Recorder;

/// A fabric that cannot lock memory, until it is told how much it may.
#[derive(Debug)]
struct Locked {
    fabric: Arc<dyn Fabric>,
    /// The limit that it names; none: it can.
    limit: Arc<Mutex<Option<u64>>>,
}

impl Fabric for Locked {
    fn name(&self) -> &'static str {
        self.fabric.name()
    }

    fn limits(&self) -> Limits {
        self.fabric.limits()
    }

    fn alloc(&self, bytes: usize) -> Result<Region, FabricError> {
        match *self.limit.lock() {
            Some(limit) => {
                Err(FabricError::Locked { need: bytes as u64, limit: limit.to_string() })
            }
            None => self.fabric.alloc(bytes),
        }
    }

    fn open(&self, config: QueuePairConfig) -> Result<Box<dyn Opening>, FabricError> {
        self.fabric.open(config)
    }
}

#[test]
fn the_same_cause_is_warned_about_once_and_another_one_again() {
    let warnings = Recorder::new(Level::WARN);
    let _guard = tracing::subscriber::set_default(warnings.clone());
    // Whether the one that cannot is dialled, or dials.
    for (seed, alpha_dials) in [(1, true), (2, false)] {
        sim::run(seed, |world| {
            let warnings = warnings.clone();
            async move {
                let seeds: [&[&str]; 2] =
                    if alpha_dials { [&["beta"], &[]] } else { [&[], &["alpha"]] };
                let mut alpha = sim_config(&world, "alpha", seeds[0]);
                let fabric = alpha.network.fabrics[0].clone();
                let limit = Arc::new(Mutex::new(Some(65_536)));
                alpha.network.fabrics = vec![Arc::new(Locked { fabric, limit: limit.clone() })];
                let alpha = Node::start(alpha).await.unwrap();
                let beta = Node::start(sim_config(&world, "beta", seeds[1])).await.unwrap();
                let a_while = || tokio::time::sleep(Duration::from_secs(60));
                let of = |limit: &str, warnings: Vec<String>| {
                    // One of each node.
                    assert_eq!(warnings.len(), 2, "{warnings:?}");
                    assert!(warnings.iter().all(|warning| warning.contains(limit)), "{warnings:?}");
                };
                a_while().await;
                of("65536 bytes", warnings.take());
                *limit.lock() = Some(70_000);
                a_while().await;
                of("70000 bytes", warnings.take());
                *limit.lock() = None;
                alpha.mesh.ready(1).await;
                beta.mesh.ready(1).await;
                assert_eq!(warnings.take(), Vec::<String>::new());
                // What was well in between is news again.
                *limit.lock() = Some(70_000);
                world.sever_streams("alpha", "beta");
                a_while().await;
                of("70000 bytes", warnings.take());
            }
        });
    }
}
