//! The health of a node, for probes.

use std::fmt;
use std::time::Duration;

use super::Node;
use crate::remote::ConnectError;

/// The health of a node, as [`Node::health`] finds it. Its text is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// False if nothing but a new process helps, or the process does not get on.
    pub live: bool,
    /// False if the node is to be given no new work.
    pub ready: bool,
    /// The reasons for concern, also where the node is live and ready all the same.
    pub reasons: Vec<HealthReason>,
}

/// A reason for concern about a node.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HealthReason {
    /// Handlers hold all threads of the node's runtime: not live. Only of a node with a network,
    /// which looks from a thread of its own.
    #[error("no thread of the runtime has run other tasks for {} ms", lasted.as_millis())]
    Blocked {
        /// How long.
        lasted: Duration,
    },
    /// The node reaches no other node any more, and was not shut down: not live.
    #[error("the network of this node has ended")]
    NetworkEnded,
    /// The node is shutting down: not ready.
    #[error("this node is shutting down")]
    Leaving,
    /// A seed finds that another live node has the name of this one: not ready while no node is
    /// linked.
    #[error("{0}")]
    Refused(ConnectError),
    /// The node has seeds, and no other node is linked. It is ready all the same: it may be the
    /// first, and where probes decide which nodes can be found, those that wait for each other
    /// would wait for ever.
    #[error("no other node is linked")]
    Unlinked,
}

ringpost_transport::debug_by_display!(HealthReason);

impl Node {
    /// Returns whether it can do its work. Takes a look at each link: for a probe, not for every
    /// message.
    pub fn health(&self) -> Health {
        let (is_leaving, mut is_refused) = (self.residents().is_closed(), false);
        let mut reasons = Vec::new();
        if let Some(remote) = &self.core.remote {
            reasons.extend(remote.blocked().map(|lasted| HealthReason::Blocked { lasted }));
            if remote.is_closed() && !is_leaving {
                reasons.push(HealthReason::NetworkEnded);
            }
            let is_unlinked = remote.linked().is_empty();
            let refusal = remote.refusal();
            is_refused = is_unlinked && refusal.is_some();
            reasons.extend(refusal.map(HealthReason::Refused));
            if self.core.has_seeds && is_unlinked && !is_refused {
                reasons.push(HealthReason::Unlinked);
            }
        }
        let live = !reasons.iter().any(HealthReason::is_fatal);
        if is_leaving {
            reasons.insert(0, HealthReason::Leaving);
        }
        Health { live, ready: live && !is_leaving && !is_refused, reasons }
    }
}

impl HealthReason {
    fn is_fatal(&self) -> bool {
        matches!(self, HealthReason::Blocked { .. } | HealthReason::NetworkEnded)
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.live, self.ready) {
            (false, _) => "not live",
            (true, false) => "not ready",
            (true, true) => "ready",
        })?;
        for (number, reason) in self.reasons.iter().enumerate() {
            write!(f, "{} {reason}", if number == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}
