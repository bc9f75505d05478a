//! Senders of this node that wait for long, as the log tells it: each mailbox once when it is
//! found, and once when it has room again. Those that wait for another node's are told of by its
//! link.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::address::Address;
use crate::limits;
use crate::mailbox::Depth;
use crate::resident::Residents;

/// The task that looks for them; it ends when this is dropped.
pub(super) struct Lookout(AbortHandle);

impl Lookout {
    pub(super) fn start(runtime: &Handle, residents: &Arc<Residents>) -> Self {
        let residents = Arc::downgrade(residents);
        Lookout(runtime.spawn(look_out(residents)).abort_handle())
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn look_out(residents: Weak<Residents>) {
    let mut turns = interval(limits::STALL_LOOK);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = BTreeMap::new();
    loop {
        turns.tick().await;
        let Some(residents) = residents.upgrade() else { return };
        look(&residents, &mut told);
    }
}

/// One look at all mailboxes. `told` are those that the log told of, with how long the first sender
/// had waited when it was seen last.
fn look(residents: &Residents, told: &mut BTreeMap<usize, (Address, Duration)>) {
    let mut seen = BTreeMap::new();
    for resident in residents.all() {
        let Depth { local, senders, longest, .. } = resident.depth();
        let Some(waited) = longest.filter(|waited| *waited >= limits::STALL_REPORTED) else {
            continue;
        };
        let actor = resident.address();
        let known = told.remove(&resident.token()).is_some();
        if !known && told.len() + seen.len() >= limits::STALLS_REPORTED_MAX {
            continue;
        }
        if !known {
            tracing::warn!(%actor, messages = local, senders, ?waited, "senders wait for long");
        }
        seen.insert(resident.token(), (actor.clone(), waited));
    }
    for (actor, waited) in told.values() {
        tracing::info!(%actor, ?waited, "stalled senders resumed");
    }
    *told = seen;
}
