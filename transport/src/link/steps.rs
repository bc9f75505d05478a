//! Which step of the protocol a commit is; only with the feature `steps`.

use super::SendKind;
use crate::steps::Step;

impl SendKind {
    pub(super) fn committed(self) -> Option<Step> {
        match self {
            SendKind::Tell | SendKind::ConfirmedTell => Some(Step::TellCommitted),
            SendKind::Ask { .. } => Some(Step::AskCommitted),
            SendKind::Signal(_) | SendKind::UrgentSignal(_) => None,
        }
    }
}
