//! Periodic checks, which report to the log. They report senders of this node that wait for a long
//! time, once per mailbox when they are found and once when they have stopped waiting; and handlers
//! that run for a long time, by [`super::slow`]. The links report senders that wait for other
//! nodes.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ringpost_transport::log;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::limits;
use crate::mailbox::Depth;
use crate::resident::LocalActor;
use crate::residents::LocalActors;

use super::slow::SlowHandlers;

/// The task that makes the checks. It ends when this is dropped.
pub(super) struct StallReporter(AbortHandle);

impl StallReporter {
    /// Starts the task. Handlers are reported after `reported_after`.
    pub(super) fn start(
        runtime: &Handle,
        residents: &Arc<LocalActors>,
        reported_after: Duration,
    ) -> Self {
        let residents = Arc::downgrade(residents);
        let slow = SlowHandlers::new(runtime.id(), reported_after);
        StallReporter(runtime.spawn(look_out(residents, slow, reported_after / 2)).abort_handle())
    }
}

impl Drop for StallReporter {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn look_out(residents: Weak<LocalActors>, mut slow: SlowHandlers, pause: Duration) {
    let mut turns = interval(limits::STALL_LOOK.min(pause));
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = BTreeMap::new();
    loop {
        turns.tick().await;
        let Some(residents) = residents.upgrade() else { return };
        let listed = residents.listed();
        look(&residents, &listed, &mut told);
        slow.look(&residents, &listed);
    }
}

/// Checks the mailboxes of the listed actors once. `told` contains the mailboxes that the log has
/// reported, each with its actor and the time that its first sender had waited at the last check.
fn look(
    residents: &LocalActors,
    listed: &[Arc<dyn LocalActor>],
    told: &mut BTreeMap<usize, (String, Duration)>,
) {
    let mut seen = BTreeMap::new();
    for resident in listed {
        let Depth { local, senders, longest, .. } = resident.intake().depth();
        let Some(waited) = longest.filter(|waited| *waited >= limits::STALL_REPORTED) else {
            continue;
        };
        let actor = resident.shown().to_string();
        let known = told.remove(&resident.token()).is_some();
        if !known && told.len() + seen.len() >= limits::STALLS_REPORTED_MAX {
            continue;
        }
        if !known {
            let who = names(residents.senders_to(resident.id()));
            let messages = local;
            log::warn!(%actor, messages, senders, ?waited, who, "senders wait for long");
        }
        seen.insert(resident.token(), (actor, waited));
    }
    for (actor, waited) in told.values() {
        log::info!(%actor, ?waited, "stalled senders resumed");
    }
    *told = seen;
}

/// Returns the first of these actors, and the number of further ones, as a text for people. Returns
/// `None` if there are no actors.
fn names(mut actors: Vec<String>) -> Option<String> {
    let more = actors.len().saturating_sub(limits::STALLS_REPORTED_MAX);
    actors.truncate(limits::STALLS_REPORTED_MAX);
    let mut text = actors.join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    (!text.is_empty()).then_some(text)
}
