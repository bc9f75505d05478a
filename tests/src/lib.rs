//! What the test programs share.

pub mod actors;
pub mod builds;
pub mod sim;
