//! Bytes of strangers, and messages of nodes that know the secret.

use super::codec::take_record;
use super::handshake::{Handshake, Identity};
use super::message::{Message, Times};
use super::secret::Secret;
use super::version::VERSIONS;
use crate::entropy::Entropy;
use crate::id::{Incarnation, NodeId, NodeName};

fn identity(name: &str, seed: u64) -> Identity {
    let name = NodeName::new(name).expect("it is a name");
    Identity {
        node: NodeId { name, incarnation: Incarnation(seed.into()) },
        addresses: vec!["127.0.0.1:7700".into()],
        fabrics: vec!["tcp".into()],
        times: Times::default(),
        features: 0,
        versions: VERSIONS,
        key: Secret::key(None),
        accepts: vec![Secret::key(Some(&Secret::numbered(7)))],
        entropy: Entropy::seeded(seed),
    }
}

/// One side of a handshake reads `input`. The first byte says which side, and whether the peer's
/// opening came before; the second how many bytes come at once.
pub fn handshakes(input: &[u8]) {
    let Some((&[how, step], mut rest)) = input.split_first_chunk() else { return };
    let (ours, theirs) = (identity("alpha", 1), identity("beta", 2));
    let mut side = if how & 1 == 0 { Handshake::accept(&ours) } else { Handshake::dial(&ours) };
    if how & 2 != 0 {
        let mut opening = Handshake::dial(&theirs).poll_output().expect("who dials speaks first");
        if how & 1 != 0 {
            // An acceptor's fresh bytes.
            opening.extend([9; 16]);
        }
        side.handle_bytes(&opening).expect("both speak the same version");
    }
    let step = usize::from(step).max(1);
    while !rest.is_empty() && side.room() > 0 {
        let (part, after) = rest.split_at(rest.len().min(step).min(side.room()));
        rest = after;
        if side.handle_bytes(part).is_err() {
            assert!(side.poll_established().is_none(), "BS-1: what failed proves nothing");
            break;
        }
        side.poll_output();
    }
    side.poll_established();
}

/// Decodes a message from the content of a record; or splits off records, if the first byte is odd.
pub fn messages(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    if first & 1 != 0 {
        let mut incoming = rest.to_vec();
        while let Ok(Some((_, body))) = take_record(&mut incoming) {
            assert!(body.len() < rest.len());
        }
        return;
    }
    if let Ok(message) = Message::decode(rest) {
        // Each message has one encoding.
        assert!(*message.encode() == rest);
    }
}
