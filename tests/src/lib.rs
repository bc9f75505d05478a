//! What the test programs share.

pub mod sim;
