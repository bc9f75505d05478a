//! Memory that node processes share, and its users: counters, and words of each user alone.

use std::ops::Range;

use ringpost::prelude::*;
use ringpost::region::{Access, Region, RegionError, RemoteRegion};

/// Words of a vault.
pub const WORDS: usize = 64;
/// Bytes that a node gives to each that asks for memory.
pub const GIVEN_BYTES: u64 = 64 * 1024;
/// The counter to which all add.
pub const SUM: usize = 0;
/// The counter that all exchange.
pub const EXCHANGED: usize = 1;
/// The first counter of a user alone.
const OWN: usize = 2;
/// The first words in which users keep their tallies, each one word for each of its counters: they
/// tell the operations of a user even if it is killed, except the one under way.
const TALLIES: usize = 8;
/// The first words of a user alone, and how many each has.
const SCRATCH: usize = 32;
const SCRATCH_WORDS: usize = 8;

/// Returns the counter of a user alone.
pub const fn own(user: u64) -> usize {
    OWN + user as usize
}

/// Returns the words of a user's tally.
fn tally_words(user: u64) -> Range<usize> {
    let first = TALLIES + 3 * user as usize;
    first..first + 3
}

/// Returns the tally of a user, of all words: how often it added to the counter of all, exchanged
/// the other, and added to its own.
pub fn tally(words: &[u64], user: u64) -> [u64; 3] {
    words[tally_words(user)].try_into().unwrap_or_default()
}

/// Owns the memory, and shares it.
#[actor]
pub struct Vault {
    region: Region<u64>,
    shared: RemoteRegion<u64>,
    shown: RemoteRegion<u64>,
}

impl Vault {
    /// Makes zeroed memory of a node, and shares all of it, once to be read only.
    ///
    /// # Errors
    /// Of the region.
    pub fn new(node: &Node) -> Result<Self, BoxError> {
        let region = node.region(WORDS)?;
        let shared = region.share(Access::READ | Access::WRITE | Access::ATOMIC)?;
        let shown = region.share(Access::READ)?;
        Ok(Vault { region, shared, shown })
    }
}

#[handlers]
impl Vault {
    /// The memory, as other nodes use it.
    #[handler]
    pub fn shared(&self) -> RemoteRegion<u64> {
        self.shared.clone()
    }

    /// The same, and the memory for nodes that only read.
    #[handler]
    pub fn both(&self) -> [RemoteRegion<u64>; 2] {
        [self.shared.clone(), self.shown.clone()]
    }

    /// Returns all words, as its processor reads them.
    #[handler]
    pub fn words(&self) -> Vec<u64> {
        self.region.read(..).unwrap_or_default()
    }

    /// Ends the share; true if there was one.
    #[handler]
    pub async fn revoke(&mut self) -> bool {
        self.region.revoke(&self.shared).await
    }
}

/// The account of what a user did.
#[message]
#[derive(Default, Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Additions to the counter of all, exchanges in the other, additions to its own.
    pub done: [u64; 3],
    /// The same, of operations with an unknown outcome.
    pub unknown: [u64; 3],
    /// Writes of words of its own that may have been done.
    pub unknown_writes: u64,
    /// Reads that returned a wrong value.
    pub wrong: u64,
    /// Operations that were tried.
    pub tried: u64,
    /// Why it stopped before it was through.
    pub ended: Option<String>,
}

impl Account {
    /// Adds the account of later work.
    pub fn add(&mut self, later: &Account) {
        for counter in 0..3 {
            self.done[counter] += later.done[counter];
            self.unknown[counter] += later.unknown[counter];
        }
        self.unknown_writes += later.unknown_writes;
        self.wrong += later.wrong;
        self.tried += later.tried;
        self.ended = later.ended.clone().or(self.ended.take());
    }

    /// Returns how many operations have an unknown outcome.
    pub fn unknown(&self) -> u64 {
        self.unknown.iter().sum::<u64>() + self.unknown_writes
    }
}

/// Uses the memory of a vault.
#[actor]
pub struct VaultUser;

#[handlers]
impl VaultUser {
    /// Waits until its node is linked to the node of a vault.
    #[handler]
    pub async fn reach(&self, vault: String, cx: &mut Context<Self>) -> bool {
        cx.node().when_named::<Vault>(&vault).await.is_ok()
    }

