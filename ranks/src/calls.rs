//! The collective operations of a world that are under way at this rank: their parts that have
//! arrived, and what all ranks have to agree on.

use std::collections::BTreeMap;
use std::task::{Poll, Waker};

use ringpost::View;

use crate::error::{Mismatch, WorldError};
use crate::limits::AHEAD_BYTES_MAX;
use crate::operation::Operation;
use crate::packet::{Abort, Head, Packet, Target, target};
use crate::status::Plain;

/// Most operations that another rank may be ahead of this one.
const AHEAD_MAX: u64 = 1 << 16;

/// The data that one rank sent in one step of an operation.
#[derive(Default)]
pub(crate) struct Piece {
    parts: Vec<View<Packet>>,
    arrived: usize,
    total: usize,
}

impl Piece {
    fn is_whole(&self) -> bool {
        !self.parts.is_empty() && self.arrived == self.total
    }

    /// Returns its bytes.
    pub(crate) fn len(&self) -> usize {
        self.total
    }

    /// Copies its bytes to the elements, which are as many.
    pub(crate) fn copy_to<T: Plain>(&self, to: &mut [T]) {
        let mut rest = bytemuck::cast_slice_mut::<T, u8>(to);
        for part in &self.parts {
            let (now, later) = rest.split_at_mut(part.bytes.len());
            now.copy_from_slice(&part.bytes);
            rest = later;
        }
    }

    /// Returns its elements.
    pub(crate) fn to_vec<T: Plain>(&self) -> Vec<T> {
        let mut elements = vec![T::zeroed(); self.total.checked_div(size_of::<T>()).unwrap_or(0)];
        self.copy_to(&mut elements);
        elements
    }

    /// Combines its elements with these, which are as many and of a higher or lower rank.
    pub(crate) fn fold<T, O>(&self, operation: &O, into: &mut [T], piece_is_lower: bool)
    where
        T: Plain,
        O: Operation<T>,
    {
        let mut rest = into;
        for part in &self.parts {
            let bytes: &[u8] = &part.bytes;
            let (now, later) =
                rest.split_at_mut(bytes.len().checked_div(size_of::<T>()).unwrap_or(0));
            match bytemuck::try_cast_slice::<u8, T>(bytes) {
                Ok(elements) => fold(operation, now, elements, piece_is_lower),
                Err(_) => {
                    let elements = bytemuck::pod_collect_to_vec::<u8, T>(bytes);
                    fold(operation, now, &elements, piece_is_lower);
                }
            }
            rest = later;
        }
    }
}

/// Combines elements, each with the one at its place.
pub(crate) fn fold<T: Plain, O: Operation<T>>(
    operation: &O,
    into: &mut [T],
    with: &[T],
    with_is_lower: bool,
) {
    let pairs = into.iter_mut().zip(with);
    if with_is_lower {
        pairs.for_each(|(higher, lower)| *higher = operation.combine(*lower, *higher));
    } else {
        pairs.for_each(|(lower, higher)| *lower = operation.combine(*lower, *higher));
    }
}

/// One operation.
#[derive(Default)]
struct Call {
    /// The first call that was seen, and its rank, which may be this rank.
    head: Option<(u32, Head)>,
    is_entered: bool,
    is_over: bool,
    error: Option<WorldError>,
    pieces: BTreeMap<(usize, u32), Piece>,
    wakers: BTreeMap<(usize, u32), Waker>,
}

impl Call {
    fn fail(&mut self, error: WorldError) {
        if self.error.is_none() && !self.is_over {
            self.error = Some(error);
            self.pieces.clear();
            std::mem::take(&mut self.wakers).into_values().for_each(Waker::wake);
        }
    }
}

/// A packet that breaks the protocol.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) &'static str);

/// The operations by number. Owned by the state of a rank.
#[derive(Default)]
pub(crate) struct Calls {
    open: BTreeMap<u64, Call>,
    /// All below are over.
    floor: u64,
    next: u64,
}

impl Calls {
    /// Returns the number of the first operation that is not over.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Begins the next operation. Returns its number, and the mismatch with the call of another
    /// rank, if they differ.
    pub(crate) fn enter(&mut self, rank: u32, head: Head) -> (u64, Option<Abort>) {
        let sequence = self.next;
        self.next += 1;
        let call = self.open.entry(sequence).or_default();
        call.is_entered = true;
        (sequence, differs(call, rank, head))
    }

