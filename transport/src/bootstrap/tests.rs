//! Two handshakes joined in memory, and everything that can go wrong between them.

mod hostile;
mod message;
mod proof;
mod session;

use super::failure::Failure;
use super::handshake::{Handshake, Identity};
use super::message::{Hello, Times};
use super::secret::Secret;
use super::session::Session;
use super::version::VERSIONS;
use crate::entropy::Entropy;
use crate::id::{Incarnation, NodeId, NodeName};

fn node(name: &str, incarnation: u128) -> NodeId {
    NodeId { name: NodeName::new(name).unwrap(), incarnation: Incarnation(incarnation) }
}

fn identity(name: &str, seed: u64) -> Identity {
    Identity {
        node: node(name, seed.into()),
        addresses: vec![format!("127.0.0.1:{}", 7700 + seed)],
        fabrics: vec!["verbs".into(), "tcp".into()],
        times: Times::default(),
        features: 0,
        versions: VERSIONS,
        key: Secret::key(Some(&Secret::numbered(7))),
        accepts: Vec::new(),
        entropy: Entropy::seeded(seed),
    }
}

type Ended = Result<(Session, Hello), Failure>;

/// Feeds both sides what the other says until nothing moves any more.
fn run(dialler: &Identity, acceptor: &Identity) -> (Option<Ended>, Option<Ended>) {
    let mut sides = [Handshake::dial(dialler), Handshake::accept(acceptor)];
    let mut ended = [None, None];
    loop {
        let mut moved = false;
        for from in [0, 1] {
            let Some(bytes) = sides[from].poll_output() else { continue };
            let to = 1 - from;
            moved = true;
            if ended[to].is_none()
                && let Err(failure) = sides[to].handle_bytes(&bytes)
            {
                ended[to] = Some(Err(failure));
            }
            if let Some(established) = sides[to].poll_established() {
                ended[to] = Some(Ok(established));
            }
        }
        if !moved {
            return ended.into();
        }
    }
}

fn failures(dialler: &Identity, acceptor: &Identity) -> (Failure, Failure) {
    let (dialler, acceptor) = run(dialler, acceptor);
    let failed = |ended: Option<Ended>| ended.expect("it ended").err().expect("it failed");
    (failed(dialler), failed(acceptor))
}

fn pair() -> (Session, Session) {
    let (dialler, acceptor) = run(&identity("alpha", 1), &identity("beta", 2));
    (dialler.unwrap().unwrap().0, acceptor.unwrap().unwrap().0)
}
