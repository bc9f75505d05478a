//! Bytes that a task drafts where a device takes them from, and stores in a share of the peer.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::fetching::{Moved, Moving};
use super::{Reach, Ready};
use crate::fabric::one_sided::Kind;
use crate::memory::{BudgetShare, Runway, landing_size_of};

/// Bytes that a task means to [store](Ready::store): zeros at first, or what the last one has left.
/// They count as [`Viewed`](super::Viewed) does until this is dropped.
pub(crate) struct Drafted {
    berth: Berth,
    bytes: usize,
    taken: Arc<BudgetShare>,
}

/// Memory of a queue pair, which has it back when this is dropped.
struct Berth {
    reach: Arc<Reach>,
    number: u32,
    /// `None` while it is used, and where it was lost.
    runway: Option<Runway>,
}

impl Drop for Berth {
    fn drop(&mut self) {
        if let Some(runway) = self.runway.take()
            && let Some(pair) = self.reach.state.lock().pair(self.number)
        {
            pair.landing.give(runway);
        }
    }
}

impl Deref for Drafted {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.berth.runway.as_ref().map_or(&[], |runway| &runway.slot[..self.bytes])
    }
}

impl DerefMut for Drafted {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.berth.runway.as_mut().map_or(&mut [], |runway| &mut runway.slot[..self.bytes])
    }
}

/// The reason for which a draft was not stored.
pub(crate) enum NotStored {
    /// The first bytes, of this number, are written like bytes of other calls (RE-8), and no
    /// others: its memory is of another queue pair, no operation may begin now, or its parts would
    /// be cut within words. If some are written, the rest begins with a word.
    Rest(Drafted, usize),
    /// Some of it may be written, now or later.
    Unknown,
}

impl Ready {
    /// Returns memory for `bytes` bytes that are to be [stored](Self::store); `None` if there is
    /// none.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub(crate) async fn draft(&self, bytes: usize) -> Option<Drafted> {
        let taken = self.take_viewed(bytes)?;
        let (found, means) = {
            let state = &mut *self.reach.state.lock();
            let landing = &mut state.pair(self.number)?.landing;
            (landing.take_for_view(landing_size_of(bytes)), state.means.clone()?)
        };
        let berth = |reach, number, runway| Berth { reach, number, runway: Some(runway) };
        if let Some(runway) = found {
            let berth = berth(self.reach.clone(), self.number, runway);
            return Some(Drafted { berth, bytes, taken });
        }
        let source = self.source((Kind::Write, 0, bytes), &taken);
        let moving = Moving::new(self.reach.clone());
        let (done, made) = oneshot::channel();
        means.runtime.spawn(async move {
            let made = moving.0.runway(&source).await.ok();
            let made = made.map(|(it, _)| berth(moving.0.clone(), source.number, it));
            drop((moving, source));
            drop(done.send(made));
        });
        let berth = made.await.ok()??;
        Some(Drafted { berth, bytes, taken })
    }

    /// Writes a draft to the bytes of the share from `at` on, which lie in it and may be written
    /// (RE-2). They are there when a fence was read that was posted later (RE-8).
    ///
    /// # Errors
    /// [`NotStored`].
    ///
    /// # Cancel safety
    /// Operations under way then give back their memory when they end, and no more is begun.
    pub(crate) async fn store(&self, at: u64, mut draft: Drafted) -> Result<(), NotStored> {
        let berth = &mut draft.berth;
        let is_mine = berth.number == self.number && Arc::ptr_eq(&berth.reach, &self.reach);
        // A draft that begins within a word would be cut within words (PV-15).
        let is_cut_well = at.is_multiple_of(8);
        let means = self.reach.state.lock().means.clone().filter(|_| is_mine && is_cut_well);
        let Some(means) = means else { return Err(NotStored::Rest(draft, 0)) };
        let Some(runway) = berth.runway.take() else { return Err(NotStored::Unknown) };
        let Drafted { mut berth, bytes, taken } = draft;
        let source = self.source((Kind::Write, at, bytes), &taken);
        let (moving, room) = (Moving::new(self.reach.clone()), self.room.clone());
        let (done, stored) = oneshot::channel();
        means.runtime.spawn(async move {
            let moved = moving.0.move_all(runway, &room, &source).await;
            let Moved { runway, bytes: stored, has_failed } = moved;
            berth.runway = runway;
            drop((moving, source));
            drop(done.send((berth, stored, has_failed)));
        });
        match stored.await {
            Ok((_, stored, false)) if stored == bytes => Ok(()),
            Ok((berth, stored, false)) if berth.runway.is_some() => {
                Err(NotStored::Rest(Drafted { berth, bytes, taken }, stored))
            }
            _ => Err(NotStored::Unknown),
        }
    }
}
