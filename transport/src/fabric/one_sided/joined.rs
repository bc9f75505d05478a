//! The queue pair of a link and its one-sided access: opened, connected and gone together.

use std::io;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

#[cfg(test)]
use super::OneSided;
use super::emulated::Unconnected;
use super::{Joined, OneSidedConfig, Opening};
use crate::fabric::{Fabric, FabricError, PostError, QueuePairConfig};
use crate::memory::Slot;

/// A queue pair and its one-sided access, before they are connected.
pub struct Joint {
    kind: Kind,
    #[cfg(test)]
    changed: Option<Changed>,
}

/// A layer that a test puts over the one-sided access of a fabric.
#[cfg(test)]
#[derive(Clone)]
pub struct Changed {
    /// The number of operations below for each operation above.
    pub operations: u32,
    /// Puts the layer over the access.
    pub change: std::sync::Arc<Change>,
}

#[cfg(test)]
type Change = dyn Fn(Box<dyn OneSided>) -> Box<dyn OneSided> + Send + Sync;

enum Kind {
    /// A device executes the operations, over a queue pair of their own.
    ByDevice {
        opening: Box<dyn crate::fabric::Opening>,
        one_sided: Box<dyn Opening>,
        blocks: bool,
    },
    Emulated(Unconnected),
}

impl Joint {
    /// Opens a queue pair of `fabric`, whose receives are `slot_bytes` long, and its one-sided
    /// access.
    ///
    /// # Errors
    /// See [`Fabric::open`].
    pub fn open(
        fabric: &dyn Fabric,
        config: QueuePairConfig,
        one_sided: OneSidedConfig,
        slot_bytes: usize,
    ) -> Result<Self, FabricError> {
        #[cfg(test)]
        let changed = fabric.changed_one_sided();
        #[cfg(test)]
        let one_sided = {
            let times = changed.as_ref().map_or(1, |changed| changed.operations);
            OneSidedConfig { operations: times * one_sided.operations, ..one_sided }
        };
        let blocks = fabric.blocks();
        let kind = match fabric.open_one_sided(&one_sided) {
            None => Kind::Emulated(Unconnected::open(fabric, config, &one_sided, slot_bytes)?),
            Some(one_sided) => {
                Kind::ByDevice { opening: fabric.open(config)?, one_sided: one_sided?, blocks }
            }
        };
        Ok(Joint {
            kind,
            #[cfg(test)]
            changed,
        })
    }

    /// Returns what the peer needs to connect; see
    /// [`Opening::offer`](crate::fabric::Opening::offer).
    pub fn offer(&self) -> Zeroizing<Vec<u8>> {
        match &self.kind {
            Kind::Emulated(opening) => opening.offer(),
            Kind::ByDevice { opening, one_sided, .. } => {
                let (first, second) = (opening.offer(), one_sided.offer());
                let bytes = (first.len() as u16).to_le_bytes();
                Zeroizing::new([&bytes[..], &first, &second].concat())
            }
        }
    }

    /// Posts receives; see [`Opening::post_recv`](crate::fabric::Opening::post_recv).
    ///
    /// # Errors
    /// [`PostError`].
    pub fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        match &mut self.kind {
            Kind::Emulated(opening) => opening.post_recv(slots),
            Kind::ByDevice { opening, .. } => opening.post_recv(slots),
        }
    }

    /// Returns the ways to the peer; see [`Opening::ways`](crate::fabric::Opening::ways).
    pub fn ways(&self, peer: &[u8]) -> Vec<u32> {
        match &self.kind {
            Kind::Emulated(opening) => opening.ways(peer),
            Kind::ByDevice { opening, .. } => {
                cut(peer).map_or_else(Vec::new, |(first, _)| opening.ways(first))
            }
        }
    }

    /// Connects both by the way at this place; see
    /// [`Opening::connect`](crate::fabric::Opening::connect).
    ///
    /// # Errors
    /// [`FabricError`].
    ///
    /// # Cancel safety
    /// Dropping the future drops both, if not at once then when the device has answered.
    pub async fn connect(
        self,
        peer: Zeroizing<Vec<u8>>,
        way: usize,
    ) -> Result<Joined, FabricError> {
        #[cfg(test)]
        if let Some(Changed { change, .. }) = self.changed {
            let Joined { queue_pair, one_sided } = self.kind.connect(peer, way).await?;
            return Ok(Joined { queue_pair, one_sided: change(one_sided) });
        }
        self.kind.connect(peer, way).await
    }
}

impl Kind {
    async fn connect(self, peer: Zeroizing<Vec<u8>>, way: usize) -> Result<Joined, FabricError> {
        let (opening, one_sided, blocks) = match self {
            Kind::Emulated(opening) => return opening.connect(&peer, way).await,
            Kind::ByDevice { opening, one_sided, blocks } => (opening, one_sided, blocks),
        };
        let (first, second) = cut(&peer).ok_or(FabricError::Offer("it is cut off"))?;
        // The way has one number for both; where its device has no one-sided access, the best
        // other device is taken.
        let number = opening.ways(first).get(way).copied();
        let ways = one_sided.ways(second);
        let place = ways.iter().position(|way| Some(*way) == number).unwrap_or(0);
        let connecting = one_sided.connect(Zeroizing::new(second.to_vec()), place);
        let one_sided = if blocks {
            let runtime = Handle::current();
            let lost = |lost| FabricError::Connect(io::Error::other(lost));
            spawn_blocking(move || runtime.block_on(connecting)).await.map_err(lost)??
        } else {
            connecting.await?
        };
        let queue_pair = opening.connect(Zeroizing::new(first.to_vec()), way).await?;
        Ok(Joined { queue_pair, one_sided })
    }
}

/// Returns the parts of an offer for the two queue pairs.
fn cut(offer: &[u8]) -> Option<(&[u8], &[u8])> {
    let (bytes, rest) = offer.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_le_bytes(*bytes).into())
}