    /// Takes a packet in. Returns the mismatch that it shows, if there is one.
    pub(crate) fn arrive(&mut self, packet: View<Packet>) -> Result<Option<Abort>, Broken> {
        let from = packet.from.to_native();
        let to = step_of(&packet);
        let Some((sequence, step, head)) = to else { return Err(Broken("no step")) };
        if sequence < self.floor {
            return Ok(None);
        }
        if sequence > self.next + AHEAD_MAX {
            return Err(Broken("it is too far ahead"));
        }
        let call = self.open.entry(sequence).or_default();
        if call.is_over || call.error.is_some() {
            return Ok(None);
        }
        let mismatch = differs(call, from, head);
        if mismatch.is_some() {
            return Ok(mismatch);
        }
        let key = (from as usize, step);
        let piece = call.pieces.entry(key).or_default();
        let (at, total) = (packet.at.to_native() as usize, packet.total.to_native() as usize);
        let bytes = packet.bytes.len();
        if piece.parts.is_empty() {
            piece.total = total;
        }
        if at != piece.arrived || total != piece.total || at + bytes > total || piece.is_whole() {
            return Err(Broken("a part does not continue the one before"));
        }
        piece.arrived += bytes;
        piece.parts.push(packet);
        if piece.is_whole()
            && let Some(waker) = call.wakers.remove(&key)
        {
            waker.wake();
        }
        if !call.is_entered {
            // It may wait for long: its receive buffer returns to the link.
            if let Some(part) = piece.parts.pop() {
                piece.parts.push(part.detach());
            }
            if self.ahead(key.0) > AHEAD_BYTES_MAX {
                return Err(Broken("it is too many bytes ahead"));
            }
        }
        Ok(None)
    }

    /// Returns the bytes of a rank for operations that this one has not called yet.
    fn ahead(&self, from: usize) -> usize {
        let early = self.open.range(self.next..).map(|(_, call)| call);
        let pieces = early.flat_map(|call| call.pieces.range((from, 0)..=(from, u32::MAX)));
        pieces.map(|(_, piece)| piece.arrived).sum()
    }

    /// Returns what a rank sent in a step, when that is there.
    pub(crate) fn poll(
        &mut self,
        sequence: u64,
        key: (usize, u32),
        waker: &Waker,
    ) -> Poll<Result<Piece, WorldError>> {
        let Some(call) = self.open.get_mut(&sequence) else {
            return Poll::Ready(Err(WorldError::Closed));
        };
        if let Some(error) = &call.error {
            return Poll::Ready(Err(error.clone()));
        }
        match call.pieces.get(&key) {
            Some(piece) if piece.is_whole() => {
                Poll::Ready(Ok(call.pieces.remove(&key).unwrap_or_default()))
            }
            _ => {
                call.wakers.insert(key, waker.clone());
                Poll::Pending
            }
        }
    }

    /// Returns the error of an operation that has failed.
    pub(crate) fn error(&self, sequence: u64) -> Option<WorldError> {
        self.open.get(&sequence).and_then(|call| call.error.clone())
    }

    /// Fails an operation, even if this rank has not called it yet.
    pub(crate) fn fail(&mut self, sequence: u64, error: WorldError) {
        if sequence >= self.floor && sequence <= self.next + AHEAD_MAX {
            self.open.entry(sequence).or_default().fail(error);
        }
    }

    /// Fails the operations under way that `fails` gives an error for, by their number.
    pub(crate) fn fail_each(&mut self, mut fails: impl FnMut(u64) -> Option<WorldError>) {
        for (sequence, call) in self.open.iter_mut().filter(|(_, call)| call.is_entered) {
            if let Some(error) = fails(*sequence) {
                call.fail(error);
            }
        }
    }

    /// Ends an operation at this rank.
    pub(crate) fn leave(&mut self, sequence: u64) {
        if let Some(call) = self.open.get_mut(&sequence) {
            *call = Call { is_entered: true, is_over: true, ..Call::default() };
        }
        while let Some(first) = self.open.first_entry()
            && *first.key() == self.floor
            && first.get().is_over
        {
            first.remove();
            self.floor += 1;
        }
    }
}

/// Compares a call with the first call that was seen, and keeps it if there was none.
fn differs(call: &mut Call, rank: u32, head: Head) -> Option<Abort> {
    match call.head {
        None => {
            call.head = Some((rank, head));
            None
        }
        Some((_, first)) if first == head => None,
        Some((other, other_head)) => Some(Abort::Mismatch { rank, head, other, other_head }),
    }
}

/// Reads where a packet goes, if it is a step of an operation.
fn step_of(packet: &View<Packet>) -> Option<(u64, u32, Head)> {
    match target(packet) {
        Target::Step { sequence, step, head } => Some((sequence, step, head)),
        Target::Message { .. } => None,
    }
}

/// Makes the error of an operation that a rank has ended.
pub(crate) fn aborted(sequence: u64, cause: Abort) -> WorldError {
    match cause {
        Abort::Mismatch { rank, head, other, other_head } => {
            Mismatch::error(sequence, (rank, head), (other, other_head))
        }
        Abort::Abandoned { rank } => WorldError::Abandoned { rank: rank as usize, sequence },
    }
}
