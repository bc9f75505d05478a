//! A share with a limited lifetime.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytemuck::Pod;
use futures::FutureExt;
use futures::future::{BoxFuture, select};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::range::elements;
use super::{Region, RegionShare, RemoteRegion};
use crate::actor::{Context, Handlers};
use crate::error::RegionError;
use crate::remote::{Access, ShareId, Term};

/// A share of a [`Region`] with a limited lifetime. Created by [`Region::lease`].
#[must_use = "nothing is shared until `share` is called"]
pub struct Lease<'a, T> {
    region: &'a Region<T>,
    access: Access,
    at_most: Option<Duration>,
    is_renewable: bool,
    /// Spawns a task of an actor, which is dropped when the actor ends.
    until: Option<TaskSpawner<'a>>,
}

type TaskSpawner<'a> = Box<dyn FnOnce(BoxFuture<'static, ()>) + Send + 'a>;

impl<'a, T: Pod> Lease<'a, T> {
    pub(super) fn new(region: &'a Region<T>, access: Access) -> Self {
        Lease { region, access, at_most: None, is_renewable: false, until: None }
    }

    /// Ends the share after this time, like [`Region::revoke`]. Then no more operations begin,
    /// except from peers that have not learned of the end yet, for up to 2 seconds
    /// ([`REVOKE_PATIENCE`](crate::limits::REVOKE_PATIENCE)) if they do not answer. A device that
    /// is registering the memory finishes that. To wait for all of this, `revoke` the share.
    pub fn for_at_most(mut self, time: Duration) -> Self {
        self.at_most = Some(time);
        self
    }

    /// Allows each holder to renew the lease by [`Node::renew`](crate::Node::renew) before its time
    /// is over: then the time of [`for_at_most`](Self::for_at_most) begins again. Holders can do so
    /// any number of times.
    pub fn renewable(mut self) -> Self {
        self.is_renewable = true;
        self
    }

    /// Ends the share when the actor with this context ends or is restarted. The actor does not
    /// wait until the revocation is complete.
    pub fn until_stopped<A: Handlers>(mut self, cx: &'a mut Context<A>) -> Self {
        self.until = Some(Box::new(|task| drop(cx.spawn_task(task))));
        self
    }

    /// Shares the whole region.
    ///
    /// # Errors
    /// As for [`Region::share`].
    pub fn share(self) -> Result<RemoteRegion<T>, RegionError> {
        self.share_range(..)
    }

    /// Shares these elements.
    ///
    /// # Errors
    /// As for [`Region::share_range`].
    pub fn share_range(
        self,
        range: impl RangeBounds<usize>,
    ) -> Result<RemoteRegion<T>, RegionError> {
        let is_renewable = self.is_renewable;
        let term = self.at_most.map(|time| Term { time, is_renewable });
        let range = elements(range, self.region.len);
        let shared = self.region.share_for(range, self.access, term)?;
        let id = ShareId(shared.share());
        if term.is_some() {
            self.region.expire(id);
        }
        if is_renewable {
            self.region.node.renew_leases();
        }
        if let Some(until) = self.until {
            let (ending, ended) = self.region.ending(id);
            // Dropped with the task when the actor ends, even if the task was never polled.
            let ending = RevokeOnDrop(ending);
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

/// Ends a share, unless the share has ended already.
struct ShareRevoker {
    shares: Weak<Mutex<Vec<RegionShare>>>,
    id: ShareId,
}

impl ShareRevoker {
    fn end(&self) {
        if let Some(shares) = self.shares.upgrade() {
            drop(end(&shares, Some(self.id)));
        }
    }
}

struct RevokeOnDrop(ShareRevoker);

impl Drop for RevokeOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Ends one share of a region, or all. Returns true if a share was active until now, and futures
/// that wait until nothing accesses the memory through these shares, however they ended.
pub(super) fn end(
    shares: &Mutex<Vec<RegionShare>>,
    one: Option<ShareId>,
) -> (bool, Vec<impl Future<Output = ()> + use<>>) {
    let ending: BTreeMap<_, _> = {
        let shares = shares.lock();
        let all = shares.iter().map(|kept| (kept.share.id(), kept.share.clone()));
        all.filter(|(id, _)| one.is_none_or(|one| one == *id)).collect()
    };
    // (Outside of the lock, because this wakes tasks.)
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
    /// Spawns a task that ends this lease after its time.
    fn expire(&self, id: ShareId) {
        let shares = self.shares.lock();
        let Some(kept) = shares.iter().find(|kept| kept.share.id() == id) else { return };
        let over = Box::pin(kept.share.expire());
        drop(shares);
        let (ending, ended) = self.ending(id);
        self.node.runtime().spawn(async move {
            select(over, ended).await;
            ending.end();
        });
    }

    /// Returns a value that can end this share, and a receiver that is ready when the share has
    /// ended.
    fn ending(&self, id: ShareId) -> (ShareRevoker, oneshot::Receiver<()>) {
        let (sender, ended) = oneshot::channel();
        let mut shares = self.shares.lock();
        let kept = shares.iter_mut().find(|kept| kept.share.id() == id);
        if let Some(shared) = kept.and_then(|kept| kept.shared.as_mut()) {
            shared.tasks.push(sender);
        }
        (ShareRevoker { shares: Arc::downgrade(&self.shares), id }, ended)
    }
}
