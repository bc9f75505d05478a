//! The state of a rank: its messages and operations, and the standing of other ranks.

use crate::agreement::Agreements;
use crate::calls::Calls;
use crate::circle::Circles;
use crate::error::WorldError;
use crate::matching::Matching;
use crate::packet::{Element, Packet};
use crate::status::Source;
use ringpost::View;

/// A message of another rank, in the parts that it came in.
pub(crate) struct Received {
    pub(crate) parts: Vec<View<Packet>>,
    pub(crate) element: Element,
    pub(crate) bytes: usize,
}

/// A message of which not all parts have arrived.
pub(crate) struct Partial {
    pub(crate) received: Received,
    pub(crate) arrived: usize,
}

/// The state of a rank in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Living,
    /// It has left, with its collective operations over below this number.
    Left(u64),
    Died,
}

/// The state that this rank keeps for another rank.
pub(crate) struct Other {
    pub(crate) standing: Standing,
    pub(crate) is_acknowledged: bool,
    pub(crate) partial: Option<Partial>,
    /// Its packets and notes that came.
    arrived: u64,
    /// The cost of its messages that wait here, in bytes.
    pub(crate) held: usize,
    /// Room that it may have back and was not told of.
    pub(crate) owed: usize,
    /// It waits for room.
    pub(crate) wants: bool,
}

/// The state of a rank. Locked for moments, and never across a wait.
pub(crate) struct State {
    pub(crate) matching: Matching<Received, WorldError>,
    pub(crate) calls: Calls,
    pub(crate) agreements: Agreements,
    pub(crate) circles: Circles,
    pub(crate) others: Vec<Other>,
    /// The number of this rank, once all have joined.
    pub(crate) me: Option<usize>,
    pub(crate) is_revoked: bool,
    /// The program of this rank has panicked: it ends without a goodbye, so it has died.
    pub(crate) has_panicked: bool,
    /// The number of the first collective operation that was not over when this rank left.
    pub(crate) closed_at: Option<u64>,
    /// How often something came in the name of a rank that had not sent it.
    pub(crate) strange: u64,
}

impl State {
    pub(crate) fn new(size: usize) -> Self {
        let other = || Other {
            standing: Standing::Living,
            is_acknowledged: false,
            partial: None,
            arrived: 0,
            held: 0,
            owed: 0,
            wants: false,
        };
        State {
            matching: Matching::default(),
            calls: Calls::default(),
            agreements: Agreements::default(),
            circles: Circles::default(),
            others: std::iter::repeat_with(other).take(size).collect(),
            me: None,
            is_revoked: false,
            has_panicked: false,
            closed_at: None,
            strange: 0,
        }
    }

    /// Counts a packet or note of a rank, which had sent `sent` before it. Returns true if some of
    /// them did not arrive.
    pub(crate) fn has_gap(&mut self, from: usize, sent: u64) -> bool {
        let Some(other) = self.others.get_mut(from) else { return false };
        other.arrived += 1;
        sent >= other.arrived
    }

    /// Returns how a rank stands.
    pub(crate) fn standing(&self, rank: usize) -> Standing {
        self.others.get(rank).map_or(Standing::Died, |other| other.standing)
    }

    /// Returns the number of ranks of the world.
    pub(crate) fn size(&self) -> usize {
        self.others.len()
    }

    /// Returns the ranks that died or left.
    pub(crate) fn gone(&self) -> Vec<usize> {
        (0..self.others.len()).filter(|rank| self.standing(*rank) != Standing::Living).collect()
    }

    /// Returns the ranks that died, and lets receives from any source go on without them.
    pub(crate) fn acknowledge(&mut self) -> Vec<usize> {
        let died = |other: &Other| other.standing == Standing::Died;
        self.others.iter_mut().filter(|other| died(other)).for_each(|other| {
            other.is_acknowledged = true;
        });
        (0..self.others.len()).filter(|rank| self.standing(*rank) == Standing::Died).collect()
    }

    /// Returns the error of the whole world. A rank that others took for dead cannot go on in it.
    pub(crate) fn ended(&self) -> Option<WorldError> {
        let dead = self.me.filter(|me| self.standing(*me) == Standing::Died);
        match self {
            State { closed_at: Some(_), .. } => Some(WorldError::Closed),
            _ if dead.is_some() => dead.map(|rank| WorldError::Died { rank }),
            State { is_revoked: true, .. } => Some(WorldError::Revoked),
            _ => None,
        }
    }

    /// Returns the error of a receive that finds no message.
    pub(crate) fn trouble(&self, source: Source) -> Option<WorldError> {
        if let Some(ended) = self.ended() {
            return Some(ended);
        }
        let of = |rank: usize| match self.standing(rank) {
            Standing::Living => None,
            Standing::Left(_) => Some(WorldError::Left { rank }),
            Standing::Died => Some(WorldError::Died { rank }),
        };
        if let Source::Rank(rank) = source {
            return of(rank);
        }
        let is_new = |other: &Other| other.standing == Standing::Died && !other.is_acknowledged;
        let mut others = (0..self.size()).filter(|rank| Some(*rank) != self.me);
        let is_alone = others.clone().all(|rank| self.standing(rank) != Standing::Living);
        match self.others.iter().position(is_new) {
            Some(rank) => of(rank),
            None if is_alone => others.next_back().and_then(of),
            None => None,
        }
    }

    /// Returns the error of a collective operation.
    pub(crate) fn call_trouble(&self, sequence: u64) -> Option<WorldError> {
        let died = self.others.iter().position(|other| other.standing == Standing::Died);
        let left =
            |other: &Other| matches!(other.standing, Standing::Left(floor) if floor <= sequence);
        self.ended()
            .or_else(|| died.map(|rank| WorldError::Died { rank }))
            .or_else(|| self.others.iter().position(left).map(|rank| WorldError::Left { rank }))
    }

    /// Fails what cannot come any more.
    pub(crate) fn refresh(&mut self) {
        let mut matching = std::mem::take(&mut self.matching);
        matching.fail(|source| self.trouble(source));
        self.matching = matching;
        let mut calls = std::mem::take(&mut self.calls);
        calls.fail_each(|sequence| self.call_trouble(sequence));
        self.calls = calls;
    }
}
