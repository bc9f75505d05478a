//! The options of a spawn.

/// The options of a spawn, for actors that the defaults do not fit.
#[derive(Debug, Clone, Default)]
pub struct SpawnOptions {
    pub(super) name: Option<String>,
    pub(super) mailbox_capacity: Option<usize>,
}

impl SpawnOptions {
    /// Returns the options of an actor without a name.
    pub fn anonymous() -> Self {
        SpawnOptions::default()
    }

    /// Returns the options of an actor with a name: 1 to 256 bytes without `/` and control
    /// characters, not starting with `#`.
    pub fn named(name: impl Into<String>) -> Self {
        SpawnOptions::default().with_name(name)
    }

    pub(super) fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets how many messages of this node may wait in the mailbox; 0 counts as 1. (The node's
    /// profile sets how many messages from other nodes may wait there.)
    pub fn mailbox_capacity(mut self, messages: usize) -> Self {
        self.mailbox_capacity = Some(messages);
        self
    }
}
