//! The Noise protocol, by the `snow` crate, with random numbers from the node's [`Entropy`]: for
//! bootstrap connections and for sealed data connections.
//!
//! The ciphers are from the crate `ring`. A data connection takes AES-GCM, which processors have
//! instructions for; a bootstrap connection, that carries little, takes ChaChaPoly.

use std::ops::{Deref, DerefMut};

use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState, TransportState};

use crate::entropy::Entropy;

/// Bytes of an authentication tag.
pub(crate) const TAG_BYTES: usize = 16;
/// Bytes of each of the two handshake messages: a public key and a tag.
pub(crate) const HANDSHAKE_MESSAGE_BYTES: usize = 32 + TAG_BYTES;

const BOOTSTRAP_PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
const DATA_PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_BLAKE2s";

/// Returns the dialler's side of the handshake of a bootstrap connection.
pub(crate) fn initiator(key: &[u8; 32], prologue: &[u8], entropy: &Entropy) -> HandshakeState {
    handshake(BOOTSTRAP_PATTERN, true, (key, prologue, entropy))
}

/// Returns the acceptor's side of the handshake of a bootstrap connection.
pub(crate) fn responder(key: &[u8; 32], prologue: &[u8], entropy: &Entropy) -> HandshakeState {
    handshake(BOOTSTRAP_PATTERN, false, (key, prologue, entropy))
}

/// Returns one side of the handshake of a sealed data connection: the dialler's if it `begins`.
pub(crate) fn data_connection(
    begins: bool,
    key: &[u8; 32],
    prologue: &[u8],
    entropy: &Entropy,
) -> HandshakeState {
    handshake(DATA_PATTERN, begins, (key, prologue, entropy))
}

/// Returns the BLAKE2s hash of `parts`, one after the other.
pub(crate) fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = DefaultResolver
        .resolve_hash(&HashChoice::Blake2s)
        .expect("the crate is built with BLAKE2s");
    for part in parts {
        hash.input(part);
    }
    let mut out = [0; 32];
    hash.result(&mut out);
    // The parts may be secret, and the hasher, which is on the heap, keeps the last block of them.
    hash.reset();
    hash.input(&vec![0; 2 * hash.block_len()]);
    out
}

fn handshake(
    pattern: &str,
    begins: bool,
    (key, prologue, entropy): (&[u8; 32], &[u8], &Entropy),
) -> HandshakeState {
    let params: NoiseParams = pattern.parse().expect("the pattern is well-formed");
    let builder = Builder::with_resolver(params, Box::new(Primitives(entropy.clone())))
        .psk(0, key)
        .and_then(|builder| builder.prologue(prologue))
        .expect("key and prologue are set once");
    let side = if begins { builder.build_initiator() } else { builder.build_responder() };
    side.expect("the pattern needs no other key")
}

/// The keys of a connection whose handshake is over: of a bootstrap connection's session and of a
/// sealed data connection. They are overwritten when this is dropped, which the crate does not do.
pub(crate) struct SessionKeys(TransportState);

impl SessionKeys {
    pub(crate) fn new(keys: TransportState) -> Self {
        SessionKeys(keys)
    }

    /// Overwrites the keys of both directions.
    fn overwrite(&mut self) {
        self.0.rekey_manually(Some(&[0; 32]), Some(&[0; 32]));
    }
}

impl Deref for SessionKeys {
    type Target = TransportState;

    fn deref(&self) -> &TransportState {
        &self.0
    }
}

impl DerefMut for SessionKeys {
    fn deref_mut(&mut self) -> &mut TransportState {
        &mut self.0
    }
}

impl Drop for SessionKeys {
    fn drop(&mut self) {
        self.overwrite();
    }
}

/// The crate's primitives, ciphers by `ring`, with another source of random numbers.
struct Primitives(Entropy);

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Draw(self.0.clone())))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        RingResolver.resolve_cipher(choice)
    }
}

struct Draw(Entropy);

impl Random for Draw {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill(dest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_overwritten_open_and_seal_nothing_of_the_connection() {
        for pattern in [BOOTSTRAP_PATTERN, DATA_PATTERN] {
            let entropy = Entropy::seeded(1);
            let side = |begins| handshake(pattern, begins, (&[7; 32], b"", &entropy));
            let [mut ours, mut theirs] = [side(true), side(false)];
            let (mut message, mut none) = ([0; HANDSHAKE_MESSAGE_BYTES], [0; TAG_BYTES]);
            ours.write_message(&[], &mut message).unwrap();
            theirs.read_message(&message, &mut none).unwrap();
            theirs.write_message(&[], &mut message).unwrap();
            ours.read_message(&message, &mut none).unwrap();
            let keys = |side: HandshakeState| SessionKeys::new(side.into_transport_mode().unwrap());
            let [mut ours, mut theirs] = [keys(ours), keys(theirs)];
            let (mut sealed, mut opened) = ([0; 4 + TAG_BYTES], [0; 4 + TAG_BYTES]);
            theirs.write_message(b"told", &mut sealed).unwrap();
            ours.overwrite();
            assert!(ours.read_message(&sealed, &mut opened).is_err(), "{pattern}");
            ours.write_message(b"told", &mut sealed).unwrap();
            assert!(theirs.read_message(&sealed, &mut opened).is_err(), "{pattern}");
        }
    }
}
