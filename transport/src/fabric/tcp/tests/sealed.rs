//! The tcps fabric under the conformance body, and what only a sealed stream can bring upon it.

use super::*;

macro_rules! conform {
    ($($case:ident)*) => { $(
        #[tokio::test]
        async fn $case() {
            let pairs = Loopback::of(TcpFabric::sealed).await;
            conformance::bounded(stringify!($case), conformance::$case(&pairs)).await;
        }
    )* };
}

conformance::for_each_case!(conform);
