//! The errors of one expansion, gathered so that one build reports all of them.

use proc_macro2::TokenStream;
use syn::{Error, Result};

/// The errors of one expansion in the order they were found, each at its own token.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    /// Adds one error.
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            none => *none = Some(error),
        }
    }

    /// Returns the value. If there is an error instead, adds it to the report and returns `None`.
    pub(crate) fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// Returns true if nothing went wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns all errors as one `Result`, for a caller that adds them to its own errors.
    pub(crate) fn into_result(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }

    /// Returns one `compile_error!` per error, and no tokens without an error.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0.map(|error| error.to_compile_error()).unwrap_or_default()
    }
}
