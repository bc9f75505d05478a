//! The rest of an actor between two incarnations, as its task and its supervisor agree on it.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::error::SpawnError;

/// Told when an actor has started, or why it has not.
pub(crate) type Started = oneshot::Sender<Result<(), SpawnError>>;

/// Where an actor that is to rest says that it does.
pub(crate) type Pause = oneshot::Sender<Resting>;

/// An actor between two incarnations: nothing of it is left but its mailbox and its name.
pub(crate) struct Resting {
    /// How long it is to rest, after a failure.
    pub(crate) delay: Duration,
    /// Has it begin anew, and tells how that went. Dropped, it ends for good.
    pub(crate) resume: oneshot::Sender<Started>,
}
