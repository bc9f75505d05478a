//! The error of a node that is not connected to an address.

/// The cause for which a node is not connected to an address. Its text names the address, the cause
/// and what to do. `Debug` writes that text, too: a `main` that returns it prints that.
#[derive(Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("no link to {address}: {text}{}", cause.remedy())]
#[non_exhaustive]
pub struct ConnectError {
    /// The address, as it was given.
    pub address: String,
    /// The kind of the cause.
    pub cause: ConnectCause,
    /// The cause in words.
    text: String,
}

crate::debug_by_display!(ConnectError);

/// The kind of the cause for which a node is not connected to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectCause {
    /// No connection came about: nothing listens there, there is no way to the host, or the name
    /// does not resolve.
    Unreachable,
    /// Nothing answered: the host is down, or a firewall drops packets to it.
    NoAnswer,
    /// The program at the address is no node.
    NotRingpost,
    /// The secrets of the two nodes differ, or only one of them has one.
    WrongSecret,
    /// Another live node has the name of this node.
    NameTaken,
    /// The node at the address has the name of another node, to which this node is linked.
    PeerNameTaken,
    /// The two nodes speak no common version of the protocol.
    Version,
    /// The address is this node's own.
    Itself,
    /// The text is no address, or there is none.
    InvalidAddress,
    /// This node has no network.
    NoNetwork,
    /// This node is shutting down.
    Shutdown,
    /// Anything else: the text says it.
    Failed,
}

impl ConnectError {
    pub(crate) fn new(
        address: impl Into<String>,
        cause: ConnectCause,
        text: impl Into<String>,
    ) -> Self {
        ConnectError { address: address.into(), cause, text: text.into() }
    }

    /// Returns the error of a node that has no network.
    #[doc(hidden)]
    pub fn no_network(address: impl Into<String>) -> Self {
        ConnectError::new(address, ConnectCause::NoNetwork, "this node has no network")
    }

    /// Returns the error of a node that was given no address to connect to.
    #[doc(hidden)]
    pub fn no_address() -> Self {
        ConnectError::new("nowhere", ConnectCause::InvalidAddress, "no address is given")
    }

    /// Returns the cause in words, without the address and the remedy.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if trying again can help although nothing is changed: where the other node may
    /// not have started yet, or is out of reach for a while.
    pub fn is_retryable(&self) -> bool {
        self.cause.is_retryable()
    }
}

impl ConnectCause {
    /// Returns true if trying again can help, as [`ConnectError::is_retryable`] says.
    pub fn is_retryable(self) -> bool {
        matches!(self, ConnectCause::Unreachable | ConnectCause::NoAnswer | ConnectCause::Failed)
    }

    /// Returns true if the other side refuses this node or is no node: a person has to change that.
    pub(crate) fn is_refusal(self) -> bool {
        use ConnectCause::{NameTaken, NotRingpost, Version, WrongSecret};
        matches!(self, NotRingpost | WrongSecret | NameTaken | Version)
    }

    /// Returns what to do; nothing where the texts of the cause say it.
    fn remedy(self) -> &'static str {
        match self {
            ConnectCause::Unreachable => "; is the node started there, and is its port open?",
            ConnectCause::NoAnswer => "; is the host up, and does a firewall drop packets to it?",
            ConnectCause::NotRingpost => "; is it the address of a node?",
            ConnectCause::InvalidAddress => "; give one of the form host:port",
            ConnectCause::NoNetwork => "; start it with `listen` or `seeds`",
            ConnectCause::Itself => "; give it the address of another node",
            ConnectCause::WrongSecret
            | ConnectCause::NameTaken
            | ConnectCause::PeerNameTaken
            | ConnectCause::Version
            | ConnectCause::Shutdown
            | ConnectCause::Failed => "",
        }
    }
}
