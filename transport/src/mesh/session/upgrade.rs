//! The return of a link to the best fabric of its two nodes.

use std::time::Duration;

use tokio::time::Instant;

use crate::bootstrap::{Beat, Failure, Message};
use crate::cause::LinkCause;
use crate::limits;

use super::Session;
use super::usage::Rest;
use crate::mesh::choice::Better;
use crate::mesh::peer::Peer;

/// When the best fabric is tried again, of a link that could not have it.
pub(super) struct Upgrade {
    better: Option<Better>,
    began: Instant,
    pause: Duration,
    /// Time before which the peer is not asked again, and how long that was the last time.
    refused: (Instant, Duration),
    /// The link is being closed for it.
    pub(super) is_cause: bool,
}

impl Upgrade {
    pub(super) fn new(better: Option<Better>, peer: &Peer) -> Self {
        let pause = peer.state.lock().upgrade_pause.next(better.is_some());
        let began = Instant::now();
        Upgrade { better, began, pause, refused: (began, Duration::ZERO), is_cause: false }
    }

    /// Returns true if it is time to try: the fabric knows of a change, or has not been tried for
    /// a while.
    fn is_due(&self) -> bool {
        let (lived, (refused_until, _)) = (self.began.elapsed(), self.refused);
        let changed = |better: &Better| better.fabric.changes() != better.changes;
        let due = |better| lived >= self.pause || (lived >= self.least() && changed(better));
        Instant::now() >= refused_until && self.better.as_ref().is_some_and(due)
    }

    /// Returns the least time that the link lives: longer with each failed try, however often the
    /// fabric changes.
    fn least(&self) -> Duration {
        limits::BETTER_FABRIC_AFTER.max(self.pause / 16)
    }

    /// Returns true if an honest peer may want it: this side misses the best fabric, too, and the
    /// link has lived for about as long as the peer's side of it had to.
    fn may_be_wanted(&self) -> bool {
        self.better.is_some() && self.began.elapsed() >= self.least() / 2
    }

    /// Records that the peer uses the link: it is asked again after a while, longer each time.
    pub(super) fn refuse(&mut self) {
        let least = self.least();
        let wait = (self.refused.1 * 2).clamp(least, limits::BETTER_FABRIC_PAUSE_MAX.max(least));
        self.refused = (Instant::now() + wait, wait);
    }
}

impl Session {
    /// Returns true if the peer is to be asked to close the link for a better one: it is time to,
    /// nothing is on its way, and this node can dial the peer. The link rests then.
    pub(super) fn asks_for_better(&self) -> bool {
        self.usage.rest == Rest::No
            && self.upgrade.is_due()
            && !self.guard.peer().addresses().is_empty()
            && self.may_upgrade()
    }

    fn may_upgrade(&self) -> bool {
        let runs = !self.liveness.is_stalled() && !self.table.events.is_leaving();
        runs && self.carrier.running.link.rest()
    }

    /// Answers a peer that wants a better link: closes this one, or says BUSY if this side uses it.
    pub(super) async fn heed_better(&mut self) -> Result<(), Failure> {
        let asked = matches!(self.usage.rest, Rest::Asked(_));
        let agrees = asked || (self.upgrade.may_be_wanted() && self.may_upgrade());
        if !agrees {
            return self.send(&Message::Heartbeat(Beat::Busy)).await;
        }
        self.upgrade.is_cause = true;
        self.usage.rest = Rest::Agreed;
        self.carrier.running.link.goodbye();
        Ok(())
    }

    /// Returns the cause of the end of a link that rested.
    pub(super) fn rest_cause(&self) -> LinkCause {
        if self.upgrade.is_cause { LinkCause::Better } else { LinkCause::Idle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that goes on using the link is asked again after a longer while each time, whatever
    /// the pause before the first time.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_refuses_is_asked_ever_more_rarely() {
        for pause in [limits::BETTER_FABRIC_AFTER, limits::BETTER_FABRIC_PAUSE_MIN] {
            let began = Instant::now();
            let refused = (began, Duration::ZERO);
            let mut upgrade = Upgrade { better: None, began, pause, refused, is_cause: false };
            let mut last = Duration::ZERO;
            for _ in 0..12 {
                upgrade.refuse();
                let (until, wait) = upgrade.refused;
                assert_eq!(until, Instant::now() + wait);
                let longest = limits::BETTER_FABRIC_PAUSE_MAX;
                assert!(wait >= (last * 2).min(longest) && wait <= longest, "{last:?} {wait:?}");
                last = wait;
            }
            assert_eq!(last, limits::BETTER_FABRIC_PAUSE_MAX);
        }
    }
}
