//! Which step of the protocol a message is; only with the feature `steps`.

use super::message::{Beat, Message};
use crate::steps::Step;

impl Message {
    /// Returns the step before the message is sent, if it is a message that makes a link.
    pub(super) fn due(&self) -> Option<Step> {
        match self {
            Message::Commit { .. } => Some(Step::CommitDue),
            Message::Resync(_) => Some(Step::ResyncDue),
            Message::Offer(_) => Some(Step::OfferDue),
            Message::Connected { .. } => Some(Step::ConnectedDue),
            Message::Ready { .. } => Some(Step::ReadyDue),
            _ => None,
        }
    }

    /// Returns the step that is done when it is sent.
    pub(super) fn sent(&self) -> Option<Step> {
        Some(self.steps()?.0)
    }

    /// Returns the step that is done when it is read.
    pub(super) fn received(&self) -> Option<Step> {
        Some(self.steps()?.1)
    }

    fn steps(&self) -> Option<(Step, Step)> {
        use Step::*;
        Some(match self {
            // It is part of the handshake.
            Message::Hello(_) => return None,
            Message::Commit { .. } => (CommitSent, CommitReceived),
            Message::Resync(_) => (ResyncSent, ResyncReceived),
            Message::Offer(_) => (OfferSent, OfferReceived),
            Message::Pass { .. } => (PassSent, PassReceived),
            Message::Connected { .. } => (ConnectedSent, ConnectedReceived),
            Message::Ready { .. } => (ReadySent, ReadyReceived),
            Message::Heartbeat(Beat::Plain) => (HeartbeatSent, HeartbeatReceived),
            Message::Heartbeat(Beat::Question) => (QuestionSent, QuestionReceived),
            Message::Heartbeat(Beat::Answer) => (AnswerSent, AnswerReceived),
            // Clusters draw all that depends on whether they are read.
            Message::Heartbeat(Beat::Leaving | Beat::Idle | Beat::Busy | Beat::Better) => {
                return None;
            }
            // They neither make nor end a link, and their steps would be too many to go through.
            Message::Sharing(_) => return None,
            Message::Heartbeat(Beat::Stalled) => (StalledSent, StalledReceived),
            Message::WhoIs(_) => (WhoIsSent, WhoIsReceived),
            Message::Known { .. } => (KnownSent, KnownReceived),
            Message::Bye(_) => (ByeSent, ByeReceived),
            Message::Reject(_) => (RejectSent, RejectReceived),
        })
    }
}
