//! The encoding in which the chain of an ask is sent to another node, behind the archive of the
//! message.
//!
//! A peer gains nothing by forging a chain: actors of this node count only with a wait that this
//! node knows by its number, and the names of other actors are only shown to the peer's own askers.

use std::sync::Arc;

use parking_lot::Mutex;
use ringpost_transport::id::Incarnation;
use ringpost_transport::memory::Payload;
use ringpost_transport::text;
use rkyv::util::AlignedVec;

use super::{Asker, ChainActor, ChainElement, HandledAsk};
use crate::address::Identity;
use crate::limits;
use crate::registry::Key;

/// Bytes of an actor without its name: incarnation, number, wait, and the length of the name.
const ACTOR: usize = 16 + 8 + 8 + 1;
/// Bytes of the length of a chain, which ends every ask.
const LENGTH: usize = 2;

const _: () = assert!(limits::CHAIN_MAX * ACTOR <= limits::CHAIN_BYTES_MAX);

/// The bytes behind the archive are not a chain.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the names of those that wait for it are malformed")]
pub(crate) struct MalformedChain;

/// Where an actor is that a peer names in a chain.
pub(crate) enum ActorLocation {
    /// It is on another node.
    Elsewhere,
    /// It is on this node. Contains the handler, if its wait still goes on.
    Here(Option<Arc<ChainElement>>),
}

/// The ask that an actor of another node handles, according to the chain of another ask.
struct ReportedAsk(Asker);

impl HandledAsk for ReportedAsk {
    fn asker(&self) -> Option<Asker> {
        Some(self.0.clone())
    }
}

/// Appends the chain of an ask to its archive, the nearest actor first. Without a waiting handler,
/// appends only a length of 0.
pub(crate) fn append(asker: Option<&Asker>, out: &mut AlignedVec<16>) {
    let mut actors = Vec::new();
    if let Some(asker) = asker {
        asker.clone().find(|asker| {
            let (identity, name) = match &asker.chain.who {
                ChainActor::Near(actor) => (actor.identity(), actor.called()),
                ChainActor::Far(identity, name) => (Some(*identity), name.to_string()),
            };
            actors.extend(identity.map(|identity| (identity, asker.wait, name)));
            false
        });
    }
    // Names share the bytes that the other parts leave.
    let share = limits::CHAIN_BYTES_MAX / actors.len().max(1);
    let name_max = share.saturating_sub(ACTOR).min(u8::MAX.into());
    let mut length = 0;
    for (Identity { incarnation, key }, wait, name) in actors {
        let name = &name[..name.floor_char_boundary(name_max)];
        out.extend_from_slice(&incarnation.0.to_le_bytes());
        out.extend_from_slice(&key.id().to_le_bytes());
        out.extend_from_slice(&wait.to_le_bytes());
        out.push(name.len() as u8);
        out.extend_from_slice(name.as_bytes());
        length += ACTOR + name.len();
    }
    out.extend_from_slice(&(length as u16).to_le_bytes());
}

/// Returns the bytes of the chain that ends an ask, which are empty if no handler waits for it.
pub(crate) fn chain(payload: &[u8]) -> Result<&[u8], MalformedChain> {
    let (rest, length) = payload.split_last_chunk::<LENGTH>().ok_or(MalformedChain)?;
    let length = usize::from(u16::from_le_bytes(*length));
    let at = rest.len().checked_sub(length).ok_or(MalformedChain)?;
    if length > limits::CHAIN_BYTES_MAX { Err(MalformedChain) } else { Ok(&rest[at..]) }
}

/// Removes the chain from the end of an ask, and reads it.
pub(crate) fn take(
    payload: &mut Payload,
    find: impl Fn(Identity, u64) -> ActorLocation,
) -> Result<Option<Asker>, MalformedChain> {
    let chain = chain(payload)?;
    let (asker, len) = (read(chain, find)?, payload.len() - chain.len() - LENGTH);
    payload.truncate(len);
    Ok(asker)
}

/// Reads a chain, after a check of all its bytes. `find` returns where an actor is.
pub(crate) fn read(
    mut chain: &[u8],
    find: impl Fn(Identity, u64) -> ActorLocation,
) -> Result<Option<Asker>, MalformedChain> {
    let mut actors = Vec::new();
    while !chain.is_empty() {
        let (identity, wait, name, rest) = actor(chain).ok_or(MalformedChain)?;
        if actors.len() == limits::CHAIN_MAX {
            return Err(MalformedChain);
        }
        actors.push((identity, wait, name));
        chain = rest;
    }
    // From the first actor of this node on, this node's own chain is more precise.
    let mut known = None;
    let near = actors.iter().position(|(identity, wait, _)| match find(*identity, *wait) {
        ActorLocation::Elsewhere => false,
        ActorLocation::Here(chain) => {
            known = chain.map(|chain| Asker { chain, wait: *wait });
            true
        }
    });
    let told = &actors[..near.unwrap_or(actors.len())];
    Ok(told.iter().rev().fold(known, |asker, (identity, wait, name)| {
        let who = ChainActor::Far(*identity, text::of_peer(name, u8::MAX.into()).into());
        let asked = asker.map(|asker| Arc::new(ReportedAsk(asker)) as Arc<dyn HandledAsk>);
        Some(Asker { chain: Arc::new(ChainElement { who, asked: Mutex::new(asked) }), wait: *wait })
    }))
}

/// Returns the first actor of a chain, and the rest of the chain.
fn actor(chain: &[u8]) -> Option<(Identity, u64, &str, &[u8])> {
    let (incarnation, rest) = chain.split_first_chunk()?;
    let (id, rest) = rest.split_first_chunk()?;
    let (wait, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    let incarnation = Incarnation(u128::from_le_bytes(*incarnation));
    let key = Key::of(u64::from_le_bytes(*id));
    let name = std::str::from_utf8(name).ok()?;
    Some((Identity { incarnation, key }, u64::from_le_bytes(*wait), name, rest))
}

#[cfg(test)]
mod tests;
