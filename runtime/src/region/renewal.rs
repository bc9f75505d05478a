//! Leases that their holders renew, many by one message.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;

use super::RemoteRegion;
use crate::actor::{Actor, Context, Recipient};
use crate::address::{Address, RESERVED};
use crate::error::{AskCause, AskError, Cause, RegionError};
use crate::limits::LEASES_RENEWED_MAX;
use crate::node::Node;
use crate::remote::{AccessError, ShareId};
use crate::{actor, handlers, message};

/// Renews leases of a node. Spawned with the first renewable lease.
struct Renewer;

/// Begins the time of leases again. Knowing a share proves that the sender holds it.
#[message(name = "ringpost::Renew")]
struct Renew {
    shares: Vec<u128>,
}

#[actor(name = "ringpost::Renewer")]
impl Actor for Renewer {}

#[handlers]
impl Renewer {
    /// Answers for each lease whether it was renewed.
    #[handler]
    fn renew(&mut self, msg: Renew, cx: &mut Context<Self>) -> Vec<bool> {
        let shares = msg.shares.into_iter().take(LEASES_RENEWED_MAX);
        let renew = |share| cx.node().shares().memory(true, ShareId(share)).renew().is_ok();
        shares.map(renew).collect()
    }
}

impl Node {
    /// Begins the time of leases again that their owners have made
    /// [renewable](super::Lease::renewable): each lasts as long from now on as it did from its
    /// beginning. Each node that has some of them gets one message for
    /// [`LEASES_RENEWED_MAX`] of them. Renew after a third of the time, so that a lost link does
    /// not end the lease. The time-out is the one of an [`Ask`](crate::send::Ask) of this node.
    ///
    /// Returns the result for each lease, in their order.
    ///
    /// # Errors
    /// For each lease a [`RegionError`]: as for a [read](RemoteRegion::read), and `NoAccess` if it
    /// is not renewable. After [`Unable`](RegionError::Unable) it may be renewed.
    ///
    /// # Cancel safety
    /// If the future is dropped, each lease may be renewed or not.
    pub async fn renew<'a, T: 'a>(
        &self,
        leases: impl IntoIterator<Item = &'a RemoteRegion<T>>,
    ) -> Vec<Result<(), RegionError>> {
        let leases: Vec<&RemoteRegion<T>> = leases.into_iter().collect();
        let mut of_nodes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (nth, lease) in leases.iter().enumerate() {
            of_nodes.entry(lease.node()).or_default().push(nth);
        }
        let messages = of_nodes.iter().flat_map(|(owner, of_owner)| {
            of_owner.chunks(LEASES_RENEWED_MAX).map(|nths| (*owner, nths))
        });
        let renewals = messages.map(async |(owner, nths)| {
            let shares = nths.iter().map(|nth| leases[*nth].share()).collect();
            let address = Address::by_name(owner.into(), name());
            let to: Recipient<Renew, Vec<bool>> = Recipient::bind(self, address);
            let (renewed, why) = match to.ask(Renew { shares }).await {
                Ok(renewed) => (renewed, None),
                Err(error) => (Vec::new(), Some(error)),
            };
            let each = nths.iter().enumerate().map(async |(at, nth)| {
                let is_renewed = renewed.get(at).copied().unwrap_or(false);
                let lease = leases[*nth];
                (*nth, if is_renewed { Ok(()) } else { Err(lease.not_renewed(why.as_ref()).await) })
            });
            join_all(each).await
        });
        let mut results: Vec<_> = join_all(renewals).await.into_iter().flatten().collect();
        results.sort_by_key(|(nth, _)| *nth);
        results.into_iter().map(|(_, result)| result).collect()
    }

    /// Spawns the actor that renews leases of this node, if there is none.
    pub(super) fn renew_leases(&self) {
        self.spawn_own(name(), Renewer);
    }
}

impl<T> RemoteRegion<T> {
    /// Returns the reason why this lease was not renewed. `why` is the error of the message, if it
    /// had one. An empty read tells if the share has ended, or its node.
    async fn not_renewed(&self, why: Option<&AskError>) -> RegionError {
        let found = match self.memory() {
            Some(memory) => memory.read(0, &mut []).await,
            None => return RegionError::NoNetwork,
        };
        match (found, why) {
            (Err(error), _) if !matches!(error, AccessError::NoAccess(_)) => {
                self.error(0..0, error)
            }
            (_, Some(AskError { cause, .. }))
                if !matches!(cause, AskCause::NotSent(Cause::NoSuchActor)) =>
            {
                RegionError::Unable { node: self.node().into(), why: cause.to_string() }
            }
            _ => RegionError::NoAccess("renew"),
        }
    }
}

fn name() -> Arc<str> {
    format!("{RESERVED}leases").into()
}
