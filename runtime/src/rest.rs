//! The rest of an actor between two incarnations, as its task and its supervisor agree on it.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::SpawnError;

/// Told when an actor has started, or why it has not.
pub(crate) type Started = oneshot::Sender<Result<(), SpawnError>>;

/// Where an actor that is to rest says that it does.
pub(crate) type Pause = oneshot::Sender<Resting>;

/// An actor between two incarnations: nothing of it is left but its mailbox and its name.
pub(crate) struct Resting {
    /// How long it is to rest, after a failure.
    pub(crate) delay: Duration,
    /// How often the actor has said so of its own accord, this time included: what it said before
    /// it was told to rest with others is no news any more.
    pub(crate) reports: u64,
    /// Has it begin anew, and tells how that went. Dropped, it ends for good.
    pub(crate) resume: oneshot::Sender<Started>,
}

/// The judgement of an incarnation that ends: made once, and it stays so, however long its children
/// and hooks take. Made by the actor's task, and kept with what the actor has registered.
#[derive(Clone, Copy)]
pub(crate) struct Judgement {
    pub(crate) at: Instant,
    /// There if its mailbox was emptied, as no other incarnation comes: true if it had been stopped
    /// or drained before.
    pub(crate) was_closing: Option<bool>,
    /// It had been drained, and not stopped.
    pub(crate) was_draining: bool,
}
