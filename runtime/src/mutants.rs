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
        /// A message of a group passes those that wait for its member.
        PassedLane,
        /// A member that leaves its group stays one.
        KeptMember,
        /// A message of a group is archived for each member of another node.
        ArchivedEach,
        /// A message with a key goes to a worker by turns.
        StrayKey,
        /// An ask that is handed on loses its chain.
        ForgottenAsker,
        /// An ask of another node comes without its chain.
        ChainLeftBehind,
        /// Workers that are removed from a pool do not handle their accepted messages.
        StoppedWorkers,
        /// An actor whose watcher has gone stays held.
        HeldForEver,
        /// Actors that other nodes have a node spawn are not counted.
        UncountedSpawns,
        /// A spawn that fails is watched all the same.
        KeptWatch,
    }

    impl Mutant {
        /// All of them.
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

    /// The bug that the environment names; bugs of other crates have other names.
    static PLANTED: LazyLock<Option<Mutant>> = LazyLock::new(|| {
        let name = std::env::var("RINGPOST_PLANTED").ok()?;
        Mutant::ALL.into_iter().find(|bug| format!("{bug:?}") == name)
    });

    pub(crate) fn is_planted(bug: Mutant) -> bool {
        *PLANTED == Some(bug)
    }
}
