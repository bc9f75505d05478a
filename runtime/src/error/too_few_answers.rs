//! The error of many asks of which not enough were answered.

use std::error::Error;
use std::fmt;

use super::AskError;

/// Of the asks of an [`AskSet`](crate::AskSet) fewer were answered than were waited for.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooFewAnswers {
    /// How many answers were waited for.
    pub wanted: usize,
    /// How many there were: they are in the set.
    pub answered: usize,
    /// The asks that had failed, by their numbers, and why. (Others may be on their way.)
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
