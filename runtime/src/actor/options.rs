//! How an actor is spawned.

/// How an actor is spawned, where the defaults do not fit.
#[derive(Debug, Clone, Default)]
pub struct SpawnOptions {
    pub(super) name: Option<String>,
    pub(super) mailbox_capacity: Option<usize>,
}

impl SpawnOptions {
    /// An actor without a name.
    pub fn anonymous() -> Self {
        SpawnOptions::default()
    }

    /// An actor with a name: 1 to 256 bytes without `/` and control characters, not starting with
    /// `#`.
    pub fn named(name: impl Into<String>) -> Self {
        SpawnOptions::default().with_name(name)
    }

    pub(super) fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Messages of this node that may wait in its mailbox; 0 counts as 1. (What other nodes may
    /// have waiting there is set by the node's profile.)
    pub fn mailbox_capacity(mut self, messages: usize) -> Self {
        self.mailbox_capacity = Some(messages);
        self
    }
}
