//! The error of many asks that got too few answers.

use std::error::Error;
use std::fmt;

use super::AskError;

/// Fewer asks of an [`AskSet`](crate::send::AskSet) were answered than the caller waited for.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooFewAnswers {
    /// The number of answers that the caller waited for.
    pub wanted: usize,
    /// The number of answers so far, which the set contains.
    pub answered: usize,
    /// The failed asks by their numbers, with the errors. (Other asks may still be pending.)
    pub failed: Vec<(usize, AskError)>,
}

ringpost_transport::debug_by_display!(TooFewAnswers);

impl fmt::Display for TooFewAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooFewAnswers { wanted, answered, failed } = self;
        write!(f, "{answered} of {wanted} answers came; ")?;
        if failed.is_empty() {
            return f.write_str("no ask failed: ask more actors, or wait for fewer answers");
        }
        f.write_str("asks that failed: ")?;
        for (place, (_, error)) in failed.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl Error for TooFewAnswers {}
