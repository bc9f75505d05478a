//! A share that ends by itself.

use std::collections::BTreeMap;
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
use crate::remote::{Access, ShareId};

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
    /// ([`REVOKE_PATIENCE`](crate::limits::REVOKE_PATIENCE)) where that does not answer. A device
    /// that is just registering the memory goes on until it has. To wait for all that, `revoke` it.
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
                if timeout(time, ended).await.is_err() {
                    ending.end();
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
    fn end(&self) {
        if let Some(shares) = self.shares.upgrade() {
            drop(end(&shares, Some(self.id)));
        }
    }
}

struct EndedWithTask(Ending);

impl Drop for EndedWithTask {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Ends one share of a region, or all. Returns true if one was shared until now, and what waits
/// until nothing reaches the memory by any of them, whatever has ended it.
pub(super) fn end(
    shares: &Mutex<Vec<Kept>>,
    one: Option<ShareId>,
) -> (bool, Vec<impl Future<Output = ()> + use<>>) {
    let ending: BTreeMap<_, _> = {
        let shares = shares.lock();
        let all = shares.iter().map(|kept| (kept.share.id(), kept.share.clone()));
        all.filter(|(id, _)| one.is_none_or(|one| one == *id)).collect()
    };
    // (Without the lock: this wakes tasks.)
    let waits = ending.values().map(|share| share.end()).collect();
    let mut ended = Vec::new();
    shares.lock().retain_mut(|kept| {
        if ending.contains_key(&kept.share.id()) {
            ended.extend(kept.shared.take());
        }
        kept.shared.is_some() || kept.share.is_held()
    });
    (!ended.is_empty(), waits)
}

impl<T> Region<T> {
    /// Returns what ends a share, and what is ready when it has ended.
    fn ending(&self, id: ShareId) -> (Ending, oneshot::Receiver<()>) {
        let (sender, ended) = oneshot::channel();
        let mut shares = self.shares.lock();
        let kept = shares.iter_mut().find(|kept| kept.share.id() == id);
        if let Some(shared) = kept.and_then(|kept| kept.shared.as_mut()) {
            shared.tasks.push(sender);
        }
        (Ending { shares: Arc::downgrade(&self.shares), id }, ended)
    }
}
