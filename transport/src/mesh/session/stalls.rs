//! Long waits on a link, as the log tells them: each wait once when it has lasted for
//! `STALL_REPORTED`, and once when it is over. Shorter ones are counted only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::id::NodeName;
use crate::limits;
use crate::link::{Line, LinkHandle, Stall, WaitsFor};
use crate::log;

/// The waits of one link that the log has told of.
pub(super) struct Stalls {
    link: Arc<LinkHandle>,
    peer: NodeName,
    /// The reported waits by line; `None` is for credits. Each with its kind, and how long its
    /// first sender had waited at the last look.
    told: BTreeMap<Option<Line>, (WaitsFor, Duration)>,
}

impl Stalls {
    pub(super) fn new(peer: &NodeName, link: Arc<LinkHandle>) -> Self {
        Stalls { link, peer: peer.clone(), told: BTreeMap::new() }
    }

    /// Logs waits that have become long, and long waits that are over. To be called now and then.
    pub(super) fn look(&mut self) {
        let stalls = self.link.stalls(limits::STALL_REPORTED);
        if stalls.is_empty() && self.told.is_empty() {
            return;
        }
        let peer = &self.peer;
        let mut seen = BTreeMap::new();
        for Stall { line, mailbox, senders, for_what, since } in stalls {
            let waited = since.elapsed();
            let known = self.told.remove(&line).is_some();
            if !known && self.told.len() + seen.len() >= limits::STALLS_REPORTED_MAX {
                continue;
            }
            if !known {
                let mailbox = mailbox.as_ref().map(tracing::field::display);
                log::warn!(
                    %peer,
                    mailbox,
                    senders,
                    ?for_what,
                    ?waited,
                    "senders wait for long"
                );
            }
            seen.insert(line, (for_what, waited));
        }
        for (for_what, waited) in self.told.values() {
            log::info!(%peer, ?for_what, ?waited, "stalled senders resumed");
        }
        self.told = seen;
    }
}
