//! Bytes on their way between tasks and shared memory of another node: cut into pieces, which are
//! posted as far as there are slots.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use super::{AccessError, Bytes};
use crate::fabric::Status;
use crate::fabric::one_sided::Kind;
use crate::limits::{ONE_SIDED_DOORBELL_BYTES, PACKET_BYTES_MIN};
use crate::reach::{Act, Came, Finished, NotPosted, Ready, Unfenced, Wanted};

/// The operation was not, or not wholly, done on a queue pair.
pub(super) enum Unfinished {
    NotBegun,
    /// The share ended without waiting for this node: nothing of the operation was done.
    Refused,
    Unknown,
    Failed(AccessError),
}

impl From<NotPosted> for Unfinished {
    fn from(why: NotPosted) -> Self {
        match why {
            NotPosted::NotBegun => Unfinished::NotBegun,
            NotPosted::Refused(why) => Unfinished::Failed(AccessError::Unable(why)),
        }
    }
}

/// Waits for the outcome of an operation.
pub(super) async fn completed(finished: oneshot::Receiver<Finished>) -> Result<Came, Unfinished> {
    let (status, came) = finished.await.map_err(|_| Unfinished::Unknown)?;
    match status {
        Status::Success => Ok(came),
        Status::RemoteAccess => Err(Unfinished::Refused),
        _ => Err(Unfinished::Unknown),
    }
}

/// Bytes to be moved, each part from its place on, in order.
pub(super) struct Transfer<'a> {
    parts: Vec<(u64, Bytes<'a>)>,
    /// They and all before them are made sure of at the end: by the fence, where there is one
    /// (RE-8).
    is_fenced: bool,
    done: Mark,
    /// An operation of it was posted.
    is_begun: bool,
}

/// Writes nothing.
const NOTHING: Act = Act::On { kind: Kind::Write, at: 0, bytes: 0 };

/// A place in a transfer: a part, and a byte of it. The fence comes after the last part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    part: usize,
    byte: usize,
}

/// An operation of a transfer.
struct Step {
    act: Act,
    from: Mark,
    to: Mark,
}

/// Operations that go with one doorbell.
#[derive(Default)]
struct Batch {
    steps: Vec<Step>,
    wanted: Vec<Wanted>,
    /// Bytes that were copied for them.
    filled: usize,
}

impl Step {
    /// Returns the bytes of the slot that it needs, cut between words.
    fn room(&self) -> usize {
        match self.act {
            Act::On { at, bytes, .. } => (at % 8) as usize + bytes,
            Act::Fence(_) => size_of::<u64>(),
        }
    }
}

