//! Planted bugs: an environment variable switches one of them on, to show that the tests catch it.
//! Compiled only with the feature `mutants`; without it [`planted!`] is the constant `false`.

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
        /// An actor that failed is restarted without a pause.
        NoRest,
        /// Restarts are not counted.
        UncountedRestarts,
        /// An actor that failed too often does not make its parent fail.
        SilentChild,
        /// An actor that was stopped while its last handler failed is restarted.
        RevivedAfterStop,
        /// The state of an actor survives a restart.
        SurvivingState,
        /// The oldest child is ended first.
        OldestFirst,
        /// A failed child restarts the children before it instead of those after it.
        RestBeforeOne,
        /// An actor's end is reported before its last messages.
        EarlyDown,
        /// A timer that is set again fires at the old time, too.
        OldTimer,
        /// A link survives the restart of an actor, and the other actor is not told.
        SurvivingLink,
        /// A message of a group overtakes messages that already wait for its member.
        PassedLane,
        /// A member that leaves its group remains a member.
        KeptMember,
        /// A message of a group is archived once per member on another node.
        ArchivedEach,
        /// A message with a key is routed round-robin.
        StrayKey,
        /// A forwarded ask loses its chain.
        ForgottenAsker,
        /// An ask of another node arrives without its chain.
        ChainLeftBehind,
        /// Workers that are removed from a pool do not handle their accepted messages.
        StoppedWorkers,
        /// An actor whose watcher has gone is never released.
        HeldForEver,
        /// Actors that other nodes spawn on a node are not counted.
        UncountedSpawns,
        /// A spawn that fails is still watched.
        KeptWatch,
    }

    impl Mutant {
        /// All planted bugs.
        pub const ALL: [Mutant; 20] = [
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
            Mutant::PassedLane,
            Mutant::KeptMember,
            Mutant::ArchivedEach,
            Mutant::StrayKey,
            Mutant::ForgottenAsker,
            Mutant::ChainLeftBehind,
            Mutant::StoppedWorkers,
            Mutant::HeldForEver,
            Mutant::UncountedSpawns,
            Mutant::KeptWatch,
        ];
    }

    /// The bug that the environment variable names; bugs of other crates have other names.
    static PLANTED: LazyLock<Option<Mutant>> = LazyLock::new(|| {
        let name = std::env::var("RINGPOST_PLANTED").ok()?;
        Mutant::ALL.into_iter().find(|bug| format!("{bug:?}") == name)
    });

    pub(crate) fn is_planted(bug: Mutant) -> bool {
        *PLANTED == Some(bug)
    }
}
