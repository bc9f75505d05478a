//! Planted bugs: each is switched on alone, by an environment variable, to show that the tests
//! would catch it. Compiled in only with the feature `mutants`; without it [`planted!`] is the
//! constant `false`.

#[cfg(feature = "mutants")]
pub use switch::Mutant;

/// Returns true if this bug is switched on.
#[cfg(not(feature = "mutants"))]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

/// Returns true if this bug is switched on.
#[cfg(feature = "mutants")]
macro_rules! planted {
    ($bug:ident) => {
        $crate::mutants::is_planted($crate::mutants::Mutant::$bug)
    };
}

pub(crate) use planted;

#[cfg(feature = "mutants")]
pub(crate) use switch::is_planted;

#[cfg(feature = "mutants")]
mod switch {
    use std::sync::LazyLock;

    /// A planted bug.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Mutant {
        /// An actor that failed begins anew at once.
        NoRest,
        /// No restart counts.
        UncountedRestarts,
        /// An actor that failed too often does not have its parent fail.
        SilentChild,
        /// An actor that was stopped while its last handler failed is restarted.
        RevivedAfterStop,
        /// The state of an actor lives on over a restart.
        SurvivingState,
        /// The oldest child is ended first.
        OldestFirst,
        /// A child that failed has those before it restarted, and not those after.
        RestBeforeOne,
        /// An end is told before the last messages of the actor that ended.
        EarlyDown,
        /// A timer that is set anew fires at the old time, too.
        OldTimer,
        /// A link lasts when an actor is restarted, and the other one is not told.
        SurvivingLink,
    }

    impl Mutant {
        /// All of them.
        pub const ALL: [Mutant; 10] = [
            Mutant::NoRest,
            Mutant::UncountedRestarts,
            Mutant::SilentChild,
            Mutant::RevivedAfterStop,
            Mutant::SurvivingState,
            Mutant::OldestFirst,
            Mutant::RestBeforeOne,
            Mutant::EarlyDown,
            Mutant::OldTimer,
            Mutant::SurvivingLink,
        ];
    }

    /// The bug that the environment names; bugs of other crates have other names.
    static PLANTED: LazyLock<Option<Mutant>> = LazyLock::new(|| {
        let name = std::env::var("RINGPOST_PLANTED").ok()?;
        Mutant::ALL.into_iter().find(|bug| format!("{bug:?}") == name)
    });

    pub(crate) fn is_planted(bug: Mutant) -> bool {
        *PLANTED == Some(bug)
    }
}
