//! Which actor of this node waits for which: so that none waits in a circle.
//!
//! - **WC-1 seen by one**: an actor notes whom it waits for before it looks whether the circle is
//!   closed. Of those that close one at the same moment, at least one sees it.
//! - **WC-2 no false circle**: what is noted is true as long as it is noted: the wait ends with the
//!   send that is waited for. (Of several waits of one handler at once the last is noted.)

use std::sync::Arc;

use crate::busy::running;
use crate::error::Cause;
use crate::limits;
use crate::resident::Resident;

/// A wait of an actor for another one of its node. Owned by the send that waits; dropped, the wait
/// is over.
pub(super) struct Wait {
    waiter: Arc<dyn Resident>,
    id: u64,
}

impl Wait {
    /// Notes that the actor whose handler the caller is waits for `whom`. Returns `None` where the
    /// caller is no handler, or one of another node.
    ///
    /// # Errors
    /// [`Cause::Cycle`] when `whom` waits for that actor, by itself or through others.
    pub(super) fn begin(whom: &dyn Resident) -> Result<Option<Self>, Cause> {
        let Some(running) = running() else { return Ok(None) };
        let waiter = whom.residents().by_id(running.id);
        let Some(waiter) = waiter.filter(|waiter| waiter.token() == running.token) else {
            return Ok(None);
        };
        // WC-1: noted first.
        let wait = Wait { id: whom.id(), waiter };
        *wait.waiter.waits_for().lock() = wait.id;
        match wait.circle(whom) {
            None => Ok(Some(wait)),
            Some(circle) => Err(Cause::Cycle(circle.into())),
        }
    }

    /// Returns the names of a closed circle.
    fn circle(&self, whom: &dyn Resident) -> Option<String> {
        // Mostly nobody: nothing is written down then.
        let mut next = *whom.waits_for().lock();
        if next == 0 {
            return None;
        }
        let mut circle = vec![whom.address().clone()];
        for _ in 0..limits::CIRCLE_MAX {
            // There is no actor of number 0.
            let actor = whom.residents().by_id(next)?;
            if next == self.waiter.id() {
                let others: String =
                    circle.iter().map(|actor| format!("{actor}, which waits for ")).collect();
                let first = actor.address();
                return Some(format!("{first} waits for {others}{first}"));
            }
            circle.push(actor.address().clone());
            next = *actor.waits_for().lock();
        }
        None
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waits_for = self.waiter.waits_for().lock();
        if *waits_for == self.id {
            *waits_for = 0;
        }
    }
}
