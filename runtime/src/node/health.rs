//! The health of a node, for probes.

use std::fmt;
use std::time::Duration;

use super::Node;
use crate::remote::ConnectError;

/// The health of a node, from [`Node::health`]. Its `Display` writes one line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// False if only a new process helps, or the process makes no progress.
    pub live: bool,
    /// False if the node should get no new work.
    pub ready: bool,
    /// The reasons for concern, even if the node is live and ready.
    pub reasons: Vec<HealthReason>,
}

/// A reason for concern about a node.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HealthReason {
    /// Handlers hold all threads of the node's runtime: not live. Only for a node with a network,
    /// which checks this from a thread of its own.
    #[error("no thread of the runtime has run other tasks for {} ms", lasted.as_millis())]
    Blocked {
        /// The duration so far.
        lasted: Duration,
    },
    /// The node cannot reach other nodes any more, and was not shut down: not live.
    #[error("the network of this node has ended")]
    NetworkEnded,
    /// The node is shutting down: not ready.
    #[error("this node is shutting down")]
    Leaving,
    /// A seed reports that another live node has the name of this one: not ready while no node is
    /// linked.
    #[error("{0}")]
    Refused(ConnectError),
    /// The node has seeds, and no other node is linked. It is still ready: it may be the first
    /// node, and if nodes can be found only when their probes say ready, nodes would wait for each
    /// other forever.
    #[error("no other node is linked")]
    Unlinked,
}

ringpost_transport::debug_by_display!(HealthReason);

impl Node {
    /// Returns the health of the node. Looks at each link, so it is made for probes, and too slow
    /// to call for every message.
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
