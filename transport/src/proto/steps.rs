//! The step of the protocol that a record is; only with the feature `steps`.

use super::header::{RecordHeader, RecordKind};
use crate::steps::Step;

impl RecordHeader {
    /// Returns the step that is done when the frame with this record is posted.
    pub(super) fn sent(&self) -> Option<Step> {
        Some(self.steps()?.0)
    }

    /// Returns the step that is done when this record is read.
    pub(super) fn received(&self) -> Option<Step> {
        Some(self.steps()?.1)
    }

    fn steps(&self) -> Option<(Step, Step)> {
        use Step::*;
        Some(match self.kind {
            RecordKind::Tell | RecordKind::Ask | RecordKind::Reply
                if self.total != 0 && !self.lent =>
            {
                (FirstPartSent, FirstPartReceived)
            }
            RecordKind::Tell => (TellSent, TellReceived),
            RecordKind::Ask => (AskSent, AskReceived),
            RecordKind::Reply => (ReplySent, ReplyReceived),
            // The record does not say which part it is.
            RecordKind::Fragment => return None,
            // They change nothing that a peer could be left waiting for.
            RecordKind::Cancel | RecordKind::Grant => return None,
            RecordKind::Signal => (SignalSent, SignalReceived),
            RecordKind::Open => (OpenSent, OpenReceived),
            RecordKind::Opened => (OpenedSent, OpenedReceived),
            RecordKind::OpenRefused => (OpenRefusedSent, OpenRefusedReceived),
            RecordKind::Closed => (ClosedSent, ClosedReceived),
            RecordKind::Window => (WindowSent, WindowReceived),
            RecordKind::Blocked => (BlockedSent, BlockedReceived),
            RecordKind::Refusal => (RefusalSent, RefusalReceived),
            RecordKind::Confirm => (ConfirmSent, ConfirmReceived),
            RecordKind::Probe => (ProbeSent, ProbeReceived),
            RecordKind::Goodbye => (GoodbyeSent, GoodbyeReceived),
            RecordKind::Lend => (LendSent, LendReceived),
            RecordKind::Fetched => (FetchedSent, FetchedReceived),
            RecordKind::Unlent => (UnlentSent, UnlentReceived),
        })
    }
}

/// Returns the step of a part after the first that is posted.
pub(super) fn part_sent(first: bool, last: bool) -> Option<Step> {
    (!first).then_some(if last { Step::LastPartSent } else { Step::MiddlePartSent })
}

/// Returns the step of a part after the first that is read.
pub(super) fn part_received(last: bool) -> Option<Step> {
    Some(if last { Step::LastPartReceived } else { Step::MiddlePartReceived })
}
