//! The secret that all nodes of a word count share. It never stands on a command line.

use std::path::{Path, PathBuf};
use std::{env, fmt, fs, io};

/// The environment variable that has it, in hexadecimal digits.
pub(crate) const VARIABLE: &str = "RINGPOST_SECRET";

/// Bytes of a secret that a run makes for itself, and the fewest that are accepted.
const BYTES_MIN: usize = 32;

/// At least 32 bytes; not shown by `Debug`.
pub(crate) struct Secret(Vec<u8>);

/// Why there is no usable secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("the secret file {path:?} cannot be read: {error}")]
    File { path: PathBuf, error: io::Error },
    #[error("{origin} must have at least {} hexadecimal digits and nothing else", 2 * BYTES_MIN)]
    Malformed { origin: String },
    #[error("a node needs the secret of its driver, in {VARIABLE} or with --secret-file")]
    Missing,
    #[error("the system gives no random bytes: {0}")]
    NoEntropy(getrandom::Error),
}

impl Secret {
    /// Takes it from `file`, else from the environment; `None` when there is neither.
    ///
    /// # Errors
    /// When the file cannot be read, or the text is no secret.
    pub(crate) fn given(file: Option<&Path>) -> Result<Option<Self>, SecretError> {
        let (origin, digits) = if let Some(path) = file {
            let text = fs::read_to_string(path)
                .map_err(|error| SecretError::File { path: path.to_owned(), error })?;
            (format!("the secret file {path:?}"), text)
        } else if let Some(value) = env::var_os(VARIABLE) {
            (VARIABLE.to_owned(), value.to_string_lossy().into_owned())
        } else {
            return Ok(None);
        };
        let bytes = from_hex(digits.trim()).filter(|bytes| bytes.len() >= BYTES_MIN);
        bytes.map(|bytes| Some(Secret(bytes))).ok_or(SecretError::Malformed { origin })
    }

    /// Makes a new one.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub(crate) fn random() -> Result<Self, SecretError> {
        let mut bytes = vec![0; BYTES_MIN];
        getrandom::fill(&mut bytes).map_err(SecretError::NoEntropy)?;
        Ok(Secret(bytes))
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its value for [`VARIABLE`].
    pub(crate) fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8; 2]| u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::tests::Folder;

    #[test]
    fn a_secret_survives_its_file() {
        let folder = Folder::new("secret");
        let secret = Secret::random().unwrap();
        let path = folder.write("good", secret.to_hex() + "\n");
        assert_eq!(Secret::given(Some(&path)).unwrap().unwrap().bytes(), secret.bytes());
        assert_ne!(Secret::random().unwrap().bytes(), secret.bytes());
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        let folder = Folder::new("no-secret");
        for wrong in ["", &"a".repeat(62), &"a".repeat(65), &"+a".repeat(32), &"é".repeat(32)] {
            let error = Secret::given(Some(&folder.write("wrong", wrong))).unwrap_err();
            assert!(error.to_string().contains("at least 64 hexadecimal digits"), "{error}");
        }
        let missing = Secret::given(Some(&folder.0.join("none"))).unwrap_err();
        assert!(missing.to_string().contains("cannot be read"), "{missing}");
    }
}
