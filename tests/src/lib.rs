//! Actors, programs and scenarios that the test programs share.

pub mod actors;
pub mod builds;
pub mod correspondent;
pub mod ledger;
pub mod planted;
pub mod sim;
pub mod vault;
