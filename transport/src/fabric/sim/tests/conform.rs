//! The fabric contract's conformance body, each case under many seeds.

use std::sync::Arc;

use super::super::super::conformance::{self, Pairs};
use super::super::super::{Fabric, Side};
use super::*;

/// Seeds of each case. Each takes other freedoms.
const SEEDS: u64 = 32;

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
            for seed in 0..SEEDS {
                run(seed, |world| async move {
                    conformance::bounded(stringify!($case), conformance::$case(&world)).await;
                });
            }
        }
    )* };
}
conformance::for_each_case!(conform);
