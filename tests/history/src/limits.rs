//! Every limit of the crate.

/// Longest line of a log in bytes, without its end.
pub const LINE_BYTES_MAX: usize = 4096;
/// Longest name of a node, a stream or a mailbox in bytes.
pub const NAME_BYTES_MAX: usize = 128;
