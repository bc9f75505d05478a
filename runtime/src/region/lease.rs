//! A share that ends by itself.

use std::ops::RangeBounds;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytemuck::Pod;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Kept, Region, RemoteRegion};
use crate::actor::{Context, Handlers};
use crate::error::RegionError;
use crate::remote::{Access, Share, ShareId};

/// A share of a [`Region`] that is to end by itself. Made by [`Region::lease`].
#[must_use = "nothing is shared until `share` is called"]
pub struct Lease<'a, T> {
    region: &'a Region<T>,
    access: Access,
    at_most: Option<Duration>,
    /// Has a task run until an actor has ended.
    until: Option<Until<'a>>,
}

type Until<'a> = Box<dyn FnOnce(BoxFuture<'static, ()>) + Send + 'a>;

impl<'a, T: Pod> Lease<'a, T> {
    pub(super) fn new(region: &'a Region<T>, access: Access) -> Self {
        Lease { region, access, at_most: None, until: None }
    }

    /// Ends it after this time, as by [`Region::revoke`]: nothing begins any more then, but what a
    /// peer begins that has not heard of it yet, for up to 2 seconds
    /// ([`REVOKE_PATIENCE`](crate::limits::REVOKE_PATIENCE)) where that does not answer.
    pub fn for_at_most(mut self, time: Duration) -> Self {
        self.at_most = Some(time);
        self
    }

    /// Ends it when the actor whose handler this is ends, or is made again. That is not waited for.
    pub fn until_stopped<A: Handlers>(mut self, cx: &'a mut Context<A>) -> Self {
        self.until = Some(Box::new(|task| drop(cx.spawn_task(task))));
        self
    }

    /// Shares the whole region.
    ///
    /// # Errors
    /// As of [`Region::share`].
    pub fn share(self) -> Result<RemoteRegion<T>, RegionError> {
        self.share_range(..)
    }

    /// Shares these elements.
    ///
    /// # Errors
    /// As of [`Region::share_range`].
    pub fn share_range(
        self,
        range: impl RangeBounds<usize>,
    ) -> Result<RemoteRegion<T>, RegionError> {
        let shared = self.region.share_range(range, self.access)?;
        let id = ShareId(shared.share());
        if let Some(time) = self.at_most {
            let (ending, ended) = self.region.ending(id);
            self.region.node.runtime().spawn(async move {
                if timeout(time, ended).await.is_err()
                    && let Some(share) = ending.take()
                {
                    share.end().await;
                }
            });
        }
        if let Some(until) = self.until {
            let (ending, ended) = self.region.ending(id);
            // Dropped with the task when the actor ends, also where that was never polled.
            let ending = EndedWithTask(ending);
            until(
                async move {
                    let _ending = ending;
                    let _ = ended.await;
                }
                .boxed(),
            );
        }
        Ok(shared)
    }
}

/// The end of a share, unless it has ended.
struct Ending {
    shares: Weak<Mutex<Vec<Kept>>>,
    id: ShareId,
}

impl Ending {
    fn take(&self) -> Option<Share> {
        take(&*self.shares.upgrade()?, self.id)
    }
}

struct EndedWithTask(Ending);

impl Drop for EndedWithTask {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

/// Takes a share of a region, if it is shared still.
pub(super) fn take(shares: &Mutex<Vec<Kept>>, id: ShareId) -> Option<Share> {
    let mut shares = shares.lock();
    let place = shares.iter().position(|kept| kept.share.id() == id)?;
    Some(shares.swap_remove(place).share)
}

impl<T> Region<T> {
    /// Returns what ends a share, and what is ready when it has ended.
    fn ending(&self, id: ShareId) -> (Ending, oneshot::Receiver<()>) {
        let (sender, ended) = oneshot::channel();
        let mut shares = self.shares.lock();
        if let Some(kept) = shares.iter_mut().find(|kept| kept.share.id() == id) {
            kept.tasks.push(sender);
        }
        (Ending { shares: Arc::downgrade(&self.shares), id }, ended)
    }
}
