//! The fabric contract's conformance body, each case under many seeds.

use std::sync::Arc;

use super::super::super::conformance::{self, Pairs};
use super::super::super::tcp::{Doors, TcpFabric};
use super::super::super::{Fabric, Side};
use super::*;
use crate::entropy::Entropy;
use crate::wire::{PREFACE_BYTES, Wire};

/// Seeds of each case, unless `RINGPOST_TEST_CASES` says how many. Each takes other freedoms.
const SEEDS: u64 = 8;
/// Seeds of each case over byte streams, which take more events.
const STREAM_SEEDS: u64 = 2;

impl Pairs for World {
    fn ends(&self) -> [(Arc<dyn Fabric>, Side); 2] {
        let (alpha, beta) = (self.network("alpha").1, self.network("beta").1);
        let dialer = Side::Dialer { address: "beta:7700".into() };
        [(alpha as Arc<dyn Fabric>, dialer), (beta, Side::Acceptor)]
    }
}

macro_rules! conform {
    ($($case:ident)*) => { $(
        #[test]
        fn $case() {
            for seed in 0..crate::cases(SEEDS) {
                run(seed, |world| async move {
                    conformance::bounded(stringify!($case), conformance::$case(&world)).await;
                });
            }
        }
    )* };
}
conformance::for_each_case!(conform);
conformance::for_each_acknowledged_case!(conform);

/// The tcp fabric, or tcps, over simulated byte streams: they are cut anywhere, and late.
struct OverStreams {
    fabrics: [Arc<TcpFabric>; 2],
}

const ADDRESS: &str = "beta:7700";

impl OverStreams {
    async fn new(world: &World, fabric: fn(Arc<dyn Wire>, Doors, Entropy) -> TcpFabric) -> Self {
        let (alpha, beta) = (world.network("alpha").0, world.network("beta").0);
        let mut port = beta.listen(ADDRESS.into()).await.unwrap();
        let doors = Doors::default();
        let admitting = doors.clone();
        tokio::spawn(async move {
            while let Ok(mut stream) = port.accept().await {
                stream.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
                let token = stream.read_u128_le().await.unwrap();
                admitting.admit(token, stream);
            }
        });
        let dialler = Arc::new(fabric(alpha, Doors::default(), world.entropy()));
        OverStreams { fabrics: [dialler, Arc::new(fabric(beta, doors, world.entropy()))] }
    }
}

impl Pairs for OverStreams {
    fn ends(&self) -> [(Arc<dyn Fabric>, Side); 2] {
        let [alpha, beta] = self.fabrics.clone();
        [(alpha, Side::Dialer { address: ADDRESS.into() }), (beta, Side::Acceptor)]
    }
}

macro_rules! conform_over_streams {
    ($($case:ident)*) => {
        mod tcp {
            use super::*;
            $( #[test] fn $case() { over_streams!(TcpFabric::new, $case); } )*
        }

        mod tcps {
            use super::*;
            $( #[test] fn $case() { over_streams!(TcpFabric::sealed, $case); } )*
        }
    };
}

macro_rules! over_streams {
    ($fabric:expr, $case:ident) => {
        for seed in 0..crate::cases(STREAM_SEEDS) {
            run(seed, |world| async move {
                let pairs = OverStreams::new(&world, $fabric).await;
                conformance::bounded(stringify!($case), conformance::$case(&pairs)).await;
            });
        }
    };
}

conformance::for_each_case!(conform_over_streams);
