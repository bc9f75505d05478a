//! The use of a link, and its end for want of use (MS-18).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::bootstrap::Parting;
use crate::link::LinkHandle;

/// How far both sides have come with closing a link that neither uses (MS-18).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// The link is not being closed.
    No,
    /// It rests until the peer, which was asked at that time, says whether it is to be closed.
    Asked(Instant),
    /// It rests until it has ended.
    Agreed,
}

/// The use of one link, as far as messages show it.
pub(super) struct Usage {
    link: Arc<LinkHandle>,
    /// This node's `idle_close`.
    close_after: Option<Duration>,
    /// Messages and answers that had been sent and received at the last look.
    carried: u64,
    /// Time of the last look that found more of them, or that something waited.
    used: Instant,
    /// Time before which the peer is not asked again.
    refused_until: Instant,
    pub(super) rest: Rest,
    /// The peer's word on the end of its side.
    pub(super) bye: Option<Parting>,
}

impl Usage {
    pub(super) fn new(link: Arc<LinkHandle>, close_after: Option<Duration>) -> Self {
        let now = Instant::now();
        let (carried, used, refused_until) = (0, now, now);
        Usage { link, close_after, carried, used, refused_until, rest: Rest::No, bye: None }
    }

    /// Notes the messages carried since the last look. Returns true if there were none, and nothing
    /// waited, for `idle_close`.
    pub(super) fn note_use(&mut self) -> bool {
        let Some(close_after) = self.close_after else { return false };
        let stats = self.link.stats();
        let carried = stats.messages_sent + stats.messages_received;
        let used = self.link.take_use();
        if std::mem::replace(&mut self.carried, carried) != carried || used {
            self.used = Instant::now();
        }
        self.used.elapsed() >= close_after
    }

    /// As [`note_use`](Self::note_use); returns false while the peer has refused a short while ago.
    pub(super) fn note_use_unless_refused(&mut self) -> bool {
        self.note_use() && Instant::now() >= self.refused_until
    }

    /// Records that the peer goes on using it: it asks itself when it is done, or is asked again.
    pub(super) fn refuse(&mut self) {
        self.refused_until = Instant::now() + self.close_after.unwrap_or_default();
    }
}
