//! Shares that end by themselves.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::{Share, Shares};
use crate::cause::NotShared;
use crate::id::ShareId;

/// The term of a lease.
#[derive(Debug, Clone, Copy)]
pub struct Term {
    /// How long it lasts, from its beginning and from each renewal on.
    pub time: Duration,
    /// It can be renewed by all that may use it.
    pub is_renewable: bool,
}

impl Term {
    /// Returns when it ends, if it begins now.
    pub(super) fn end(self) -> Instant {
        // No clock reaches further than some centuries.
        const TIME_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
        Instant::now() + self.time.min(TIME_MAX)
    }
}

impl Shares {
    /// Begins the term of a lease again. Returns false if that cannot be renewed.
    ///
    /// # Errors
    /// [`NotShared`].
    pub(crate) fn renew(&self, id: ShareId) -> Result<bool, NotShared> {
        let mut state = self.state.lock();
        state.find(id)?;
        let lease = state.by_id.get_mut(&id).and_then(|shared| shared.lease.as_mut());
        let Some((term, end)) = lease.filter(|(term, _)| term.is_renewable) else {
            return Ok(false);
        };
        if *end <= Instant::now() {
            return Err(NotShared::Expired);
        }
        *end = term.end();
        Ok(true)
    }

    /// Ends a lease whose term is over. Returns the end of a term that is not.
    fn expire(&self, id: ShareId) -> Option<Instant> {
        let (_, end) = self.state.lock().by_id.get(&id)?.lease?;
        if end > Instant::now() {
            return Some(end);
        }
        // It cannot be renewed any more.
        self.end(id);
        None
    }
}

impl Share {
    /// Ends a lease when its term is over. The future is ready when the share has ended, however;
    /// at once for a share without a term.
    pub fn expire(&self) -> impl Future<Output = ()> + Send + use<> {
        let (shares, id) = (self.shares.clone(), self.id);
        async move {
            while let Some(end) = shares.expire(id) {
                sleep_until(end).await;
            }
        }
    }
}
