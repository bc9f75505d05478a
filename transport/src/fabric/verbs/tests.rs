//! The verbs fabric under the conformance body, on the RDMA devices of this machine: those of the
//! laboratory. Without one each case says so loudly and is no proof.

use std::sync::Arc;

use super::{VerbsConfig, VerbsFabric};
use crate::entropy::Entropy;
use crate::fabric::conformance::{self, Pairs};
use crate::fabric::tcp::{Doors, TcpFabric};
use crate::fabric::{Fabric, FabricError, PostError, QueuePairConfig, SendRequest, Side};
use crate::memory::Region;
use crate::wire::TcpWire;

/// Two fabrics on this machine.
struct Devices([Arc<VerbsFabric>; 2]);

impl Devices {
    /// `None`, said loudly, where there is no device.
    fn new(case: &str) -> Option<Self> {
        let fabric = || VerbsFabric::new(VerbsConfig::default(), Entropy::os()).map(Arc::new);
        match (fabric(), fabric()) {
            (Ok(a), Ok(b)) => Some(Devices([a, b])),
            (Err(error), _) | (_, Err(error)) => {
                eprintln!("SKIPPED {case}: {error}");
                None
            }
        }
    }
}

impl Pairs for Devices {
    fn ends(&self) -> [(Arc<dyn Fabric>, Side); 2] {
        let [a, b] = self.0.clone();
        [(a, Side::Dialer { address: "127.0.0.1:7700".into() }), (b, Side::Acceptor)]
    }
}

macro_rules! conform {
    ($($case:ident)*) => { $(
        #[tokio::test]
        async fn $case() {
            if let Some(devices) = Devices::new(stringify!($case)) {
                let case = conformance::$case(&devices);
                conformance::bounded(stringify!($case), case).await;
            }
        }
    )* };
}

conformance::for_each_case!(conform);
