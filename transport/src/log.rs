//! The macros that write lines to the log: the macros of `tracing`, behind the shield. A subscriber
//! that panics loses its line, and nothing else. A line of a level that no subscriber takes costs
//! one comparison.

#[doc(hidden)]
pub use tracing;

/// Writes a line, with the arguments of the macro of `tracing` of that level.
#[doc(hidden)]
#[macro_export]
macro_rules! __line {
    ($level:ident, $macro:ident, $($arguments:tt)+) => {
        if $crate::log::tracing::Level::$level
            <= $crate::log::tracing::level_filters::LevelFilter::current()
        {
            let _ = $crate::shield::run(|| $crate::log::tracing::$macro!($($arguments)+));
        }
    };
}

/// Writes a line at this level, as the macro of `tracing` does.
#[doc(hidden)]
#[macro_export]
macro_rules! __error {
    ($($arguments:tt)+) => { $crate::__line!(ERROR, error, $($arguments)+) };
}

/// Writes a line at this level, as the macro of `tracing` does.
#[doc(hidden)]
#[macro_export]
macro_rules! __warn {
    ($($arguments:tt)+) => { $crate::__line!(WARN, warn, $($arguments)+) };
}

/// Writes a line at this level, as the macro of `tracing` does.
#[doc(hidden)]
#[macro_export]
macro_rules! __info {
    ($($arguments:tt)+) => { $crate::__line!(INFO, info, $($arguments)+) };
}

/// Writes a line at this level, as the macro of `tracing` does.
#[doc(hidden)]
#[macro_export]
macro_rules! __debug {
    ($($arguments:tt)+) => { $crate::__line!(DEBUG, debug, $($arguments)+) };
}

#[doc(inline)]
pub use crate::{__debug as debug, __error as error, __info as info, __warn as warn};
