//! The search for the actor of the other node.

use std::time::Duration;

use ringpost_benches::Failure;
use tokio::time::{Instant, sleep};

/// Longest time that an answer of a peer, or the search for its actor, may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Looks for the actor of the other node until it is there: a node learns of the other's actors
/// only some time after it has connected.
pub(crate) async fn find<A, F>(look: impl Fn() -> F) -> Result<A, Failure>
where
    F: Future<Output = Option<A>>,
{
    let start = Instant::now();
    loop {
        if let Some(actor) = look().await {
            return Ok(actor);
        }
        if start.elapsed() > PATIENCE {
            return Err(Failure::Failed("the other node's actor was not found".into()));
        }
        sleep(LOOK).await;
    }
}