    /// Runs random operations on the memory as this user, until `count` were tried; ends early when
    /// the memory is gone.
    #[handler]
    pub async fn work(
        &mut self,
        vault: RemoteRegion<u64>,
        user: u64,
        seed: u64,
        count: u64,
    ) -> Account {
        let account = Account::default();
        let mut turn = Turn { vault, user, account, tally: [0; 3], seen: 0 };
        let mut chance = fastrand::Rng::with_seed(seed);
        // It goes on where its last turn left it.
        if let Some(tally) = turn.read(tally_words(user)).await {
            turn.tally.copy_from_slice(&tally);
        }
        while turn.account.tried < count && turn.account.ended.is_none() {
            match chance.u8(..8) {
                0..3 => turn.add_to_all().await,
                3 => drop(turn.add(2, own(user)).await),
                4 | 5 => turn.exchange().await,
                6 => turn.scribble(&mut chance).await,
                _ => {
                    let sum = turn.read(SUM..SUM + 1).await;
                    turn.account.wrong += u64::from(sum.is_some_and(|sum| sum[0] < turn.seen));
                }
            }
        }
        turn.account
    }
}

/// A turn of a user.
struct Turn {
    vault: RemoteRegion<u64>,
    user: u64,
    account: Account,
    /// The sums of all its turns.
    tally: [u64; 3],
    /// A lower bound of the counter of all.
    seen: u64,
}

impl Turn {
    /// Notes that an operation ended with an error, and returns true if it may have been done. A
    /// user for which an operation certainly failed ends its turn.
    fn may_be_done(&mut self, error: &RegionError) -> bool {
        let unknown = matches!(error, RegionError::Unknown(_));
        if !unknown {
            self.account.ended = Some(error.to_string());
        }
        unknown
    }

    async fn read(&mut self, words: Range<usize>) -> Option<Vec<u64>> {
        self.account.tried += 1;
        let read = self.vault.read(words).await;
        if let Err(error) = &read {
            // No read is unknown.
            self.account.wrong += u64::from(self.may_be_done(error));
        }
        read.ok()
    }

    /// Writes words of its own; true if they are written.
    async fn write(&mut self, at: usize, words: &[u64]) -> bool {
        self.account.tried += 1;
        let written = self.vault.write(at, words).await;
        if let Err(error) = &written {
            self.account.unknown_writes += u64::from(self.may_be_done(error));
        }
        written.is_ok()
    }

    /// Notes the end of an operation on a counter, and, if it was done, counts it in the tally
    /// before anything else is begun.
    async fn count(&mut self, counter: usize, ended: Result<bool, RegionError>) {
        self.account.tried += 1;
        match ended {
            Ok(true) => {
                self.account.done[counter] += 1;
                self.tally[counter] += 1;
                self.write(tally_words(self.user).start, &self.tally.clone()).await;
            }
            Ok(false) => {}
            Err(error) => self.account.unknown[counter] += u64::from(self.may_be_done(&error)),
        }
    }

    async fn add(&mut self, counter: usize, word: usize) -> Option<u64> {
        let before = self.vault.fetch_add(word, 1).await;
        let found = before.as_ref().ok().copied();
        self.count(counter, before.map(|_| true)).await;
        found
    }

    async fn add_to_all(&mut self) {
        if let Some(before) = self.add(0, SUM).await {
            self.account.wrong += u64::from(before < self.seen);
            self.seen = before + 1;
        }
    }

    /// Adds one to the counter that all exchange, unless another one was faster.
    async fn exchange(&mut self) {
        let Some(found) = self.read(EXCHANGED..EXCHANGED + 1).await else { return };
        let exchanged = self.vault.compare_exchange(EXCHANGED, found[0], found[0] + 1).await;
        self.count(1, exchanged.map(|exchanged| exchanged.is_ok())).await;
    }

    /// Writes words of its own and reads them back.
    async fn scribble(&mut self, chance: &mut fastrand::Rng) {
        let at = SCRATCH + self.user as usize * SCRATCH_WORDS;
        let words: Vec<u64> = (0..SCRATCH_WORDS).map(|_| chance.u64(..)).collect();
        if self.write(at, &words).await {
            let read = self.read(at..at + SCRATCH_WORDS).await;
            self.account.wrong += u64::from(read.is_some_and(|read| read != words));
        }
    }
}
