//! The Noise protocol, by the `snow` crate, with random numbers from the node's [`Entropy`]: for
//! bootstrap connections and for sealed data connections.

use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};

use crate::entropy::Entropy;

/// Bytes of an authentication tag.
pub(crate) const TAG_BYTES: usize = 16;
/// Bytes of each of the two handshake messages: a public key and a tag.
pub(crate) const HANDSHAKE_MESSAGE_BYTES: usize = 32 + TAG_BYTES;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// Returns the dialler's side of a handshake.
pub(crate) fn initiator(key: &[u8; 32], prologue: &[u8], entropy: &Entropy) -> HandshakeState {
    builder(key, prologue, entropy).build_initiator().expect("the pattern needs no other key")
}

/// Returns the acceptor's side of a handshake.
pub(crate) fn responder(key: &[u8; 32], prologue: &[u8], entropy: &Entropy) -> HandshakeState {
    builder(key, prologue, entropy).build_responder().expect("the pattern needs no other key")
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
    out
}

fn builder<'a>(key: &'a [u8; 32], prologue: &'a [u8], entropy: &Entropy) -> Builder<'a> {
    let params: NoiseParams = PATTERN.parse().expect("the pattern is well-formed");
    Builder::with_resolver(params, Box::new(Primitives(entropy.clone())))
        .psk(0, key)
        .and_then(|builder| builder.prologue(prologue))
        .expect("key and prologue are set once")
}

/// The crate's default primitives with another source of random numbers.
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
        DefaultResolver.resolve_cipher(choice)
    }
}

struct Draw(Entropy);

impl Random for Draw {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill(dest);
        Ok(())
    }
}
