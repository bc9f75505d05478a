//! Whether the runtime of the links gets on: asked again and again, told to the layer above.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::cause::LinkCause;
use crate::limits;

use super::table::Table;

/// Watches until the node closes. When the runtime of the links is gone, the node closes: it could
/// have no link any more, and its heartbeats would say that it lives.
pub(super) async fn watch(table: Arc<Table>) {
    let mut closing = pin!(table.events.closing());
    while let Some(mut sign) = table.tasks.sign() {
        // Counted, not taken from a clock: a process that stood still is not late.
        let mut late = Duration::ZERO;
        let ran = loop {
            table.events.host().pulse(late);
            tokio::select! {
                biased;
                () = &mut closing => return,
                ran = &mut sign => break ran,
                () = sleep(limits::PULSE_INTERVAL) => late += limits::PULSE_INTERVAL,
            }
        };
        if ran.is_err() {
            tracing::info!("the runtime that the node was started on is gone: the node closes");
            return table.abort(&LinkCause::Shutdown);
        }
        tokio::select! {
            biased;
            () = &mut closing => return,
            () = sleep(limits::PULSE_INTERVAL) => {}
        }
    }
}
