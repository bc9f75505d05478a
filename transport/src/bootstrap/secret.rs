//! The secret that all nodes of a cluster know, and the key made of it.

use std::fmt;

use zeroize::Zeroize;

use crate::noise;

/// Random bytes that a secret has at least.
const RANDOM_BYTES: usize = 32;
/// Base64 characters, without padding, that encode [`RANDOM_BYTES`] random bytes.
const TEXT_BYTES: usize = 43;
/// Different bytes that a secret has at least: 64 random hex digits have fewer once in 10^19 times.
const DIFFERENT_BYTES: usize = 8;
/// The command that makes a secret.
const GENERATE: &str = "openssl rand -hex 32";

/// The secret that all nodes of a cluster know: 32 random bytes, as bytes or as text. Only their
/// hash is kept, and wiped from memory when it is dropped.
#[derive(Clone)]
pub struct Secret(Key);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A text or bytes that are too easy to guess.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSecret {
    /// There are too few bytes.
    #[error(
        "a secret of {0} bytes is too short: use {RANDOM_BYTES} random ones, or what `{GENERATE}` \
         prints"
    )]
    Bytes(usize),
    /// There are only hex digits, and too few.
    #[error("a secret of {0} hex digits is too short: use 64, as `{GENERATE}` prints them")]
    HexDigits(usize),
    /// There are only characters that can be typed, and too few.
    #[error(
        "a secret of {0} characters is too short: use {TEXT_BYTES} random ones, or 64 hex digits \
         as `{GENERATE}` prints them"
    )]
    Text(usize),
    /// The same few bytes come again and again.
    #[error("a secret of {0} different bytes is not random: use what `{GENERATE}` prints")]
    Repeated(usize),
}

crate::debug_by_display!(InvalidSecret);

impl Secret {
    /// Takes 32 random bytes, or a text that stands for as many: at least 64 hex digits or 43 other
    /// characters. `openssl rand -hex 32` prints one. All bytes count, a line break at the end of a
    /// file, too.
    ///
    /// # Errors
    /// [`InvalidSecret`] when there are fewer, or only a few different ones.
    pub fn new(bytes: &[u8]) -> Result<Self, InvalidSecret> {
        let text = bytes.trim_ascii();
        let is_hex = text.iter().all(u8::is_ascii_hexdigit);
        let is_text = text.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
        if is_hex && text.len() < 2 * RANDOM_BYTES {
            return Err(InvalidSecret::HexDigits(text.len()));
        }
        if is_text && text.len() < TEXT_BYTES {
            return Err(InvalidSecret::Text(text.len()));
        }
        if bytes.len() < RANDOM_BYTES {
            return Err(InvalidSecret::Bytes(bytes.len()));
        }
        let different = (0..=u8::MAX).filter(|byte| bytes.contains(byte)).count();
        if different < DIFFERENT_BYTES {
            return Err(InvalidSecret::Repeated(different));
        }
        Ok(Secret(Key(Box::new(noise::hash(&[b"ringpost cluster secret", bytes])))))
    }

    /// Returns the pre-shared key of the handshake. Nodes without a secret, which meet on loopback
    /// only, use zeros.
    pub(crate) fn key(secret: Option<&Secret>) -> Key {
        secret.map_or(Key(Box::new([0; 32])), |secret| secret.0.clone())
    }

    /// Returns a secret for tests.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn numbered(number: u8) -> Self {
        let bytes: [u8; RANDOM_BYTES] = std::array::from_fn(|at| number ^ at as u8 ^ 0x80);
        Secret::new(&bytes).expect("so many different bytes")
    }
}

/// A pre-shared key. `Debug` does not show it, and it is wiped from memory when it is dropped. In a
/// box: an array would leave a copy wherever it is moved from.
#[derive(Clone)]
pub(crate) struct Key(Box<[u8; 32]>);

impl Key {
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn a_secret_of_fewer_than_32_random_bytes_is_refused_with_the_reason() {
        let refused = |secret: &[u8]| Secret::new(secret).err();
        let random: Vec<u8> = (0..32u8).map(|at| 0xf1 ^ at.wrapping_mul(37)).collect();
        assert_eq!(refused(&random), None);
        assert_eq!(refused(&random[1..]), Some(InvalidSecret::Bytes(31)));
        let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(refused(hex.as_bytes()), None);
        assert_eq!(refused(format!("{hex}\n").as_bytes()), None);
        // The hash of a password, or half of a secret: 32 bytes that are worth 16.
        let half = format!("{}\n", &hex[32..]);
        assert_eq!(refused(half.as_bytes()), Some(InvalidSecret::HexDigits(32)));
        let base64 = b"wtr/4n8sJmKzQbX0Pq7d1uYhR5cVgE2oLfA9iTZxS3k=";
        assert_eq!(refused(base64), None);
        assert_eq!(refused(&base64[..43]), None);
        assert_eq!(refused(&base64[..42]), Some(InvalidSecret::Text(42)));
        assert_eq!(refused(b"correct horse battery staple, twice"), Some(InvalidSecret::Text(35)));
        assert_eq!(refused(b""), Some(InvalidSecret::HexDigits(0)));
        assert_eq!(refused(&[7; 32]), Some(InvalidSecret::Repeated(1)));
        assert_eq!(refused(&b"0123456".repeat(10)), Some(InvalidSecret::Repeated(7)));
        let text = InvalidSecret::Repeated(1).to_string();
        assert!(text.contains("openssl rand -hex 32"), "{text}");
    }

    #[test]
    fn debug_shows_neither_a_secret_nor_its_key() {
        let secret = Secret::numbered(3);
        let key = Secret::key(Some(&secret));
        assert_eq!(format!("{secret:?} {key:?}"), "Secret(..) Key(..)");
    }
}
