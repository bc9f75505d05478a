//! The identity of a node: the name people give it and the incarnation it gives itself.

use std::fmt;
use std::sync::Arc;

use crate::limits;

/// A node's name: 1 to 64 bytes of ASCII letters, digits, `.`, `_` and `-`. Cheap to clone.
///
/// Names are ordered by their bytes; of two nodes that meet, the lower-named one decides.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Arc<str>);

/// A text that cannot be a node's name.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a node name: use 1 to {max} ASCII letters, digits, `.`, `_` or `-`",
    .0.escape_debug(),
    max = limits::NODE_NAME_BYTES_MAX
)]
pub struct InvalidNodeName(pub String);

crate::debug_by_display!(InvalidNodeName);

impl NodeName {
    /// Parses a name.
    ///
    /// # Errors
    /// [`InvalidNodeName`] when the text is empty, too long or has another character in it.
    pub fn new(name: &str) -> Result<Self, InvalidNodeName> {
        NodeName::check(name)?;
        Ok(NodeName(name.into()))
    }

    /// Checks whether a text is a name.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn check(name: &str) -> Result<(), InvalidNodeName> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if name.is_empty() || name.len() > limits::NODE_NAME_BYTES_MAX || !name.bytes().all(allowed)
        {
            return Err(InvalidNodeName(name.chars().take(80).collect()));
        }
        Ok(())
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// One run of a node: a random 128-bit number drawn when it starts, so that a restarted node is
/// not mistaken for the one before it.
///
/// `Display` and `Debug` write it as the log does: 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u128);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A node of one run.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NodeId {
    /// Its name, for people.
    pub name: NodeName,
    /// Which run of it.
    pub incarnation: Incarnation,
}

/// The number of memory that a node shares, of which no peer can guess 88 bits. A peer that knows
/// it may use the memory. The other bits count the shares of the node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShareId(pub u128);

impl fmt::Debug for ShareId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It lets a peer in: no log has to know it.
        f.write_str("ShareId")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else a run in an event cannot be found in the log.
    #[test]
    fn a_run_is_written_in_one_form() {
        let run = Incarnation(0xbeef);
        let hex = "0000000000000000000000000000beef";
        assert_eq!((run.to_string(), format!("{run:?}")), (hex.into(), hex.into()));
        let node = NodeId { name: NodeName::new("alpha").unwrap(), incarnation: run };
        assert!(format!("{node:?}").contains(hex), "{node:?}");
    }
}
