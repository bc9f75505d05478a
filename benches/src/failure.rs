//! The error of a measurement that gives no figure.

use std::fmt::Display;
use std::io;

/// A measurement that gave no figure.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The contestant does not send such a message, and says so. The run goes on.
    #[error("refused: {0}")]
    Refused(String),
    /// Something that should have worked did not.
    #[error("{0}")]
    Failed(String),
    /// A socket, a pipe or a child process failed.
    #[error("input or output failed: {0}")]
    Io(#[from] io::Error),
}

impl Failure {
    /// Makes a failure of the error of a contestant.
    pub fn of(error: impl Display) -> Self {
        Failure::Failed(error.to_string())
    }
}
