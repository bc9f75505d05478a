//! Memory that node processes share, and what uses it: counters, and words of each user alone.

use ringpost::prelude::*;
use ringpost::{Access, RegionError};

/// Words of a vault.
pub const WORDS: usize = 64;
/// Bytes that a node gives to each that asks for memory.
pub const GIVEN_BYTES: u64 = 64 * 1024;
/// The counter to which all add.
const SUM: usize = 0;
/// The counter that all exchange.
const EXCHANGED: usize = 1;
/// The first counter of a user alone.
const OWN: usize = 2;
/// The first words of a user alone, and how many each has.
const SCRATCH: usize = 16;
const SCRATCH_WORDS: usize = 8;

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

    /// The same, and as nodes use it that only read.
    #[handler]
    pub fn both(&self) -> [RemoteRegion<u64>; 2] {
        [self.shared.clone(), self.shown.clone()]
    }

    /// The words that its processor finds: the counter to which all add, the one that all exchange,
    /// and those of so many users.
    #[handler]
    pub fn counters(&self, users: u64) -> Vec<u64> {
        self.region.read(..OWN + users as usize).unwrap_or_default()
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
    /// The same that may have been done beyond those.
    pub unknown: [u64; 3],
    /// Reads that brought what nobody wrote.
    pub wrong: u64,
    /// Operations that were tried.
    pub tried: u64,
    /// Why it stopped before it was through.
    pub ended: Option<String>,
}

impl Account {
    /// Adds what was done later.
    pub fn add(&mut self, later: &Account) {
        for counter in 0..3 {
            self.done[counter] += later.done[counter];
            self.unknown[counter] += later.unknown[counter];
        }
        self.wrong += later.wrong;
        self.tried += later.tried;
        self.ended = later.ended.clone().or(self.ended.take());
    }

    fn note<T>(&mut self, counter: usize, ended: Result<T, RegionError>) -> Option<T> {
        match ended {
            Ok(done) => Some(done),
            Err(RegionError::Unknown(_)) => {
                self.unknown[counter] += 1;
                None
            }
            Err(error) => {
                self.ended = Some(error.to_string());
                None
            }
        }
    }
}

/// Uses the memory of a vault.
#[actor]
pub struct VaultUser;

#[handlers]
impl VaultUser {
    /// Does so many things with it, by chance, as the user of this number; ends when it is not
    /// there any more.
    #[handler]
    pub async fn work(
        &mut self,
        vault: RemoteRegion<u64>,
        user: u64,
        seed: u64,
        count: u64,
    ) -> Account {
        let (user, mut chance) = (user as usize, fastrand::Rng::with_seed(seed));
        let mut account = Account::default();
        let mut seen = 0;
        while account.tried < count && account.ended.is_none() {
            account.tried += 1;
            match chance.u8(..8) {
                0..3 => {
                    let before = vault.fetch_add(SUM, 1).await;
                    account.done[0] += u64::from(before.is_ok());
                    if let Some(before) = account.note(0, before) {
                        account.wrong += u64::from(before < seen);
                        seen = before + 1;
                    }
                }
                3 => {
                    let before = vault.fetch_add(OWN + user, 1).await;
                    account.done[2] += u64::from(before.is_ok());
                    account.note(2, before);
                }
                4 | 5 => exchange(&vault, &mut account).await,
                6 => {
                    let at = SCRATCH + user * SCRATCH_WORDS;
                    let words: Vec<u64> = (0..SCRATCH_WORDS).map(|_| chance.u64(..)).collect();
                    let written = vault.write(at, &words).await;
                    if written.is_ok() {
                        let read = vault.read(at..at + SCRATCH_WORDS).await;
                        account.wrong += u64::from(read.as_ref().is_ok_and(|read| *read != words));
                        account.note(2, read.map(|_| ())).unwrap_or_default();
                    } else if !matches!(written, Err(RegionError::Unknown(_))) {
                        account.note(2, written);
                    }
                }
                _ => {
                    let read = vault.read(..OWN).await.map(|counters| counters[SUM]);
                    if let Ok(sum) = read {
                        account.wrong += u64::from(sum < seen);
                    } else {
                        account.note(0, read);
                    }
                }
            }
        }
        account
    }
}

/// Adds one to the counter that all exchange, unless another one was faster.
async fn exchange(vault: &RemoteRegion<u64>, account: &mut Account) {
    let Ok(found) = vault.get(EXCHANGED).await else { return };
    let exchanged = vault.compare_exchange(EXCHANGED, found, found + 1).await;
    if let Some(exchanged) = account.note(1, exchanged) {
        account.done[1] += u64::from(exchanged.is_ok());
    }
}
