//! One actor as two builds know it: they disagree on the layout of one of its messages.

use ringpost::prelude::*;

/// The build of the node processes.
pub mod hosted {
    use super::*;

    /// Gives back the numbers it gets.
    #[actor(name = "Drifter")]
    pub struct Drifter;

    /// Its number is wider in the other build.
    #[message(name = "Drift")]
    pub struct Drift {
        /// The number.
        pub number: u32,
    }

    /// The same in both builds.
    #[message(name = "Steady")]
    pub struct Steady {
        /// The number.
        pub number: u64,
    }

    #[handlers]
    impl Drifter {
        /// Gives the number back.
        #[handler]
        pub fn drift(&self, msg: Drift) -> u64 {
            msg.number.into()
        }

        /// Gives the number back.
        #[handler]
        pub fn steady(&self, msg: Steady) -> u64 {
            msg.number
        }
    }
}

/// The build of the tests.
pub mod known {
    pub use super::hosted::Steady;
    use super::*;

    /// The same actor.
    #[actor(name = "Drifter")]
    pub struct Drifter;

    /// The same message, with a wider number.
    #[message(name = "Drift")]
    pub struct Drift {
        /// The number.
        pub number: u64,
    }

    #[handlers]
    impl Drifter {
        /// Gives the number back.
        #[handler]
        pub fn drift(&self, msg: Drift) -> u64 {
            msg.number
        }

        /// Gives the number back.
        #[handler]
        pub fn steady(&self, msg: Steady) -> u64 {
            msg.number
        }
    }
}
