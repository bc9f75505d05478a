//! The rest of an actor: its pause between two incarnations, as its task and its supervisor agree
//! on it.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::SpawnError;

/// Reports that an actor has started, or the reason why it has not.
pub(crate) type StartSender = oneshot::Sender<Result<(), SpawnError>>;

/// Reports that an actor rests, after an order to rest.
pub(crate) type RestSender = oneshot::Sender<RestingActor>;

/// An actor between two incarnations: only its mailbox and its name are left.
pub(crate) struct RestingActor {
    /// The pause before the restart, after a failure.
    pub(crate) delay: Duration,
    /// Number of times that the actor has reported, without an order, that it rests, including this
    /// report if it is one. A report from before an order to rest with others is outdated.
    pub(crate) reports: u64,
    /// Starts the next incarnation, and reports the result. Dropping it ends the actor permanently.
    pub(crate) resume: oneshot::Sender<StartSender>,
}

/// How and when an incarnation ended, as determined once by the actor's task: it does not change,
/// however long children and hooks take. It is kept with the actor's registrations.
#[derive(Clone, Copy)]
pub(crate) struct IncarnationEnd {
    pub(crate) at: Instant,
    /// Set if the mailbox was emptied because no other incarnation follows: true if the actor had
    /// been stopped or drained before.
    pub(crate) was_closing: Option<bool>,
    /// The actor had been drained, and not stopped.
    pub(crate) was_draining: bool,
}
