//! The error of many asks of which not enough were answered.

use std::error::Error;
use std::fmt;

use super::AskError;

/// Of the asks of an [`AskSet`](crate::AskSet) fewer were answered than were waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooFewAnswers {
    /// How many answers were waited for.
    pub wanted: usize,
    /// How many there were: they are in the set.
    pub answered: usize,
    /// The asks that had failed, by their numbers, and why. (Others may be on their way.)
    pub failed: Vec<(usize, AskError)>,
}

impl fmt::Display for TooFewAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooFewAnswers { wanted, answered, failed } = self;
        write!(
            f,
            "{wanted} answers were wanted, {answered} came, and {} asks failed",
            failed.len()
        )?;
        if failed.is_empty() {
            return f.write_str(": ask more actors, or wait for fewer answers");
        }
        for (place, (_, error)) in failed.iter().enumerate() {
            let separator = if place == 0 { ": " } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl Error for TooFewAnswers {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let (_, error) = self.failed.first()?;
        Some(error)
    }
}
