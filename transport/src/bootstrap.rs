//! How two nodes that meet prove themselves and agree on a link.

use std::fmt;

/// What all nodes of a cluster know: at least 32 random bytes.
#[derive(Clone)]
pub struct Secret(#[allow(dead_code, reason = "skeleton")] std::sync::Arc<[u8]>);

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
        Ok(Secret(bytes.into()))
    }
}