impl<'a> Transfer<'a> {
    pub(super) fn read(parts: Vec<(u64, Bytes<'a>)>) -> Self {
        Transfer { parts, is_fenced: false, done: Mark { part: 0, byte: 0 }, is_begun: false }
    }

    /// Returns writes of bytes. If it `is_fenced`, they and this task's writes before them are in
    /// place when it ends.
    pub(super) fn write(parts: &[(u64, &'a [u8])], is_fenced: bool) -> Self {
        let parts = parts.iter().map(|(at, from)| (*at, Bytes::From(from))).collect();
        Transfer { is_fenced, ..Transfer::read(parts) }
    }

    pub(super) fn parts(&self) -> &[(u64, Bytes<'a>)] {
        &self.parts
    }

    /// Returns the part and the byte before which all is done.
    pub(super) fn done(&self) -> Mark {
        self.done
    }

    /// Returns true if it posts writes, or makes sure of earlier ones.
    pub(super) fn writes(&self) -> bool {
        let writes = |bytes: &Bytes<'_>| bytes.kind() == Kind::Write;
        self.parts.iter().any(|(_, it)| writes(it) && (it.len() > 0 || self.is_fenced))
    }

    /// Returns true if it ends with a fence, which makes sure of its writes.
    pub(super) fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// Returns true if it writes, and some of that may be written: a write that is refused may have
    /// met the end of the share under way (PV-18).
    pub(super) fn may_be_done(&self) -> bool {
        self.is_begun && self.writes()
    }

    fn skip_empty(&self, mut mark: Mark) -> Mark {
        while self.parts.get(mark.part).is_some_and(|(_, bytes)| mark.byte >= bytes.len()) {
            mark = Mark { part: mark.part + 1, byte: 0 };
        }
        mark
    }

    /// Returns the operation that begins there, of `longest` bytes at most.
    fn step(&self, from: Mark, ready: &Ready, longest: usize) -> Option<Step> {
        let from = self.skip_empty(from);
        let Some((at, bytes)) = self.parts.get(from.part) else {
            // Where there is no fence, a known outcome means that earlier writes are done: so an
            // operation that does nothing makes sure of writes that were given up before (PV-14).
            let is_empty = self.parts.iter().all(|(_, bytes)| bytes.len() == 0);
            let fence = ready.fence().or(is_empty.then_some(NOTHING));
            let fence = fence.filter(|_| self.is_fenced && from.byte == 0)?;
            return Some(Step { act: fence, from, to: Mark { byte: 1, ..from } });
        };
        let at = at + from.byte as u64;
        // Cut between words; a device cuts at each packet.
        let (left, within) = (bytes.len() - from.byte, (at % 8) as usize);
        let bytes_max = if within > 0 && left > PACKET_BYTES_MIN { 8 - within } else { longest };
        let length = left.min(bytes_max);
        let act = Act::On { kind: bytes.kind(), at, bytes: length };
        Some(Step { act, from, to: Mark { byte: from.byte + length, ..from } })
    }

    /// Returns the operation that begins there, as long as it may be.
    fn rest(&self, from: Mark, ready: &Ready) -> Option<Step> {
        self.step(from, ready, usize::MAX / 2)
    }

    /// Moves the remaining bytes. If not all of them could be begun, the rest is for the next queue
    /// pair. A task that has operations under way waits for those, and not for slots.
    pub(super) async fn run(&mut self, ready: &Ready) -> Result<(), Unfinished> {
        let mut running: VecDeque<(Step, oneshot::Receiver<Finished>)> = VecDeque::new();
        let (mut begun, mut refused, writes) = (self.done, None, self.writes());
        loop {
            while refused.is_none() {
                let posted = match self.batch(&mut begun, ready, running.is_empty()).await {
                    Ok(batch) if batch.steps.is_empty() => break,
                    Ok(Batch { steps, wanted, .. }) => {
                        ready.post(wanted).map(|finished| steps.into_iter().zip(finished))
                    }
                    Err(why) => Err(why),
                };
                match posted {
                    Ok(posted) => {
                        self.is_begun = true;
                        running.extend(posted);
                    }
                    Err(why) => refused = Some(why),
                }
            }
            if writes
                && refused.is_none()
                && self.rest(begun, ready).is_none()
                && let Some((_, last)) = running.pop_back()
            {
                // Nothing is to be taken, and the last one ends last (PV-14): one wait is enough.
                let last = completed(last).await;
                for (_, finished) in running {
                    completed(finished).await?;
                }
                return last.map(drop);
            }
            let Some((step, finished)) = running.pop_front() else { break };
            let came = completed(finished).await?;
            self.take(&step, &came);
            self.done = step.to;
        }
        refused.map_or(Ok(()), |why| Err(why.into()))
    }

    /// Returns the operations from `begun` on for which there are slots, and moves it behind them;
    /// where there is none it waits for one, if it `may_wait`. Of a long write the device is told
    /// part by part, so that it begins while the next parts are copied.
    async fn batch(
        &self,
        begun: &mut Mark,
        ready: &Ready,
        may_wait: bool,
    ) -> Result<Batch, NotPosted> {
        let mut batch = Batch::default();
        while batch.filled < ONE_SIDED_DOORBELL_BYTES
            && let Some(rest) = self.rest(*begun, ready)
        {
            let mut piece = match ready.try_piece(rest.room()) {
                Some(piece) => piece,
                None if may_wait && batch.steps.is_empty() => ready.piece(rest.room()).await?,
                None => break,
            };
            let longest = piece.bytes().len();
            let Some(step) = self.step(*begun, ready, longest) else { break };
            batch.filled += self.fill(&step, piece.bytes());
            *begun = step.to;
            batch.wanted.push(Wanted { act: step.act, piece });
            batch.steps.push(step);
        }
        Ok(batch)
    }

    /// Copies what a write takes to its slot. Returns its bytes.
    fn fill(&self, step: &Step, slot: &mut [u8]) -> usize {
        let Some((_, Bytes::From(from))) = self.parts.get(step.from.part) else { return 0 };
        let written = &from[step.from.byte..step.to.byte];
        slot[..written.len()].copy_from_slice(written);
        written.len()
    }

    /// Takes what a read has brought.
    fn take(&mut self, step: &Step, brought: &[u8]) {
        if let Some((_, Bytes::Into(into))) = self.parts.get_mut(step.from.part) {
            into[step.from.byte..step.to.byte].copy_from_slice(brought);
        }
    }
}

/// Notes that this queue pair is about to execute writes that are not made sure of. Returns true if
/// it also executed the writes of `unfenced`.
///
/// # Errors
/// [`AccessError::Unknown`]: another queue pair did, so nothing makes sure of them (RE-8).
pub(super) fn follow(unfenced: &mut Option<Unfenced>, ready: &Ready) -> Result<bool, AccessError> {
    match unfenced {
        Some(before) if before.is_of(ready) => Ok(true),
        Some(_) => {
            #[cfg(test)]
            LEFT.with(|left| left.set(left.get() + 1));
            *unfenced = None;
            Err(AccessError::Unknown)
        }
        None => {
            *unfenced = Some(Unfenced::new(ready));
            Ok(false)
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Transfers that were left with their queue pair.
    static LEFT: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Returns how many transfers were left with their queue pair, on this thread, since the last call.
#[cfg(test)]
pub(crate) fn take_left() -> u32 {
    LEFT.take()
}
