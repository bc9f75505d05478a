//! What all nodes of a cluster know.

use std::fmt;

use super::noise;

/// What all nodes of a cluster know: at least 32 random bytes. Only their hash is kept.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A secret that is too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret of {0} bytes is too short: use at least 32 random bytes")]
pub struct InvalidSecret(pub usize);

impl Secret {
    /// Takes at least 32 random bytes.
    ///
    /// # Errors
    /// [`InvalidSecret`] when there are fewer.
    pub fn new(bytes: &[u8]) -> Result<Self, InvalidSecret> {
        if bytes.len() < 32 {
            return Err(InvalidSecret(bytes.len()));
        }
        Ok(Secret(noise::hash(&[b"ringpost cluster secret", bytes])))
    }

    /// Returns the pre-shared key of the handshake. Nodes without a secret, which meet on loopback
    /// only, use zeros.
    pub(crate) fn key(secret: Option<&Secret>) -> [u8; 32] {
        secret.map_or([0; 32], |secret| secret.0)
    }
}
