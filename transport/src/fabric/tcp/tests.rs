//! The tcp fabric under the conformance body, and what only a stream can bring upon it.

use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::{Doors, TcpFabric};
use crate::entropy::Entropy;
use crate::fabric::conformance::{self, Pairs};
use crate::fabric::{Fabric, Side};
use crate::wire::{PREFACE_BYTES, Preface, TcpWire, Wire};

/// Two fabrics on loopback. The second one's port admits data connections, as a node's does.
struct Loopback {
    fabrics: [Arc<TcpFabric>; 2],
    address: String,
}

impl Loopback {
    async fn new() -> Self {
        let mut port = TcpWire.listen("127.0.0.1:0".into()).await.unwrap();
        let address = port.local_address();
        let doors = Doors::default();
        let admitting = doors.clone();
        tokio::spawn(async move {
            while let Ok(stream) = port.accept().await {
                tokio::spawn(admit(stream.into_tcp().unwrap(), admitting.clone()));
            }
        });
        let fabric = |doors| Arc::new(TcpFabric::new(Arc::new(TcpWire), doors, Entropy::os()));
        Loopback { fabrics: [fabric(Doors::default()), fabric(doors)], address }
    }
}

async fn admit(mut stream: TcpStream, doors: Doors) {
    let mut preface = [0; PREFACE_BYTES];
    stream.read_exact(&mut preface).await.unwrap();
    assert_eq!(Preface::decode(&preface), Ok(Preface::Data));
    let token = stream.read_u128_le().await.unwrap();
    doors.admit(token, stream);
}

impl Pairs for Loopback {
    fn ends(&self) -> [(Arc<dyn Fabric>, Side); 2] {
        let [a, b] = self.fabrics.clone();
        [(a, Side::Dialer { address: self.address.clone() }), (b, Side::Acceptor)]
    }
}

macro_rules! conform {
    ($($case:ident)*) => { $(
        #[tokio::test]
        async fn $case() {
            let pairs = Loopback::new().await;
            conformance::bounded(stringify!($case), conformance::$case(&pairs)).await;
        }
    )* };
}

conformance::for_each_case!(conform);
