//! Which actor is running: so that none waits for itself.

use std::future::Future;

tokio::task_local! {
    static RUNNING: usize;
}

/// Runs `life` as the actor with this token.
pub(super) async fn within<F: Future>(token: usize, life: F) -> F::Output {
    RUNNING.scope(token, life).await
}

/// Returns true if the caller is a handler or hook of the actor with this token.
pub(super) fn is_running(token: usize) -> bool {
    RUNNING.try_with(|running| *running == token).unwrap_or(false)
}
