//! The actors that use the memory.

use std::collections::BTreeMap;

use ringpost::prelude::*;
use ringpost::region::{RegionError, RemoteRegion};

use super::book::{self, Begun, EXCHANGED, OWN, SUM, WRITTEN};

/// An act of a user on a region.
#[message]
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    /// Adds one to the counter of all.
    Add,
    /// Adds one to the counter that all exchange, unless another one is faster.
    Exchange,
    /// Adds one to its own word.
    AddOwn,
    /// Writes the next number to the other word of its own.
    Write,
    /// Reads the counter of all.
    Look,
}

pub(super) struct User {
    /// Differs from the numbers of all earlier users.
    number: usize,
    shares: BTreeMap<u64, Used>,
}

/// A share as its user knows it.
struct Used {
    number: usize,
    region: RemoteRegion<u64>,
    /// The counter of all is no less.
    seen: u64,
    /// The word of the user alone, and whether it may be one more.
    own: u64,
    is_open: bool,
    /// The last number that it began to write.
    last: u64,
}

impl User {
    pub(super) fn new(number: usize) -> Self {
        User { number, shares: BTreeMap::new() }
    }
}

#[actor(name = "models::User")]
impl Actor for User {}

#[handlers]
impl User {
    /// Takes a share, by its number.
    #[handler]
    pub(super) fn hold(&mut self, number: u64, region: RemoteRegion<u64>) {
        let (seen, own, is_open, last) = (0, 0, false, 0);
        let used = Used { number: number as usize, region, seen, own, is_open, last };
        self.shares.entry(number).or_insert(used);
    }

    /// Uses a share, if it holds it, until something certainly fails. Returns true if nothing did.
    #[handler]
    pub(super) async fn serve(&mut self, number: u64, acts: Vec<Act>) -> bool {
        let word = OWN + self.number;
        let Some(used) = self.shares.get_mut(&number) else { return true };
        let mut is_well = true;
        for act in acts {
            let ended = match act {
                Act::Add => used.add().await,
                Act::Exchange => used.exchange().await,
                Act::AddOwn => used.add_own(word).await,
                Act::Write => used.write(WRITTEN + self.number).await,
                Act::Look => used.look().await,
            };
            is_well &= ended.is_ok();
            if ended.is_err_and(|error| !matches!(error, RegionError::Unknown(_))) {
                break;
            }
        }
        is_well
    }
}

impl Used {
    /// Notes that the counter of all is no less than this.
    fn see(&mut self, sum: u64, next: u64) {
        let (number, seen) = (self.number, self.seen);
        book::fault(sum < seen, || format!("share {number}: {sum} after {seen}"));
        self.seen = next;
    }

    async fn add(&mut self) -> Result<(), RegionError> {
        let begun = Begun::new(self.number, Some(SUM));
        let before = begun.end(self.region.fetch_add(SUM, 1).await, |_| true)?;
        book::note("added to the counter of all");
        self.see(before, before + 1);
        Ok(())
    }

    async fn get(&self, word: usize) -> Result<u64, RegionError> {
        let begun = Begun::new(self.number, None);
        begun.end(self.region.get(word).await, |_| false)
    }

    async fn look(&mut self) -> Result<(), RegionError> {
        let sum = self.get(SUM).await?;
        self.see(sum, sum);
        Ok(())
    }

    async fn exchange(&mut self) -> Result<(), RegionError> {
        let found = self.get(EXCHANGED).await?;
        let begun = Begun::new(self.number, Some(EXCHANGED));
        let exchanged = self.region.compare_exchange(EXCHANGED, found, found + 1).await;
        let exchanged = begun.end(exchanged, Result::is_ok)?;
        book::note(if exchanged.is_ok() { "exchanged" } else { "another one exchanged first" });
        Ok(())
    }

    async fn add_own(&mut self, word: usize) -> Result<(), RegionError> {
        if self.is_open {
            self.settle(word).await?;
        }
        let (number, own) = (self.number, self.own);
        let begun = Begun::new(number, Some(word));
        match begun.end(self.region.fetch_add(word, 1).await, |_| true) {
            Ok(before) => {
                book::fault(before != own, || format!("share {number}: {before} is not {own}"));
                self.own += 1;
                Ok(())
            }
            Err(error) => {
                self.is_open = matches!(error, RegionError::Unknown(_));
                Err(error)
            }
        }
    }

    async fn write(&mut self, word: usize) -> Result<(), RegionError> {
        // An operation that it does not know of is done by now, or never.
        let (number, found) = (self.number, self.get(word).await?);
        let is_known = book::with_written(number, word, |values| values.contains(&found));
        book::fault(!is_known, || format!("share {number}: {found} was not written"));
        self.last += 1;
        let new = self.last;
        book::with_written(number, word, |values| *values = vec![found, new]);
        let begun = Begun::new(number, Some(word));
        let ended = begun.end(self.region.write(word, &[new]).await, |()| true);
        book::with_written(number, word, |values| match &ended {
            Ok(()) => *values = vec![new],
            Err(RegionError::Unknown(_)) => {}
            Err(_) => *values = vec![found],
        });
        ended.inspect(|()| book::note("wrote its word"))
    }

    /// Finds out whether the unknown operation was done: it is not done any more after this.
    async fn settle(&mut self, word: usize) -> Result<(), RegionError> {
        let found = self.get(word).await?;
        let (number, own) = (self.number, self.own);
        let was_done = found == own + 1;
        book::fault(!was_done && found != own, || format!("share {number}: {found}, not {own}"));
        book::note(match was_done {
            true => "unknown, and it was done",
            false => "unknown, and it was not done",
        });
        book::with(number, |page| {
            page.unknown[word] -= 1;
            page.done[word] += u64::from(was_done);
        });
        (self.own, self.is_open) = (found, false);
        Ok(())
    }
}
