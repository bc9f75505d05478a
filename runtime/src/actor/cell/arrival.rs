//! Messages from other nodes, on their way from the mailbox to the handler.

use std::task::{Context, Poll};

use ringpost_transport::memory::Payload;
use ringpost_transport::note::Note;
use tokio::time::Instant;

use super::route::{self, HeadAt, Label};
use super::tether;
use crate::mailbox::RemoteItem;
use crate::remote::{Deliveries, Delivery, Replier, Tells};

/// Messages that arrived together from another node, not checked yet: one item of the mailbox's
/// remote queue. Holds at least one message.
pub(crate) enum RemoteBatch {
    /// A message; `None` once it was taken.
    One(Option<Delivery>),
    /// Tells that came in one frame.
    Tells(Tells),
}

/// A message from another node that was taken from the mailbox and is not checked yet. Its sender
/// may use its room in the mailbox again.
pub(crate) struct RemoteMessage {
    pub(crate) ordinal: u16,
    pub(crate) payload: Payload,
    /// The replier of an ask, and the deadline of its asker.
    pub(crate) ask: Option<(Replier, Option<Instant>)>,
    /// Names the scope in which the message was sent.
    pub(crate) note: Option<Note>,
}

impl RemoteMessage {
    /// Returns the label of a tell; `None` for an ask.
    pub(crate) fn told(&self, heads: HeadAt) -> Option<&'static Label> {
        self.ask.is_none().then(|| self.label(heads))
    }

    /// Returns the label of the message. (An ordinal without a route is the one of link requests,
    /// see `tether`.)
    pub(crate) fn label(&self, heads: HeadAt) -> &'static Label {
        route::label_at(heads, self.ordinal).unwrap_or(tether::LABEL)
    }
}

impl RemoteBatch {
    /// Returns the replier of an ask and the deadline of its asker; `None` for tells.
    #[inline]
    fn ask(&self) -> Option<(&Replier, Option<Instant>)> {
        match self {
            RemoteBatch::One(Some(one)) => {
                one.replier.as_ref().map(|replier| (replier, one.deadline))
            }
            _ => None,
        }
    }
}

impl From<Deliveries> for RemoteBatch {
    fn from(deliveries: Deliveries) -> Self {
        match deliveries {
            Deliveries::One(delivery) => RemoteBatch::One(Some(delivery)),
            Deliveries::Tells(tells) => RemoteBatch::Tells(tells),
        }
    }
}

impl RemoteItem for RemoteBatch {
    type Message = RemoteMessage;

    #[inline]
    fn count(&self) -> usize {
        match self {
            RemoteBatch::One(one) => usize::from(one.is_some()),
            RemoteBatch::Tells(tells) => tells.len(),
        }
    }

    #[inline]
    fn take_first(&mut self) -> Option<RemoteMessage> {
        match self {
            RemoteBatch::One(one) => {
                let Delivery { ordinal, payload, replier, receipt, deadline, note } = one.take()?;
                drop(receipt);
                let ask = replier.map(|replier| (replier, deadline));
                Some(RemoteMessage { ordinal, payload, ask, note })
            }
            RemoteBatch::Tells(_) => self.take_tell(),
        }
    }

    #[inline]
    fn take_tell(&mut self) -> Option<RemoteMessage> {
        let RemoteBatch::Tells(tells) = self else { return None };
        let (ordinal, payload) = tells.take_first()?;
        Some(RemoteMessage { ordinal, payload, ask: None, note: None })
    }

    fn peer(&self) -> usize {
        match self {
            RemoteBatch::One(one) => one.as_ref().map_or(0, Delivery::peer_number),
            RemoteBatch::Tells(tells) => tells.peer_number(),
        }
    }

    #[inline]
    fn poll_begin(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Some((replier, deadline)) = self.ask() else { return Poll::Ready(()) };
        let is_late = || deadline.is_some_and(|end| end <= Instant::now());
        if replier.poll_room(cx).is_pending() && !is_late() {
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn deadline(&self) -> Option<Instant> {
        self.ask()?.1
    }
}

/// Begins an ask from another node. Returns `None`, after telling the asker, if the deadline has
/// passed or the asker has given up.
pub(crate) fn begin_ask(mut replier: Replier, deadline: Option<Instant>) -> Option<Replier> {
    let now = Instant::now();
    if deadline.is_some_and(|end| end <= now) {
        replier.fail(Replier::LATE);
        return None;
    }
    replier.begin(now).then_some(replier)
}
